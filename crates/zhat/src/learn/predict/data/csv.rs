//! Plain tables with named target columns. A column with a value that is no number is categorical.

use super::hierarchy::{Classes, check_path};
use super::{Cells, Collected, Examples, InputColumn, ReadOptions, Space, fail, is_missing, number};
use crate::error::Result;
use crate::io::table::fields::{Sink, each_row};
use crate::io::table::{check_names, guess_delimiter};

/// All rows as text.
#[derive(Default)]
struct Table {
    row: Vec<String>,
    rows: Vec<Vec<String>>,
    lines: Vec<usize>,
}

impl Sink for Table {
    fn field(&mut self, _: usize, value: &[u8], _: bool, _: usize) -> Result<()> {
        self.row.push(String::from_utf8_lossy(value).into_owned());
        Ok(())
    }

    fn end(&mut self, _: usize, line: usize) -> Result<()> {
        self.rows.push(std::mem::take(&mut self.row));
        self.lines.push(line);
        Ok(())
    }
}

/// Whether a name is `L` and a number, the usual name of a rank.
fn is_rank(name: &str) -> bool {
    name.strip_prefix('L')
        .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
}

pub(super) fn parse(text: &str, source: &str, options: &ReadOptions) -> Result<Examples> {
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let mut table = Table::default();
    each_row(text.as_bytes(), 1, guess_delimiter(first.as_bytes()), &mut table)?;
    let Table { mut rows, mut lines, .. } = table;
    if rows.is_empty() {
        return Err(fail(source, 1, "the table is empty"));
    }
    let (names, line) = (rows.remove(0), lines.remove(0));
    check_names(names.iter().map(String::as_str)).map_err(|error| fail(source, line, error.to_string()))?;
    for (row, &line) in rows.iter().zip(&lines) {
        if row.len() != names.len() {
            return Err(fail(source, line, format!("found {} values, expected {}", row.len(), names.len())));
        }
    }
    let find = |name: &String| names.iter().position(|other| other == name);
    // The target columns, in the order of the model's names or of the table.
    let wanted: Vec<String> = match (&options.known, options.labels.is_empty()) {
        (_, false) => options.labels.clone(),
        (Some(known), true) if options.space != Space::Hierarchy => known.names.clone(),
        (_, true) if options.space == Space::Ranking => {
            names.iter().filter(|name| is_rank(name)).cloned().collect()
        }
        (_, true) if options.space == Space::Hierarchy => {
            names.iter().filter(|name| *name == "class").cloned().collect()
        }
        _ => Vec::new(),
    };
    let known = options.known.is_some();
    if wanted.is_empty() && !known {
        let message = "no target columns; name them, such as --labels a,b,c";
        return Err(fail(source, line, message));
    }
    let places: Vec<Option<usize>> = wanted.iter().map(find).collect();
    if let Some(at) =
        places.iter().position(Option::is_none).filter(|_| !known || places.iter().any(Option::is_some))
    {
        return Err(fail(source, line, format!("there is no column `{}` of targets", wanted[at])));
    }
    let places: Vec<usize> = places.into_iter().flatten().collect();
    let inputs: Vec<usize> = (0..names.len()).filter(|i| !places.contains(i)).collect();
    let mut columns = Vec::with_capacity(inputs.len());
    for &i in &inputs {
        let numeric = rows.iter().all(|row| is_missing(&row[i]) || row[i].parse::<f64>().is_ok());
        let levels = (!numeric).then(|| {
            let mut levels: Vec<String> =
                rows.iter().map(|row| row[i].clone()).filter(|cell| !is_missing(cell)).collect();
            levels.sort_unstable();
            levels.dedup();
            levels
        });
        columns.push(InputColumn { name: names[i].clone(), levels });
    }
    let mut cells = Vec::with_capacity(rows.len() * inputs.len());
    for (row, &line) in rows.iter().zip(&lines) {
        for (&i, column) in inputs.iter().zip(&columns) {
            let cell = row[i].as_str();
            cells.push(match &column.levels {
                _ if is_missing(cell) => f64::NAN,
                Some(levels) => levels.binary_search_by(|level| level.as_str().cmp(cell)).unwrap_or(0) as f64,
                None => number(cell, &column.name, source, line)?,
            });
        }
    }
    let mut examples = Examples {
        source: source.into(),
        lines,
        columns,
        cells: Cells::Dense(cells),
        names: wanted.clone(),
        parents: Vec::new(),
        targets: None,
        weights: None,
    };
    if options.space == Space::Hierarchy {
        hierarchy(&mut examples, &rows, &names, &places, options)?;
    } else {
        if let Some(known) = &options.known {
            examples.names.clone_from(&known.names);
        }
        if !places.is_empty() {
            let mut collected = Collected::new(options, places.len());
            for (row, &line) in rows.iter().zip(&examples.lines) {
                let cells: Vec<&str> = places.iter().map(|&place| row[place].as_str()).collect();
                collected.add(&cells, &wanted, source, line)?;
            }
            examples.targets = Some(collected.finish());
        }
    }
    Ok(examples)
}

/// One column of paths; the hierarchy is that of the model, or consists of all paths of the column.
fn hierarchy(
    examples: &mut Examples,
    rows: &[Vec<String>],
    names: &[String],
    places: &[usize],
    options: &ReadOptions,
) -> Result<()> {
    let mut classes = match &options.known {
        Some(known) => Classes::of(&known.names, &known.parents),
        None => Classes::default(),
    };
    if let Some(&place) = places.first() {
        if options.known.is_none() {
            for (row, &line) in rows.iter().zip(&examples.lines) {
                for path in row[place].split('@').map(str::trim).filter(|path| !path.is_empty()) {
                    check_path(path, &examples.source, line)?;
                    classes.insert(path);
                }
            }
        }
        let mut collected = Collected::new(options, classes.names.len());
        for (row, &line) in rows.iter().zip(&examples.lines) {
            collected.add_nodes(classes.nodes(&row[place], &names[place], &examples.source, line)?)?;
        }
        examples.targets = Some(collected.finish());
    }
    examples.names = classes.names;
    examples.parents = classes.parents;
    Ok(())
}
