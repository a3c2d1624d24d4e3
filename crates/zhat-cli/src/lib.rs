//! The `zhat` program as a library, so that the Python package can offer the same command.

mod arguments;
mod chart;
mod complete;
mod convert;
mod demo;
mod generate;
mod hmm;
mod hmm_arguments;
mod info;
mod learn;
mod lm;
mod lm_arguments;
mod lm_baselines;
mod load;
mod methods;
mod network;
mod output;
mod part;
mod part_arguments;
mod picture;
mod progress;
mod query;
mod reference;
mod repro;
mod signals;
mod structured;
mod structured_arguments;
mod tag;
mod tag_arguments;
mod tag_joint;
mod tips;
mod tree_arguments;

use std::ffi::OsString;
use std::io::Write;

use clap::Parser;
use serde_json::json;
use zhat::query::Operation;
use zhat::{Error, Result};

use arguments::{Arguments, Command};
use output::Exit;

/// Runs the program with these arguments, where the first is the program name, and returns its exit status.
///
/// 0: success; 1: the query has no result, or none within the budget; 2: invalid command line or input; 130,
/// 143 and 129: ended by SIGINT (Ctrl-C), SIGTERM or SIGHUP, with the result so far if there is one.
pub fn run(args: impl IntoIterator<Item = OsString>) -> u8 {
    let args: Vec<OsString> = args.into_iter().collect();
    let json = args.iter().any(|arg| arg == "--json");
    signals::listen(json);
    let outcome = match Arguments::try_parse_from(&args) {
        Ok(arguments) => zhat::internal::numeric::simd::check().and_then(|_| dispatch(arguments.command)),
        Err(error) if !error.use_stderr() => {
            let _ = error.print();
            return 0;
        }
        Err(error) => {
            let error = tips::with_tip(error, &args);
            let _ = error.print();
            if json {
                print_error_object("arguments", error.to_string().lines().next().unwrap_or_default());
            }
            return 2;
        }
    };
    match outcome {
        Ok(Exit::Answered) => 0,
        Ok(Exit::Interrupted) => signals::status(),
        // The reader closed the pipe; this is not an error.
        Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::BrokenPipe => 0,
        Err(error) => {
            eprintln!("zhat: {error}");
            if json {
                print_error_object(error.kind(), &error.to_string());
            }
            match error {
                Error::Interrupted => signals::status(),
                error if error.is_unanswerable() => 1,
                _ => 2,
            }
        }
    }
}

pub(crate) fn print_error_object(kind: &str, message: &str) {
    let object = json!({
        "schema": output::SCHEMA, "version": env!("CARGO_PKG_VERSION"), "error": {"kind": kind, "message": message},
    });
    // If stdout is closed, there is no other place to report it.
    let _ = writeln!(std::io::stdout(), "{object}");
}

fn dispatch(command: Command) -> Result<Exit> {
    match command {
        Command::Info(arguments) => info::run(&arguments),
        Command::Logz(arguments) => query::log_partition(&arguments),
        Command::Marginals(arguments) => query::marginals(&arguments),
        Command::Entropy(arguments) => query::entropy(&arguments),
        Command::Map(arguments) => query::map(&arguments),
        Command::Sample(arguments) => query::sample(&arguments),
        Command::Kl(arguments) => query::divergence(&arguments, Operation::Kl),
        Command::CrossEntropy(arguments) => query::divergence(&arguments, Operation::CrossEntropy),
        Command::Expectation(arguments) => query::expectation(&arguments),
        Command::Part(arguments) => part::part(&arguments),
        Command::Merge(arguments) => part::merge(&arguments),
        Command::Fit(arguments) => learn::fit(&arguments),
        Command::Score(arguments) => learn::score(&arguments),
        Command::Impute(arguments) => learn::impute(&arguments),
        Command::Lm(arguments) => lm::run(&arguments),
        Command::Structured(arguments) => structured::run(&arguments),
        Command::Tag(arguments) => tag::run(&arguments),
        Command::Generate(arguments) => generate::run(&arguments),
        Command::Convert(arguments) => convert::run(&arguments),
        Command::Demo(arguments) => {
            output::refuse_stdout(&arguments.output, "demo.svg").and_then(|()| demo::run(&arguments))
        }
        Command::Repro(arguments) => repro::run(&arguments),
        Command::Completions { shell } => complete::completions(shell),
        Command::Methods(arguments) => methods::run(&arguments),
        Command::Man { command, folder, markdown } => {
            complete::man(command.as_deref(), folder.as_deref(), markdown)
        }
    }
}
