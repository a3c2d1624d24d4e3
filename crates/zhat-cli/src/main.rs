//! The `zhat` program.

fn main() -> std::process::ExitCode {
    zhat_cli::run(std::env::args_os()).into()
}
