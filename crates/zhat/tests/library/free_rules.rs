//! Trees without rules, which have a chart of one number per span, against the same trees with rules of rank 1
//! whose scores are all 0.

use zhat::dynamic::InsideOutside;
use zhat::model::generate::{self, HypertreeShape, RuleForm, SpanForm};
use zhat::model::{Hypertree, Rules, Symbols, Values};
use zhat::query::{Differentiable, Operation, SpanGradient};
use zhat::{Error, FactorMarginals, LogPartition, Marginals, Real, Run, Sample};

const SPANS: [SpanForm; 4] = [SpanForm::None, SpanForm::PerSpan, SpanForm::PerSymbol, SpanForm::Factored(3)];

fn shapes() -> Vec<(HypertreeShape, u64)> {
    let symbols = [Symbols::disjoint(3, 2), Symbols::same(4), Symbols { all: 5, heads: 3, tags: 4 }];
    let mut all = Vec::new();
    for spans in SPANS {
        for (zeros, strength) in [(0.0, 1.0), (0.3, 1.0), (0.75, 2.0), (0.0, 1e4), (0.5, 1e4)] {
            let seed = all.len() as u64;
            let shape = HypertreeShape {
                words: [17, 9, 1, 24][seed as usize % 4],
                batch: 1 + seed as usize % 4,
                ragged: seed.is_multiple_of(2),
                symbols: symbols[seed as usize % 3],
                rules: RuleForm::Any,
                per_sentence: seed.is_multiple_of(3),
                spans,
                strength,
                zeros,
            };
            all.push((shape, seed));
        }
    }
    all
}

/// The same model with rules of rank 1.
fn with_rules<F: Real>(model: &Hypertree<F>) -> Hypertree<F> {
    let Symbols { all, heads, .. } = model.symbols();
    let zeros = |rows: usize| Values::from(vec![F::ZERO; rows]);
    let rules = Rules::LowRank { rank: 1, heads: zeros(heads), left: zeros(all), right: zeros(all) };
    let words = model.words().to_vec().into();
    let made = Hypertree::new(model.symbols(), words, model.lengths().to_vec(), rules).unwrap();
    let made = made.with_roots(model.roots().to_vec().into()).unwrap();
    made.with_spans(model.spans().clone()).unwrap()
}

fn near<F: Real>(label: &str, found: &[F], expected: &[F], tolerance: f64) {
    assert_eq!(found.len(), expected.len(), "{label}");
    for (at, (a, b)) in found.iter().zip(expected).enumerate() {
        let (a, b) = (a.to_f64(), b.to_f64());
        assert!(a == b || (a - b).abs() <= tolerance * (1.0 + b.abs()), "{label} {at}: {a} {b}");
    }
}

macro_rules! compare {
    ($float:ty, $tolerance:expr) => {
        for (shape, seed) in shapes() {
            let (run, method) = (Run::default(), InsideOutside::default());
            let model: Hypertree<$float> = generate::hypertree(&shape, seed).unwrap();
            let (general, label) = (with_rules(&model), format!("{shape:?} {seed}"));
            let tolerance: f64 = $tolerance + 1e-13 * shape.strength;
            let found = match method.log_partition(&model, &run) {
                Ok(found) => found,
                Err(error) => {
                    assert!(matches!(error, Error::NoTree(_)), "{label}: {error}");
                    assert!(method.log_partition(&general, &run).is_err(), "{label}");
                    continue;
                }
            };
            let expected = method.log_partition(&general, &run).unwrap();
            let allowance = found.diagnostics.rounding + expected.diagnostics.rounding;
            for (a, b) in found.value.iter().zip(&expected.value) {
                assert!(a == b || (a - b).abs() <= allowance, "{label}: {a} {b}");
            }
            let (found, expected) =
                (method.marginals(&model, &run).unwrap(), method.marginals(&general, &run).unwrap());
            near(&label, &found.value.values, &expected.value.values, tolerance);
            let of = |model: &Hypertree<$float>| method.factor_marginals(model, &run).unwrap().value;
            let (found, expected) = (of(&model), of(&general));
            near(&label, &found.words, &expected.words, tolerance);
            near(&label, &found.roots, &expected.roots, tolerance);
            match (&found.spans, &expected.spans) {
                (SpanGradient::None, SpanGradient::None) => {}
                (SpanGradient::Scores(a), SpanGradient::Scores(b)) => near(&label, a, b, tolerance),
                (
                    SpanGradient::Factored { spans, symbols },
                    SpanGradient::Factored { spans: other_spans, symbols: other_symbols },
                ) => {
                    let tolerance = tolerance * (1.0 + shape.strength) * 10.0;
                    near(&label, spans, other_spans, tolerance);
                    near(&label, symbols, other_symbols, tolerance);
                }
                other => panic!("{label}: {other:?}"),
            }
        }
    };
}

#[test]
fn charts_of_one_number_per_span_agree_with_the_general_ones() {
    compare!(f64, 1e-11);
    compare!(f32, 3e-5);
}

#[test]
fn gradients_have_the_factors_of_the_sentences_and_threads_do_not_matter() {
    let shape = HypertreeShape {
        words: 12,
        batch: 5,
        ragged: true,
        symbols: Symbols::same(3),
        rules: RuleForm::Any,
        spans: SpanForm::PerSymbol,
        ..Default::default()
    };
    let model: Hypertree<f64> = generate::hypertree(&shape, 3).unwrap();
    let method = InsideOutside::default();
    let cotangent = [1.0, -0.5, 0.0, 2.0, 3.0];
    let gradient = |model: &Hypertree<f64>, threads: usize| {
        let run = Run::default().with_threads(threads);
        let (_, tape) = method.differentiate(Operation::LogPartition, &[model], &run).unwrap();
        tape.gradient(&cotangent).unwrap()
    };
    let (found, expected) = (gradient(&model, 1), gradient(&with_rules(&model), 1));
    near("words", &found.words, &expected.words, 1e-12);
    near("roots", &found.roots, &expected.roots, 1e-12);
    let other = gradient(&model, 3);
    assert_eq!((&found.words, &found.roots, &found.spans), (&other.words, &other.roots, &other.spans));
    let draw = |threads: usize| {
        let run = Run::default().with_threads(threads).with_seed(2);
        method.sample(&model, 70, &run).unwrap().value.samples
    };
    assert_eq!(draw(1), draw(3));
}

/// Trees in which a span has probability 10⁻²⁰⁰ have accurate marginals.
#[test]
fn small_probabilities_are_relatively_accurate() {
    let mut spans = vec![0.0; 16];
    spans[2 * 4 + 3] = -460.0;
    let model: Hypertree<f64> =
        Hypertree::new(Symbols::same(1), vec![0.0; 4].into(), vec![4], Rules::Any).unwrap();
    let model = model.with_spans(zhat::model::Spans::PerSpan(spans.into())).unwrap();
    let marginals = InsideOutside::default().marginals(&model, &Run::default()).unwrap().value;
    // Three of five trees have no span (2, 3); two have it.
    let weight = (-460.0f64).exp();
    let expected = 2.0 * weight / (3.0 + 2.0 * weight);
    assert!((marginals.values[2 * 4 + 3] / expected - 1.0).abs() < 1e-12);
}
