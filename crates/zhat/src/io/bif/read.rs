//! The BIF reader: declarations first, then tables.

use std::collections::HashMap;

use super::super::network::{check_sum, on_a_cycle};
use super::super::tokens::shown;
use super::super::words::{Word, Words};
use super::STYLE;
use crate::decimal::parse_log;
use crate::error::Result;
use crate::model::{FactorGraph, NetworkType, table};
use crate::platform;

/// Memory per declared state while a file is read: its name, and its entries in the lookup tables.
const BYTES_PER_STATE: f64 = 200.0;
/// Memory per table entry while a file is read.
const BYTES_PER_ENTRY: f64 = 32.0;

/// Reads a model; `name` is the file's name for messages.
///
/// # Errors
/// If the text is not in the format, a row does not sum to 1 within 0.01, the variables form a directed
/// cycle, or the tables do not fit in memory.
pub fn parse_model(bytes: &[u8], name: &str) -> Result<FactorGraph> {
    let mut network = Network { free: platform::available_memory() as f64, ..Network::default() };
    // Tables can only be read once all variables are known, and variables may be declared anywhere.
    let mut words = Words::new(bytes, name, STYLE);
    each_block(&mut words, |words, block| match block {
        Block::Variable => network.read_variable(words),
        Block::Probability => words.skip_block(),
    })?;
    let states = network.variables.iter().map(|variable| variable.states.len()).collect();
    let graph = FactorGraph::new(states).map_err(|error| words.error(error.to_string()))?;
    let mut graph = graph.with_network_type(NetworkType::Bayes);
    let mut words = Words::new(bytes, name, STYLE);
    each_block(&mut words, |words, block| match block {
        Block::Variable => words.skip_block(),
        Block::Probability => network.read_probability(words, &mut graph),
    })?;
    if let Some(variable) = network.variables.iter().find(|variable| variable.table_line.is_none()) {
        let message = format!("variable `{}` has no `probability` block", shown(variable.name));
        return Err(words.error_at(variable.line, message));
    }
    if let Some(v) = on_a_cycle(&graph) {
        let variable = &network.variables[v];
        let message = format!(
            "variable `{}` is its own ancestor; a Bayesian network has no cycles",
            shown(variable.name)
        );
        return Err(words.error_at(variable.table_line.unwrap_or(variable.line), message));
    }
    let owned = |name: &&[u8]| String::from_utf8_lossy(name).into_owned();
    let names = network.variables.iter().map(|variable| owned(&variable.name)).collect();
    let states = network.variables.iter().map(|variable| variable.states.iter().map(owned).collect());
    graph.with_names(names, states.collect()).map_err(|error| words.error(error.to_string()))
}

#[derive(Clone, Copy)]
enum Block {
    Variable,
    Probability,
}

/// Reads the heading, then calls `read` after the keyword of every block.
fn each_block<'a>(
    words: &mut Words<'a>,
    mut read: impl FnMut(&mut Words<'a>, Block) -> Result<()>,
) -> Result<()> {
    let word = words.expect("`network`")?;
    if !word.is("network") {
        return Err(words.unexpected(word, "`network`"));
    }
    while words.expect("`{`")? != Word::Mark(b'{') {}
    loop {
        match words.expect("`}`")? {
            Word::Mark(b'}') => break,
            word if word.is("property") => words.skip_property()?,
            word => return Err(words.unexpected(word, "`property` or `}`")),
        }
    }
    while let Some(word) = words.next()? {
        match word {
            Word::Plain(b"variable") => read(words, Block::Variable)?,
            Word::Plain(b"probability") => read(words, Block::Probability)?,
            Word::Plain(b"property") => words.skip_property()?,
            word => return Err(words.unexpected(word, "`variable`, `probability` or `property`")),
        }
    }
    Ok(())
}

struct Variable<'a> {
    name: &'a [u8],
    states: Vec<&'a [u8]>,
    line: usize,
    /// The line of its probabilities, once they have been read.
    table_line: Option<usize>,
}

/// The declarations read so far.
#[derive(Default)]
struct Network<'a> {
    variables: Vec<Variable<'a>>,
    by_name: HashMap<&'a [u8], usize>,
    states: HashMap<(usize, &'a [u8]), usize>,
    /// The remaining memory, in bytes.
    free: f64,
}

impl<'a> Network<'a> {
    /// Reserves memory, or fails. The check is needed because a short `default` can demand any number of
    /// entries.
    fn spend(&mut self, bytes: f64, words: &Words<'_>, what: impl Fn() -> String) -> Result<()> {
        self.free -= bytes;
        if self.free >= 0.0 {
            return Ok(());
        }
        Err(words.error(format!("with {} the network takes more memory than is free", what())))
    }

    fn read_variable(&mut self, words: &mut Words<'a>) -> Result<()> {
        let name = checked(words.name("the name of a variable")?, words)?;
        let (v, line) = (self.variables.len(), words.line());
        if let Some(first) = self.by_name.insert(name, v) {
            return Err(words.error(format!(
                "variable `{}` is declared twice; first in line {}",
                shown(name),
                self.variables[first].line
            )));
        }
        words.mark(b'{')?;
        let mut states = None;
        loop {
            match words.expect("`type`, `property` or `}`")? {
                Word::Mark(b'}') => break,
                word if word.is("property") => words.skip_property()?,
                word if word.is("type") && states.is_none() => {
                    states = Some(self.read_states(words, v, name)?);
                }
                word if word.is("type") => {
                    return Err(words.error(format!("variable `{}` has two types", shown(name))));
                }
                word => return Err(words.unexpected(word, "`type`, `property` or `}`")),
            }
        }
        let Some(states) = states else {
            return Err(words.error(format!(
                "variable `{}` has no type; expected `type discrete [ … ] {{ … }};`",
                shown(name)
            )));
        };
        self.variables.push(Variable { name, states, line, table_line: None });
        Ok(())
    }

    /// Parses `discrete [ 2 ] { yes, no };`.
    fn read_states(&mut self, words: &mut Words<'a>, v: usize, name: &[u8]) -> Result<Vec<&'a [u8]>> {
        let word = words.expect("`discrete`")?;
        if !word.is("discrete") {
            return Err(words.unexpected(word, "`discrete`, the only type that can be read"));
        }
        words.mark(b'[')?;
        let expected = || format!("the number of states of variable `{}`", shown(name));
        let word = words.expect(&expected())?;
        let count: usize = word
            .name()
            .and_then(|text| std::str::from_utf8(text).ok()?.parse().ok())
            .ok_or_else(|| words.unexpected(word, &format!("{}, a whole number", expected())))?;
        words.mark(b']')?;
        let mut word = words.expect("`{`")?;
        if word.is("=") {
            word = words.expect("`{`")?;
        }
        if word != Word::Mark(b'{') {
            return Err(words.unexpected(word, "`{`"));
        }
        let mut states = Vec::new();
        loop {
            let word = words.expect("a state or `}`")?;
            match word {
                Word::Mark(b',') => continue,
                Word::Mark(b'}') => break,
                Word::Mark(_) => return Err(words.unexpected(word, "a state or `}`")),
                Word::Plain(state) | Word::Quoted(state) => {
                    checked(state, words)?;
                    if self.states.insert((v, state), states.len()).is_some() {
                        return Err(words.error(format!(
                            "variable `{}` has two states named `{}`",
                            shown(name),
                            shown(state)
                        )));
                    }
                    states.push(state);
                    self.spend(BYTES_PER_STATE, words, || format!("the states of `{}`", shown(name)))?;
                }
            }
        }
        if states.len() != count {
            return Err(words.error(format!(
                "variable `{}` is to have {count} states, but lists {}",
                shown(name),
                states.len()
            )));
        }
        if count == 0 {
            return Err(words.error(format!(
                "variable `{}` has 0 states; every variable needs at least one",
                shown(name)
            )));
        }
        words.mark(b';')?;
        Ok(states)
    }

    fn find(&self, name: &[u8], words: &Words<'_>) -> Result<usize> {
        let found = self.by_name.get(name).copied();
        found.ok_or_else(|| words.error(format!("there is no variable `{}`", shown(name))))
    }

    /// Parses `( child | parents )`: returns the parents, then the child.
    fn read_scope(&mut self, words: &mut Words<'a>) -> Result<Vec<usize>> {
        words.mark(b'(')?;
        let name = words.name("the name of a variable")?;
        let child = self.find(name, words)?;
        if let Some(line) = self.variables[child].table_line.replace(words.line()) {
            return Err(words.error(format!(
                "the probabilities of `{}` are given twice; first in line {line}",
                shown(name)
            )));
        }
        let (mut scope, mut bar) = (Vec::new(), false);
        loop {
            let word = words.expect("a parent or `)`")?;
            match word {
                Word::Mark(b')') => break,
                Word::Mark(b',') => {}
                // Old files have no bar. A bar after a second variable would mean a joint distribution.
                Word::Mark(b'|') if scope.is_empty() && !bar => bar = true,
                Word::Mark(_) => return Err(words.unexpected(word, "a parent or `)`")),
                Word::Plain(parent) | Word::Quoted(parent) => scope.push(self.find(parent, words)?),
            }
        }
        scope.push(child);
        match table::first_repeated(&scope) {
            None => Ok(scope),
            Some(v) if v == child => {
                Err(words.error(format!("variable `{}` is its own parent", shown(name))))
            }
            Some(v) => Err(words.error(format!(
                "the parent `{}` of `{}` is named twice",
                shown(self.variables[v].name),
                shown(name)
            ))),
        }
    }

    fn read_probability(&mut self, words: &mut Words<'a>, graph: &mut FactorGraph) -> Result<()> {
        let scope = self.read_scope(words)?;
        let (child, parents) = (scope[scope.len() - 1], &scope[..scope.len() - 1]);
        let (name, states) = (self.variables[child].name, self.variables[child].states.len());
        let size = table::size(graph.lengths(&scope));
        let bytes = size.map_or(f64::INFINITY, |size| size as f64 * BYTES_PER_ENTRY);
        self.spend(bytes, words, || format!("the table of `{}`", shown(name)))?;
        let size = size.unwrap_or(usize::MAX);
        let rows = size / states;
        words.mark(b'{')?;
        // A row whose first entry is NaN has not been given yet.
        let mut values = vec![f64::NAN; size];
        let mut default: Option<Vec<f64>> = None;
        let (mut given, mut digits) = (0, Vec::with_capacity(parents.len()));
        loop {
            let word = words.expect("a row or `}`")?;
            match word {
                Word::Mark(b'}') => break,
                Word::Mark(b'(') => {
                    self.read_row_states(words, parents, &mut digits)?;
                    let row = parents
                        .iter()
                        .zip(&digits)
                        .fold(0, |row, (&v, &s)| row * self.variables[v].states.len() + s);
                    let label = || self.row_label(parents, child, row);
                    let line = words.line();
                    let row = &mut values[row * states..][..states];
                    if !row[0].is_nan() {
                        return Err(words.error_at(line, format!("{} is given twice", label())));
                    }
                    read_numbers(words, states, label, |i, log| row[i] = log)?;
                    check_sum(row).map_err(|message| words.error(format!("{} {message}", label())))?;
                    given += 1;
                }
                word if word.is("property") => words.skip_property()?,
                word if word.is("table") => {
                    if given > 0 {
                        return Err(words
                            .error(format!("the rows of `{}` are given before its `table`", shown(name))));
                    }
                    // The child is the first variable of the block, and as in a nested array the last
                    // variable varies fastest: all of P(first state | …), then all of P(second state | …).
                    // The format's authors write their example this way, and pgmpy reads it this way; bnlearn
                    // accepts `table` only without parents. (In their XML format the child varies fastest.)
                    let what = || format!("the table of `{}`", shown(name));
                    read_numbers(words, size, what, |i, log| values[i % rows * states + i / rows] = log)?;
                    for (row, values) in values.chunks(states).enumerate() {
                        let label = || self.row_label(parents, child, row);
                        check_sum(values).map_err(|message| words.error(format!("{} {message}", label())))?;
                    }
                    given = rows;
                }
                word if word.is("default") => {
                    let what = || format!("the default row of `{}`", shown(name));
                    if default.is_some() {
                        return Err(words.error(format!("{} is given twice", what())));
                    }
                    let mut row = vec![0.0; states];
                    read_numbers(words, states, what, |i, log| row[i] = log)?;
                    check_sum(&row).map_err(|message| words.error(format!("{} {message}", what())))?;
                    default = Some(row);
                }
                word => {
                    return Err(words.unexpected(word, "`(`, `table`, `default`, `property` or `}`"));
                }
            }
        }
        if given < rows {
            for (row, values) in values.chunks_mut(states).enumerate().filter(|(_, row)| row[0].is_nan()) {
                let Some(default) = &default else {
                    let label = self.row_label(parents, child, row);
                    return Err(words.error(format!("{label} is missing, and there is no `default`")));
                };
                values.copy_from_slice(default);
            }
        }
        graph.add_factor(&scope, &values).map_err(|error| words.error(error.to_string()))?;
        Ok(())
    }

    /// Parses `yes, no )`: one state of each parent.
    fn read_row_states(
        &self,
        words: &mut Words<'a>,
        parents: &[usize],
        digits: &mut Vec<usize>,
    ) -> Result<()> {
        digits.clear();
        loop {
            let word = words.expect("a parent's state or `)`")?;
            match word {
                Word::Mark(b',') => {}
                Word::Mark(b')') if digits.len() == parents.len() => return Ok(()),
                Word::Mark(b')') => {
                    let found = digits.len();
                    return Err(words.error(format!(
                        "the row names {found} states, but there are {} parents",
                        parents.len()
                    )));
                }
                Word::Mark(_) => return Err(words.unexpected(word, "a parent's state or `)`")),
                Word::Plain(state) | Word::Quoted(state) => {
                    let Some(&v) = parents.get(digits.len()) else {
                        return Err(words.unexpected(word, "`)` after a state of every parent"));
                    };
                    let Some(&s) = self.states.get(&(v, state)) else {
                        return Err(words.error(format!(
                            "variable `{}` has no state `{}`",
                            shown(self.variables[v].name),
                            shown(state)
                        )));
                    };
                    digits.push(s);
                }
            }
        }
    }

    /// The label of a row in messages: the states of its parents.
    fn row_label(&self, parents: &[usize], child: usize, mut row: usize) -> String {
        let mut states = Vec::new();
        for &v in parents.iter().rev() {
            let names = &self.variables[v].states;
            states.push(shown(names[row % names.len()]));
            row /= names.len();
        }
        states.reverse();
        let child = shown(self.variables[child].name);
        if states.is_empty() {
            format!("the row of `{child}`")
        } else {
            format!("the row ({}) of `{child}`", states.join(", "))
        }
    }
}

/// Checks that a name is valid text.
fn checked<'a>(name: &'a [u8], words: &Words<'_>) -> Result<&'a [u8]> {
    match std::str::from_utf8(name) {
        Ok(_) => Ok(name),
        Err(_) => Err(words.error(format!("the name `{}` is not in UTF-8", shown(name)))),
    }
}

/// Reads exactly `count` numbers up to a `;` and passes their logarithms to `put`.
fn read_numbers(
    words: &mut Words<'_>,
    count: usize,
    what: impl Fn() -> String,
    mut put: impl FnMut(usize, f64),
) -> Result<()> {
    let mut found = 0;
    loop {
        match words.expect("a probability or `;`")? {
            Word::Mark(b',') => continue,
            Word::Mark(b';') if found == count => return Ok(()),
            Word::Mark(b';') => {
                return Err(words.error(format!("{} lists {found} values, but needs {count}", what())));
            }
            word => {
                let Some(log) = word.name().and_then(parse_log) else {
                    return Err(
                        words.unexpected(word, "a probability, a finite number that is 0 or more, or `;`")
                    );
                };
                if found < count {
                    put(found, log);
                }
                found += 1;
            }
        }
    }
}
