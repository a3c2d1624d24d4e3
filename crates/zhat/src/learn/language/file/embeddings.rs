//! Embeddings as a safetensors file: `embeddings` F32 \[words, D\], and the words as a JSON list in the
//! metadata `words`, in the order of the rows.

use std::io::Write;

use crate::io::tensor_file::TensorFile;
use crate::learn::language::Vocabulary;
use crate::tensor::Tensor;

/// Writes the rows of the words; the first row of `left`, that of the separator, is skipped.
pub(crate) fn write_embeddings(
    vocabulary: &Vocabulary,
    (left, rank): (&[f32], usize),
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let words = vocabulary.words();
    let rows = &left[rank.min(left.len())..];
    let tensors = vec![Tensor::new("embeddings", &[words.len(), rank], rows)];
    TensorFile::new("language-model-embeddings", [("words", serde_json::to_string(words)?)], tensors)
        .write(out)
}

#[cfg(test)]
mod tests {
    use safetensors::{Dtype, SafeTensors};

    use super::*;

    #[test]
    fn any_reader_of_the_format_finds_words_and_rows() {
        let vocabulary = Vocabulary::new(vec!["a".into(), "\"é\"".into()]).unwrap();
        let left = [9.0, 9.0, 1.0, -2.5, 0.125, 3.0];
        let mut bytes = Vec::new();
        write_embeddings(&vocabulary, (&left, 2), &mut bytes).unwrap();
        let (_, header) = SafeTensors::read_metadata(&bytes).unwrap();
        let words: Vec<String> = serde_json::from_str(&header.metadata().clone().unwrap()["words"]).unwrap();
        assert_eq!(words, vocabulary.words());
        let file = SafeTensors::deserialize(&bytes).unwrap();
        let tensor = file.tensor("embeddings").unwrap();
        assert_eq!((tensor.dtype(), tensor.shape()), (Dtype::F32, &[2, 2][..]));
        let numbers: Vec<f32> =
            tensor.data().as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        assert_eq!(numbers, left[2..]);
    }
}
