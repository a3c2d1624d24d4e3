//! The conditional tagger against enumeration of all sequences of tags and finite differences.

mod stochastic;

use super::super::examples::Examples;
use super::super::file::{parse_tagger, read_tagger_checkpoint, write_tagger, write_tagger_checkpoint};
use super::super::{Corpus, Inputs, ReadOptions, Tagger, Template};
use super::design::{Design, Wanted};
use super::lattice::Lattice;
use super::objective::Objective;
use super::sums::Transitions;
use super::*;
use crate::Run;
use crate::random::Streams;

fn uniform(seed: u64) -> impl FnMut() -> f64 {
    let mut random = Streams::new(seed, "tagger tests").block(0);
    move || random.uniform()
}

/// Random sentences over some tags and attributes, with weights.
fn random_examples(seed: u64, tags: usize, weighted: bool) -> Examples {
    let mut draw = uniform(seed);
    let mut examples = Examples::new(None).unwrap();
    for sentence in 0..5 {
        for _ in 0..[1, 2, 3, 4, 5][sentence] {
            let tag = format!("T{}", (draw() * tags as f64) as usize);
            let mut attributes = vec![("bias".to_owned(), 1.0)];
            for k in 0..3 {
                let weight = if weighted { draw() * 2.0 - 0.5 } else { 1.0 };
                attributes.push((format!("a{k}={}", (draw() * 4.0) as usize), weight));
            }
            examples.token(attributes.iter().map(|(name, w)| (name.as_str(), *w)), &tag).unwrap();
        }
        examples.end_sentence();
    }
    examples
}

fn every_sequence(tags: usize, length: usize, mut each: impl FnMut(&[u16])) {
    let mut now = vec![0u16; length];
    loop {
        each(&now);
        let Some(at) = now.iter().position(|&tag| usize::from(tag) + 1 < tags) else { return };
        now[..at].fill(0);
        now[at] += 1;
    }
}

/// −Σ ln p + λ‖θ‖² by enumeration, with scores from the definition.
fn by_enumeration(design: &Design, examples: &Examples, point: &[f64], l2: f64) -> f64 {
    let data = &examples.numbered;
    let weight_of = |token: usize, tag: u16| -> f64 {
        (data.start(token)..data.ends[token])
            .map(|at| {
                let attribute = data.items[at] as usize;
                let own = design.starts[attribute]..design.starts[attribute + 1];
                let found = own.clone().find(|&k| design.state_tags[k] == tag);
                data.weight(at) * found.map_or(0.0, |k| point[k])
            })
            .sum()
    };
    let states = design.state_tags.len();
    let score = |start: usize, tags: &[u16]| -> f64 {
        let mut sum = 0.0;
        for (t, &tag) in tags.iter().enumerate() {
            sum += weight_of(start + t, tag);
            if t > 0 {
                let pair = design.pairs.iter().position(|pair| *pair == [tags[t - 1], tag]);
                sum += pair.map_or(0.0, |k| point[states + k]);
            }
            if t > 1 {
                let own = [tags[t - 2], tags[t - 1], tag];
                let triple = design.triples.iter().position(|triple| *triple == own);
                sum += triple.map_or(0.0, |k| point[states + design.pairs.len() + k]);
            }
        }
        sum
    };
    let mut value = l2 * point.iter().map(|x| x * x).sum::<f64>();
    for number in 0..data.sentences.len() {
        let tokens = data.sentence(number);
        let mut all = Vec::new();
        every_sequence(design.tags, tokens.len(), |tags| all.push(score(tokens.start, tags)));
        value += crate::numeric::log_sum_exp(&all) - score(tokens.start, &data.tags[tokens.clone()]);
    }
    value
}

#[test]
fn the_objective_is_that_of_enumeration_and_its_gradient_of_differences() {
    let run = Run::default();
    let clock = run.start("test");
    for (seed, (tags, order)) in
        [(1, 1), (3, 1), (4, 1), (2, 2), (3, 2), (4, 2), (9, 1)].into_iter().enumerate()
    {
        for (all_possible, weighted, size) in [(false, false, 1.0), (true, true, 1.0), (true, false, 400.0)] {
            if tags == 9 && size > 1.0 {
                continue;
            }
            let mut examples = random_examples(seed as u64, tags, weighted);
            if tags == 9 {
                // Sequences of nine tags are enumerated up to three tokens.
                examples.numbered.sentences.truncate(3);
            }
            let set = examples.sort_tags().unwrap();
            let wanted = Wanted { order, min_count: 0, all_possible };
            let design = Design::new(&mut examples, set.len(), wanted).unwrap();
            let mut draw = uniform(100 + seed as u64);
            let point: Vec<f64> = (0..design.size()).map(|_| size * (draw() - 0.5)).collect();
            let l2 = 0.3;
            let mut objective = Objective::new(&design, &examples.numbered, l2);
            let mut gradient = vec![0.0; point.len()];
            let value = objective.evaluate(&point, &mut gradient, &clock).unwrap();
            let expected = by_enumeration(&design, &examples, &point, l2);
            assert!((value - expected).abs() <= 1e-10 * expected.abs().max(1.0), "{value} {expected}");
            // The second evaluation does not depend on the first.
            let mut again = vec![0.0; point.len()];
            assert_eq!(objective.evaluate(&point, &mut again, &clock).unwrap().to_bits(), value.to_bits());
            assert_eq!(gradient, again);
            let h = 1e-5;
            for k in (0..point.len()).step_by(1 + point.len() / 60) {
                let at = |x: f64| {
                    let mut moved = point.clone();
                    moved[k] += x;
                    by_enumeration(&design, &examples, &moved, l2)
                };
                let slope = (at(h) - at(-h)) / (2.0 * h);
                let allowed = 1e-6 * (1.0 + slope.abs()) + 1e-10 * expected.abs() / h;
                assert!((gradient[k] - slope).abs() < allowed, "{k}: {} {slope}", gradient[k]);
            }
        }
    }
}

#[test]
fn sums_of_the_log_domain_replace_those_out_of_range() {
    // Only one transition is possible, and its score is far below the others.
    let (tags, width) = (3, 8);
    for order in [1, 2] {
        let mut draw = uniform(7);
        let scores: Vec<f64> = (0..6 * width).map(|_| 1e4 * (draw() - 0.5)).collect();
        let pairs: Vec<f64> = (0..tags * width).map(|_| 1e4 * (draw() - 0.5)).collect();
        let triples: Vec<f64> = if order == 2 {
            (0..tags * tags * width).map(|_| 1e4 * (draw() - 0.5)).collect()
        } else {
            Vec::new()
        };
        let lattice = Lattice { length: 6, tags, width, scores: &scores, pairs: &pairs, triples: &triples };
        let sums = lattice.sums().unwrap();
        let mut all = Vec::new();
        every_sequence(tags, 6, |sequence| all.push((lattice.score(sequence), sequence.to_vec())));
        let values: Vec<f64> = all.iter().map(|(score, _)| *score).collect();
        assert!((sums.log_z - crate::numeric::log_sum_exp(&values)).abs() < 1e-8);
        let mut marginals = vec![0.0; 6 * width];
        for (score, sequence) in &all {
            for (t, &tag) in sequence.iter().enumerate() {
                marginals[t * width + usize::from(tag)] += (score - sums.log_z).exp();
            }
        }
        assert!(marginals.iter().zip(&sums.marginals).all(|(a, b)| (a - b).abs() < 1e-8));
        all.sort_by(|a, b| b.0.total_cmp(&a.0));
        let best = lattice.best(5).unwrap();
        for (found, expected) in best.iter().zip(&all) {
            assert!((found.0 - expected.0).abs() < 1e-8);
        }
        assert_eq!(best.len(), 5);
        let made = Transitions::new(tags, width, pairs.clone(), triples.clone());
        assert_eq!(made.pairs, pairs);
    }
}

fn trained(how: &Learning, threads: usize) -> Tagger {
    let run = Run::default().with_threads(threads);
    train(random_examples(5, 4, true), how, None, None, &run, &mut |_| Ok(true)).unwrap()
}

fn tagged(examples: &Examples, tagger: &Tagger) -> Inputs {
    let mut inputs = Inputs::default();
    inputs.numbered.clone_from(&examples.numbered);
    let _ = tagger;
    inputs
}

#[test]
fn queries_agree_with_enumeration() {
    for context in [1, 2] {
        let how = Learning::default().l2(0.05).context(context);
        let mut examples = random_examples(5, 4, true);
        let mut tagger = trained(&how, 1);
        let run = Run::default();
        let set = examples.sort_tags().unwrap();
        let wanted = Wanted { order: context, min_count: 0, all_possible: false };
        Design::new(&mut examples, set.len(), wanted).unwrap();
        for forbidden in [false, true] {
            if forbidden {
                tagger.forbid(&[("T0", "T1"), ("T2", "T2")]).unwrap();
            }
            let mut inputs = tagged(&examples, &tagger);
            for known in [false, true] {
                if known {
                    // Only the second tag of every sentence is known.
                    for number in 0..inputs.len() {
                        for (t, token) in inputs.numbered.sentence(number).enumerate() {
                            if t != 1 {
                                inputs.numbered.tags[token] = u16::MAX;
                            }
                        }
                    }
                }
                let best = tagger.best(&inputs, 7, known, &run).unwrap();
                let marginals = tagger.marginals(&inputs, known, &run).unwrap();
                let predicted = match known {
                    true => tagger.predict_known(&inputs, &run).unwrap(),
                    false => tagger.predict(&inputs, &run).unwrap(),
                };
                for number in 0..inputs.len() {
                    let own = inputs.tags(number);
                    let mut all = Vec::new();
                    tagger.with_lattice(&inputs, number, |lattice| {
                        every_sequence(4, own.len(), |tags| {
                            let fits =
                                own.iter().zip(tags).all(|(known, tag)| known.is_none_or(|k| k == *tag));
                            let score = lattice.score(tags);
                            if (fits || !known) && score > f64::NEG_INFINITY {
                                all.push((score, tags.to_vec()));
                            }
                        });
                    });
                    all.sort_by(|a, b| b.0.total_cmp(&a.0));
                    let values: Vec<f64> = all.iter().map(|(score, _)| *score).collect();
                    let log_z = crate::numeric::log_sum_exp(&values);
                    assert_eq!(best[number].len(), all.len().min(7));
                    for (found, (score, _)) in best[number].iter().zip(&all) {
                        assert!((found.log_probability - (score - log_z)).abs() < 1e-10);
                    }
                    assert_eq!(best[number][0].tags, predicted[number]);
                    let mut expected = vec![0.0; 4 * own.len()];
                    for (score, tags) in &all {
                        let p = (score - log_z).exp();
                        tags.iter().enumerate().for_each(|(t, &tag)| expected[4 * t + usize::from(tag)] += p);
                    }
                    assert!(expected.iter().zip(&marginals[number]).all(|(a, b)| (a - b).abs() < 1e-10));
                }
            }
        }
    }
}

#[test]
fn impossible_tags_are_an_error() {
    let mut tagger = trained(&Learning::default(), 1);
    let run = Run::default();
    assert!(tagger.forbid(&[("T0", "T9")]).is_err());
    let mut inputs = Inputs::default();
    for tag in ["T0", "T1"] {
        tagger.token(&mut inputs, [("bias", 1.0), ("never seen", 2.0)], Some(tag)).unwrap();
    }
    inputs.end_sentence();
    inputs.end_sentence();
    let inputs = tagger.sorted(inputs);
    tagger.forbid(&[("T0", "T1")]).unwrap();
    let message = tagger.predict_known(&inputs, &run).unwrap_err().to_string();
    assert!(message.contains("sentence 1: its known tags need a forbidden transition"), "{message}");
    let tags = tagger.predict(&inputs, &run).unwrap();
    assert_eq!((tags[0].len(), tags[1].len()), (2, 0));
}

#[test]
fn l1_satisfies_the_conditions_of_an_optimum_and_empties_parameters() {
    let (l1, l2) = (0.4, 0.05);
    let how = Learning::default().l1(l1).l2(l2).delta(0.0).iterations(3000);
    let mut examples = random_examples(5, 4, true);
    let tagger = train(examples.clone(), &how, None, None, &Run::default(), &mut |_| Ok(true)).unwrap();
    let set = examples.sort_tags().unwrap();
    let wanted = Wanted { order: 1, min_count: 0, all_possible: false };
    let design = Design::new(&mut examples, set.len(), wanted).unwrap();
    let run = Run::default();
    let clock = run.start("test");
    let point = tagger.parameters();
    let mut gradient = vec![0.0; point.len()];
    Objective::new(&design, &examples.numbered, l2).evaluate(point, &mut gradient, &clock).unwrap();
    for (x, g) in point.iter().zip(&gradient) {
        if *x == 0.0 {
            assert!(g.abs() <= l1 + 1e-5, "{g}");
        } else {
            assert!((g + l1 * x.signum()).abs() < 1e-4, "{x} {g}");
        }
    }
    assert!(tagger.nonzero() < point.len() / 2, "{} of {}", tagger.nonzero(), point.len());
}

#[test]
fn any_number_of_threads_and_a_resumed_run_give_the_same_bits() {
    let folder = std::env::temp_dir().join(format!("zhat-tagger-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("checkpoint.zhat");
    for how in [Learning::default().l2(0.01), Learning::default().l1(0.1).l2(0.01)] {
        let how = how.iterations(8).delta(0.0);
        // Many sentences, so that there are two blocks.
        let many = || {
            let mut examples = Examples::new(None).unwrap();
            let mut draw = uniform(3);
            for _ in 0..420 {
                for _ in 0..20 {
                    let name = format!("x{}", (draw() * 50.0) as usize);
                    let tag = format!("T{}", (draw() * 3.0) as usize);
                    examples.token([(name.as_str(), 1.0)], &tag).unwrap();
                }
                examples.end_sentence();
            }
            examples
        };
        let one = |threads| {
            let run = Run::default().with_threads(threads);
            train(many(), &how, None, None, &run, &mut |_| Ok(true)).unwrap()
        };
        let whole = one(1);
        assert_eq!(whole.parameters(), one(2).parameters());
        let run = Run::default();
        let mut steps = 0;
        train(many(), &how, None, None, &run, &mut |now| {
            steps += 1;
            write_tagger_checkpoint(now, &path)?;
            Ok(steps < 3)
        })
        .unwrap();
        let from = read_tagger_checkpoint(&path).unwrap();
        assert_eq!(from.progress().step, 3);
        let resumed = train(many(), &how, None, Some(from.clone()), &run, &mut |_| Ok(true)).unwrap();
        assert_eq!(resumed.parameters(), whole.parameters());
        let other = train(many(), &how.l2(2.0), None, Some(from), &run, &mut |_| Ok(true)).unwrap_err();
        assert!(other.to_string().contains("checkpoint: belongs to other data or other options"));
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn files_keep_taggers_and_broken_files_are_errors() {
    let corpus =
        Corpus::parse("the_DT dog_NN barks_VB\nthe_DT cat_NN sat_VB\n".into(), "f", &ReadOptions::default())
            .unwrap();
    for bits in [None, Some(4)] {
        for context in [1, 2] {
            let examples = Examples::of(&corpus, &Template::parse("appendix-b:3").unwrap(), bits).unwrap();
            assert_eq!(examples.collisions() > 0, bits.is_some());
            let how = Learning::default().l2(0.01).context(context);
            let run = Run::default();
            let tagger = train(examples, &how, None, None, &run, &mut |_| Ok(true)).unwrap();
            let inputs = tagger.inputs(&corpus).unwrap();
            let tags = tagger.predict(&inputs, &run).unwrap();
            assert_eq!(tagger.names(&tags[1]), ["DT", "NN", "VB"]);
            let mut bytes = Vec::new();
            write_tagger(&tagger, &mut bytes).unwrap();
            assert_eq!(parse_tagger(&bytes, "m").unwrap(), tagger);
            let mut draw = uniform(1);
            for _ in 0..200 {
                let mut broken = bytes.clone();
                let at = (draw() * broken.len() as f64) as usize;
                broken[at] = (draw() * 256.0) as u8;
                if let Ok(read) = parse_tagger(&broken, "m") {
                    let _ = read.predict(&read.inputs(&corpus).unwrap(), &run);
                }
            }
            assert!(parse_tagger(&bytes[..bytes.len() / 2], "m").is_err());
        }
    }
}

#[test]
fn empty_attributes_are_left_out_of_files_and_the_answers_are_the_same_bits() {
    let run = Run::default();
    let mut draw = uniform(41);
    let mut sentences = |count: usize| -> Corpus {
        let mut text = String::new();
        for _ in 0..count {
            for _ in 0..4 {
                let tag = (draw() * 3.0) as usize;
                let weight = draw();
                let noise = (draw() * 12.0) as usize;
                text += &format!("T{tag}\town={tag}\tnoise={noise}:{weight}\tshape={}\n", tag * noise % 5);
            }
            text.push('\n');
        }
        Corpus::parse(text, "f", &ReadOptions::default()).unwrap()
    };
    let (data, new) = (sentences(60), sentences(20));
    let template = Template::parse("attributes").unwrap();
    for (bits, context, l1) in [(None, 1, 2.0), (None, 2, 2.0), (Some(6), 1, 2.0), (None, 1, 1e6)] {
        let examples = Examples::of(&data, &template, bits).unwrap();
        let how = Learning::default().l1(l1).l2(0.01).context(context);
        let tagger = train(examples, &how, None, None, &run, &mut |_| Ok(true)).unwrap();
        let design = tagger.design();
        let left = (0..design.attributes())
            .filter(|&a| {
                tagger.parameters()[design.starts[a]..design.starts[a + 1]].iter().any(|x| *x != 0.0)
            })
            .count();
        assert!(left < tagger.attributes() && (left > 2) == (l1 < 1e6), "{left} of {}", tagger.attributes());
        let mut bytes = Vec::new();
        write_tagger(&tagger, &mut bytes).unwrap();
        let read = parse_tagger(&bytes, "m").unwrap();
        assert_eq!(read.attributes(), left);
        assert_eq!(read.top(usize::MAX).len(), tagger.top(usize::MAX).len());
        if bits.is_none() {
            assert_eq!(read.top(usize::MAX), tagger.top(usize::MAX));
        }
        for corpus in [&data, &new] {
            let (a, b) = (tagger.inputs(corpus).unwrap(), read.inputs(corpus).unwrap());
            assert!(b.numbered.items.len() < a.numbered.items.len());
            assert_eq!(tagger.predict(&a, &run).unwrap(), read.predict(&b, &run).unwrap());
            assert_eq!(
                tagger.log_probabilities(&a, &run).unwrap(),
                read.log_probabilities(&b, &run).unwrap()
            );
            assert_eq!(tagger.marginals(&a, false, &run).unwrap(), read.marginals(&b, false, &run).unwrap());
        }
        // Written again, the file is the same.
        let mut again = Vec::new();
        write_tagger(&read, &mut again).unwrap();
        assert_eq!(again, bytes);
    }
}

#[test]
fn early_stopping_keeps_the_best_parameters() {
    let text = |seed: u64| {
        let mut draw = uniform(seed);
        let mut text = String::new();
        for _ in 0..40 {
            for _ in 0..5 {
                let word = (draw() * 30.0) as usize;
                let tag = if draw() < 0.7 { word % 3 } else { (draw() * 3.0) as usize };
                text += &format!("w{word}_T{tag} ");
            }
            text.push('\n');
        }
        Corpus::parse(text, "f", &ReadOptions::default()).unwrap()
    };
    let (train_part, valid_part) = (text(1), text(2));
    let examples = Examples::of(&train_part, &Template::parse("w[0] w[-1]|w[0]").unwrap(), None).unwrap();
    let how = Learning::default().l2(1e-4).delta(0.0).patience(3);
    let run = Run::default();
    let mut losses = Vec::new();
    let valid = |tagger: &Tagger| tagger.inputs(&valid_part);
    let tagger = train(examples, &how, Some(&valid), None, &run, &mut |now| {
        losses.push(now.progress().valid.unwrap());
        Ok(true)
    })
    .unwrap();
    let (step, loss) = tagger.training().valid.unwrap();
    assert_eq!(losses.len(), step + 3);
    assert!(losses.iter().all(|other| *other >= loss));
    let inputs = tagger.inputs(&valid_part).unwrap();
    let sum: f64 = tagger.log_probabilities(&inputs, &run).unwrap().iter().sum();
    assert!((-sum / inputs.tokens() as f64 - loss).abs() < 1e-12);
}

#[test]
fn bad_data_and_options_are_errors() {
    let run = Run::default();
    let fail = |how: Learning, examples: Examples| {
        train(examples, &how, None, None, &run, &mut |_| Ok(true)).unwrap_err().to_string()
    };
    let empty = fail(Learning::default(), Examples::new(None).unwrap());
    assert!(empty.contains("there are no sentences"), "{empty}");
    assert!(fail(Learning::default().context(3), random_examples(1, 2, false)).contains("context"));
    assert!(fail(Learning::default().l2(-1.0), random_examples(1, 2, false)).contains("l2"));
    assert!(fail(Learning::default().min_count(999), random_examples(1, 2, false)).contains("min_count"));
    assert!(Examples::new(Some(31)).is_err());
    let mut examples = Examples::new(None).unwrap();
    assert!(examples.token([("a", f64::NAN)], "T").is_err() && examples.token([("a", 1.0)], "").is_err());
    let corpus = Corpus::parse("a X\nb _\n".into(), "f", &ReadOptions::default()).unwrap();
    let error = Examples::of(&corpus, &Template::parse("appendix-b").unwrap(), None).unwrap_err().to_string();
    assert_eq!(error, "f: line 2: token 2 `b`: it has no tag; every token of a training file needs one");
}
