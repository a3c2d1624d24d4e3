//! The `zhat` program.

fn main() -> std::process::ExitCode {
    zhat::internal::numeric::map_large_blocks();
    zhat_cli::run(std::env::args_os()).into()
}
