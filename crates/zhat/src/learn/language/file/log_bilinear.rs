//! Log-bilinear models in `.zhat` files (kind `language-model-log-bilinear`): metadata `words` as in a
//! language model; tensors `context`, `rank` and `cyclic` (0 or 1), U64 \[1\] each, and `matrix` F32 \[C,
//! (K + 1)·D + 1\] with the rows (U(y), W¹(y), …, Wᴷ(y), b(y)).

use std::io::Write;

use super::field::words;
use crate::error::{Error, Result};
use crate::io::tensor_file::{self, TensorFile};
use crate::learn::language::{LogBilinear, Vocabulary};
use crate::tensor::Tensor;

const KIND: &str = "language-model-log-bilinear";

/// Whether the metadata name this kind.
pub(super) fn is_one(bytes: &[u8]) -> bool {
    tensor_file::kind(bytes).is_some_and(|kind| kind == KIND)
}

/// Reads a log-bilinear model; `name` is the file's name for messages.
///
/// # Errors
/// If the bytes are not a file of this kind, or its tensors do not form a model.
pub fn parse_log_bilinear(bytes: &[u8], name: &str) -> Result<LogBilinear> {
    let mut tensors = tensor_file::parse_kind(bytes, name, KIND)?;
    let words = words(&tensors)?;
    let one = |tensor: &str| Ok::<_, Error>(tensors.integers(tensor)?.first().copied().unwrap_or(0));
    let (context, rank) = (one("context")?, one("rank")?);
    let cyclic = one("cyclic")? != 0;
    let matrix = tensors.take("matrix")?;
    LogBilinear::new(Vocabulary::new(words)?, context, rank, matrix, cyclic)
        .map_err(|error| tensors.error(error.to_string()))
}

/// Writes a log-bilinear model; the same model gives the same bytes.
///
/// # Errors
/// If `out` fails.
pub fn write_log_bilinear(model: &LogBilinear, out: &mut dyn Write) -> std::io::Result<()> {
    let states = model.vocabulary().states();
    let words = serde_json::to_string(model.vocabulary().words())?;
    let one = |name: &'static str, value: usize| Tensor::integers(name, &[1], [value]);
    let tensors = vec![
        one("context", model.context()),
        one("rank", model.embeddings().1),
        one("cyclic", model.cyclic().into()),
        Tensor::new("matrix", &[states, model.matrix().len() / states], model.matrix()),
    ];
    TensorFile::new(KIND, [("words", words)], tensors).write(out)
}

#[cfg(test)]
mod tests {
    use super::super::parse_any_language_model;
    use super::*;
    use crate::learn::language::AnyLanguageModel;

    #[test]
    fn models_are_read_back_and_broken_files_are_refused_but_never_panic() {
        let vocabulary = Vocabulary::new(vec!["a".into(), "\"é\"".into()]).unwrap();
        let matrix: Vec<f32> = (0..21).map(|i| i as f32 / 8.0 - 1.0).collect();
        let model = LogBilinear::new(vocabulary.clone(), 2, 2, matrix.clone(), true).unwrap();
        let mut bytes = Vec::new();
        write_log_bilinear(&model, &mut bytes).unwrap();
        assert_eq!(parse_log_bilinear(&bytes, "").unwrap(), model);
        let any = AnyLanguageModel::LogBilinear(model.clone());
        assert_eq!(parse_any_language_model(&bytes, "").unwrap(), any);
        for length in 0..bytes.len() {
            assert!(parse_log_bilinear(&bytes[..length], "").is_err());
        }
        for at in 0..bytes.len() {
            for value in [0, 0xff, b'9', bytes[at] ^ 1] {
                let mut altered = bytes.clone();
                altered[at] = value;
                let _ = parse_log_bilinear(&altered, "");
            }
        }
        let message = super::super::parse_language_model(&bytes, "m.zhat").unwrap_err().to_string();
        assert!(message.contains("expected `language-model`"), "{message}");
        for (context, rank) in [(2, 3), (0, 20), (20, 0), (usize::MAX, 2)] {
            assert!(LogBilinear::new(vocabulary.clone(), context, rank, matrix.clone(), false).is_err());
        }
        let mut bad = matrix;
        bad[4] = f32::NAN;
        assert!(LogBilinear::new(vocabulary, 2, 2, bad, false).is_err());
    }
}
