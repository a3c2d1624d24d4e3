//! States, sets of states and likelihoods as evidence, against sums over every state with the definition of
//! evidence.

use zhat::catalogue::{Choice, Settings};
use zhat::dynamic::{ForwardBackward, InsideOutside, SpanningTrees};
use zhat::model::generate::{self, ChainShape, SentenceShape};
use zhat::model::{AnyModel, Evidence, Finding, NetworkType, PairwiseGraph, Place, Transitions};
use zhat::random::{Stream, Streams};
use zhat::{Answer, Error, FactorGraph, LogPartition, Model, Query, Run};

use crate::support::exact_methods;
use crate::support::oracle::{log_sum_exp, states};
use crate::support::parses::Parses;
use crate::support::sequences;
use crate::support::trees::Listed;

/// Evidence about a place with states `first` to `first + count` − 1.
fn random_evidence(random: &mut Stream, place: Place, first: usize, count: usize) -> Option<Evidence> {
    let state = |random: &mut Stream| first + random.below(count);
    let finding = match random.below(5) {
        0 => return None,
        1 => Finding::State(state(random)),
        // Sets of one state and of all states are among them, and states that are named twice.
        2 => Finding::Set((0..1 + random.below(2 * count)).map(|_| state(random)).collect()),
        _ => {
            let mut weights: Vec<f64> = (0..count).map(|_| random.uniform() * 3.0).collect();
            (1..count)
                .filter(|_| random.uniform() < 0.3)
                .collect::<Vec<_>>()
                .iter()
                .for_each(|&s| weights[s] = 0.0);
            Finding::Likelihood(weights.into_iter().map(f64::ln).collect())
        }
    };
    Some(Evidence::new(place, finding))
}

/// Σ log λ at the states of the places, by definition; `first` is the number of the first state of a place.
fn log_likelihood(evidence: &[Evidence], first: usize, state_of: impl Fn(Place) -> usize) -> f64 {
    let allowed = |yes: bool| if yes { 0.0 } else { f64::NEG_INFINITY };
    let term = |item: &Evidence| match item {
        Evidence::State { variable, state } => allowed(state_of(Place::Variable(*variable)) == *state),
        Evidence::Position(seen) => {
            let place = Place::Position { sequence: seen.sequence, position: seen.position };
            allowed(state_of(place) == seen.state)
        }
        Evidence::Set { place, states } => allowed(states.contains(&state_of(*place))),
        Evidence::Likelihood { place, log_values } => log_values[state_of(*place) - first],
        other => panic!("{other:?}"),
    };
    evidence.iter().map(term).sum()
}

/// log Z of every item of a batch; if it is −∞ for all of them, the answer is an error.
fn values(answer: Result<Answer<Vec<f64>>, Error>, batch: usize) -> Vec<f64> {
    match answer {
        Ok(answer) => answer.value,
        Err(Error::ZeroPartition | Error::ImpossibleEvidence { .. } | Error::NoTree(_)) => {
            vec![f64::NEG_INFINITY; batch]
        }
        Err(error) => panic!("{error}"),
    }
}

fn close(what: &str, got: f64, want: f64) {
    assert!(got == want || (got - want).abs() < 1e-9 * want.abs().max(1.0), "{what}: {got}, expected {want}");
}

#[test]
fn graphs_agree_with_the_sum_over_all_states() {
    let run = Run::default();
    let (mut possible, mut impossible) = (0, 0);
    for (seed, (name, graph)) in crate::support::small_models(140).into_iter().enumerate() {
        let mut random = Streams::new(seed as u64, "evidence").block(0);
        let sizes = graph.cardinalities().iter().enumerate();
        let evidence: Vec<Evidence> =
            sizes.filter_map(|(v, &n)| random_evidence(&mut random, Place::Variable(v), 0, n)).collect();
        // In two steps as in one.
        let (one, other) = evidence.split_at(seed % (evidence.len() + 1));
        let given = graph.condition_on(one).unwrap().condition_on(other).unwrap();
        assert_eq!(given.cardinalities(), graph.cardinalities(), "{name}");
        let states = states(&graph);
        let weight = |state: &Vec<usize>| {
            let place = |place| match place {
                Place::Variable(v) => state[v],
                other => panic!("{other:?}"),
            };
            graph.score(state) + log_likelihood(&evidence, 0, place)
        };
        let scores: Vec<f64> = states.iter().map(weight).collect();
        let log_z = log_sum_exp(&scores);
        for (method, exact) in exact_methods() {
            let name = format!("{method}, {name} given {evidence:?}");
            if log_z == f64::NEG_INFINITY {
                let expected = |error: Error| match given.has_evidence() {
                    true => matches!(error, Error::ImpossibleEvidence { .. }),
                    false => matches!(error, Error::ZeroPartition),
                };
                impossible += usize::from(given.has_evidence());
                assert!(expected(exact.log_partition(&given, &run).unwrap_err()), "{name}");
                assert!(expected(exact.marginals(&given, &run).unwrap_err()), "{name}");
                continue;
            }
            possible += 1;
            close(&name, exact.log_partition(&given, &run).unwrap().value, log_z);
            let beliefs = exact.marginals(&given, &run).unwrap().value;
            for (v, &n) in graph.cardinalities().iter().enumerate() {
                assert_eq!(beliefs.variable(v).len(), n, "{name}");
                for s in 0..n {
                    let agree = states.iter().zip(&scores).filter(|(state, _)| state[v] == s);
                    let want: f64 = agree.map(|(_, score)| (score - log_z).exp()).sum();
                    close(&name, beliefs.variable(v)[s], want);
                }
            }
        }
        let model = Model::new(graph).condition(&evidence).unwrap();
        let explained =
            zhat::catalogue::answer(&model, Query::LogPartition, &Choice::Auto, &Settings::new(), &run);
        if log_z == f64::NEG_INFINITY && given.has_evidence() {
            assert!(matches!(explained.unwrap_err(), Error::ImpossibleEvidence { .. }), "{name}");
        }
    }
    assert!(possible > 100 && impossible > 10, "{possible} possible, {impossible} impossible");
}

#[test]
fn chains_agree_with_the_sum_over_all_paths() {
    let run = Run::default();
    for seed in 0..60 {
        let mut random = Streams::new(seed, "evidence about chains").block(0);
        let form = sequences::FORMS[seed as usize % sequences::FORMS.len()];
        let chain = sequences::chain::<f64>(form, ["plain", "zeros"][seed as usize % 2], seed);
        let semi = sequences::semi_markov::<f64>("shared", ["plain", "zeros"][seed as usize % 2], seed);
        let mut evidence_for = |lengths: &[usize], states: usize| {
            let mut evidence = Vec::new();
            for (sequence, &length) in lengths.iter().enumerate() {
                for position in 0..length {
                    let place = Place::Position { sequence, position };
                    evidence.extend(random_evidence(&mut random, place, 0, states));
                }
            }
            evidence
        };
        let evidence = evidence_for(chain.lengths(), chain.states());
        let given = chain.condition_on(&evidence).unwrap();
        let got = values(ForwardBackward::default().log_partition(&given, &run), chain.batch());
        for (b, &got) in got.iter().enumerate() {
            let of_b: Vec<Evidence> =
                evidence.iter().filter(|item| sequence_of(item) == b).cloned().collect();
            let score = |path: &Vec<usize>| {
                let state = |place| match place {
                    Place::Position { position, .. } => path[position],
                    other => panic!("{other:?}"),
                };
                chain.score(b, path) + log_likelihood(&of_b, 0, state)
            };
            let paths = sequences::Listed::states(&chain, b);
            let scores: Vec<f64> = paths.iter().map(score).collect();
            close(&format!("{form}, {seed}, {b}"), got, log_sum_exp(&scores));
        }
        let evidence = evidence_for(semi.chain().lengths(), semi.chain().states());
        let given = semi.condition_on(&evidence).unwrap();
        let got = values(ForwardBackward::default().log_partition(&given, &run), semi.chain().batch());
        for (b, &got) in got.iter().enumerate() {
            let of_b: Vec<Evidence> =
                evidence.iter().filter(|item| sequence_of(item) == b).cloned().collect();
            let segmentations = sequences::Listed::states(&semi, b);
            let score = |segments: &Vec<(usize, usize)>| {
                let path: Vec<usize> =
                    segments.iter().flat_map(|&(state, length)| vec![state; length]).collect();
                let state = |place| match place {
                    Place::Position { position, .. } => path[position],
                    other => panic!("{other:?}"),
                };
                sequences::Listed::score(&semi, b, segments) + log_likelihood(&of_b, 0, state)
            };
            let scores: Vec<f64> = segmentations.iter().map(score).collect();
            close(&format!("semi-Markov, {seed}, {b}"), got, log_sum_exp(&scores));
        }
    }
}

fn sequence_of(item: &Evidence) -> usize {
    match item {
        Evidence::Position(seen) => seen.sequence,
        Evidence::Set { place: Place::Position { sequence, .. }, .. }
        | Evidence::Likelihood { place: Place::Position { sequence, .. }, .. } => *sequence,
        other => panic!("{other:?}"),
    }
}

#[test]
fn trees_agree_with_the_sum_over_all_trees() {
    let run = Run::default();
    for seed in 0..40 {
        let mut random = Streams::new(seed, "evidence about trees").block(0);
        let trees = crate::dependency::SHAPES[seed as usize % 4];
        let labels = if seed % 3 == 0 { Some(2) } else { None };
        let shape =
            SentenceShape { words: 3, batch: 2, ragged: true, labels, trees, strength: 1.0, zeros: 0.0 };
        let model = generate::dependency::<f64>(&shape, seed).unwrap();
        let mut evidence = Vec::new();
        for (sequence, &length) in model.lengths().iter().enumerate() {
            for position in 0..length {
                let place = Place::Position { sequence, position };
                evidence.extend(random_evidence(&mut random, place, 0, length + 1));
            }
        }
        evidence.retain(|item| !matches!(item, Evidence::Position(seen) if seen.state == seen.position + 1));
        let is_own = |item: &Evidence| match item {
            Evidence::Set { place: Place::Position { position, .. }, states } => {
                states.iter().all(|state| *state == position + 1)
            }
            _ => false,
        };
        evidence.retain(|item| !is_own(item));
        let given = model.condition_on(&evidence).unwrap();
        let got = values(SpanningTrees::default().log_partition(&given, &run), model.lengths().len());
        for (b, &got) in got.iter().enumerate() {
            let of_b: Vec<Evidence> =
                evidence.iter().filter(|item| sequence_of(item) == b).cloned().collect();
            let listed = Listed::new(&model, b);
            let scores: Vec<f64> = listed
                .trees
                .iter()
                .zip(&listed.scores)
                .map(|((heads, _), score)| {
                    let head = |place| match place {
                        Place::Position { position, .. } => heads[position],
                        other => panic!("{other:?}"),
                    };
                    score + log_likelihood(&of_b, 0, head)
                })
                .collect();
            close(&format!("{seed}, {b}: {of_b:?}"), got, log_sum_exp(&scores));
        }
    }
}

#[test]
fn constituency_trees_agree_with_the_sum_over_all_trees() {
    let run = Run::default();
    for (shape, seed) in crate::hypertree::shapes() {
        let mut model = generate::hypertree::<f64>(&shape, seed).unwrap();
        if seed % 2 == 0 {
            model = crate::hypertree::with_unary(model, seed);
        }
        let mut random = Streams::new(seed, "evidence about tags").block(0);
        let (first, tags) = (model.symbols().all - model.symbols().tags, model.symbols().tags);
        let mut evidence = Vec::new();
        for (sequence, &length) in model.lengths().iter().enumerate() {
            for position in 0..length {
                let place = Place::Position { sequence, position };
                evidence.extend(random_evidence(&mut random, place, first, tags));
            }
        }
        let given = model.condition_on(&evidence).unwrap();
        let got = values(InsideOutside::default().log_partition(&given, &run), model.lengths().len());
        for (b, &got) in got.iter().enumerate() {
            let of_b: Vec<Evidence> =
                evidence.iter().filter(|item| sequence_of(item) == b).cloned().collect();
            let parses = Parses::new(&model, b);
            let scores: Vec<f64> = parses
                .trees
                .iter()
                .zip(&parses.scores)
                .map(|(nodes, score)| {
                    // The lowest node of a word is the last one listed.
                    let tag = |place| match place {
                        Place::Position { position, .. } => {
                            let own =
                                nodes.iter().rfind(|node| node.first == position && node.last == position);
                            own.unwrap().symbol
                        }
                        other => panic!("{other:?}"),
                    };
                    score + log_likelihood(&of_b, first, tag)
                })
                .collect();
            close(&format!("{seed}, {b}: {of_b:?}"), got, log_sum_exp(&scores));
        }
    }
}

#[test]
fn pairwise_graphs_agree_with_their_factor_graphs() {
    for seed in 0..30 {
        let mut random = Streams::new(seed, "evidence about pairwise graphs").block(0);
        let nodes: Vec<f64> = (0..12).map(|_| random.normal()).collect();
        let table = Transitions::PerStep((0..4 * 9).map(|_| random.normal()).collect::<Vec<f64>>().into());
        let edges = vec![(0, 1), (1, 2), (2, 0), (2, 3)];
        let graph = PairwiseGraph::new(3, nodes.into(), edges, table).unwrap();
        let evidence: Vec<Evidence> =
            (0..4).filter_map(|v| random_evidence(&mut random, Place::Variable(v), 0, 3)).collect();
        let given = graph.condition_on(&evidence).unwrap();
        for state in states(&graph.to_factor_graph().unwrap()) {
            let place = |place| match place {
                Place::Variable(v) => state[v],
                other => panic!("{other:?}"),
            };
            close("score", given.score(&state), graph.score(&state) + log_likelihood(&evidence, 0, place));
        }
    }
}

/// Two variables named by text that looks like evidence.
fn odd_names() -> FactorGraph {
    let texts = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    let states = vec![texts(&["a|b", "a", "b", "1", "0.5:0.5"]), texts(&["10:30", "11:00"]), vec![]];
    FactorGraph::new(vec![5, 2, 3]).unwrap().with_names(texts(&["x=y", "time", "x"]), states).unwrap()
}

#[test]
fn a_text_that_is_the_name_of_a_state_is_that_state() {
    let graph = odd_names();
    let parsed = |text: &str| graph.parse_evidence(text);
    let state = |variable, state| Evidence::State { variable, state };
    let set = |v, states: &[usize]| Evidence::Set { place: Place::Variable(v), states: states.to_vec() };
    let logs = |values: &[f64]| values.iter().map(|x| x.ln()).collect::<Vec<_>>();
    let likelihood =
        |v, values: &[f64]| Evidence::Likelihood { place: Place::Variable(v), log_values: logs(values) };
    for (text, want) in [
        ("x=y=a|b", state(0, 0)),
        ("x=y=b|a", set(0, &[2, 1])),
        ("x=y= b | a ", set(0, &[2, 1])),
        // The state named 1 is number 3; state number 0 has another name.
        ("x=y=1", state(0, 3)),
        ("x=y=0", state(0, 0)),
        ("x=y=1|0", set(0, &[3, 0])),
        ("x=y=0.5:0.5", state(0, 4)),
        ("x=y=0.5:0.5:0:1:2", likelihood(0, &[0.5, 0.5, 0.0, 1.0, 2.0])),
        ("time=10:30", state(1, 0)),
        ("time=10:30|11:00", set(1, &[0, 1])),
        ("time=10:31", likelihood(1, &[10.0, 31.0])),
        (
            "x=0:1e-400:1",
            Evidence::Likelihood {
                place: Place::Variable(2),
                log_values: vec![f64::NEG_INFINITY, -400.0 * std::f64::consts::LN_10, 0.0],
            },
        ),
        ("x=2", state(2, 2)),
        ("x2=2|2", set(2, &[2, 2])),
    ] {
        match (parsed(text).unwrap(), want) {
            (Evidence::Likelihood { log_values: got, .. }, Evidence::Likelihood { log_values, .. }) => {
                assert_eq!(got.len(), log_values.len(), "{text}");
                assert!(got.iter().zip(&log_values).all(|(a, b)| a == b || (a - b).abs() < 1e-12), "{text}");
            }
            (got, want) => assert_eq!(got, want, "{text}"),
        }
    }
    for (text, message) in [
        ("time", "expected NAME=STATE, found `time`"),
        ("tim=10:30", "there is no variable `tim`; did you mean `time`?"),
        ("time=12", "variable `time` has no state `12`"),
        ("time=10:30|12", "variable `time` has no state `12`"),
        ("time=10:30|", "variable `time` has no state ``"),
        ("time=0.5:x", "likelihood 1 in `0.5:x` is `x`; expected a finite number that is 0 or more"),
        ("time=0.5:-1", "likelihood 1 in `0.5:-1` is `-1`"),
        ("time=:1", "likelihood 0 in `:1` is ``"),
        ("time=inf:1", "likelihood 0 in `inf:1` is `inf`"),
    ] {
        let found = parsed(text).unwrap_err().to_string();
        assert!(found.contains(message), "{text}: {found}");
    }
    let condition = |text: &str| graph.condition_on(&[parsed(text).unwrap()]).unwrap_err().to_string();
    assert!(condition("x=1:1").contains("variable x has 3 states, but 2 likelihoods are given"));
    assert!(condition("x=0:0:0").contains("the likelihoods of variable x are all 0; one must be positive"));
}

#[test]
fn positions_take_sets_and_likelihoods_as_text() {
    let shape = ChainShape { states: 2, steps: 4, batch: 2, ragged: false, ..Default::default() };
    let chain = generate::chain::<f64>(&shape, 1).unwrap();
    let place = Place::Position { sequence: 1, position: 3 };
    assert_eq!(chain.parse_evidence("1:3=0|1").unwrap(), Evidence::Set { place, states: vec![0, 1] });
    let log_values = vec![0.0, 0.25f64.ln()];
    assert_eq!(chain.parse_evidence("1:3=1:0.25").unwrap(), Evidence::Likelihood { place, log_values });
    for text in ["1:3=0|a", "1:3=", "3=0|1", "1:3"] {
        let message = chain.parse_evidence(text).unwrap_err().to_string();
        assert!(
            message.contains("expected SEQUENCE:POSITION=STATE in numbers that count from 0"),
            "{message}"
        );
    }
    let refused = |evidence| chain.condition_on(&[evidence]).unwrap_err().to_string();
    assert!(
        refused(Evidence::Likelihood { place, log_values: vec![0.0; 3] }).contains("3 likelihoods are given")
    );
    assert!(
        refused(Evidence::State { variable: 0, state: 0 })
            .contains("a chain takes evidence about positions of sequences")
    );
    let single = chain.condition_on(&[Evidence::Set { place, states: vec![0, 0] }]).unwrap();
    let hard = chain.condition_on(&[Evidence::new(place, Finding::State(0))]).unwrap();
    assert_eq!(single, hard);
}

#[test]
fn uncertain_evidence_is_kept_in_files_and_told_in_messages() {
    let names = vec!["sky".into(), "rain".into()];
    let states = vec![vec!["blue".into(), "grey".into(), "dark".into()], vec!["no".into(), "yes".into()]];
    let mut graph = FactorGraph::new(vec![3, 2]).unwrap().with_names(names, states).unwrap();
    let no = f64::NEG_INFINITY;
    graph.add_factor(&[0, 1], &[0.0, no, 0.5, 0.25, 0.0, 0.5]).unwrap();
    let given = |texts: &[&str]| {
        let evidence: Vec<Evidence> = texts.iter().map(|text| graph.parse_evidence(text).unwrap()).collect();
        Model::new(graph.clone()).condition(&evidence).unwrap()
    };
    let model = given(&["sky=grey|dark", "rain=0.2:0.9"]);
    let mut bytes = Vec::new();
    zhat::io::model_file::write(&model, &mut bytes).unwrap();
    let back = zhat::io::model_file::parse(&bytes, "").unwrap();
    assert_eq!(back, model);
    assert_ne!(back, given(&["sky=grey|dark"]));
    let lines = model.summary().lines;
    assert!(lines.contains(&("evidence", "2 uncertain observations".into())), "{lines:?}");
    let explained = |model: &Model| {
        let error = zhat::catalogue::answer(
            model,
            Query::Marginals,
            &Choice::Auto,
            &Settings::new(),
            &Run::default(),
        );
        error.unwrap_err().to_string()
    };
    let message = explained(&given(&["sky=blue", "rain=0:1"]));
    assert!(
        message.ends_with("sky = blue and rain = yes exclude each other by the factor over (sky, rain)"),
        "{message}"
    );
    let both = given(&["sky=grey|dark"]).condition(&[Evidence::State { variable: 0, state: 0 }]).unwrap();
    assert!(explained(&both).contains("sky = blue is impossible"), "{}", explained(&both));
    let network = graph.clone().with_network_type(NetworkType::Bayes);
    let network = network.condition_on(&[graph.parse_evidence("rain=1:2").unwrap()]).unwrap();
    let message = zhat::io::bif::check(&network).unwrap_err().to_string();
    assert!(message.ends_with("this model has been given evidence"), "{message}");
}
