//! Stochastic gradients: the optimum of L-BFGS, the same bits from memory, blocks, threads and checkpoints.

use super::super::super::Stream;
use super::super::super::file::{read_tagger_checkpoint, write_tagger_checkpoint};
use super::*;

fn sgd() -> Learning {
    Learning::default().optimizer(TagOptimizer::Sgd).delta(0.0)
}

fn learned(how: &Learning, examples: Examples) -> Tagger {
    train(examples, how, None, None, &Run::default(), &mut |_| Ok(true)).unwrap()
}

#[test]
fn stochastic_gradients_reach_the_optimum_of_lbfgs() {
    // The distance to the optimum is proportional to the last step size. With l1, frequent parameters
    // move around 0, and only the objective is compared.
    for (context, l1, l2, gap) in [(1, 0.0, 0.3, 1e-3), (2, 0.0, 0.3, 1e-3), (1, 0.2, 0.2, 5e-3)] {
        let best = learned(
            &Learning::default().context(context).l1(l1).l2(l2).delta(0.0).iterations(2000),
            random_examples(5, 4, true),
        );
        let how = sgd().context(context).l1(l1).l2(l2).batch(2).iterations(4000);
        let found = learned(&how, random_examples(5, 4, true));
        let (a, b) = (best.training().objective, found.training().objective);
        assert!(b >= a - 1e-9 && b < a * (1.0 + gap), "order {context}, l1 {l1}: {a} {b}");
        if l1 == 0.0 {
            for (x, y) in best.parameters().iter().zip(found.parameters()) {
                assert!((x - y).abs() < 0.05, "{x} {y}");
            }
        }
    }
}

/// 150 sentences of four tokens: `own=` has the tag, mostly, `noise…` has nothing to do with it, `id=` is rare.
fn with_noise() -> Examples {
    let mut draw = uniform(31);
    let mut examples = Examples::new(None).unwrap();
    for _ in 0..150 {
        for _ in 0..4 {
            let tag = (draw() * 3.0) as usize;
            let shown = if draw() < 0.85 { tag } else { (draw() * 3.0) as usize };
            let mut attributes = vec![format!("own={shown}"), format!("id={}", (draw() * 300.0) as usize)];
            attributes.extend((0..3).map(|k| format!("noise{k}={}", (draw() * 5.0) as usize)));
            examples.token(attributes.iter().map(|name| (name.as_str(), 1.0)), &format!("T{tag}")).unwrap();
        }
        examples.end_sentence();
    }
    examples
}

#[test]
fn l1_empties_the_features_that_are_empty_at_the_optimum() {
    let run = Run::default();
    for (context, l2) in [(1, 0.3), (2, 0.3)] {
        let mut counts = Vec::new();
        for l1 in [2.0, 8.0, 24.0] {
            let name = format!("order {context}, l2 {l2}, l1 {l1}");
            let how = Learning::default().context(context).l1(l1).l2(l2).delta(0.0);
            let best = learned(&how.iterations(2000), with_noise());
            let how = how.optimizer(TagOptimizer::Sgd).iterations(300);
            let found = learned(&how, with_noise());
            let (a, b) = (best.training().objective, found.training().objective);
            assert!(b >= a - 1e-9 && b < a * (1.0 + 5e-3), "{name}: {a} {b}");
            // At the optimum, a parameter is 0 if the slope of the other terms is less than λ₁; after 300 epochs θ
            // is close to it, and nearly all of these parameters are exactly 0.
            let mut examples = with_noise();
            let tags = examples.sort_tags().unwrap().len();
            let wanted = Wanted { order: context, min_count: 0, all_possible: false };
            let design = Design::new(&mut examples, tags, wanted).unwrap();
            let mut slopes = vec![0.0; design.size()];
            let clock = run.start("test");
            let mut objective = Objective::new(&design, &examples.numbered, l2);
            objective.evaluate(best.parameters(), &mut slopes, &clock).unwrap();
            let (mut zeros, mut others) = (0, 0);
            for (slope, x) in slopes.iter().zip(found.parameters()) {
                if slope.abs() < 0.8 * l1 {
                    *(if *x == 0.0 { &mut zeros } else { &mut others }) += 1;
                }
            }
            assert!(zeros > slopes.len() / 10 && others <= zeros / 50, "{name}: {zeros} {others}");
            counts.push(found.top(usize::MAX).len());
            // A few frequent parameters are left.
            let left = found.top(usize::MAX);
            if l1 == 24.0 {
                let noise = |feature: &str| feature.starts_with("noise") || feature.starts_with("id");
                assert!(left.iter().all(|weight| !noise(&weight.feature)), "{name}: {left:?}");
                assert!(left.iter().any(|weight| weight.feature.starts_with("own=")), "{name}: {left:?}");
            }
        }
        assert!(counts.windows(2).all(|two| two[1] < two[0]), "{counts:?}");
    }
}

/// A file of sentences of three tokens.
fn file(name: &str, sentences: usize) -> std::path::PathBuf {
    let folder = std::env::temp_dir().join(format!("zhat-sgd-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join(name);
    let mut draw = uniform(11);
    let mut text = String::new();
    for _ in 0..sentences {
        for _ in 0..3 {
            let tag = (draw() * 3.0) as usize;
            text +=
                &format!("T{tag}\tw={}\tx={}:0.5\n", (draw() * 20.0) as usize, tag * (draw() * 2.0) as usize);
        }
        text.push('\n');
    }
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn a_file_in_blocks_gives_the_same_bits_at_any_stop() {
    let path = file("blocks.crfsuite", 300);
    let template = Template::parse("attributes").unwrap();
    let options = ReadOptions::default();
    let whole = Corpus::read(&path, &options).unwrap();
    let how = sgd().l1(0.01).l2(0.5).iterations(6);
    let from_file = |bytes: usize, threads: usize, bits: Option<u32>| {
        let stream = Stream::new(&path, options.clone(), bytes).unwrap();
        let run = Run::default().with_threads(threads);
        train_file(&stream, &template, bits, &how, None, None, &run, &mut |_| Ok(true)).unwrap()
    };
    // One block is the same as all sentences in memory.
    let memory = learned(&how, Examples::of(&whole, &template, None).unwrap());
    let one = from_file(1 << 20, 1, None);
    assert_eq!(one.parameters(), memory.parameters());
    assert_eq!((one.names(&[0]), one.attributes()), (memory.names(&[0]), memory.attributes()));
    assert_eq!(one.training().objective, memory.training().objective);
    // Blocks of 1 kB, with any number of threads.
    let few = from_file(1 << 10, 1, None);
    assert_eq!(few.parameters(), from_file(1 << 10, 2, None).parameters());
    assert_ne!(few.parameters(), one.parameters());
    let hashed = from_file(1 << 10, 2, Some(12));
    assert!(hashed.training().collisions < 5 && hashed.parameters().len() >= few.parameters().len() - 20);
    let mut largest = 0;
    let stream = Stream::new(&path, options.clone(), 1 << 10).unwrap();
    let mut tokens = 0;
    stream
        .each(&mut |corpus| {
            largest = largest.max(corpus.tokens());
            tokens += corpus.tokens();
            assert_eq!(corpus.tokens() % 3, 0);
            Ok(())
        })
        .unwrap();
    assert!(tokens == 900 && largest < 120, "{largest}");
    // A resumed run.
    let checkpoint = path.with_extension("zhat");
    let run = Run::default();
    let mut epochs = 0;
    train_file(&stream, &template, None, &how, None, None, &run, &mut |now| {
        epochs += 1;
        write_tagger_checkpoint(now, &checkpoint)?;
        Ok(epochs < 3)
    })
    .unwrap();
    let from = read_tagger_checkpoint(&checkpoint).unwrap();
    assert_eq!(from.progress().step, 3);
    let resumed =
        train_file(&stream, &template, None, &how, None, Some(from.clone()), &run, &mut |_| Ok(true))
            .unwrap();
    assert_eq!(resumed, few);
    let other = Stream::new(&path, options, 1 << 11).unwrap();
    let error = train_file(&other, &template, None, &how, None, Some(from), &run, &mut |_| Ok(true));
    assert!(error.unwrap_err().to_string().contains("belongs to other data or other options"));
}

#[test]
fn errors_in_blocks_name_the_line() {
    let path = file("bad.crfsuite", 100);
    let mut text = std::fs::read_to_string(&path).unwrap();
    text += "T1\tx:y\n";
    std::fs::write(&path, &text).unwrap();
    let template = Template::parse("attributes").unwrap();
    let stream = Stream::new(&path, ReadOptions::default(), 512).unwrap();
    let run = Run::default();
    let fail = |stream: &Stream, how: &Learning| {
        train_file(stream, &template, None, how, None, None, &run, &mut |_| Ok(true)).unwrap_err().to_string()
    };
    let message = fail(&stream, &sgd());
    assert!(message.contains("line 401") && message.contains("finite weight"), "{message}");
    std::fs::write(&path, "T1\tx=1\n_\tx=1\n").unwrap();
    assert!(fail(&stream, &sgd()).contains("line 2: token 2: it has no tag"));
    std::fs::write(&path, b"T1\tx=1\n\nT1\tx=\xff\n").unwrap();
    assert!(fail(&stream, &sgd()).contains("line 3: the text is not UTF-8"));
    std::fs::write(&path, "\n\n").unwrap();
    assert!(fail(&stream, &sgd()).contains("no token was found"));
    assert!(fail(&stream, &Learning::default()).contains("optimizer"));
    assert!(fail(&stream, &sgd().batch(0)).contains("batch"));
    assert!(Stream::new(std::path::Path::new("-"), ReadOptions::default(), 1).is_err());
}
