//! Named arrays of numbers, read from and written to the bytes of a safetensors file.

use std::collections::HashMap;
use std::io::Write;

use safetensors::tensor::{Metadata, TensorView};
use safetensors::{Dtype, SafeTensors};
use serde_json::{Map, Value, json};

use crate::error::{Error, Result};
use crate::numeric::Real;

/// How many numbers are turned into bytes at a time.
const PIECE: usize = 1 << 13;

/// The texts of a file's header by name.
pub(super) fn metadata(header: &Metadata) -> HashMap<String, String> {
    header.metadata().iter().flatten().map(|(name, text)| (name.clone(), text.clone())).collect()
}

/// A precision that files have a type for.
pub(super) trait Stored: Real {
    const DTYPE: Dtype;
    /// The numbers in little-endian bytes.
    fn read(bytes: &[u8]) -> Vec<Self>;
    /// Appends the little-endian bytes.
    fn append(self, bytes: &mut Vec<u8>);
}

macro_rules! stored {
    ($($type:ty, $dtype:ident);*) => {
        $(impl Stored for $type {
            const DTYPE: Dtype = Dtype::$dtype;

            fn read(bytes: &[u8]) -> Vec<Self> {
                bytes.as_chunks::<{ size_of::<$type>() }>().0.iter().map(|b| <$type>::from_le_bytes(*b)).collect()
            }

            fn append(self, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(&self.to_le_bytes());
            }
        })*
    };
}

stored!(f32, F32; f64, F64);

/// The tensors of a file that is being read.
pub(super) struct Tensors<'a> {
    pub tensors: SafeTensors<'a>,
    /// The file's name for messages.
    pub name: &'a str,
}

impl<'a> Tensors<'a> {
    pub fn fail(&self, message: impl Into<String>) -> Error {
        Error::Parse { source_name: self.name.into(), line: 0, message: message.into() }
    }

    pub fn has(&self, tensor: &str) -> bool {
        self.tensors.tensor(tensor).is_ok()
    }

    fn view(&self, tensor: &str) -> Result<TensorView<'a>> {
        self.tensors.tensor(tensor).map_err(|_| self.fail(format!("the tensor `{tensor}` is missing")))
    }

    pub fn shape(&self, tensor: &str) -> Result<Vec<usize>> {
        Ok(self.view(tensor)?.shape().to_vec())
    }

    pub fn dtype(&self, tensor: &str) -> Result<Dtype> {
        Ok(self.view(tensor)?.dtype())
    }

    /// The bytes of a tensor that must have this type.
    fn bytes(&self, tensor: &str, dtype: Dtype) -> Result<&'a [u8]> {
        let view = self.view(tensor)?;
        if view.dtype() != dtype {
            let found = view.dtype();
            return Err(self.fail(format!("the tensor `{tensor}` has type {found:?}, expected {dtype:?}")));
        }
        Ok(view.data())
    }

    pub fn integers(&self, tensor: &str) -> Result<Vec<usize>> {
        let (words, _) = self.bytes(tensor, Dtype::U64)?.as_chunks::<8>();
        let integer = |word: &[u8; 8]| usize::try_from(u64::from_le_bytes(*word)).ok();
        words.iter().map(integer).collect::<Option<_>>().ok_or_else(|| {
            self.fail(format!("the tensor `{tensor}` has a number too large for this machine"))
        })
    }

    pub fn numbers<F: Stored>(&self, tensor: &str) -> Result<Vec<F>> {
        Ok(F::read(self.bytes(tensor, F::DTYPE)?))
    }

    /// The numbers of a tensor that must have this shape, which `meaning` spells out: `N × N`.
    pub fn shaped<F: Stored>(&self, tensor: &str, shape: &[usize], meaning: &str) -> Result<Vec<F>> {
        self.expect_shape(tensor, shape, meaning)?;
        self.numbers(tensor)
    }

    pub fn expect_shape(&self, tensor: &str, shape: &[usize], meaning: &str) -> Result<()> {
        let found = self.shape(tensor)?;
        if found == shape {
            return Ok(());
        }
        Err(self.fail(format!("the tensor `{tensor}` has shape {found:?}, expected {meaning} = {shape:?}")))
    }
}

/// Writes the numbers of a tensor.
type WriteTensor<'a> = Box<dyn Fn(&mut dyn Write) -> std::io::Result<()> + 'a>;

/// A file that is being put together: metadata, and tensors that are written straight from where they lie.
pub(super) struct Writer<'a> {
    metadata: Map<String, Value>,
    tensors: Map<String, Value>,
    data: Vec<WriteTensor<'a>>,
    end: usize,
}

impl<'a> Writer<'a> {
    pub fn new(kind: &str) -> Self {
        let metadata = [("zhat", super::VERSION.to_string()), ("kind", kind.to_owned())];
        let metadata = metadata.into_iter().map(|(name, text)| (name.into(), json!(text))).collect();
        Writer { metadata, tensors: Map::new(), data: Vec::new(), end: 0 }
    }

    pub fn metadata(&mut self, name: &str, text: impl Into<String>) {
        self.metadata.insert(name.into(), Value::String(text.into()));
    }

    pub fn integers(&mut self, name: &str, shape: &[usize], values: Vec<usize>) {
        self.tensor(name, "U64", shape, 8 * values.len());
        self.data.push(Box::new(move |out| {
            values.iter().try_for_each(|&value| out.write_all(&(value as u64).to_le_bytes()))
        }));
    }

    /// A tensor of a few numbers that were put together for the file.
    pub fn owned(&mut self, name: &str, shape: &[usize], values: Vec<f64>) {
        self.tensor(name, "F64", shape, 8 * values.len());
        self.data.push(Box::new(move |out| values.iter().try_for_each(|x| out.write_all(&x.to_le_bytes()))));
    }

    /// A tensor whose numbers lie in pieces that follow each other.
    pub fn numbers<F: Stored>(&mut self, name: &str, shape: &[usize], pieces: Vec<&'a [F]>) {
        let count: usize = pieces.iter().map(|piece| piece.len()).sum();
        self.tensor(name, &format!("{:?}", F::DTYPE), shape, size_of::<F>() * count);
        self.data.push(Box::new(move |out| {
            let mut bytes = Vec::new();
            for part in pieces.iter().flat_map(|piece| piece.chunks(PIECE)) {
                bytes.clear();
                part.iter().for_each(|&x| x.append(&mut bytes));
                out.write_all(&bytes)?;
            }
            Ok(())
        }));
    }

    fn tensor(&mut self, name: &str, dtype: &str, shape: &[usize], length: usize) {
        let offsets = [self.end, self.end + length];
        self.end += length;
        self.tensors.insert(name.into(), json!({"dtype": dtype, "shape": shape, "data_offsets": offsets}));
    }

    /// The same model gives the same bytes; the crate's own writer puts metadata in random order.
    fn header(&self) -> Vec<u8> {
        let mut header = Map::new();
        header.insert("__metadata__".into(), Value::Object(self.metadata.clone()));
        header.extend(self.tensors.clone());
        let mut text = Value::Object(header).to_string().into_bytes();
        text.resize(text.len().next_multiple_of(8), b' ');
        text
    }

    pub fn length(&self) -> usize {
        8 + self.header().len() + self.end
    }

    pub fn write(&self, out: &mut dyn Write) -> std::io::Result<()> {
        let text = self.header();
        out.write_all(&(text.len() as u64).to_le_bytes())?;
        out.write_all(&text)?;
        self.data.iter().try_for_each(|write| write(out))
    }
}
