//! Multi-label files of libsvm: `1,3 4:0.5 7:1`, with label numbers and inputs from 1 (labels may start at 0).

use std::collections::{BTreeSet, HashMap};

use super::lines::Lines;
use super::{Cells, Examples, InputColumn, ReadOptions, Space, fail, number};
use crate::error::Result;
use crate::learn::predict::{Sets, Targets};

/// Whether a line has inputs `index:value`.
pub(super) fn looks_like(line: &str) -> bool {
    let mut tokens = line.split_whitespace();
    let labels = tokens.next().unwrap_or_default();
    let is_input = |token: &str| {
        let (index, value) = token.split_once(':').unwrap_or(("", ""));
        index.parse::<u32>().is_ok() && value.parse::<f64>().is_ok()
    };
    let is_label = |token: &str| token.split(',').all(|label| label.parse::<u32>().is_ok());
    is_input(labels) || is_label(labels) && tokens.next().is_some_and(is_input)
}

pub(super) fn parse(mut text: Lines<'_>, source: &str, options: &ReadOptions) -> Result<Examples> {
    if options.space != Space::Labels {
        let message = format!("a libsvm file has labels; a {} cannot be read from it", options.space.name());
        return Err(fail(source, 1, message));
    }
    let (mut lines, mut ends, mut indices, mut values) = (vec![], vec![], vec![], vec![]);
    let mut rows: Vec<Vec<u32>> = Vec::new();
    let mut most = options.known.as_ref().map_or(options.inputs.unwrap_or(0), |known| known.columns);
    let limit = (options.known.is_some() || options.inputs.is_some()).then_some(most);
    while let Some((line, row)) = text.next()? {
        let row = row.split('#').next().unwrap_or_default();
        let mut tokens = row.split_whitespace().peekable();
        let Some(first) = tokens.peek() else { continue };
        let mut labels = Vec::new();
        if !first.contains(':') {
            let list = tokens.next().unwrap_or_default();
            for token in list.split(',') {
                let label = token.parse::<u32>().ok().filter(|label| *label < u32::MAX);
                labels.push(label.ok_or_else(|| {
                    fail(source, line, format!("`{token}` is no label number; expected a list such as 1,3"))
                })?);
            }
        }
        let mut last = 0;
        for token in tokens {
            let (index, value) = token
                .split_once(':')
                .ok_or_else(|| fail(source, line, format!("`{token}` is no input; expected index:value")))?;
            let index = index.parse::<u32>().ok().filter(|index| *index >= 1).ok_or_else(|| {
                fail(
                    source,
                    line,
                    format!("`{token}`: the index of an input is a whole number of at least 1"),
                )
            })?;
            if index <= last {
                return Err(fail(source, line, format!("`{token}`: indices must increase")));
            }
            if let Some(limit) = limit.filter(|limit| index as usize > *limit) {
                return Err(fail(source, line, format!("`{token}`: there are only {limit} inputs")));
            }
            last = index;
            most = most.max(index as usize);
            let value = number(value, &index.to_string(), source, line)?;
            if value != 0.0 {
                indices.push(index - 1);
                values.push(value);
            }
        }
        lines.push(line);
        ends.push(values.len());
        rows.push(labels);
    }
    let names: Vec<String> = match &options.known {
        Some(known) => known.names.clone(),
        None => {
            let all: BTreeSet<u32> = rows.iter().flatten().copied().collect();
            all.iter().map(u32::to_string).collect()
        }
    };
    // As text: the names of a model need not be numbers.
    let places: HashMap<&str, u32> = names.iter().map(String::as_str).zip(0..).collect();
    let mut sets = Sets { width: names.len(), ..Default::default() };
    for (row, &line) in rows.iter().zip(&lines) {
        let mut members = Vec::with_capacity(row.len());
        for label in row {
            let place = places.get(label.to_string().as_str()).copied();
            members.push(
                place.ok_or_else(|| {
                    fail(source, line, format!("the model does not know the label `{label}`"))
                })?,
            );
        }
        sets.push(members)?;
    }
    Ok(Examples {
        source: source.into(),
        lines,
        columns: (1..=most).map(|i| InputColumn { name: i.to_string(), levels: None }).collect(),
        cells: Cells::Sparse { ends, indices, values },
        names,
        parents: Vec::new(),
        targets: Some(Targets::Sets(sets)),
        weights: None,
    })
}
