//! Tips for options of a method that are given as options of the program.

use std::ffi::OsString;

use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use zhat::catalogue;

use crate::arguments::Arguments;

/// The error with a tip: `--samples 10` is an option of a method, so the tip is `--set samples=10`.
pub fn with_tip(mut error: clap::Error, args: &[OsString]) -> clap::Error {
    if let Some(tip) = tip(&error, args) {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
        error.remove(ContextKind::SuggestedArg);
    }
    error
}

fn tip(error: &clap::Error, args: &[OsString]) -> Option<String> {
    let Some(ContextValue::String(unknown)) = error.get(ContextKind::InvalidArg) else { return None };
    if error.kind() != ErrorKind::UnknownArgument || !takes_settings(args) {
        return None;
    }
    let name = unknown.strip_prefix("--")?.split('=').next()?.replace('-', "_");
    if !catalogue::all().iter().any(|row| (row.options)().get(&name).is_some()) {
        return None;
    }
    let value = value(unknown.split('=').next()?, args).unwrap_or("VALUE");
    Some(format!("'{name}' is an option of a method: use '--set {name}={value}'"))
}

/// True if the command has `--set`.
fn takes_settings(args: &[OsString]) -> bool {
    let program = Arguments::command();
    let command = args.get(1).and_then(|name| program.find_subcommand(name));
    command.is_some_and(|command| command.get_arguments().any(|argument| argument.get_id() == "set"))
}

/// The value after an option, as `--samples 10` or `--samples=10`.
fn value<'a>(option: &str, args: &'a [OsString]) -> Option<&'a str> {
    let mut args = args.iter().filter_map(|arg| arg.to_str());
    let found = args.find(|arg| arg.split('=').next() == Some(option))?;
    found
        .split_once('=')
        .map(|(_, value)| value)
        .or_else(|| args.next().filter(|next| !next.starts_with("--")))
}
