//! Data sets for structured predictors, read from files: inputs and, where the file has them, targets.
//!
//! | format | inputs | targets |
//! |---|---|---|
//! | Mulan: ARFF with a list of labels in XML | attributes, dense or sparse rows | nominal attributes `{0,1}` |
//! | Clus: ARFF with an attribute of type `hierarchical` | attributes | paths such as `1/2@1/3/4` |
//! | libsvm, multi-label | `index:value` | label numbers, separated by commas |
//! | CSV | columns | named columns; `L1`, `L2`, … for rankings; one column of paths for hierarchies |
//!
//! A missing value is empty, `?`, `NA` or `NaN`. All errors name file, line and token.

mod arff;
mod csv;
mod hierarchy;
mod libsvm;
mod lines;
mod xml;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use self::lines::Lines;
use super::{Blocks, Ranks, Sets, Targets};
use crate::error::{Error, Result};
use crate::io::{OpenInput, input_text, read_input};

/// The space of structures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Space {
    /// Sets of labels.
    #[default]
    Labels,
    /// Orders of items.
    Ranking,
    /// Nodes of a hierarchy, closed under parents.
    Hierarchy,
    /// Partitions of elements.
    Partition,
}

impl Space {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Space::Labels => "labels",
            Space::Ranking => "ranking",
            Space::Hierarchy => "hierarchy",
            Space::Partition => "partition",
        }
    }
}

/// How to read a data set.
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    /// The space of the targets.
    pub space: Space,
    /// The columns with the targets. By default those of the XML file, of type `hierarchical`, or named `L1`,
    /// `L2`, ….
    pub labels: Vec<String>,
    /// The XML file with the labels. By default the file of the same name with the extension `xml`, if it
    /// exists.
    pub xml: Option<PathBuf>,
    /// Accepts rankings with ties and with items that are not ranked; otherwise every row must be a permutation.
    pub partial: bool,
    /// The number of inputs of a libsvm file; by default the largest index.
    pub inputs: Option<usize>,
    /// The labels, nodes, items or elements of a known model; a file without targets is then accepted.
    pub known: Option<Known>,
}

/// The names of a model, to which a file must fit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// The labels, nodes, items or elements.
    pub names: Vec<String>,
    /// The parents of nodes.
    pub parents: Vec<Option<usize>>,
    /// The number of input columns, for libsvm files.
    pub columns: usize,
}

/// An input column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputColumn {
    /// Its name.
    pub name: String,
    /// The categories of a categorical column; none for a numeric one.
    pub levels: Option<Vec<String>>,
}

/// The cells of the inputs. Missing cells are NaN; cells of categorical columns are indices of categories.
#[derive(Clone, Debug, PartialEq)]
pub enum Cells {
    /// Row by row.
    Dense(Vec<f64>),
    /// Row r has the cells up to `ends[r]`; the others are 0.
    Sparse {
        /// The end of each row.
        ends: Vec<usize>,
        /// The columns.
        indices: Vec<u32>,
        /// The values.
        values: Vec<f64>,
    },
}

/// A data set as read from a file.
#[derive(Clone, Debug)]
pub struct Examples {
    /// The file name, for messages.
    pub source: String,
    /// The line of each row.
    pub lines: Vec<usize>,
    /// The input columns.
    pub columns: Vec<InputColumn>,
    /// The inputs.
    pub cells: Cells,
    /// The labels, nodes, items or elements.
    pub names: Vec<String>,
    /// The parent of every node of a hierarchy.
    pub parents: Vec<Option<usize>>,
    /// The targets, if the file has them.
    pub targets: Option<Targets>,
    /// The weights of the rows in training; none if all are 1.
    pub weights: Option<Vec<f64>>,
}

impl Examples {
    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.lines.len()
    }

    /// Takes the weights of the rows from an input column, which is then no longer an input.
    ///
    /// # Errors
    /// If there is no such column, it is categorical, or a weight is missing, negative or infinite.
    pub fn take_weights(&mut self, name: &str) -> Result<()> {
        let known = self.columns.iter().position(|column| column.name == name);
        let Some(place) = known else {
            return Err(fail(&self.source, 0, format!("there is no input column `{name}` with weights")));
        };
        if self.columns[place].levels.is_some() {
            let message = format!("column {name} is categorical; weights must be numbers");
            return Err(fail(&self.source, 0, message));
        }
        let (rows, width) = (self.rows(), self.columns.len());
        let mut weights = vec![0.0; rows];
        match &mut self.cells {
            Cells::Dense(values) => {
                let mut at = 0;
                values.retain(|&value| {
                    let (row, column) = (at / width, at % width);
                    at += 1;
                    if column == place {
                        weights[row] = value;
                    }
                    column != place
                });
            }
            Cells::Sparse { ends, indices, values } => {
                let (mut kept, mut start) = (0, 0);
                for (row, end) in ends.iter_mut().enumerate() {
                    for at in start..*end {
                        let (column, value) = (indices[at] as usize, values[at]);
                        if column == place {
                            weights[row] = value;
                            continue;
                        }
                        indices[kept] = (column - usize::from(column > place)) as u32;
                        values[kept] = value;
                        kept += 1;
                    }
                    start = *end;
                    *end = kept;
                }
                indices.truncate(kept);
                values.truncate(kept);
            }
        }
        if let Some(row) = weights.iter().position(|weight| !(weight.is_finite() && *weight >= 0.0)) {
            let found = weights[row];
            let found = if found.is_nan() { "missing".into() } else { found.to_string() };
            let message = format!("column {name}: the weight is {found}, expected a number from 0");
            return Err(fail(&self.source, self.lines[row], message));
        }
        self.columns.remove(place);
        self.weights = Some(weights);
        Ok(())
    }

    /// The targets, or an error if the file has none.
    ///
    /// # Errors
    /// If the file has no targets.
    pub fn observed(&self) -> Result<&Targets> {
        self.targets.as_ref().ok_or_else(|| fail(&self.source, 0, "the file has no targets"))
    }
}

/// An error at a line of a file.
pub(crate) fn fail(source: &str, line: usize, message: impl Into<String>) -> Error {
    Error::Parse { source_name: source.into(), line, message: message.into() }
}

/// Reads a data set; the format is recognised from the content. `-` is the standard input.
///
/// # Errors
/// If the file cannot be read or does not follow its format.
pub fn read_examples(path: &Path, options: &ReadOptions) -> Result<Examples> {
    let mut input = OpenInput::open(path)?;
    let source = &input.source_name.clone();
    // The first line that is neither empty nor a comment tells the format.
    let (mut start, mut at) = (Vec::new(), 0);
    let first = loop {
        if !input.read_line(&mut start)? {
            return Err(fail(source, 1, "the file is empty; expected a data set"));
        }
        let line = String::from_utf8_lossy(&start[at..]);
        let line = line.trim_start_matches('\u{feff}').trim();
        if !line.is_empty() && !line.starts_with('%') {
            break line.to_owned();
        }
        at = start.len();
    };
    let examples = if first.starts_with('@') {
        let labels = label_names(path, options)?;
        arff::parse(Lines::after(start, input), source, options, labels)?
    } else if libsvm::looks_like(&first) {
        libsvm::parse(Lines::after(start, input), source, options)?
    } else {
        input.read_rest(&mut start)?;
        csv::parse(&input_text(start, source)?, source, options)?
    };
    if examples.rows() == 0 {
        return Err(fail(source, 0, "the file has no rows"));
    }
    Ok(examples)
}

/// The labels of an ARFF file.
#[derive(Clone, Debug)]
pub(crate) struct Labels {
    names: Vec<String>,
    /// The XML file that lists them, and the line of each.
    xml: Option<(String, Vec<usize>)>,
}

/// The labels of an ARFF file: given, of the model, or listed in XML.
fn label_names(path: &Path, options: &ReadOptions) -> Result<Option<Labels>> {
    if options.space == Space::Hierarchy {
        return Ok(None);
    }
    if !options.labels.is_empty() {
        return Ok(Some(Labels { names: options.labels.clone(), xml: None }));
    }
    let beside = path.with_extension("xml");
    let xml = match &options.xml {
        Some(xml) => Some(xml.clone()),
        None => Some(beside).filter(|beside| path != Path::new("-") && beside.exists()),
    };
    match (xml, &options.known) {
        (Some(xml), _) => {
            let input = read_input(&xml)?;
            Ok(Some(xml::labels(&input.text, &input.source_name)?))
        }
        (None, Some(known)) => Ok(Some(Labels { names: known.names.clone(), xml: None })),
        (None, None) => Ok(None),
    }
}

/// Whether a cell is missing.
pub(crate) fn is_missing(token: &str) -> bool {
    matches!(token, "" | "?" | "NA" | "NaN" | "nan")
}

/// A finite number.
pub(crate) fn number(token: &str, column: &str, source: &str, line: usize) -> Result<f64> {
    match token.parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(number),
        Ok(_) => Err(fail(source, line, format!("column {column} is `{token}`, expected a finite number"))),
        Err(_) => Err(fail(source, line, format!("column {column} is `{token}`, expected a number"))),
    }
}

/// Targets from the cells of the target columns of one row, in the order of the names.
pub(crate) struct Collected {
    space: Space,
    partial: bool,
    targets: Targets,
}

impl Collected {
    pub fn new(options: &ReadOptions, width: usize) -> Self {
        let space = options.space;
        let targets = match space {
            Space::Labels | Space::Hierarchy => Targets::Sets(Sets { width, ..Default::default() }),
            Space::Ranking => Targets::Ranks(Ranks { items: width, ranks: Vec::new() }),
            Space::Partition => Targets::Blocks(Blocks { elements: width, blocks: Vec::new() }),
        };
        Collected { space, partial: options.partial, targets }
    }

    /// Adds a row of cells.
    pub fn add(&mut self, cells: &[&str], names: &[String], source: &str, line: usize) -> Result<()> {
        let wrong = |at: usize, expected: &str| {
            fail(source, line, format!("column {} is `{}`, expected {expected}", names[at], cells[at]))
        };
        match &mut self.targets {
            Targets::Sets(sets) => {
                let mut members = Vec::new();
                for (at, cell) in cells.iter().enumerate() {
                    match *cell {
                        "1" | "1.0" | "true" | "True" => members.push(at as u32),
                        "0" | "0.0" | "false" | "False" => {}
                        _ => return Err(wrong(at, "0 or 1")),
                    }
                }
                sets.push(members)?;
            }
            Targets::Ranks(ranks) => {
                let start = ranks.ranks.len();
                for (at, cell) in cells.iter().enumerate() {
                    let rank = match cell.parse::<f64>() {
                        _ if is_missing(cell) => 0,
                        Ok(rank) if rank.fract() == 0.0 && (1.0..=1e9).contains(&rank) => rank as u32,
                        _ => {
                            ranks.ranks.truncate(start);
                            return Err(wrong(at, "a rank: a whole number of at least 1, or nothing"));
                        }
                    };
                    ranks.ranks.push(rank);
                }
                let own = &ranks.ranks[start..];
                let most = own.len() as u32;
                let bad = own.iter().position(|rank| *rank > most || *rank == 0 && !self.partial);
                let repeated = (0..own.len()).find(|&at| own[at] > 0 && own[..at].contains(&own[at]));
                let error = match (bad, repeated) {
                    (Some(at), _) => Some(wrong(at, &format!("a rank from 1 to {most}"))),
                    (None, Some(at)) if !self.partial => {
                        Some(wrong(at, "a rank that no other item of the row has"))
                    }
                    _ => None,
                };
                if let Some(error) = error {
                    ranks.ranks.truncate(start);
                    return Err(error);
                }
            }
            Targets::Blocks(blocks) => {
                let start = blocks.blocks.len();
                let mut seen: Vec<&str> = Vec::new();
                for (at, cell) in cells.iter().enumerate() {
                    if is_missing(cell) {
                        blocks.blocks.truncate(start);
                        return Err(wrong(at, "the name of a block"));
                    }
                    let block = seen.iter().position(|known| known == cell).unwrap_or_else(|| {
                        seen.push(cell);
                        seen.len() - 1
                    });
                    blocks.blocks.push(block as u32);
                }
            }
        }
        Ok(())
    }

    /// Adds a row of nodes.
    pub fn add_nodes(&mut self, nodes: Vec<u32>) -> Result<()> {
        match &mut self.targets {
            Targets::Sets(sets) => sets.push(nodes),
            _ => Err(Error::argument(
                "space",
                format!("paths are targets of a hierarchy, not of a {}", self.space.name()),
            )),
        }
    }

    pub fn finish(self) -> Targets {
        self.targets
    }
}

#[cfg(test)]
mod tests;
