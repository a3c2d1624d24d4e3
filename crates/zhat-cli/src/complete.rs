//! `zhat completions` and `zhat man`.

use std::path::Path;

use clap::{Command, CommandFactory};
use zhat::internal::io::write_atomically;
use zhat::internal::suggest;
use zhat::{Error, Result};

use crate::arguments::Arguments;
use crate::output::{self, Exit};
use crate::reference;

pub fn completions(shell: clap_complete::Shell) -> Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "zhat", &mut script);
    output::print(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Answered)
}

/// The manual page of the program or of one command, all pages as files, or the reference as Markdown.
pub fn man(name: Option<&str>, folder: Option<&Path>, markdown: bool) -> Result<Exit> {
    if markdown {
        output::print(&reference::markdown())?;
        return Ok(Exit::Answered);
    }
    let mut program = Arguments::command();
    program.build();
    if let Some(folder) = folder {
        std::fs::create_dir_all(folder).map_err(|error| Error::io(folder, error))?;
        write_page(&program, "zhat", folder)?;
        for command in commands(&program) {
            write_page(command, &format!("zhat-{}", command.get_name()), folder)?;
        }
        return Ok(Exit::Answered);
    }
    let page = match name {
        None => page(&program, "zhat")?,
        Some(name) => {
            let found = commands(&program).find(|command| command.get_name() == name);
            let command = found.ok_or_else(|| {
                let names: Vec<&str> = commands(&program).map(Command::get_name).collect();
                let hint = suggest::hint(name, &names);
                Error::argument("COMMAND", format!("there is no command `{name}`{hint}"))
            })?;
            page(command, &format!("zhat-{name}"))?
        }
    };
    output::print(&String::from_utf8_lossy(&page))?;
    Ok(Exit::Answered)
}

fn commands(program: &Command) -> impl Iterator<Item = &Command> {
    program.get_subcommands().filter(|command| command.get_name() != "help")
}

fn page(command: &Command, title: &str) -> Result<Vec<u8>> {
    let mut page = Vec::new();
    let command = command.clone().version(env!("CARGO_PKG_VERSION"));
    let written = clap_mangen::Man::new(command).title(title).render(&mut page);
    written.map_err(|source| Error::io(Path::new("standard output"), source))?;
    Ok(page)
}

fn write_page(command: &Command, title: &str, folder: &Path) -> Result<()> {
    let page = page(command, title)?;
    write_atomically(&folder.join(format!("{title}.1")), |out| out.write_all(&page))
}
