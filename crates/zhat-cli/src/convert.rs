//! `zhat convert`: from one format to another.

use zhat::{Result, io};

use crate::arguments::ConvertArguments;
use crate::output::Exit;
use crate::query;

pub fn run(arguments: &ConvertArguments) -> Result<Exit> {
    io::write_model(&query::read(&arguments.from, arguments.input.as_deref())?, &arguments.to)?;
    Ok(Exit::Answered)
}
