//! `zhat completions` and `zhat man`.

use clap::CommandFactory;
use zhat::{Error, Result};

use crate::arguments::Arguments;
use crate::output::{self, Exit};

pub fn completions(shell: clap_complete::Shell) -> Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "zhat", &mut script);
    output::print(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Answered)
}

/// One page for the program and all its commands.
pub fn man() -> Result<Exit> {
    let mut command = Arguments::command();
    command.build();
    let mut page = Vec::new();
    let fail = |source| Error::io(std::path::Path::new("standard output"), source);
    clap_mangen::Man::new(command.clone()).render(&mut page).map_err(fail)?;
    for subcommand in command.get_subcommands().filter(|command| command.get_name() != "help") {
        let title = format!(".SH COMMAND {}\n", subcommand.get_name().to_uppercase());
        page.extend_from_slice(title.as_bytes());
        let man = clap_mangen::Man::new(subcommand.clone());
        man.render_synopsis_section(&mut page).map_err(fail)?;
        man.render_description_section(&mut page).map_err(fail)?;
        man.render_options_section(&mut page).map_err(fail)?;
    }
    output::print(&String::from_utf8_lossy(&page))?;
    Ok(Exit::Answered)
}
