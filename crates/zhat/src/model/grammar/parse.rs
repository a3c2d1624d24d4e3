//! The text format: tokens, productions, and errors with their lines.

use std::collections::HashMap;

use crate::error::{Error, Result};
use crate::suggest;

/// The productions of a text, with symbols and words by number.
#[derive(Clone, Debug)]
pub(super) struct Source {
    /// The symbols, in the order of their first use.
    pub symbols: Vec<String>,
    /// The words, in the order of their first use.
    pub words: Vec<String>,
    /// The start symbol.
    pub start: usize,
    pub productions: Vec<Production>,
}

/// head → parts, with a weight.
#[derive(Clone, Debug)]
pub(super) struct Production {
    pub line: usize,
    pub head: usize,
    /// At least one.
    pub parts: Vec<Part>,
    pub weight: f64,
}

/// A part of a right-hand side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Part {
    Symbol(usize),
    Word(usize),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Token<'a> {
    Arrow,
    Bar,
    Name(&'a str),
    /// A word, with its quotes.
    Quoted(&'a str),
    /// A weight, with its brackets.
    Bracketed(&'a str),
    /// A backslash at the end of a line.
    Continued,
}

impl Token<'_> {
    fn text(&self) -> &str {
        match self {
            Token::Arrow => "->",
            Token::Bar => "|",
            Token::Continued => "\\",
            Token::Name(text) | Token::Quoted(text) | Token::Bracketed(text) => text,
        }
    }
}

/// Arrows, and their lengths in bytes.
const ARROWS: [&str; 2] = ["->", "→"];

/// The tokens of a line without its comment.
fn tokens(line: &str) -> std::result::Result<Vec<Token<'_>>, String> {
    let mut found = Vec::new();
    let mut rest = line.trim();
    while let Some(first) = rest.chars().next() {
        let closed = |close: char, what: &str| match rest[1..].find(close) {
            Some(at) => Ok(at + 2),
            None => Err(format!("{what} is not closed: `{rest}`")),
        };
        let arrow = ARROWS.iter().find(|arrow| rest.starts_with(**arrow));
        let length = match (first, arrow) {
            ('#', _) => break,
            (_, Some(arrow)) => {
                found.push(Token::Arrow);
                arrow.len()
            }
            ('|', _) => {
                found.push(Token::Bar);
                1
            }
            ('\'' | '"', _) => {
                let length = closed(first, "a quote")?;
                found.push(Token::Quoted(&rest[..length]));
                length
            }
            ('[', _) => {
                let length = closed(']', "a bracket")?;
                found.push(Token::Bracketed(&rest[..length]));
                length
            }
            (']', _) => return Err("`]` without `[`".into()),
            ('\\', _) if rest.len() == 1 => {
                found.push(Token::Continued);
                1
            }
            _ => {
                let ends = |(at, c): &(usize, char)| {
                    c.is_whitespace()
                        || "#|'\"[]".contains(*c)
                        || ARROWS.iter().any(|arrow| rest[*at..].starts_with(arrow))
                        || rest[*at..] == *"\\"
                };
                let length = rest.char_indices().find(ends).map_or(rest.len(), |(at, _)| at);
                found.push(Token::Name(&rest[..length]));
                length
            }
        };
        rest = rest[length..].trim_start();
    }
    Ok(found)
}

/// A token and its line.
type Located<'a> = (usize, Token<'a>);

/// Tokens grouped by rule: a line that starts with `|`, or follows a backslash, continues the rule before it.
fn statements<'a>(text: &'a str, source: &str) -> Result<Vec<Vec<Located<'a>>>> {
    let mut list: Vec<Vec<Located<'a>>> = Vec::new();
    let mut continued = false;
    for (i, line) in text.lines().enumerate() {
        let mut found = tokens(line).map_err(|message| error(source, i + 1, message))?;
        let next = found.pop_if(|token| *token == Token::Continued).is_some();
        let located = found.into_iter().map(|token| (i + 1, token)).collect::<Vec<_>>();
        match (list.last_mut(), located.first()) {
            (_, None) => {}
            (Some(last), Some((_, first))) if continued || *first == Token::Bar => last.extend(located),
            _ => list.push(located),
        }
        continued = next;
    }
    Ok(list)
}

fn error(source: &str, line: usize, message: impl Into<String>) -> Error {
    Error::Parse { source_name: source.into(), line, message: message.into() }
}

/// Numbers names in the order of their first use.
#[derive(Default)]
struct Numbered {
    names: Vec<String>,
    lines: Vec<usize>,
    numbers: HashMap<String, usize>,
}

impl Numbered {
    fn number(&mut self, name: &str, line: usize) -> usize {
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        self.numbers.insert(name.into(), self.names.len());
        self.names.push(name.into());
        self.lines.push(line);
        self.names.len() - 1
    }
}

/// Reads a text.
pub(super) fn parse(text: &str, source: &str) -> Result<Source> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (mut symbols, mut words) = (Numbered::default(), Numbered::default());
    let mut productions: Vec<Production> = Vec::new();
    let mut start: Option<(usize, String)> = None;
    for statement in statements(text, source)? {
        let fail = |line: usize, message: String| Err(error(source, line, message));
        let (line, head) = match statement[0] {
            (line, Token::Name("%start")) => {
                start = match (start, &statement[1..]) {
                    (Some((before, _)), _) => {
                        return fail(line, format!("a second %start; the first is on line {before}"));
                    }
                    (None, [(_, Token::Name(name))]) => Some((line, (*name).into())),
                    (None, []) => return fail(line, "expected a symbol after %start".into()),
                    (None, [(line, token), ..]) => {
                        return fail(
                            *line,
                            format!("expected one symbol after %start, found `{}`", token.text()),
                        );
                    }
                };
                continue;
            }
            (line, Token::Name(name)) if name.starts_with('%') => {
                return fail(line, format!("unknown directive `{name}`; expected %start or a rule"));
            }
            (line, Token::Name(name)) => (line, name),
            (line, token) => {
                return fail(
                    line,
                    format!("expected the symbol that a rule rewrites, found `{}`", token.text()),
                );
            }
        };
        match statement.get(1) {
            Some((_, Token::Arrow)) => {}
            Some((line, token)) => {
                return fail(*line, format!("expected `->` after `{head}`, found `{}`", token.text()));
            }
            None => return fail(line, format!("expected `->` after `{head}`, found the end of the line")),
        }
        let head_number = symbols.number(head, line);
        for alternative in statement[2..].split(|(_, token)| *token == Token::Bar) {
            let at = alternative.first().map_or(line, |(line, _)| *line);
            let (parts, weight) = right_side(alternative, &mut symbols, &mut words)
                .map_err(|(line, message)| error(source, line, message))?;
            if parts.is_empty() {
                let message = format!(
                    "empty productions are not supported: `{head} ->` needs a symbol or a quoted word in every \
                     alternative"
                );
                return fail(at, message);
            }
            productions.push(Production { line: at, head: head_number, parts, weight });
        }
    }
    let start = match (start, productions.first()) {
        (_, None) => return Err(error(source, 0, "the grammar has no rules")),
        (None, Some(first)) => first.head,
        (Some((line, name)), _) => symbols.number(&name, line),
    };
    let source_of = Source { symbols: symbols.names, words: words.names, start, productions };
    source_of.check(&symbols.lines, source)?;
    Ok(source_of)
}

/// The parts and the weight of an alternative; an error with its line.
fn right_side(
    alternative: &[Located<'_>],
    symbols: &mut Numbered,
    words: &mut Numbered,
) -> std::result::Result<(Vec<Part>, f64), (usize, String)> {
    let (mut parts, mut weight) = (Vec::new(), None);
    for (i, &(line, token)) in alternative.iter().enumerate() {
        let last = i + 1 == alternative.len();
        let fail = |message: String| Err((line, message));
        if weight.is_some() {
            return fail(format!(
                "expected `|` or the end of the line after the weight, found `{}`",
                token.text()
            ));
        }
        match token {
            Token::Name(name) if last && looks_like_number(name) => {
                weight = Some(weight_of(name, name, line)?)
            }
            Token::Bracketed(text) => {
                weight = Some(weight_of(text[1..text.len() - 1].trim(), text, line)?);
            }
            Token::Name(name) => parts.push(Part::Symbol(symbols.number(name, line))),
            Token::Quoted(text) if text.len() == 2 => {
                return fail(format!("a word has at least one character, found `{text}`"));
            }
            Token::Quoted(text) => parts.push(Part::Word(words.number(&text[1..text.len() - 1], line))),
            Token::Arrow => return fail("a second `->`; write one rule per line".into()),
            Token::Bar | Token::Continued => {
                return fail(format!("unexpected `{}`", token.text()));
            }
        }
    }
    Ok((parts, weight.unwrap_or(1.0)))
}

/// True for `0.3`, `-1`, `1e-3` and the like; not for `inf` or `nan`, which may be symbols.
fn looks_like_number(token: &str) -> bool {
    token.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c)) && token.parse::<f64>().is_ok()
}

fn weight_of(number: &str, shown: &str, line: usize) -> std::result::Result<f64, (usize, String)> {
    match number.parse::<f64>() {
        Ok(weight) if weight.is_finite() && weight >= 0.0 => Ok(weight),
        Ok(_) => Err((line, format!("the weight `{shown}` is not a finite number of at least 0"))),
        Err(_) => Err((line, format!("expected a weight in brackets, such as [0.3], found `{shown}`"))),
    }
}

impl Source {
    /// Checks that every symbol is rewritten, no production is given twice, and there is a word; `lines` are
    /// those of the first uses.
    fn check(&self, lines: &[usize], source: &str) -> Result<()> {
        let mut rewritten = vec![false; self.symbols.len()];
        self.productions.iter().for_each(|production| rewritten[production.head] = true);
        if let Some(missing) = rewritten.iter().position(|known| !known) {
            let name = &self.symbols[missing];
            let known = self.symbols.iter().zip(&rewritten).filter(|(_, known)| **known);
            let hint = match suggest::nearest(name, known.map(|(name, _)| name.as_str())) {
                Some(near) => format!("; did you mean `{near}`?"),
                None if missing == self.start => String::new(),
                None => format!("; a word is written in quotes: '{name}'"),
            };
            let what = if missing == self.start { "start symbol" } else { "symbol" };
            return Err(error(source, lines[missing], format!("no rule rewrites the {what} `{name}`{hint}")));
        }
        let mut seen = HashMap::new();
        for production in &self.productions {
            if let Some(before) = seen.insert((production.head, &production.parts), production.line) {
                let message =
                    format!("`{}` is given twice; the first is on line {before}", self.shown(production));
                return Err(error(source, production.line, message));
            }
        }
        match self.words.is_empty() {
            true => {
                let message =
                    format!("the grammar has no words; write them in quotes: {} -> 'dog'", self.symbols[0]);
                Err(error(source, lines[0], message))
            }
            false => Ok(()),
        }
    }

    /// A production as text, without its weight.
    pub fn shown(&self, production: &Production) -> String {
        let parts: Vec<String> = production.parts.iter().map(|part| self.part_name(*part)).collect();
        format!("{} -> {}", self.symbols[production.head], parts.join(" "))
    }

    /// A symbol, or a word in quotes.
    pub fn part_name(&self, part: Part) -> String {
        match part {
            Part::Symbol(symbol) => self.symbols[symbol].clone(),
            Part::Word(word) if self.words[word].contains('\'') => format!("\"{}\"", self.words[word]),
            Part::Word(word) => format!("'{}'", self.words[word]),
        }
    }
}
