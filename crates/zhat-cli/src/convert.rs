//! `zhat convert`: from one format to another.

use zhat::{Result, io};

use crate::arguments::ConvertArguments;
use crate::load;
use crate::output::Exit;

pub fn run(arguments: &ConvertArguments) -> Result<Exit> {
    io::write_model(&load::read(&arguments.from, arguments.input.as_deref())?, &arguments.to)?;
    Ok(Exit::Answered)
}
