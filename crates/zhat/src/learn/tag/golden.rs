//! Files of earlier versions can still be read, and the same tagger is still written to the same bytes.
//!
//! The parameters are set to numbers that every machine computes alike. `ZHAT_BLESS=1` writes the files.

use super::file::{parse_tagger, write_tagger};
use super::{Examples, Learning, Tagger, Template, train};
use crate::run::Run;

/// Compares bytes with a golden file, and returns the bytes of the file.
pub(super) fn compared(name: &str, bytes: &[u8]) -> Vec<u8> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("ZHAT_BLESS").is_some_and(|bless| bless == "1") {
        std::fs::write(&path, bytes).unwrap();
    }
    let file = std::fs::read(&path).unwrap();
    assert!(file == bytes, "{name} would be written otherwise today");
    file
}

/// Multiples of 1/8.
pub(super) fn numbers(count: usize) -> Vec<f64> {
    (0..count).map(|i| (i % 61) as f64 / 8.0 - 3.0).collect()
}

fn tagger(hash_bits: Option<u32>, context: usize) -> Tagger {
    let mut examples = Examples::new(hash_bits).unwrap();
    for sentence in [&[("the", "D"), ("Ẑ", "N")][..], &[("dogs", "N"), ("bark", "V"), ("\"\n", "X")]] {
        for (word, tag) in sentence {
            let attributes = [(*word, 1.0), ("bias", 0.5), ("length", word.len() as f64)];
            examples.token(attributes, tag).unwrap();
        }
        examples.end_sentence();
    }
    if hash_bits.is_none() {
        let template = Template::parse("w[0] w[-1]|w[0]").unwrap();
        examples = examples.with_template(template).with_words(["the", "Ẑ", "dogs", "bark", "\"\n"]);
    }
    let how = Learning::default().context(context).iterations(0);
    let run = Run::default().with_threads(1);
    let mut tagger = train(examples, &how, None, None, &run, &mut |_| Ok(true)).unwrap();
    let parameters = numbers(tagger.parameters().len());
    tagger.set_parameters(parameters, |training| {
        (training.steps, training.objective, training.valid) = (7, 2.5, Some((5, 0.125)));
        // Files of version 1 do not have them.
        (training.learning, training.seed) = (None, None);
    });
    tagger
}

#[test]
fn the_golden_files_give_the_original_taggers() {
    for (name, tagger) in [("v1-tagger.zhat", tagger(None, 2)), ("v1-tagger-hashed.zhat", tagger(Some(5), 1))]
    {
        let mut bytes = Vec::new();
        write_tagger(&tagger, &mut bytes).unwrap();
        let file = compared(name, &bytes);
        assert_eq!(parse_tagger(&file, name).unwrap(), tagger, "{name}");
    }
}

/// A file says how its tagger was trained.
#[test]
fn files_keep_the_options_of_training() {
    let mut tagger = tagger(None, 1);
    let how = Learning::default().l1(0.25).l2(0.1).patience(3).min_count(2);
    let parameters = tagger.parameters().to_vec();
    tagger.set_parameters(parameters, |training| {
        (training.learning, training.seed) = (Some(how), Some(1 << 60));
    });
    let mut bytes = Vec::new();
    write_tagger(&tagger, &mut bytes).unwrap();
    let read = parse_tagger(&bytes, "").unwrap();
    assert_eq!((read.training().learning, read.training().seed), (Some(how), Some(1 << 60)));
}
