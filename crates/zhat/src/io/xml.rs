//! A strict reader of XML: elements, attributes and text with line numbers. Comments, processing instructions
//! and the document type are passed over; entities are the five that XML defines and numbers of characters.

use std::borrow::Cow;

use super::tokens::shown;
use crate::error::{Error, Result};

/// A part of a document.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Event<'a> {
    /// The start of an element.
    Open(Element<'a>),
    /// Its end; `<a/>` is both.
    Close,
    /// Text inside an element, as in the file: entities are not replaced.
    Text(&'a str),
    /// Text inside `<![CDATA[…]]>`.
    Data(&'a str),
}

/// The name of an element and its attributes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Element<'a> {
    pub name: &'a str,
    attributes: Vec<(&'a str, Cow<'a, str>)>,
}

impl Element<'_> {
    /// The value of an attribute.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| value.as_ref())
    }
}

pub(crate) struct Xml<'a> {
    text: &'a str,
    at: usize,
    /// The line of the last event.
    line: usize,
    /// The line of position `at`.
    line_at: usize,
    source: &'a str,
    /// Open elements with their lines.
    open: Vec<(&'a str, usize)>,
    /// Whether the last element was `<a/>`, whose end has not been reported.
    closing: bool,
    /// Whether the document's element has started.
    started: bool,
}

impl<'a> Xml<'a> {
    /// A document; `source` is its name for messages.
    pub fn new(text: &'a str, source: &'a str) -> Self {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        Xml { text, at: 0, line: 1, line_at: 1, source, open: Vec::new(), closing: false, started: false }
    }

    /// The line of the last event.
    pub fn line(&self) -> usize {
        self.line
    }

    /// An error at the last event.
    pub fn error(&self, message: impl Into<String>) -> Error {
        self.error_at(self.line, message)
    }

    pub fn error_at(&self, line: usize, message: impl Into<String>) -> Error {
        Error::Parse { source_name: self.source.into(), line, message: message.into() }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn take(&mut self, length: usize) -> &'a str {
        let taken = &self.rest()[..length];
        self.line_at += taken.bytes().filter(|&byte| byte == b'\n').count();
        self.at += length;
        taken
    }

    /// Takes everything up to and including `end`; what starts with `start` is named if it never ends.
    fn take_through(&mut self, start: &str, end: &str) -> Result<&'a str> {
        match self.rest()[start.len()..].find(end) {
            Some(at) => {
                let whole = self.take(start.len() + at + end.len());
                Ok(&whole[start.len()..start.len() + at])
            }
            None => Err(self.error_at(self.line_at, format!("`{start}` is never closed by `{end}`"))),
        }
    }

    /// The next event; `None` at the end of the document.
    ///
    /// # Errors
    /// If the document is not well-formed.
    pub fn next(&mut self) -> Result<Option<Event<'a>>> {
        if std::mem::take(&mut self.closing) {
            self.open.pop();
            return Ok(Some(Event::Close));
        }
        loop {
            self.line = self.line_at;
            let rest = self.rest();
            if rest.is_empty() {
                return match self.open.last() {
                    Some((name, line)) => Err(self.error(format!(
                        "the file ends where `</{name}>` was expected; the element starts in line {line}"
                    ))),
                    None => Ok(None),
                };
            } else if rest.starts_with("<!--") {
                self.take_through("<!--", "-->")?;
            } else if rest.starts_with("<?") {
                self.take_through("<?", "?>")?;
            } else if rest.starts_with("<![CDATA[") && !self.open.is_empty() {
                return Ok(Some(Event::Data(self.take_through("<![CDATA[", "]]>")?)));
            } else if rest.starts_with("<!DOCTYPE") && !self.started {
                self.skip_document_type()?;
            } else if rest.starts_with("</") {
                return self.close().map(Some);
            } else if rest.starts_with('<') {
                return self.element().map(Some);
            } else {
                let text = self.take(rest.find('<').unwrap_or(rest.len()));
                if !self.open.is_empty() {
                    return Ok(Some(Event::Text(text)));
                }
                if !text.trim_ascii().is_empty() {
                    let found = shown(text.trim_ascii().as_bytes());
                    return Err(self.error(format!("expected an element, found `{found}`")));
                }
            }
        }
    }

    /// Passes over `<!DOCTYPE … [ … ]>`.
    fn skip_document_type(&mut self) -> Result<()> {
        let (start, rest) = (self.line_at, self.rest());
        let (mut at, mut inside) = (0, false);
        while let Some(&byte) = rest.as_bytes().get(at) {
            let skipped = match byte {
                b'"' | b'\'' => rest[at + 1..].find(char::from(byte)).map(|end| end + 2),
                b'<' if rest[at..].starts_with("<!--") => rest[at..].find("-->").map(|end| end + 3),
                b'[' => {
                    inside = true;
                    Some(1)
                }
                b']' => {
                    inside = false;
                    Some(1)
                }
                b'>' if !inside => {
                    self.take(at + 1);
                    return Ok(());
                }
                _ => Some(1),
            };
            match skipped {
                Some(length) => at += length,
                None => break,
            }
        }
        Err(self.error_at(start, "`<!DOCTYPE` is never closed by `>`"))
    }

    fn close(&mut self) -> Result<Event<'a>> {
        let name = self.take_through("</", ">")?.trim_ascii_end();
        match self.open.pop() {
            Some((open, _)) if open == name => Ok(Event::Close),
            Some((open, line)) => Err(self.error(format!(
                "expected `</{open}>`, which starts in line {line}, found `</{}>`",
                shown(name.as_bytes())
            ))),
            None => Err(self.error(format!("`</{}>` closes no element", shown(name.as_bytes())))),
        }
    }

    fn element(&mut self) -> Result<Event<'a>> {
        if self.started && self.open.is_empty() {
            return Err(self.error("there is a second element after the end of the document"));
        }
        self.take(1);
        let name = self.name("the name of an element")?;
        let mut attributes: Vec<(&'a str, Cow<'a, str>)> = Vec::new();
        let empty = loop {
            let blanks = self.rest().len() - self.rest().trim_ascii_start().len();
            self.take(blanks);
            let rest = self.rest();
            if rest.starts_with("/>") {
                self.take(2);
                break true;
            } else if rest.starts_with('>') {
                self.take(1);
                break false;
            } else if rest.is_empty() {
                return Err(self.error(format!("`<{name}` is never closed by `>`")));
            }
            let attribute = self.name(&format!("an attribute of `<{name}` or `>`"))?;
            if attributes.iter().any(|(known, _)| *known == attribute) {
                return Err(self.error(format!("`<{name}` has two attributes `{attribute}`")));
            }
            attributes.push((attribute, self.value(attribute)?));
        };
        self.open.push((name, self.line));
        (self.closing, self.started) = (empty, true);
        Ok(Event::Open(Element { name, attributes }))
    }

    fn name(&mut self, expected: &str) -> Result<&'a str> {
        let ends = |c: char| c.is_ascii_whitespace() || matches!(c, '<' | '>' | '/' | '=' | '"' | '\'' | '&');
        let rest = self.rest();
        let length = rest.find(ends).unwrap_or(rest.len());
        let starts = |c: char| c.is_alphabetic() || matches!(c, '_' | ':');
        if !rest.starts_with(starts) {
            let found = shown(rest.chars().next().map(String::from).unwrap_or_default().as_bytes());
            return Err(self.error_at(self.line_at, format!("expected {expected}, found `{found}`")));
        }
        Ok(self.take(length))
    }

    /// Reads `="…"` after the name of an attribute.
    fn value(&mut self, attribute: &str) -> Result<Cow<'a, str>> {
        let rest = self.rest();
        let quoted = rest.trim_ascii_start().strip_prefix('=').map(str::trim_ascii_start);
        let quote = quoted.and_then(|text| text.chars().next()).filter(|c| matches!(c, '"' | '\''));
        let (Some(quoted), Some(quote)) = (quoted, quote) else {
            return Err(
                self.error_at(self.line_at, format!("the attribute `{attribute}` has no value in quotes"))
            );
        };
        self.take(rest.len() - quoted.len());
        let mark = quote.to_string();
        let value = self.take_through(&mark, &mark)?;
        self.decoded(value)
    }

    /// The text with its entities replaced.
    ///
    /// # Errors
    /// If an entity is unknown.
    pub fn decoded(&self, text: &'a str) -> Result<Cow<'a, str>> {
        if !text.contains('&') {
            return Ok(Cow::Borrowed(text));
        }
        let mut decoded = String::with_capacity(text.len());
        let mut parts = text.split('&');
        decoded.push_str(parts.next().unwrap_or_default());
        for part in parts {
            let entity = part.split_once(';').and_then(|(name, rest)| Some((character(name)?, rest)));
            let Some((character, rest)) = entity else {
                let name = shown(part.split(';').next().unwrap_or_default().as_bytes());
                return Err(self.error(format!(
                    "unknown entity `&{name}`; expected &lt; &gt; &amp; &quot; &apos; or the number of a character, such as &#37;"
                )));
            };
            decoded.push(character);
            decoded.push_str(rest);
        }
        Ok(Cow::Owned(decoded))
    }

    /// The text of the element that has just been opened, through its end. Blanks at both ends are dropped, unless
    /// they are written as entities.
    ///
    /// # Errors
    /// If it contains an element.
    pub fn text(&mut self, name: &str) -> Result<Cow<'a, str>> {
        let mut text = Cow::Borrowed("");
        let mut kept = 0;
        loop {
            let (part, end) = match self.next()? {
                Some(Event::Text(raw)) => {
                    let raw = if text.is_empty() { raw.trim_ascii_start() } else { raw };
                    let end = self.decoded(raw.trim_ascii_end())?.len();
                    (self.decoded(raw)?, end)
                }
                Some(Event::Data(data)) => (Cow::Borrowed(data), data.len()),
                Some(Event::Close) | None => break,
                Some(Event::Open(element)) => {
                    let found = shown(element.name.as_bytes());
                    return Err(self.error(format!("expected the text of <{name}>, found <{found}>")));
                }
            };
            if end > 0 {
                kept = text.len() + end;
            }
            if text.is_empty() { text = part } else { text.to_mut().push_str(&part) }
        }
        match text {
            Cow::Borrowed(text) => Ok(Cow::Borrowed(&text[..kept])),
            Cow::Owned(mut text) => {
                text.truncate(kept);
                Ok(Cow::Owned(text))
            }
        }
    }

    /// Passes over the element that has just been opened, through its end.
    pub fn skip(&mut self) -> Result<()> {
        let depth = self.open.len();
        while self.open.len() >= depth && self.next()?.is_some() {}
        Ok(())
    }
}

/// The character of an entity.
fn character(name: &str) -> Option<char> {
    Some(match name {
        "lt" => '<',
        "gt" => '>',
        "amp" => '&',
        "quot" => '"',
        "apos" => '\'',
        _ => {
            let number = name.strip_prefix('#')?;
            let code = match number.strip_prefix('x') {
                Some(hexadecimal) => u32::from_str_radix(hexadecimal, 16),
                None => number.parse(),
            };
            char::from_u32(code.ok()?)?
        }
    })
}

/// A text for an XML file: marks, line breaks and blanks at the ends are written as entities.
pub(super) fn escaped(text: &str) -> String {
    let last = text.chars().count().saturating_sub(1);
    let mut escaped = String::with_capacity(text.len());
    for (i, c) in text.chars().enumerate() {
        match c {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '\n' | '\r' | '\t' => escaped.push_str(&format!("&#{};", u32::from(c))),
            ' ' if i == 0 || i == last => escaped.push_str("&#32;"),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(text: &str) -> Result<Vec<String>> {
        let mut xml = Xml::new(text, "f.xml");
        let mut found = Vec::new();
        while let Some(event) = xml.next()? {
            found.push(match event {
                Event::Open(element) => {
                    let attributes: String =
                        element.attributes.iter().map(|(name, value)| format!(" {name}={value}")).collect();
                    format!("<{}{attributes}", element.name)
                }
                Event::Close => ">".into(),
                Event::Text(text) => xml.decoded(text)?.into_owned(),
                Event::Data(text) => text.to_owned(),
            });
        }
        Ok(found)
    }

    #[test]
    fn a_document_is_read_in_parts() {
        let text = "\u{feff}<?xml version='1.0'?>\n<!DOCTYPE a [ <!ELEMENT a (b)> <!-- > ] --> <!ENTITY c \"]>\"> ]>\n\
            <a x = \"1 &lt; 2\" y='\"'><!-- <b> -->t &amp; &#x41;&#66;<b/><![CDATA[<&]]></a >\n<!-- end -->\n";
        let want = ["<a x=1 < 2 y=\"", "t & AB", "<b", ">", "<&", ">"];
        assert_eq!(events(text).unwrap(), want);
        let mut xml = Xml::new("<a>\n one<!-- c --> two&#32;\n</a>", "");
        assert!(matches!(xml.next().unwrap(), Some(Event::Open(_))));
        assert_eq!(xml.text("a").unwrap(), "one two ");
        assert_eq!(xml.next().unwrap(), None);
        let mut xml = Xml::new("<a> <b>x<c/></b></a>", "");
        xml.next().unwrap();
        xml.next().unwrap();
        xml.next().unwrap();
        xml.skip().unwrap();
        assert_eq!(xml.next().unwrap(), Some(Event::Close));
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (text, message) in [
            ("<a>\n", "f.xml: line 2: the file ends where `</a>` was expected; the element starts in line 1"),
            ("<a>\n</b>", "f.xml: line 2: expected `</a>`, which starts in line 1, found `</b>`"),
            ("<a/>\n</a>", "f.xml: line 2: `</a>` closes no element"),
            ("<a/>\n<b/>", "f.xml: line 2: there is a second element after the end of the document"),
            ("\nx<a/>", "f.xml: line 1: expected an element, found `x`"),
            ("<a>&nbsp;</a>", "f.xml: line 1: unknown entity `&nbsp`; expected &lt;"),
            ("<a>&#x110000;</a>", "f.xml: line 1: unknown entity `&#x110000`"),
            ("<a>& b</a>", "f.xml: line 1: unknown entity `& b`"),
            ("<a\n b>", "f.xml: line 2: the attribute `b` has no value in quotes"),
            ("<a b='1' b='2'>", "f.xml: line 1: `<a` has two attributes `b`"),
            ("<a b='1", "f.xml: line 1: `'` is never closed by `'`"),
            ("<a b='1'", "f.xml: line 1: `<a` is never closed by `>`"),
            ("< a>", "f.xml: line 1: expected the name of an element, found ` `"),
            ("<!-- \n", "f.xml: line 1: `<!--` is never closed by `-->`"),
            ("<!DOCTYPE a [ ]", "f.xml: line 1: `<!DOCTYPE` is never closed by `>`"),
            ("<a><!DOCTYPE b></a>", "f.xml: line 1: expected the name of an element, found `!`"),
            ("<a 1='2'>", "f.xml: line 1: expected an attribute of `<a` or `>`, found `1`"),
        ] {
            let found = events(text).map_err(|error| error.to_string());
            let found = found.expect_err(text);
            assert!(found.starts_with(message), "{found}");
        }
    }

    #[test]
    fn escaped_text_is_read_back() {
        for text in ["", " ", "a < b & c > \"d\"", " x\n", "]]>", "é\u{1F600}", "&amp;", "\t\r\n", "a b"] {
            let document = format!("<a>{}</a>", escaped(text));
            let mut xml = Xml::new(&document, "");
            xml.next().unwrap();
            assert_eq!(xml.text("a").unwrap(), text);
        }
    }
}
