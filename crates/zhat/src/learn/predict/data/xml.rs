//! The list of labels of a Mulan data set: elements `<label name="…">`, which may be nested.

use super::fail;
use crate::error::Result;

/// The names of the labels, in order.
pub(super) fn labels(text: &str, source: &str) -> Result<Vec<String>> {
    let mut names: Vec<String> = Vec::new();
    let mut rest = text;
    let line = |rest: &str| 1 + text[..text.len() - rest.len()].matches('\n').count();
    while let Some(open) = rest.find('<') {
        rest = &rest[open..];
        if let Some(comment) = rest.strip_prefix("<!--") {
            rest = comment.find("-->").map_or("", |end| &comment[end + 3..]);
            continue;
        }
        let Some(close) = rest.find('>') else {
            return Err(fail(source, line(rest), "the element that opens here is never closed by `>`"));
        };
        let element = &rest[1..close];
        if element.starts_with("label") && !element.starts_with("labels") {
            let name = attribute(element, "name")
                .ok_or_else(|| fail(source, line(rest), format!("`<{element}>` has no attribute name")))?;
            let name = unescaped(name);
            if names.contains(&name) {
                return Err(fail(source, line(rest), format!("the label `{name}` is listed twice")));
            }
            names.push(name);
        }
        rest = &rest[close + 1..];
    }
    if names.is_empty() {
        return Err(fail(source, 0, "no label is listed; expected elements such as <label name=\"a\"/>"));
    }
    Ok(names)
}

fn attribute<'a>(element: &'a str, name: &str) -> Option<&'a str> {
    let at = element.find(&format!(" {name}"))?;
    let rest = element[at + 1 + name.len()..].trim_start().strip_prefix('=')?.trim_start();
    let quote = rest.chars().next().filter(|c| *c == '"' || *c == '\'')?;
    let rest = &rest[1..];
    Some(&rest[..rest.find(quote)?])
}

fn unescaped(text: &str) -> String {
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&apos;", "'")
        .replace("&amp;", "&")
}
