//! The UAI file format of the inference competitions: models, evidence, results.
//!
//! ```text
//! MARKOV            or BAYES: the factors are conditional tables, the child last
//! 3                 variables
//! 2 2 3             states of each
//! 2                 factors
//! 2 0 1             scope of factor 0: two variables, 0 (most significant) and 1
//! 2 1 2
//! 4  1 2 .5 1e-05   table of factor 0: its size, then its values, not logarithms
//! 6  1 1 1 1 1 1E+3
//! ```
//!
//! Any whitespace is a separator. Values may be outside the range of doubles (`1e-400`), because only their
//! logarithms are stored. Evidence is `k v x v x …`, or the same after a leading number of sets, which must
//! be 1.

use std::io::Write;
use std::path::Path;

use super::tokens::{Tokens, shown};
use crate::decimal::parse_log;
use crate::error::{Error, Result};
use crate::model::{FactorGraph, NetworkType, table};

/// Reads a model; `name` is the file's name for messages.
///
/// # Errors
/// If the text is not in the format: a count, a variable or the size of a table is wrong, or a value is
/// negative or not a number.
pub fn parse_model(bytes: &[u8], name: &str) -> Result<FactorGraph> {
    let mut tokens = Tokens::new(bytes, name);
    let form = match tokens.expect(|| "MARKOV or BAYES".into())? {
        b"MARKOV" => NetworkType::Markov,
        b"BAYES" => NetworkType::Bayes,
        other => {
            return Err(tokens.error(format!("expected MARKOV or BAYES, found `{}`", shown(other))));
        }
    };
    let n = tokens.count(|| "the number of variables".into())?;
    let mut cardinalities = Vec::with_capacity(n);
    for v in 0..n {
        let states = tokens.integer(|| format!("the number of states of variable {v}"))?;
        if states == 0 {
            return Err(tokens.error(format!("variable {v} has 0 states; every variable needs at least one")));
        }
        cardinalities.push(states);
    }
    let m = tokens.count(|| "the number of factors".into())?;
    let mut scopes = Vec::with_capacity(m);
    for f in 0..m {
        scopes.push(parse_scope(&mut tokens, f, n)?);
    }
    let graph = FactorGraph::new(cardinalities).map_err(|error| tokens.error(error.to_string()))?;
    let mut graph = graph.with_network_type(form);
    let mut values = Vec::new();
    for (f, scope) in scopes.iter().enumerate() {
        let listed = tokens.count(|| format!("the number of values of factor {f}"))?;
        let needed = table::size(graph.lengths(scope));
        if needed != Some(listed) {
            let needed = needed.map_or("more than fit in memory".into(), |size| size.to_string());
            let scope: Vec<String> = scope.iter().map(ToString::to_string).collect();
            return Err(tokens.error(format!(
                "factor {f} lists {listed} values, but its scope ({}) needs {needed}",
                scope.join(", ")
            )));
        }
        values.clear();
        for i in 0..listed {
            let token = tokens.expect(|| format!("value {i} of factor {f}"))?;
            values.push(parse_log(token).ok_or_else(|| {
                tokens.error(format!(
                    "value {i} of factor {f} is `{}`; expected a finite number, 0 or more",
                    shown(token)
                ))
            })?);
        }
        graph.add_factor(scope, &values).map_err(|error| tokens.error(error.to_string()))?;
    }
    match tokens.next() {
        None => Ok(graph),
        Some(token) => {
            Err(tokens.error(format!("expected the end after the last table, found `{}`", shown(token))))
        }
    }
}

fn parse_scope(tokens: &mut Tokens<'_>, f: usize, variables: usize) -> Result<Vec<usize>> {
    let arity = tokens.count(|| format!("the number of variables of factor {f}"))?;
    if arity > variables {
        return Err(tokens.error(format!("factor {f} names {arity} variables, but there are {variables}")));
    }
    let mut scope = Vec::with_capacity(arity);
    for _ in 0..arity {
        let v = tokens.integer(|| format!("a variable of factor {f}"))?;
        if v >= variables {
            return Err(tokens.error(format!("factor {f} names variable {v}, but there are {variables}")));
        }
        scope.push(v);
    }
    match table::first_repeated(&scope) {
        Some(v) => Err(tokens.error(format!("factor {f} names variable {v} twice"))),
        None => Ok(scope),
    }
}

/// The decimal form of exp(log), which may be outside the range of doubles.
pub(super) fn format_exp(log: f64) -> String {
    if log == f64::NEG_INFINITY {
        return "0".into();
    }
    if log.abs() < 690.0 {
        return decimal(log.exp());
    }
    let log10 = log / std::f64::consts::LN_10;
    format!("{}e{}", 10f64.powf(log10 - log10.floor()), log10.floor())
}

/// A double with all its digits, with an exponent for very small or large numbers.
fn decimal(x: f64) -> String {
    if x == 0.0 || (1e-5..1e15).contains(&x.abs()) { format!("{x}") } else { format!("{x:e}") }
}

/// Writes a model; values change only by the rounding of `exp` and `ln`.
///
/// # Errors
/// If `out` fails.
pub fn write_model(graph: &FactorGraph, out: &mut dyn Write) -> std::io::Result<()> {
    let join = |numbers: &[usize]| {
        let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
        numbers.join(" ")
    };
    let form = match graph.network_type() {
        NetworkType::Markov => "MARKOV",
        NetworkType::Bayes => "BAYES",
    };
    writeln!(out, "{form}\n{}\n{}", graph.variable_count(), join(graph.cardinalities()))?;
    writeln!(out, "{}", graph.factor_count())?;
    for factor in graph.factors() {
        writeln!(out, "{} {}", factor.scope.len(), join(factor.scope))?;
    }
    for factor in graph.factors() {
        let row = factor.scope.last().map_or(1, |&v| graph.cardinalities()[v]);
        writeln!(out, "\n{}", factor.log_values.len())?;
        for values in factor.log_values.chunks(row) {
            let values: Vec<String> = values.iter().map(|&x| format_exp(x)).collect();
            writeln!(out, " {}", values.join(" "))?;
        }
    }
    Ok(())
}

/// Reads an evidence file for `graph`.
///
/// # Errors
/// If the file cannot be read; also as [`parse_evidence`].
pub fn read_evidence(path: &Path, graph: &FactorGraph) -> Result<Vec<(usize, usize)>> {
    let bytes = std::fs::read(path).map_err(|source| Error::io(path, source))?;
    parse_evidence(&bytes, &path.display().to_string(), graph)
}

/// Parses evidence: an odd number of tokens is `k v x …`; an even number has a leading number of sets, which
/// must be 1.
///
/// # Errors
/// If the text is not in the format or has several sets, a variable or state is out of range, or a variable
/// is given twice.
pub fn parse_evidence(bytes: &[u8], name: &str, graph: &FactorGraph) -> Result<Vec<(usize, usize)>> {
    let mut all = Tokens::new(bytes, name);
    let numbers: Vec<Option<usize>> = std::iter::from_fn(|| all.next())
        .map(|token| std::str::from_utf8(token).ok().and_then(|text| text.parse().ok()))
        .collect();
    let mut tokens = Tokens::new(bytes, name);
    if numbers.is_empty() {
        return Err(tokens.error("the file is empty; evidence starts with the number of observed variables"));
    }
    if let Some(sets) = evidence_sets(&numbers) {
        return Err(tokens.error(format!("the file holds {sets} evidence sets; one at a time can be used")));
    }
    if numbers.len().is_multiple_of(2) {
        tokens.integer(|| "the number of evidence sets".into())?;
    }
    let count = tokens.count(|| "the number of observed variables".into())?;
    let mut observed = std::collections::HashSet::new();
    let mut evidence = Vec::with_capacity(count);
    for _ in 0..count {
        let v = tokens.integer(|| "an observed variable".into())?;
        if v >= graph.variable_count() {
            return Err(
                tokens.error(format!("there is no variable {v}; there are {}", graph.variable_count()))
            );
        }
        let s = tokens.integer(|| format!("the state of variable {v}"))?;
        if s >= graph.cardinalities()[v] {
            let states = graph.cardinalities()[v];
            return Err(tokens.error(format!("variable {v} has {states} states, so there is no state {s}")));
        }
        if !observed.insert(v) {
            return Err(tokens.error(format!("variable {v} is given twice")));
        }
        evidence.push((v, s));
    }
    match tokens.next() {
        None => Ok(evidence),
        Some(token) => Err(tokens
            .error(format!("expected the end after {count} observed variables, found `{}`", shown(token)))),
    }
}

/// The number of evidence sets if the numbers are several sets, `sets k v x … k v x …`, and not a single one.
fn evidence_sets(numbers: &[Option<usize>]) -> Option<usize> {
    let sets = numbers[0]?;
    if numbers.len().is_multiple_of(2) {
        return (sets != 1).then_some(sets);
    }
    let mut at = 1;
    for _ in 0..sets {
        at = (*numbers.get(at)?)?.checked_mul(2)?.checked_add(1 + at)?;
    }
    (sets > 1 && at == numbers.len() && numbers.len() != 1 + 2 * sets).then_some(sets)
}

/// The competition's result file for log Z: `PR` and the base-10 logarithm of Z.
pub fn format_partition(log_partition: f64) -> String {
    format!("PR\n{}\n", decimal(log_partition / std::f64::consts::LN_10))
}

/// The competition's result file for marginals: `MAR`, then the state probabilities of each variable.
pub fn format_marginals(beliefs: impl ExactSizeIterator<Item = Vec<f64>>) -> String {
    let mut text = format!("MAR\n{}", beliefs.len());
    for vector in beliefs {
        text += &format!(" {}", vector.len());
        vector.iter().for_each(|&p| text += &format!(" {}", decimal(p)));
    }
    text + "\n"
}

/// The competition's result file for the best state: `MAP`, then the state of each variable.
pub fn format_best_state(state: &[usize]) -> String {
    let states: Vec<String> = state.iter().map(ToString::to_string).collect();
    format!("MAP\n{} {}\n", state.len(), states.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::generate::{self, GraphShape};

    fn parse(text: &str) -> Result<FactorGraph> {
        parse_model(text.as_bytes(), "")
    }

    fn failure(text: &str) -> String {
        parse(text).unwrap_err().to_string()
    }

    #[test]
    fn every_number_form_is_read() {
        let graph = parse("MARKOV 1 6 1 1 0\n6 1e-05 .5 1E+3 2. +4 0.0").unwrap();
        let want = [1e-5f64, 0.5, 1e3, 2.0, 4.0, 0.0].map(f64::ln);
        assert_eq!(graph.factor(0).log_values, want);
        let beyond = parse("MARKOV 1 4 1 1 0\n4 1e-400 2e500 0e999 1e-310").unwrap();
        let ln10 = std::f64::consts::LN_10;
        let want = [-400.0 * ln10, 2f64.ln() + 500.0 * ln10, f64::NEG_INFINITY, -310.0 * ln10];
        for (got, want) in beyond.factor(0).log_values.iter().zip(want) {
            assert!(*got == want || (got - want).abs() < 1e-12 * want.abs(), "{got} {want}");
        }
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        assert_eq!(failure("MRKOV"), "line 1: expected MARKOV or BAYES, found `MRKOV`");
        assert_eq!(
            failure("MARKOV\n2\n2 0"),
            "line 3: variable 1 has 0 states; every variable needs at least one"
        );
        assert_eq!(
            failure("MARKOV\n2\n2 x"),
            "line 3: expected the number of states of variable 1, a whole number, found `x`"
        );
        assert_eq!(
            failure("MARKOV\n2\n2 2\n1\n2 0 2\n"),
            "line 5: factor 0 names variable 2, but there are 2"
        );
        assert_eq!(failure("MARKOV\n2\n2 2\n1\n2 0 0\n"), "line 5: factor 0 names variable 0 twice");
        assert_eq!(
            failure("MARKOV\n2\n2 2\n1\n2 0 1\n\n3\n1 2 3"),
            "line 7: factor 0 lists 3 values, but its scope (0, 1) needs 4"
        );
        for bad in ["-1", "nan", "inf", "1e", "--1", "0x1", "1,5"] {
            let message = failure(&format!("MARKOV\n1\n2\n1\n1 0\n\n2\n1\n{bad}"));
            assert!(message.starts_with(&format!("line 9: value 1 of factor 0 is `{bad}`")), "{message}");
        }
        assert_eq!(
            failure("MARKOV 1 2 1 1 0 2 1 1 7"),
            "line 1: expected the end after the last table, found `7`"
        );
        assert_eq!(
            failure("MARKOV\n1\n2\n1\n1 0\n2 1\n"),
            "line 7: the file ends where value 1 of factor 0 was expected"
        );
    }

    #[test]
    fn counts_that_promise_terabytes_cost_nothing() {
        let message = failure("MARKOV 99999999999999 2");
        assert!(message.contains("more than the rest of the file can hold"), "{message}");
        let message = failure("MARKOV 3 16777216 16777216 16777216 1 3 0 1 2 1 1");
        assert!(message.contains("needs more than fit in memory"), "{message}");
        let message = failure("MARKOV 2 4294967296 4294967297 1 2 0 1 1 1");
        assert!(message.contains("variable 0 has 4294967296 states; at most 268435456"), "{message}");
        assert!(parse("MARKOV 99999999999999999999999 2").is_err());
    }

    #[test]
    fn what_is_written_is_read_back() {
        let graph = generate::random(
            &GraphShape { variables: 6, states: 3, factors: 8, arity: 3, strength: 2.0, zeros: 0.3 },
            5,
        )
        .unwrap();
        let mut huge = FactorGraph::new(vec![3]).unwrap();
        huge.add_factor(&[0], &[1e4, -1e4, f64::NEG_INFINITY]).unwrap();
        huge.add_factor(&[], &[-3.5]).unwrap();
        for graph in
            [graph, huge, generate::bayes(7, 2, 2, 0.2, 1).unwrap(), FactorGraph::new(vec![]).unwrap()]
        {
            let mut text = Vec::new();
            write_model(&graph, &mut text).unwrap();
            let back = parse_model(&text, "").unwrap();
            assert_eq!(back.network_type(), graph.network_type());
            assert_eq!(back.cardinalities(), graph.cardinalities());
            for (a, b) in back.factors().zip(graph.factors()) {
                assert_eq!(a.scope, b.scope);
                for (x, y) in a.log_values.iter().zip(b.log_values) {
                    assert!(x == y || (x - y).abs() <= 1e-12 * y.abs().max(1.0), "{x} {y}");
                }
            }
        }
    }

    #[test]
    fn both_evidence_forms_and_their_mistakes() {
        let graph = FactorGraph::new(vec![2, 3, 2]).unwrap();
        let evidence = |text: &str| parse_evidence(text.as_bytes(), "", &graph);
        assert_eq!(evidence("0").unwrap(), []);
        assert_eq!(evidence("2 0 1\n1 2").unwrap(), [(0, 1), (1, 2)]);
        assert_eq!(evidence("1\n1 2 0").unwrap(), [(2, 0)]);
        let failure = |text: &str| evidence(text).unwrap_err().to_string();
        assert!(failure("").contains("empty"));
        assert!(failure("2 1 0 0 1 1 1").contains("2 evidence sets"));
        assert!(failure("3 1 0 0 1 1 1 1 2 1").contains("3 evidence sets"));
        assert!(failure("1 3 0").contains("no variable 3"));
        assert!(failure("1 1 3").contains("no state 3"));
        assert!(failure("2 1 0 1 0").contains("twice"));
        assert!(failure("1 0 0 1 0").contains("expected the end"));
        assert!(failure("3 0 0 1 0").contains("file ends"));
        assert!(failure("1 0 x").contains("`x`"));
    }
}
