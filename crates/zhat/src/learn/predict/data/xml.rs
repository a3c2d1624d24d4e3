//! The list of labels of a Mulan data set: elements `<label name="…">`, which may be nested.

use super::{Labels, fail};
use crate::error::Result;
use crate::io::xml::{Event, Xml};

/// The names of the labels, in order, and their lines.
pub(super) fn labels(text: &str, source: &str) -> Result<Labels> {
    let (mut names, mut lines): (Vec<String>, Vec<usize>) = (Vec::new(), Vec::new());
    let mut xml = Xml::new(text, source);
    while let Some(event) = xml.next()? {
        let Event::Open(element) = event else { continue };
        if element.name != "label" {
            continue;
        }
        let name = element.attribute("name").ok_or_else(|| xml.error("`<label>` has no attribute name"))?;
        if names.iter().any(|known| known == name) {
            return Err(xml.error(format!("the label `{name}` is listed twice")));
        }
        names.push(name.to_owned());
        lines.push(xml.line());
    }
    if names.is_empty() {
        return Err(fail(source, 0, "no label is listed; expected elements such as <label name=\"a\"/>"));
    }
    Ok(Labels { names, xml: Some((source.to_owned(), lines)) })
}
