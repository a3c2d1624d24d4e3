//! `zhat convert`: from one format to another.

use zhat::{Result, io};

use crate::arguments::ConvertArguments;
use crate::output::Exit;

pub fn run(arguments: &ConvertArguments) -> Result<Exit> {
    io::write_model(&io::read_model(&arguments.from)?, &arguments.to)?;
    Ok(Exit::Answered)
}
