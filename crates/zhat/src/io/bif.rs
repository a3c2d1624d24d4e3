//! The Bayesian Interchange Format: networks of discrete variables with names.
//!
//! ```text
//! network holidays { }                 // the name is not kept
//! variable rain { type discrete [ 2 ] { yes, no }; property whatever; }
//! variable mood { type discrete [ 3 ] { good, fair, "very bad" }; }
//! probability ( rain ) { table 0.2, 0.8; }
//! probability ( mood | rain ) {
//!   (yes) 0.1, 0.3, 0.6;               // a row: the parents' states, then the child's probabilities
//!   default 0.7, 0.2, 0.1;             // all rows that are not given
//! }
//! ```
//!
//! Blocks come in any order, rows too. Commas may be left out, properties are passed over, a name with blanks or marks
//! in it is quoted. Every factor read is one variable's table, parents in the order listed and the child last.
//!
//! Probabilities are kept as they stand. A row may miss the sum 1 by a hundredth, as files with few digits do; log Z is
//! then not 0 but says by how much.

mod words;

use std::collections::HashMap;
use std::io::Write;

use self::words::{Word, Words, needs_quotes};
use super::tokens::shown;
use super::uai::{format_exp, parse_log};
use crate::error::{Error, Result};
use crate::model::{FactorGraph, Form, table};
use crate::platform;

/// How far a row's sum may be from 1: three states written as 0.33 must pass, whatever the rounding.
const SUM_TOLERANCE: f64 = 0.01 + 1e-9;
/// What a declared state takes while a file is read: its name, and its place in the tables that find it.
const BYTES_PER_STATE: f64 = 200.0;
/// What an entry of a table takes while a file is read.
const BYTES_PER_ENTRY: f64 = 32.0;

/// True if a file that starts like this is meant to be one of these.
pub(crate) fn looks_like(first_word: &[u8]) -> bool {
    // No other format has comments.
    [b"network".as_slice(), b"//", b"/*"].iter().any(|start| first_word.starts_with(start))
}

/// Reads a model; `name` is the file's name for messages.
pub fn parse_model(bytes: &[u8], name: &str) -> Result<FactorGraph> {
    let mut network = Network { free: platform::available_memory() as f64, ..Network::default() };
    // Tables can only be read once all variables are known, and these may stand anywhere.
    let mut words = Words::new(bytes, name);
    each_block(&mut words, |words, block| match block {
        Block::Variable => network.read_variable(words),
        Block::Probability => words.skip_block(),
    })?;
    let states = network.variables.iter().map(|variable| variable.states.len()).collect();
    let graph = FactorGraph::new(states).map_err(|error| words.error(error.to_string()))?;
    let mut graph = graph.with_form(Form::Bayes);
    let mut words = Words::new(bytes, name);
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

/// Reads the heading and calls `read` after the keyword of every block.
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
    /// Where its probabilities are, once they have been seen.
    table_line: Option<usize>,
}

/// What a file has declared so far.
#[derive(Default)]
struct Network<'a> {
    variables: Vec<Variable<'a>>,
    by_name: HashMap<&'a [u8], usize>,
    states: HashMap<(usize, &'a [u8]), usize>,
    /// The memory that is left, in bytes.
    free: f64,
}

impl<'a> Network<'a> {
    /// Takes memory, or fails: a few bytes of `default` can ask for any number of entries.
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

    /// Reads `discrete [ 2 ] { yes, no };`.
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

    /// Reads `( child | parents )`: the parents, then the child.
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
                // Old files have no bar at all; behind a second variable it would mean a joint distribution.
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
        // A row whose first entry is NaN has not been given.
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
                    // The child is the first variable of the block, and as in a nested array the last one varies
                    // fastest: all of P(first state | …), then all of P(second state | …). The format's authors write
                    // their example so, and pgmpy reads it so; bnlearn takes `table` without parents only. (Their XML
                    // format has the child fastest.)
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

    /// Reads `yes, no )`, a state of each parent.
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

    /// How messages call a row: by its parents' states.
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

/// A name, which must be text.
fn checked<'a>(name: &'a [u8], words: &Words<'_>) -> Result<&'a [u8]> {
    match std::str::from_utf8(name) {
        Ok(_) => Ok(name),
        Err(_) => Err(words.error(format!("the name `{}` is not in UTF-8", shown(name)))),
    }
}

/// Reads numbers up to a `;`, of which there must be `count`, and hands over their logarithms.
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

/// Says what is wrong with a row that is far from a distribution.
fn check_sum(row: &[f64]) -> std::result::Result<(), String> {
    let sum: f64 = row.iter().map(|log| log.exp()).sum();
    if (sum - 1.0).abs() <= SUM_TOLERANCE {
        return Ok(());
    }
    Err(format!("sums to {}; expected 1 up to 0.01", (sum * 1e6).round() / 1e6))
}

/// A variable that is its own ancestor, if there is one; every variable is the last of one scope.
fn on_a_cycle(graph: &FactorGraph) -> Option<usize> {
    let n = graph.variable_count();
    let (mut waiting, mut factor_of, mut children) = (vec![0; n], vec![0; n], vec![Vec::new(); n]);
    for (f, factor) in graph.factors().enumerate() {
        let (&child, parents) = factor.scope.split_last()?;
        factor_of[child] = f;
        waiting[child] = parents.len();
        parents.iter().for_each(|&parent| children[parent].push(child));
    }
    let mut ready: Vec<usize> = (0..n).filter(|&v| waiting[v] == 0).collect();
    while let Some(v) = ready.pop() {
        for &child in &children[v] {
            waiting[child] -= 1;
            if waiting[child] == 0 {
                ready.push(child);
            }
        }
    }
    let mut v = (0..n).find(|&v| waiting[v] > 0)?;
    for _ in 0..n {
        // What waits has a parent that waits; after n steps back the walk has entered a cycle.
        v = *graph.factor(factor_of[v]).scope.iter().find(|&&parent| parent != v && waiting[parent] > 0)?;
    }
    Some(v)
}

/// An error that says why this model cannot be written in the format, if it cannot.
pub fn check(graph: &FactorGraph) -> Result<()> {
    let fail = |reason: String| {
        Err(Error::model(format!("only a Bayesian network can be a .bif file, but {reason}")))
    };
    if !graph.evidence().is_empty() {
        return fail("this model has been given evidence".into());
    }
    if graph.form() != Form::Bayes {
        return fail("this model has the form MARKOV".into());
    }
    let mut has_table = vec![false; graph.variable_count()];
    for (f, factor) in graph.factors().enumerate() {
        let Some(&child) = factor.scope.last() else {
            return fail(format!("factor {f} is a constant"));
        };
        let name = graph.variable_name(child);
        if std::mem::replace(&mut has_table[child], true) {
            return fail(format!("variable `{name}` is last in the scopes of two factors"));
        }
        let rows = factor.log_values.chunks(graph.cardinalities()[child]);
        if let Some(message) = rows.into_iter().find_map(|row| check_sum(row).err()) {
            return fail(format!("a row of the table of `{name}` {message}"));
        }
    }
    if let Some(v) = has_table.iter().position(|has| !has) {
        return fail(format!("variable `{}` is last in no factor's scope", graph.variable_name(v)));
    }
    if let Some(v) = on_a_cycle(graph) {
        return fail(format!("variable `{}` is its own ancestor", graph.variable_name(v)));
    }
    let variables = graph.names().into_iter().flat_map(|names| names.variables().iter());
    let states = |v| graph.names().into_iter().flat_map(move |names| names.states(v).iter());
    match variables.chain((0..graph.variable_count()).flat_map(states)).find(|name| name.contains('"')) {
        Some(name) => {
            Err(Error::model(format!("the name `{name}` has a quote in it, which a .bif file cannot hold")))
        }
        None => Ok(()),
    }
}

/// Writes a model that has passed [`check`]; the values lose at most the last digits that `exp` and `ln` do.
pub fn write_model(graph: &FactorGraph, out: &mut dyn Write) -> std::io::Result<()> {
    let quoted = |name: String| if needs_quotes(&name) { format!("\"{name}\"") } else { name };
    let variable = |v: usize| quoted(graph.variable_name(v));
    let state = |v: usize, s: usize| match graph.names() {
        Some(names) if !names.states(v).is_empty() => quoted(graph.state_name(v, s)),
        _ => format!("s{s}"),
    };
    writeln!(out, "network unknown {{\n}}")?;
    for (v, &states) in graph.cardinalities().iter().enumerate() {
        let names: Vec<String> = (0..states).map(|s| state(v, s)).collect();
        let names = names.join(", ");
        writeln!(out, "variable {} {{\n  type discrete [ {states} ] {{ {names} }};\n}}", variable(v))?;
    }
    for factor in graph.factors() {
        let Some((&child, parents)) = factor.scope.split_last() else { continue };
        let parent_names: Vec<String> = parents.iter().map(|&v| variable(v)).collect();
        let bar = if parents.is_empty() { "" } else { " | " };
        writeln!(out, "probability ( {}{bar}{} ) {{", variable(child), parent_names.join(", "))?;
        let lengths = graph.lengths(parents);
        let mut digits = vec![0; parents.len()];
        for row in factor.log_values.chunks(graph.cardinalities()[child]) {
            let values: Vec<String> = row.iter().map(|&log| format_exp(log)).collect();
            let states: Vec<String> = parents.iter().zip(&digits).map(|(&v, &s)| state(v, s)).collect();
            let start = if parents.is_empty() { "table".into() } else { format!("({})", states.join(", ")) };
            writeln!(out, "  {start} {};", values.join(", "))?;
            table::advance(&mut digits, &lengths);
        }
        writeln!(out, "}}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exact::Elimination;
    use crate::model::generate;
    use crate::{LogPartition, Marginals, Run};

    /// P(good) = 0.615625.
    const BAKERY: &str = r#"// a bakery
network "the bakery" { property made by hand; }
/* two causes
   and an effect */
variable oven { type discrete [ 3 ] { hot, warm, cold }; property position = (1, 2); }
variable flour-age {
  property "a; b";
  type discrete[2]{old fresh};
}
probability ( bread | oven, flour-age ) {
  (warm, old) .25, 0.75; // in no order
  (hot, old) 5e-1 0.5;
  (warm, fresh) +0.875, 125E-3;
  property none;
  (cold, old) 0, 1;
  (hot, fresh) 0.75, 0.25;
  default 0.125, 0.875;
}
probability ( oven ) { table 0.25, 0.5, 0.25; }
variable bread { type discrete [ 2 ] = { good, "quite bad" }; }
probability ( flour-age ) { table 0.1, 0.9; }
property the end;
"#;

    fn parse(text: &str) -> Result<FactorGraph> {
        parse_model(text.as_bytes(), "")
    }

    fn failure(text: &str) -> String {
        parse(text).unwrap_err().to_string()
    }

    fn written(graph: &FactorGraph) -> String {
        let mut text = Vec::new();
        check(graph).unwrap();
        write_model(graph, &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    fn log_partition(graph: &FactorGraph) -> f64 {
        Elimination::default().log_partition(graph, &Run::default()).unwrap().value
    }

    #[test]
    fn a_network_is_read_with_its_names() {
        let graph = parse(BAKERY).unwrap();
        assert_eq!((graph.form(), graph.cardinalities()), (Form::Bayes, [3, 2, 2].as_slice()));
        let names = graph.names().unwrap();
        assert_eq!(names.variables(), ["oven", "flour-age", "bread"]);
        assert_eq!(names.states(2), ["good", "quite bad"]);
        let scopes: Vec<&[usize]> = graph.factors().map(|factor| factor.scope).collect();
        assert_eq!(scopes, [[0, 1, 2].as_slice(), &[0], &[1]]);
        let want = [0.5, 0.5, 0.75, 0.25, 0.25, 0.75, 0.875, 0.125, 0.0, 1.0, 0.125, 0.875].map(f64::ln);
        assert_eq!(graph.factor(0).log_values, want);
        assert!(log_partition(&graph).abs() < 1e-14);
        let good = graph.condition(&[(2, 0)]).unwrap();
        assert!((log_partition(&good) - 0.615625f64.ln()).abs() < 1e-14);
        let beliefs = Elimination::default().marginals(&good, &Run::default()).unwrap().value;
        let hot = beliefs.iter().next().unwrap()[0];
        assert!((hot - 0.18125 / 0.615625).abs() < 1e-14, "{hot}");
    }

    #[test]
    fn a_table_has_the_child_slowest_and_the_last_parent_fastest() {
        let start = BAKERY.find("(warm, old)").unwrap();
        let end = BAKERY.find("default").unwrap();
        let table = "table 0.5 0.75 0.25 0.875 0 0.125  0.5 0.25 0.75 0.125 1 0.875; ";
        let text = format!("{}{table}{}", &BAKERY[..start], &BAKERY[end..]);
        assert_eq!(parse(&text).unwrap(), parse(BAKERY).unwrap());
        // Old files name the parents without a bar.
        assert_eq!(
            parse(&text.replace("bread | oven, flour", "bread oven flour")).unwrap(),
            parse(BAKERY).unwrap()
        );
    }

    #[test]
    fn strange_names_travel() {
        let text = "network x{}variable <5-1=2.0+a/b>{type discrete[1]{>=7.5};}
            variable property{type discrete[3]{property,table \"//\"};}
            probability(property|<5-1=2.0+a/b>){(>=7.5)1,0,0;}probability(<5-1=2.0+a/b>){table 1.;}";
        let graph = parse(text).unwrap();
        assert_eq!(graph.names().unwrap().variables(), ["<5-1=2.0+a/b>", "property"]);
        assert_eq!(graph.names().unwrap().states(1), ["property", "table", "//"]);
        let names = ["", " ", "a//b", "\n", "{", "é|", "/*", "network", "-", "\u{0}"];
        let mut named = FactorGraph::new(vec![names.len()]).unwrap().with_form(Form::Bayes);
        named.add_factor(&[0], &[-(names.len() as f64).ln(); 10]).unwrap();
        for variable in names {
            let states = names.map(String::from).to_vec();
            let graph = named.clone().with_names(vec![variable.into()], vec![states]).unwrap();
            assert_eq!(parse(&written(&graph)).unwrap().names(), graph.names());
        }
        assert_eq!(parse(&written(&graph)).unwrap(), graph);
    }

    #[test]
    fn what_is_written_is_read_back() {
        let mut tiny = FactorGraph::new(vec![3]).unwrap().with_form(Form::Bayes);
        tiny.add_factor(&[0], &[-1e4, 0.0, f64::NEG_INFINITY]).unwrap();
        let mut models = vec![tiny, FactorGraph::new(vec![]).unwrap().with_form(Form::Bayes)];
        for seed in 0..20 {
            let (states, parents) = (1 + seed as usize % 4, seed as usize % 5);
            models.push(generate::bayes(9, states, parents, 0.2, seed).unwrap());
        }
        for graph in models {
            let back = parse(&written(&graph)).unwrap();
            assert_eq!((back.form(), back.cardinalities()), (Form::Bayes, graph.cardinalities()));
            assert_eq!(back.names().unwrap().variables().len(), graph.variable_count());
            assert_eq!(back.factor_count(), graph.factor_count());
            for (a, b) in back.factors().zip(graph.factors()) {
                assert_eq!(a.scope, b.scope);
                for (x, y) in a.log_values.iter().zip(b.log_values) {
                    // A rounding of `exp`, and one of the logarithm, which is the coarser the larger that is.
                    assert!(x == y || (x - y).abs() <= 4e-16 * y.abs().max(1.0), "{x} {y}");
                    assert!((x.exp() - y.exp()).abs() <= 1e-15, "{x} {y}");
                }
            }
            assert_eq!(parse(&written(&back)).unwrap().names(), back.names());
        }
    }

    #[test]
    fn unnamed_variables_and_states_get_names() {
        let mut graph = FactorGraph::new(vec![2, 2]).unwrap().with_form(Form::Bayes);
        graph.add_factor(&[1], &[0.25f64.ln(), 0.75f64.ln()]).unwrap();
        graph.add_factor(&[1, 0], &[0.0, f64::NEG_INFINITY, 0.5f64.ln(), 0.5f64.ln()]).unwrap();
        let want = "network unknown {\n}\n\
            variable x0 {\n  type discrete [ 2 ] { s0, s1 };\n}\n\
            variable x1 {\n  type discrete [ 2 ] { s0, s1 };\n}\n\
            probability ( x1 ) {\n  table 0.25, 0.75;\n}\n\
            probability ( x0 | x1 ) {\n  (s0) 1, 0;\n  (s1) 0.5, 0.5;\n}\n";
        assert_eq!(written(&graph), want);
    }

    #[test]
    fn a_chain_of_thousands_is_read() {
        let graph = generate::bayes(3000, 2, 1, 0.0, 4).unwrap();
        let back = parse(&written(&graph)).unwrap();
        assert!(log_partition(&back).abs() < 1e-9);
    }

    /// Two variables, `a` before `b`, with these probabilities.
    fn pair(probabilities: &str) -> String {
        let variables = "network n {\n}\nvariable a { type discrete [ 2 ] { t, f }; }\n\
            variable b { type discrete [ 2 ] { t, f }; }\n";
        format!("{variables}{probabilities}")
    }

    #[test]
    fn mistakes_in_probabilities_are_named_with_their_line() {
        let a = "probability ( a ) { table 0.5, 0.5; }\n";
        for (b, message) in [
            ("", "line 4: variable `b` has no `probability` block"),
            ("probability ( c ) { }", "line 6: there is no variable `c`"),
            (
                "probability ( a ) { table 1, 0; }",
                "line 6: the probabilities of `a` are given twice; first in line 5",
            ),
            ("probability ( b | b ) { }", "line 6: variable `b` is its own parent"),
            ("probability ( b | a, a ) { }", "line 6: the parent `a` of `b` is named twice"),
            ("probability ( b, a | a ) { }", "line 6: expected a parent or `)`, found `|`"),
            ("probability { b }", "line 6: expected `(`, found `{`"),
            ("probability ( b | a ) {\n(t) 1, 0;\n(t) 1, 0; }", "line 8: the row (t) of `b` is given twice"),
            (
                "probability ( b | a ) {\n(t) 1, 0;\n}",
                "line 8: the row (f) of `b` is missing, and there is no `default`",
            ),
            ("probability ( b ) {\n}", "line 7: the row of `b` is missing, and there is no `default`"),
            ("probability ( b | a ) {\n(t) 1; }", "line 7: the row (t) of `b` lists 1 values, but needs 2"),
            ("probability ( b ) {\ntable 1, 0, 0; }", "line 7: the table of `b` lists 3 values, but needs 2"),
            (
                "probability ( b | a ) {\ntable 1, 0; }",
                "line 7: the table of `b` lists 2 values, but needs 4",
            ),
            (
                "probability ( b ) {\ndefault 1; }",
                "line 7: the default row of `b` lists 1 values, but needs 2",
            ),
            (
                "probability ( b ) {\ndefault 1, 0; default 1, 0; }",
                "line 7: the default row of `b` is given twice",
            ),
            (
                "probability ( b | a ) {\n(t) 1 0;\ntable 1, 0; }",
                "line 8: the rows of `b` are given before its `table`",
            ),
            (
                "probability ( b ) {\ntable 1, 0; table 1, 0; }",
                "line 7: the rows of `b` are given before its `table`",
            ),
            (
                "probability ( b | a ) {\ntable 1, 1, 0, 0; (t) 1, 0; }",
                "line 7: the row (t) of `b` is given twice",
            ),
            ("probability ( b | a ) {\n(x) 1, 0; }", "line 7: variable `a` has no state `x`"),
            (
                "probability ( b | a ) {\n() 1, 0; }",
                "line 7: the row names 0 states, but there are 1 parents",
            ),
            (
                "probability ( b | a ) {\n(t, t) 1, 0; }",
                "line 7: expected `)` after a state of every parent, found `t`",
            ),
            (
                "probability ( b ) {\ntable 0.5, 0.4; }",
                "line 7: the row of `b` sums to 0.9; expected 1 up to 0.01",
            ),
            (
                "probability ( b | a ) {\n(t) 0.5, 0.52; }",
                "line 7: the row (t) of `b` sums to 1.02; expected 1 up to 0.01",
            ),
            (
                "probability ( b | a ) {\ntable 1 1 0 1; }",
                "line 7: the row (f) of `b` sums to 2; expected 1 up to 0.01",
            ),
            (
                "probability ( b ) {\ndefault 2, 0; }",
                "line 7: the default row of `b` sums to 2; expected 1 up to 0.01",
            ),
            (
                "probability ( b ) {\ntable 1, 0 }",
                "line 7: expected a probability, a finite number that is 0 or more, or `;`, found `}`",
            ),
            (
                "probability ( b ) {\nvalues 1, 0; }",
                "line 7: expected a row, a property or `}`, found `values`",
            ),
            (
                "probability ( b ) {\n[ 1, 0; }",
                "line 7: expected `(`, `table`, `default`, `property` or `}`, found `[`",
            ),
            ("probability ( b ) {\ntable 1, 0;\n", "line 8: the file ends where `}` was expected"),
            (
                "probability ( b ) {\ntable 1, 0;\nprobability",
                "line 8: expected a row, a property or `}`, found `probability`",
            ),
        ] {
            assert_eq!(failure(&pair(&format!("{a}{b}"))), message);
        }
        for bad in ["-0.1", "nan", "inf", "1e", "x", "0x1", "1_0", "\"\""] {
            let message = failure(&pair(&format!("{a}probability ( b ) {{\ntable\n{bad}, 1; }}")));
            let shown = bad.trim_matches('"');
            let want = format!(
                "line 8: expected a probability, a finite number that is 0 or more, or `;`, found `{shown}`"
            );
            assert_eq!(message, want);
        }
        let cycle = "probability ( a | b ) { table 1 1 0 0; }\nprobability ( b | a ) { table 1 1 0 0; }";
        let message = failure(&pair(cycle));
        assert!(
            ["line 5: variable `a`", "line 6: variable `b`"].iter().any(|start| message.starts_with(start)),
            "{message}"
        );
        assert!(message.ends_with("is its own ancestor; a Bayesian network has no cycles"), "{message}");
    }

    #[test]
    fn mistakes_in_declarations_are_named_with_their_line() {
        for (text, message) in [
            ("", "line 1: the file ends where `network` was expected"),
            ("\n net", "line 2: expected `network`, found `net`"),
            ("network x\n", "line 2: the file ends where `{` was expected"),
            ("network { x", "line 1: expected `property` or `}`, found `x`"),
            ("network {}\nvar", "line 2: expected `variable`, `probability` or `property`, found `var`"),
            ("network {}\nproperty x", "line 2: the file ends where `;` after a property was expected"),
            ("network {}\n/* x", "line 2: the comment `/*` is never closed by `*/`"),
            ("network {}\nvariable \"x", "line 2: the quote of `\"x` is never closed"),
            ("network {}\nvariable {", "line 2: expected the name of a variable, found `{`"),
            ("network {}\nvariable a (", "line 2: expected `{`, found `(`"),
            (
                "network {}\nvariable a {\ncolour",
                "line 3: expected `type`, `property` or `}`, found `colour`",
            ),
            (
                "network {}\nvariable a {\n}",
                "line 3: variable `a` has no type; expected `type discrete [ … ] { … };`",
            ),
            (
                "network {}\nvariable a { type continuous",
                "line 2: expected `discrete`, the only type that can be read, found `continuous`",
            ),
            (
                "network {}\nvariable a { type discrete [ two ]",
                "line 2: expected the number of states of variable `a`, a whole number, found `two`",
            ),
            ("network {}\nvariable a { type discrete [ 2 ] t", "line 2: expected `{`, found `t`"),
            (
                "network {}\nvariable a { type discrete [ 3 ] {\nt, f } ;}",
                "line 3: variable `a` is to have 3 states, but lists 2",
            ),
            (
                "network {}\nvariable a { type discrete [ 0 ] { };}",
                "line 2: variable `a` has 0 states; every variable needs at least one",
            ),
            (
                "network {}\nvariable a { type discrete [ 2 ] { t, t",
                "line 2: variable `a` has two states named `t`",
            ),
            (
                "network {}\nvariable a { type discrete [ 2 ] { t (",
                "line 2: expected a state or `}`, found `(`",
            ),
            ("network {}\nvariable a { type discrete [ 1 ] { t }\n}", "line 3: expected `;`, found `}`"),
            (
                "network {}\nvariable a { type discrete [ 1 ] { t };\ntype",
                "line 3: variable `a` has two types",
            ),
            (
                "network {}\nvariable a { type discrete [ 1 ] { t }; }\nvariable a",
                "line 3: variable `a` is declared twice; first in line 2",
            ),
        ] {
            assert_eq!(failure(text), message);
        }
        let bytes = b"network {}\nvariable \xff\xfe {";
        assert!(parse_model(bytes, "f").unwrap_err().to_string().starts_with("f: line 2: the name `"));
    }

    #[test]
    fn rounded_rows_are_kept_as_they_are() {
        let rounded = "probability ( a ) { table 0.333, 0.666; } probability ( b ) { table 0.5, 0.49; }";
        let graph = parse(&pair(rounded)).unwrap();
        assert_eq!(graph.factor(0).log_values, [0.333f64.ln(), 0.666f64.ln()]);
        assert!((log_partition(&graph) - (0.999f64 * 0.99).ln()).abs() < 1e-14);
        assert!(check(&graph).is_ok());
    }

    #[test]
    fn a_default_that_asks_for_terabytes_is_refused() {
        let states: Vec<String> = (0..1000).map(|s| s.to_string()).collect();
        let mut text = String::from("network n {}\n");
        for v in 0..9 {
            text += &format!("variable v{v} {{ type discrete [ 1000 ] {{ {} }}; }}\n", states.join(" "));
        }
        let message =
            failure(&format!("{text}probability ( v0 | v1 v2 v3 v4 v5 v6 v7 v8 ) {{ default 1; }}"));
        assert_eq!(message, "line 11: with the table of `v0` the network takes more memory than is free");
        let message = failure(&format!("{text}probability ( v0 | v1 v2 v3 v4 ) {{ default 1; }}"));
        assert_eq!(message, "line 11: with the table of `v0` the network takes more memory than is free");
    }

    #[test]
    fn what_is_no_bayesian_network_is_not_written() {
        let reason = |graph: &FactorGraph| check(graph).unwrap_err().to_string();
        assert!(
            reason(&generate::tree(5, 2, 1.0, 1).unwrap()).ends_with("but this model has the form MARKOV")
        );
        let network = parse(BAKERY).unwrap();
        assert!(reason(&network.condition(&[(0, 1)]).unwrap()).ends_with("has been given evidence"));
        let new = || FactorGraph::new(vec![2, 2]).unwrap().with_form(Form::Bayes);
        let half = 0.5f64.ln();
        let built = |scopes: &[&[usize]]| {
            let mut graph = new();
            for scope in scopes {
                graph.add_factor(scope, &vec![half; 1 << scope.len()]).unwrap();
            }
            graph
        };
        assert!(reason(&new()).ends_with("variable `x0` is last in no factor's scope"));
        assert!(reason(&built(&[&[]])).ends_with("factor 0 is a constant"));
        assert!(
            reason(&built(&[&[0], &[0]])).ends_with("variable `x0` is last in the scopes of two factors")
        );
        assert!(reason(&built(&[&[0, 1], &[1, 0]])).ends_with("is its own ancestor"));
        let mut skew = built(&[&[0]]);
        skew.add_factor(&[1], &[0.0, half]).unwrap();
        assert!(reason(&skew).ends_with("a row of the table of `x1` sums to 1.5; expected 1 up to 0.01"));
        let names = vec!["a".into(), "b\"".into()];
        let quote = built(&[&[0], &[1]]).with_names(names, vec![vec![], vec![]]).unwrap();
        assert!(reason(&quote).contains("the name `b\"` has a quote in it"));
    }
}
