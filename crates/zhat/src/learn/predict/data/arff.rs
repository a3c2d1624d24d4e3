//! ARFF files: attributes, then dense rows or sparse rows `{index value, …}`.

use super::hierarchy::Classes;
use super::lines::Lines;
use super::{Cells, Collected, Examples, InputColumn, Labels, ReadOptions, Space, fail, is_missing, number};
use crate::error::Result;

/// An attribute of the file.
struct Attribute {
    name: String,
    kind: Kind,
    /// Where it is declared.
    line: usize,
}

enum Kind {
    Numeric,
    Nominal(Vec<String>),
    Hierarchical(Classes),
}

/// Reads a token, quoted or up to a character of `ends`; returns it and the rest.
fn token<'a>(text: &'a str, ends: &[char]) -> Option<(String, &'a str)> {
    let text = text.trim_start();
    let quote = text.chars().next().filter(|c| *c == '\'' || *c == '"');
    match quote {
        Some(quote) => {
            let mut value = String::new();
            let mut escaped = false;
            for (at, c) in text.char_indices().skip(1) {
                if !escaped && c == quote {
                    return Some((value, &text[at + 1..]));
                }
                if !escaped && c == '\\' {
                    escaped = true;
                    continue;
                }
                escaped = false;
                value.push(c);
            }
            None
        }
        None => {
            let end = text.find(ends).unwrap_or(text.len());
            Some((text[..end].trim_end().to_owned(), &text[end..]))
        }
    }
}

/// The values of a comma-separated list.
fn values(text: &str) -> Option<Vec<String>> {
    let mut found = Vec::new();
    let mut rest = text;
    loop {
        let (value, after) = token(rest, &[','])?;
        found.push(value);
        let after = after.trim_start();
        if after.is_empty() {
            return Some(found);
        }
        rest = after.strip_prefix(',')?;
    }
}

fn attribute(text: &str, source: &str, line: usize) -> Result<Attribute> {
    let wrong = |message: String| fail(source, line, message);
    let (name, rest) =
        token(text, &[' ', '\t', '{']).filter(|(name, _)| !name.is_empty()).ok_or_else(|| {
            wrong(format!("`@attribute {text}` has no name, or its quotation mark is never closed"))
        })?;
    let rest = rest.trim();
    if let Some(list) = rest.strip_prefix('{') {
        let list = list
            .strip_suffix('}')
            .ok_or_else(|| wrong(format!("attribute {name}: `{rest}` has no closing }}")))?;
        let levels =
            values(list).ok_or_else(|| wrong(format!("attribute {name}: `{rest}` is no list of values")))?;
        return Ok(Attribute { name, kind: Kind::Nominal(levels), line });
    }
    let (word, list) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let kind = match word.to_ascii_lowercase().as_str() {
        "numeric" | "real" | "integer" => Kind::Numeric,
        "hierarchical" => Kind::Hierarchical(Classes::parse(list, source, line)?),
        _ => {
            let message = format!(
                "attribute {name} has the type `{word}`; expected numeric, real, integer, {{a,b,…}} or hierarchical"
            );
            return Err(wrong(message));
        }
    };
    Ok(Attribute { name, kind, line })
}

/// The number of labels in the name of a relation, such as `'music: -C 6'`; negative if they come last.
fn label_count(relation: &str) -> Option<usize> {
    let mut words = relation.split(|c: char| c.is_whitespace() || "'\"".contains(c));
    words.find(|word| *word == "-C")?;
    words.next()?.parse::<i64>().ok().map(|count| count.unsigned_abs() as usize)
}

/// Input cells, sparse or dense.
struct Reader<'a> {
    source: &'a str,
    attributes: Vec<Attribute>,
    /// For each attribute, its place among the inputs or the targets.
    inputs: Vec<Option<usize>>,
    targets: Vec<Option<usize>>,
    names: Vec<String>,
}

pub(super) fn parse(
    mut lines: Lines<'_>,
    source: &str,
    options: &ReadOptions,
    labels: Option<Labels>,
) -> Result<Examples> {
    let mut attributes: Vec<Attribute> = Vec::new();
    let mut has_data = false;
    let mut announced = None;
    while let Some((line, row)) = lines.next()? {
        let row = row.trim();
        if row.is_empty() || row.starts_with('%') {
            continue;
        }
        let (word, rest) = row.split_once(char::is_whitespace).unwrap_or((row, ""));
        match word.to_ascii_lowercase().as_str() {
            "@relation" => announced = label_count(rest).map(|count| (line, count)),
            "@attribute" => {
                let made = attribute(rest.trim(), source, line)?;
                if attributes.iter().any(|other| other.name == made.name) {
                    return Err(fail(source, line, format!("two attributes have the name `{}`", made.name)));
                }
                attributes.push(made);
            }
            "@data" => {
                has_data = true;
                break;
            }
            _ => {
                return Err(fail(source, line, format!("`{word}` is unknown; expected @attribute or @data")));
            }
        }
    }
    if !has_data {
        return Err(fail(source, 0, "the file ends before @data"));
    }
    if let (Some((line, count)), Some(Labels { names, xml: Some((xml, _)) })) = (announced, &labels)
        && count != names.len()
    {
        let message = format!("the relation has {count} labels (-C), but {xml} lists {}", names.len());
        return Err(fail(source, line, message));
    }
    let reader = Reader::new(source, attributes, options, labels)?;
    reader.rows(lines, options)
}

impl<'a> Reader<'a> {
    fn new(
        source: &'a str,
        attributes: Vec<Attribute>,
        options: &ReadOptions,
        labels: Option<Labels>,
    ) -> Result<Self> {
        let mut targets = vec![None; attributes.len()];
        let mut names = Vec::new();
        if options.space == Space::Hierarchy {
            let place =
                attributes.iter().position(|attribute| matches!(attribute.kind, Kind::Hierarchical(_)));
            match place {
                Some(place) => targets[place] = Some(0),
                None if options.known.is_some() => {}
                None => return Err(fail(source, 0, "no attribute has the type hierarchical")),
            }
        } else if let Some(Labels { names: wanted, xml }) = labels {
            for (place, name) in wanted.iter().enumerate() {
                match attributes.iter().position(|attribute| attribute.name == *name) {
                    Some(at) => targets[at] = Some(place),
                    None if options.known.is_some() && xml.is_none() => {}
                    None => {
                        return Err(match &xml {
                            Some((xml, lines)) => {
                                let message = format!("the label `{name}` is no attribute of {source}");
                                fail(xml, lines[place], message)
                            }
                            None => fail(source, 0, format!("there is no attribute `{name}` of targets")),
                        });
                    }
                }
            }
            let found = targets.iter().flatten().count();
            if found > 0 && found < wanted.len() {
                let lost = wanted.iter().enumerate().find(|(place, _)| !targets.contains(&Some(*place)));
                let lost = lost.map_or("", |(_, name)| name);
                return Err(fail(source, 0, format!("the model's label `{lost}` is no attribute")));
            }
            // An attribute among the labels that the XML file lacks would become an input. Where labels come first, one
            // after the last of them cannot be told apart from an input without the number of labels (-C).
            let labelled = |at: &usize| targets[*at].is_some();
            let first = (0..targets.len()).find(labelled).unwrap_or(0);
            let end =
                (0..targets.len()).rfind(labelled).filter(|_| first == 0).map_or(targets.len(), |at| at + 1);
            let missing = (first..end).find(|at| !labelled(at));
            if let (Some((xml, _)), Some(at), true) = (&xml, missing, found > 0) {
                let Attribute { name, line, .. } = &attributes[at];
                let place = if first == 0 { "between" } else { "after" };
                let message =
                    format!("the attribute `{name}` comes {place} labels, but {xml} does not list it");
                return Err(fail(source, *line, message));
            }
            names = wanted;
        } else {
            let message = "no labels are known: give the XML file that lists them, or their names";
            return Err(fail(source, 0, message));
        }
        let mut next = 0;
        let mut inputs = Vec::with_capacity(attributes.len());
        for (attribute, target) in attributes.iter().zip(&targets) {
            if target.is_none() && matches!(attribute.kind, Kind::Hierarchical(_)) {
                let message =
                    format!("attribute {} is hierarchical; expected --space hierarchy", attribute.name);
                return Err(fail(source, attribute.line, message));
            }
            inputs.push(target.is_none().then(|| {
                next += 1;
                next - 1
            }));
        }
        Ok(Reader { source, attributes, inputs, targets, names })
    }

    fn cell(&self, at: usize, cell: &str, line: usize) -> Result<f64> {
        let attribute = &self.attributes[at];
        if is_missing(cell) {
            return Ok(f64::NAN);
        }
        match &attribute.kind {
            Kind::Nominal(levels) => {
                levels.iter().position(|level| level == cell).map(|level| level as f64).ok_or_else(|| {
                    let message = format!(
                        "column {} is `{cell}`, expected one of {}",
                        attribute.name,
                        levels.join(", ")
                    );
                    fail(self.source, line, message)
                })
            }
            _ => number(cell, &attribute.name, self.source, line),
        }
    }

    fn rows(self, mut rows: Lines<'_>, options: &ReadOptions) -> Result<Examples> {
        let source = self.source;
        let width = self.inputs.iter().flatten().count();
        let classes = self.attributes.iter().find_map(|attribute| match &attribute.kind {
            Kind::Hierarchical(classes) => Some((attribute.name.clone(), classes.clone())),
            _ => None,
        });
        let classes = classes.map(|(name, classes)| match &options.known {
            Some(known) => (name, Classes::of(&known.names, &known.parents)),
            None => (name, classes),
        });
        let count = classes.as_ref().map_or(self.names.len(), |(_, classes)| classes.names.len());
        let has_targets = self.targets.iter().any(Option::is_some);
        let mut collected = Collected::new(options, count);
        let (mut dense, mut lines) = (Vec::new(), Vec::new());
        let (mut ends, mut indices, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
        while let Some((line, row)) = rows.next()? {
            let row = row.trim();
            if row.is_empty() || row.starts_with('%') {
                continue;
            }
            // A hierarchy has one cell of targets, the path.
            let mut own = vec![String::new(); if classes.is_some() { 0 } else { count }];
            let mut path = String::new();
            let sparse = row.starts_with('{');
            if sparse && !dense.is_empty() || !sparse && !ends.is_empty() {
                return Err(fail(source, line, "sparse and dense rows in one file"));
            }
            let mut put = |at: usize, cell: String, numbers: &mut Vec<(usize, f64)>| -> Result<()> {
                match (self.targets[at], self.inputs[at]) {
                    (Some(place), _) if options.space != Space::Hierarchy => own[place] = cell,
                    (Some(_), _) => path = cell,
                    (None, Some(place)) => numbers.push((place, self.cell(at, &cell, line)?)),
                    (None, None) => {}
                }
                Ok(())
            };
            let mut found: Vec<(usize, f64)> = Vec::new();
            if sparse {
                let mut given = vec![false; self.attributes.len()];
                let inside = row.strip_prefix('{').and_then(|row| row.rfind('}').map(|end| &row[..end]));
                let inside = inside.ok_or_else(|| fail(source, line, "the row has no closing }"))?;
                let mut rest = inside.trim();
                while !rest.is_empty() {
                    let (index, after) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
                    let at = index.parse::<usize>().ok().filter(|at| *at < self.attributes.len());
                    let at = at.ok_or_else(|| {
                        let most = self.attributes.len() - 1;
                        fail(
                            source,
                            line,
                            format!("`{index}` is no attribute; expected a number from 0 to {most}"),
                        )
                    })?;
                    if std::mem::replace(&mut given[at], true) {
                        return Err(fail(source, line, format!("attribute {at} is given twice")));
                    }
                    let (cell, after) = token(after, &[',']).ok_or_else(|| {
                        fail(source, line, format!("`{after}`: the quotation mark is never closed"))
                    })?;
                    put(at, cell, &mut found)?;
                    rest = after.trim_start().strip_prefix(',').unwrap_or("").trim_start();
                }
                // What is not given is 0, which for nominal attributes is the first value.
                for (at, target) in self.targets.iter().enumerate().filter(|(at, _)| !given[*at]) {
                    if let (Some(place), Kind::Nominal(levels)) = (target, &self.attributes[at].kind) {
                        own[*place] = levels.first().cloned().unwrap_or_default();
                    } else if let Some(place) = target.filter(|_| options.space != Space::Hierarchy) {
                        own[place] = "0".into();
                    }
                }
                found.sort_by_key(|(place, _)| *place);
                for (place, value) in found.into_iter().filter(|(_, value)| *value != 0.0) {
                    indices.push(place as u32);
                    numbers.push(value);
                }
                ends.push(numbers.len());
            } else {
                let plain = !row.contains(['\'', '"']);
                let cells: Vec<String> = if plain {
                    row.split(',').map(|cell| cell.trim().to_owned()).collect()
                } else {
                    values(row).ok_or_else(|| fail(source, line, "a quotation mark is never closed"))?
                };
                if cells.len() != self.attributes.len() {
                    let message = format!("found {} values, expected {}", cells.len(), self.attributes.len());
                    return Err(fail(source, line, message));
                }
                for (at, cell) in cells.into_iter().enumerate() {
                    put(at, cell, &mut found)?;
                }
                dense.extend(found.into_iter().map(|(_, value)| value));
            }
            if has_targets {
                match &classes {
                    Some((name, classes)) => {
                        collected.add_nodes(classes.nodes(&path, name, source, line)?)?
                    }
                    None => {
                        let cells: Vec<&str> = own.iter().map(String::as_str).collect();
                        collected.add(&cells, &self.names, source, line)?;
                    }
                }
            }
            lines.push(line);
        }
        let columns = self.attributes.into_iter().zip(&self.inputs).filter(|(_, place)| place.is_some());
        let columns: Vec<InputColumn> = columns
            .map(|(attribute, _)| InputColumn {
                name: attribute.name,
                levels: if let Kind::Nominal(levels) = attribute.kind { Some(levels) } else { None },
            })
            .collect();
        debug_assert_eq!(columns.len(), width);
        let (names, parents) = match (classes, &options.known) {
            (Some((_, classes)), _) => (classes.names, classes.parents),
            (None, Some(known)) => (known.names.clone(), known.parents.clone()),
            (None, None) => (self.names, Vec::new()),
        };
        let cells = if ends.is_empty() {
            Cells::Dense(dense)
        } else {
            Cells::Sparse { ends, indices, values: numbers }
        };
        let targets = has_targets.then(|| collected.finish());
        Ok(Examples { source: source.into(), lines, columns, cells, names, parents, targets, weights: None })
    }
}
