//! The reference of all commands and options as Markdown, from the definition of the command line.

use std::fmt::Write as _;

use clap::{Arg, Command, CommandFactory};

use crate::arguments::Arguments;

/// Options that at least this many commands have in common are described once.
const COMMON: usize = 4;
/// Options with more values than this list them elsewhere.
const MOST_VALUES: usize = 10;

/// The page.
pub fn markdown() -> String {
    let mut program = Arguments::command();
    program.build();
    let mut all = Vec::new();
    collect(&program, "zhat", &mut all);
    let (generators, others): (Vec<_>, Vec<_>) =
        all.iter().cloned().partition(|(path, _)| is_generator(path));
    let common = [
        ("Common options", shared(&others, COMMON)),
        ("Options of every generator", shared(&generators, generators.len())),
    ];
    let mut page = String::from(
        "# Commands and options\n\n\
         <!-- written by `zhat man --markdown`; do not edit -->\n\n\
         Every command and option of the program `zhat`. The same text is printed by `zhat COMMAND --help`, and `zhat man COMMAND` prints a \
         manual page. [The JSON output](json.md) has its own page.\n\n\
         | command | description |\n|---|---|\n",
    );
    for (path, command) in &all {
        let _ = writeln!(page, "| [`{path}`](#{}) | {} |", path.replace(' ', "-"), about(command));
    }
    page += &ends(&program);
    for (heading, args) in &common {
        let _ = write!(page, "\n## {heading}\n\n{}", table(args));
    }
    for (path, command) in &all {
        let (heading, shared) = &common[usize::from(is_generator(path))];
        page += &section(path, command, heading, shared);
    }
    page
}

fn is_generator(path: &str) -> bool {
    path.starts_with("zhat generate")
}

/// Every command that does something, with its whole name.
fn collect<'a>(command: &'a Command, path: &str, all: &mut Vec<(String, &'a Command)>) {
    for command in command.get_subcommands().filter(|command| command.get_name() != "help") {
        let path = format!("{path} {}", command.get_name());
        if command.get_subcommands().any(|inner| inner.get_name() != "help") {
            collect(command, &path, all);
        } else {
            all.push((path, command));
        }
    }
}

/// The options that so many commands have with the same description and default, in order of their first use.
fn shared<'a>(all: &[(String, &'a Command)], least: usize) -> Vec<&'a Arg> {
    let mut found: Vec<&Arg> = Vec::new();
    for (_, command) in all {
        for arg in shown(command) {
            let count = all.iter().filter(|(_, other)| shown(other).any(|other| alike(other, arg))).count();
            if count >= least && !arg.is_positional() && !found.iter().any(|known| alike(known, arg)) {
                found.push(arg);
            }
        }
    }
    found
}

fn alike(a: &Arg, b: &Arg) -> bool {
    label(a) == label(b) && description(a) == description(b)
}

fn shown(command: &Command) -> impl Iterator<Item = &Arg> {
    command
        .get_arguments()
        .filter(|arg| !arg.is_hide_set() && arg.get_id() != "help" && arg.get_id() != "version")
}

fn section(path: &str, command: &Command, heading: &str, shared: &[&Arg]) -> String {
    let mut text = format!("\n## {path}\n\n{}.\n", about(command));
    let aliases: Vec<String> = command.get_visible_aliases().map(|alias| format!("`zhat {alias}`")).collect();
    if !aliases.is_empty() {
        let _ = writeln!(text, "Also called {}.", aliases.join(", "));
    }
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").trim();
    let _ = write!(text, "\n```text\n{usage}\n```\n");
    let (common, own): (Vec<&Arg>, Vec<&Arg>) =
        shown(command).partition(|arg| shared.iter().any(|known| alike(known, arg)));
    if !own.is_empty() {
        text.push('\n');
        text += &table(&own);
    }
    if !common.is_empty() {
        let names: Vec<String> = common.iter().map(|arg| format!("`{}`", name(arg))).collect();
        let anchor = heading.to_lowercase().replace(' ', "-");
        let _ = write!(text, "\n[{heading}](#{anchor}): {}.\n", names.join(", "));
    }
    text
}

fn table(args: &[&Arg]) -> String {
    let mut text = String::from("| argument | description |\n|---|---|\n");
    for arg in args {
        let _ = writeln!(text, "| {} | {} |", label(arg), description(arg));
    }
    text
}

/// `--method` or `MODEL`.
fn name(arg: &Arg) -> String {
    match (arg.get_long(), arg.get_short()) {
        (Some(long), _) => format!("--{long}"),
        (None, Some(short)) => format!("-{short}"),
        _ => value_name(arg),
    }
}

fn value_name(arg: &Arg) -> String {
    let names = arg.get_value_names().unwrap_or_default();
    names.iter().map(|name| name.to_string()).collect::<Vec<_>>().join(" ")
}

/// `` `-n`, `--count N` ``.
fn label(arg: &Arg) -> String {
    if arg.is_positional() {
        let dots = if arg.get_num_args().is_some_and(|count| count.max_values() > 1) { "…" } else { "" };
        return format!("`{}{dots}`", value_name(arg));
    }
    let takes_value = arg.get_num_args().is_some_and(|count| count.takes_values());
    let value = if takes_value { format!(" {}", value_name(arg)) } else { String::new() };
    match (arg.get_short(), arg.get_long()) {
        (Some(short), Some(long)) => format!("`-{short}`, `--{long}{value}`"),
        (Some(short), None) => format!("`-{short}{value}`"),
        _ => format!("`{}{value}`", name(arg)),
    }
}

fn about(command: &Command) -> String {
    command.get_about().map(|about| safe(&about.to_string())).unwrap_or_default()
}

/// The help text, the values and the default.
fn description(arg: &Arg) -> String {
    let mut text = arg.get_help().map(|help| safe(&help.to_string())).unwrap_or_default();
    let values = arg.get_possible_values();
    let flag = arg.get_num_args().is_some_and(|count| !count.takes_values());
    if !values.is_empty() && values.len() <= MOST_VALUES && !flag {
        let value = |value: &clap::builder::PossibleValue| match value.get_help() {
            Some(help) => format!("`{}`: {}", value.get_name(), safe(&help.to_string())),
            None => format!("`{}`", value.get_name()),
        };
        let _ = write!(text, ". {}", values.iter().map(value).collect::<Vec<_>>().join("; "));
    }
    let defaults: Vec<String> =
        arg.get_default_values().iter().map(|value| value.to_string_lossy().into_owned()).collect();
    if !defaults.is_empty() && !arg.is_hide_default_value_set() && !flag {
        let _ = write!(text, " [default: `{}`]", defaults.join(","));
    }
    // `a[0] [default: …]` would be a link.
    text.replace("] [", "] &#91;")
}

/// Text without characters that have a meaning in a Markdown table.
fn safe(text: &str) -> String {
    text.replace('\n', " ").replace('|', "\\|").replace('<', "&lt;").replace('*', "\\*")
}

/// Exit status and environment, from the end of the help text.
fn ends(program: &Command) -> String {
    let text = program.get_after_help().map(ToString::to_string).unwrap_or_default();
    format!("\n```text\n{text}\n```\n")
}
