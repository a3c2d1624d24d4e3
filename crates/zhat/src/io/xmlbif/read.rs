//! The XMLBIF reader.

use std::borrow::Cow;

use super::super::network::{self, Table, Variable};
use super::super::tokens::shown;
use super::super::xml::{Element, Event, Xml};
use crate::decimal::parse_log;
use crate::error::Result;
use crate::model::FactorGraph;

/// Reads a model; `name` is the file's name for messages.
///
/// # Errors
/// If the text is not well-formed XML in UTF-8 or not in the format, a row does not sum to 1 within 0.01, or the
/// variables form a directed cycle.
pub fn parse_model(bytes: &[u8], name: &str) -> Result<FactorGraph> {
    let text = super::super::text_of(bytes, name)?;
    let mut xml = Xml::new(text, name);
    let root = opened(&mut xml, "<BIF>")?;
    if root.name != "BIF" {
        return Err(xml.error(format!("expected <BIF>, found <{}>", shown(root.name.as_bytes()))));
    }
    if let Some(version) = root.attribute("VERSION").filter(|version| *version != "0.3") {
        let version = shown(version.as_bytes());
        return Err(xml.error(format!("XMLBIF of version {version} cannot be read, only 0.3")));
    }
    let mut found = None;
    while let Some(element) = child(&mut xml, "BIF")? {
        match element.name {
            "NETWORK" if found.is_none() => found = Some(read_network(&mut xml)?),
            "NETWORK" => return Err(xml.error("the file has two networks; one can be read")),
            _ => return Err(unexpected(&xml, &element, "<NETWORK>")),
        }
    }
    // Reads on to the end of the document.
    if xml.next()?.is_some() {
        return Err(xml.error("expected the end of the file after </BIF>"));
    }
    let Some((variables, tables)) = found else {
        return Err(xml.error("the file has no <NETWORK>"));
    };
    network::build(&variables, &tables, name)
}

type Parts<'a> = (Vec<Variable<'a>>, Vec<Table<'a>>);

fn unexpected(xml: &Xml<'_>, element: &Element<'_>, expected: &str) -> crate::Error {
    xml.error(format!("expected {expected}, found <{}>", shown(element.name.as_bytes())))
}

/// The next element, which must exist.
fn opened<'a>(xml: &mut Xml<'a>, expected: &str) -> Result<Element<'a>> {
    match xml.next()? {
        Some(Event::Open(element)) => Ok(element),
        _ => Err(xml.error(format!("the file ends where {expected} was expected"))),
    }
}

/// The next element inside the element `parent`, which contains no text; `None` at its end.
fn child<'a>(xml: &mut Xml<'a>, parent: &str) -> Result<Option<Element<'a>>> {
    loop {
        match xml.next()? {
            Some(Event::Open(element)) => return Ok(Some(element)),
            Some(Event::Text(text) | Event::Data(text)) => {
                let text = text.trim_ascii();
                if !text.is_empty() {
                    let found = shown(text.as_bytes());
                    return Err(xml.error(format!("expected an element inside <{parent}>, found `{found}`")));
                }
            }
            Some(Event::Close) | None => return Ok(None),
        }
    }
}

fn read_network<'a>(xml: &mut Xml<'a>) -> Result<Parts<'a>> {
    let (mut variables, mut tables) = (Vec::new(), Vec::new());
    while let Some(element) = child(xml, "NETWORK")? {
        match element.name {
            "VARIABLE" => variables.push(read_variable(xml, &element)?),
            "DEFINITION" => tables.push(read_definition(xml)?),
            "NAME" | "PROPERTY" => xml.skip()?,
            _ => {
                return Err(unexpected(xml, &element, "<VARIABLE>, <DEFINITION>, <NAME> or <PROPERTY>"));
            }
        }
    }
    Ok((variables, tables))
}

fn read_variable<'a>(xml: &mut Xml<'a>, variable: &Element<'a>) -> Result<Variable<'a>> {
    let line = xml.line();
    if let Some(kind) = variable.attribute("TYPE").filter(|kind| *kind != "nature") {
        let kind = shown(kind.as_bytes());
        return Err(xml.error(format!("a variable of type `{kind}` cannot be read, only `nature`")));
    }
    let (mut name, mut states) = (None, Vec::new());
    while let Some(element) = child(xml, "VARIABLE")? {
        match element.name {
            "NAME" if name.is_none() => name = Some(xml.text("NAME")?),
            "NAME" => return Err(xml.error("a variable has two names")),
            "OUTCOME" => states.push(xml.text("OUTCOME")?),
            "PROPERTY" => xml.skip()?,
            _ => return Err(unexpected(xml, &element, "<NAME>, <OUTCOME> or <PROPERTY>")),
        }
    }
    match name {
        Some(name) => Ok(Variable { name, states, line }),
        None => Err(xml.error_at(line, "a variable has no <NAME>")),
    }
}

fn read_definition<'a>(xml: &mut Xml<'a>) -> Result<Table<'a>> {
    let line = xml.line();
    let (mut of, mut parents, mut values): (Option<Cow<'a, str>>, Vec<Cow<'a, str>>, _) =
        (None, Vec::new(), None);
    while let Some(element) = child(xml, "DEFINITION")? {
        match element.name {
            "FOR" if of.is_none() => of = Some(xml.text("FOR")?),
            "FOR" => {
                let message = "a definition is for two variables; only conditional tables of one can be read";
                return Err(xml.error(message));
            }
            "GIVEN" => parents.push(xml.text("GIVEN")?),
            "TABLE" if values.is_none() => values = Some((xml.line(), read_table(xml)?)),
            "TABLE" => return Err(xml.error("a definition has two tables")),
            "PROPERTY" => xml.skip()?,
            _ => return Err(unexpected(xml, &element, "<FOR>, <GIVEN>, <TABLE> or <PROPERTY>")),
        }
    }
    let Some(child) = of else {
        return Err(xml.error_at(line, "a definition has no <FOR>"));
    };
    let Some((values_line, log_values)) = values else {
        let name = shown(child.as_bytes());
        return Err(xml.error_at(line, format!("the definition of `{name}` has no <TABLE>")));
    };
    Ok(Table { child, parents, log_values, shape: None, line, values_line })
}

/// Reads the numbers of a table, between which there may be comments.
fn read_table(xml: &mut Xml<'_>) -> Result<Vec<f64>> {
    let mut values = Vec::new();
    loop {
        match xml.next()? {
            Some(Event::Text(text) | Event::Data(text)) => {
                for (line, part) in (xml.line()..).zip(text.split_inclusive('\n')) {
                    for token in part.split_ascii_whitespace() {
                        values.push(parse_log(token.as_bytes()).ok_or_else(|| {
                            let expected = "a probability, a finite number that is 0 or more";
                            let found = shown(token.as_bytes());
                            xml.error_at(line, format!("expected {expected}, found `{found}`"))
                        })?);
                    }
                }
            }
            Some(Event::Open(element)) => {
                return Err(unexpected(xml, &element, "a probability or </TABLE>"));
            }
            Some(Event::Close) | None => return Ok(values),
        }
    }
}
