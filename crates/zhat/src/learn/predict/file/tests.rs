//! Files of earlier versions can still be read, and the same predictor is still written to the same bytes.
//!
//! All numbers are exact in binary, so that every machine computes them alike. `ZHAT_BLESS=1` writes the files.

use super::*;
use crate::learn::predict::{Cells, Centres, Encoding, Examples, Fourier, InputColumn, Scaling};

/// Two numeric columns, of which one has a missing value, and a categorical one.
fn encoder(how: &Encoding) -> Encoder {
    let column = |name: &str, levels: Option<&[&str]>| InputColumn {
        name: name.into(),
        levels: levels.map(|levels| levels.iter().map(|level| (*level).to_owned()).collect()),
    };
    let columns =
        vec![column("a", None), column("Ẑ \"\n", None), column("colour", Some(&["red", "dark green"]))];
    let examples = Examples {
        source: "t".into(),
        lines: vec![2, 3],
        columns,
        cells: Cells::Dense(vec![-1.0, f64::NAN, 0.0, 3.0, 0.5, 1.0]),
        names: Vec::new(),
        parents: Vec::new(),
        targets: None,
        weights: None,
    };
    Encoder::fit(&examples, how).unwrap()
}

fn predictor(form: Form, names: &[&str], how: &Encoding, count: usize, training: Training) -> Predictor {
    let parameters = (0..count).map(|i| (i % 61) as f64 / 8.0 - 3.0).collect();
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    Predictor::new(form, names, encoder(how), parameters, training).unwrap()
}

#[test]
fn the_golden_files_give_the_original_predictors() {
    let training = Training {
        lambda: 0.125,
        rows: 7,
        objective: 2.5,
        gap: 0.0625,
        confidence: 1.0,
        ..Default::default()
    };
    let labels = Form::Labels { labels: 3, pairs: vec![(0, 2)], pairs_by_input: false };
    let centres = Centres { objective: 1.5, gap: 0.25, confidence: 1.0 };
    let fourier = Some(Fourier { features: 4, gamma: Some(0.5), seed: 9 });
    for (name, predictor) in [
        (
            "v1-predictor.zhat",
            // Six encoded inputs with the indicator of missing values, and the bias; then the pair.
            predictor(labels, &["ice", "Ẑ", "\"\n"], &Encoding::default(), 3 * 6 + 1, training),
        ),
        (
            "v1-predictor-mallows.zhat",
            predictor(
                Form::Mallows { items: 2 },
                &["tea", "milk"],
                &Encoding { scaling: Scaling::Unit, fourier },
                2 * 5 + 1,
                Training { gap: 2.5, centres: Some(centres), left_out: 3, ..training },
            ),
        ),
    ] {
        let mut bytes = Vec::new();
        write_predictor(&predictor, &mut bytes).unwrap();
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
        if std::env::var_os("ZHAT_BLESS").is_some_and(|bless| bless == "1") {
            std::fs::write(&path, &bytes).unwrap();
        }
        let file = std::fs::read(&path).unwrap();
        assert!(file == bytes, "{name} would be written otherwise today");
        let read = parse_predictor(&file, name).unwrap();
        let parts = |own: &Predictor| {
            let (form, names, encoder) = (own.form().clone(), own.names().to_vec(), own.encoder().clone());
            (form, names, encoder, own.parameters().to_vec(), *own.training())
        };
        assert_eq!(parts(&read), parts(&predictor), "{name}");
    }
}
