//! Named tensors and texts in a [safetensors](https://github.com/huggingface/safetensors) file: the container
//! format of models, checkpoints and embeddings. Its metadata has the version, `zhat`, and the `kind` of the
//! content.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::Write;

use safetensors::tensor::Metadata;
use safetensors::{Dtype, SafeTensors};
use serde_json::{Map, Value, json};

use crate::error::{Error, Result};
use crate::tensor::{Data, Tensor, TensorMap};

/// The version that is written; older versions can be read, newer ones are refused.
const VERSION: u32 = 1;

/// Number of elements converted to bytes at a time.
const PIECE: usize = 1 << 13;

/// True if a file with these first bytes is a safetensors file.
pub(crate) fn looks_like(start: &[u8]) -> bool {
    start.len() > 8 && start[8] == b'{' && start[4..8] == [0; 4]
}

/// The kind given in the metadata.
pub fn kind(bytes: &[u8]) -> Option<String> {
    let (_, header) = SafeTensors::read_metadata(bytes).ok()?;
    header.metadata().as_ref()?.get("kind").cloned()
}

/// The kind and the content of a file; `name` is the file name for messages.
///
/// # Errors
/// If the bytes are not such a file, or its version is newer.
pub fn parse(bytes: &[u8], name: &str) -> Result<(String, TensorMap)> {
    let fail = |message: String| Error::Parse { source_name: name.into(), line: 0, message };
    let broken = |error: safetensors::SafeTensorError| fail(format!("not a whole .zhat file: {error}"));
    let (_, header): (usize, Metadata) = SafeTensors::read_metadata(bytes).map_err(broken)?;
    let texts: HashMap<String, String> =
        header.metadata().iter().flatten().map(|(name, text)| (name.clone(), text.clone())).collect();
    let version = texts.get("zhat").and_then(|version| version.parse::<u32>().ok()).ok_or_else(|| {
        fail("a safetensors file, but not a zhat model: its metadata has no version `zhat`".into())
    })?;
    if version > VERSION {
        return Err(fail(format!(
            "the file has version {version}, this program reads up to {VERSION}; a newer zhat is needed"
        )));
    }
    let file = SafeTensors::deserialize(bytes).map_err(broken)?;
    let (mut tensors, mut unsupported) = (Vec::new(), HashMap::new());
    for (name, view) in file.iter() {
        let data = match view.dtype() {
            Dtype::F32 => {
                let numbers = view.data().as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
                Data::F32(vec![Cow::Owned(numbers.collect())])
            }
            Dtype::F64 => {
                let numbers = view.data().as_chunks().0.iter().map(|bytes| f64::from_le_bytes(*bytes));
                Data::F64(vec![Cow::Owned(numbers.collect())])
            }
            Dtype::U64 => {
                Data::U64(view.data().as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect())
            }
            other => {
                unsupported.insert(name.to_owned(), format!("{other:?}"));
                continue;
            }
        };
        tensors.push(Tensor::from_parts(name.to_owned(), view.shape().to_vec(), data));
    }
    let kind = texts.get("kind").cloned().unwrap_or_default();
    Ok((kind, TensorMap::new(name, texts, tensors).with_unsupported(unsupported)))
}

/// The content of a file of this kind.
///
/// # Errors
/// As [`parse`], and if the file is of another kind.
pub fn parse_kind(bytes: &[u8], name: &str, kind: &str) -> Result<TensorMap> {
    let (found, tensors) = parse(bytes, name)?;
    if found != kind {
        let found = if found.is_empty() { "none" } else { &found };
        return Err(tensors.error(format!("a file of kind `{found}`, expected `{kind}`")));
    }
    Ok(tensors)
}

/// A file to be written; the numbers are written from where they are stored, without a copy.
pub struct TensorFile<'a> {
    texts: Map<String, Value>,
    tensors: Vec<Tensor<'a>>,
}

impl<'a> TensorFile<'a> {
    /// A file of this kind with texts and tensors.
    pub fn new(
        kind: &str,
        texts: impl IntoIterator<Item = (&'static str, String)>,
        tensors: Vec<Tensor<'a>>,
    ) -> Self {
        let head = [("zhat", VERSION.to_string()), ("kind", kind.to_owned())];
        let texts = head.into_iter().chain(texts).map(|(name, text)| (name.into(), json!(text)));
        TensorFile { texts: texts.collect(), tensors }
    }

    /// The header and the size of the data. Metadata keep their order, so the same model gives the same
    /// bytes; the writer of the `safetensors` crate puts them in random order.
    fn header(&self) -> (Vec<u8>, usize) {
        let mut header = Map::new();
        header.insert("__metadata__".into(), Value::Object(self.texts.clone()));
        let mut end = 0;
        for tensor in &self.tensors {
            let size = if matches!(tensor.data(), Data::F32(_)) { 4 } else { 8 };
            let offsets = [end, end + size * tensor.data().len()];
            end = offsets[1];
            let dtype = tensor.data().type_name().to_uppercase();
            let entry = json!({"dtype": dtype, "shape": tensor.shape(), "data_offsets": offsets});
            header.insert(tensor.name().to_owned(), entry);
        }
        let mut text = Value::Object(header).to_string().into_bytes();
        text.resize(text.len().next_multiple_of(8), b' ');
        (text, end)
    }

    /// The size of the file in bytes.
    pub fn length(&self) -> usize {
        let (header, data) = self.header();
        8 + header.len() + data
    }

    /// Writes the file.
    ///
    /// # Errors
    /// If `out` fails.
    pub fn write(&self, out: &mut dyn Write) -> std::io::Result<()> {
        fn pieces<T: Copy, const N: usize>(
            pieces: &[Cow<'_, [T]>],
            bytes_of: fn(T) -> [u8; N],
            out: &mut dyn Write,
        ) -> std::io::Result<()> {
            let mut bytes = Vec::new();
            for part in pieces.iter().flat_map(|piece| piece.chunks(PIECE)) {
                bytes.clear();
                part.iter().for_each(|&x| bytes.extend_from_slice(&bytes_of(x)));
                out.write_all(&bytes)?;
            }
            Ok(())
        }
        let (text, _) = self.header();
        out.write_all(&(text.len() as u64).to_le_bytes())?;
        out.write_all(&text)?;
        self.tensors.iter().try_for_each(|tensor| match tensor.data() {
            Data::F32(numbers) => pieces(numbers, f32::to_le_bytes, out),
            Data::F64(numbers) => pieces(numbers, f64::to_le_bytes, out),
            Data::U64(numbers) => pieces(&[Cow::Borrowed(&numbers[..])], u64::to_le_bytes, out),
        })
    }
}
