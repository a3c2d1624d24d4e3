//! Taggers of either kind in `.zhat` files.

use std::path::Path;

use super::Tagger;
use super::file::parse_tagger;
use super::joint::JointTagger;
use super::joint::file::{KIND, parse_joint_tagger};
use crate::error::{Error, Result};
use crate::io::tensor_file;

/// A tagger of a file.
#[derive(Clone, Debug, PartialEq)]
pub enum AnyTagger {
    /// A conditional tagger.
    Conditional(Tagger),
    /// A joint tagger.
    Joint(JointTagger),
}

impl AnyTagger {
    /// Reads a tagger, whose kind is found from the content; `name` is the file's name for messages.
    ///
    /// # Errors
    /// If the bytes are not a file of a tagger, or its parts do not form one.
    pub fn parse(bytes: &[u8], name: &str) -> Result<Self> {
        if tensor_file::kind(bytes).as_deref() == Some(KIND) {
            return Ok(AnyTagger::Joint(parse_joint_tagger(bytes, name)?));
        }
        Ok(AnyTagger::Conditional(parse_tagger(bytes, name)?))
    }

    /// Reads a tagger from a file.
    ///
    /// # Errors
    /// If the file cannot be read; also as [`AnyTagger::parse`].
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path).map_err(|source| Error::io(path, source))?;
        AnyTagger::parse(&bytes, &path.display().to_string())
    }

    /// The distribution of the tags given the words.
    ///
    /// # Errors
    /// As [`JointTagger::given_words`].
    pub fn given_words(self) -> Result<Tagger> {
        match self {
            AnyTagger::Conditional(tagger) => Ok(tagger),
            AnyTagger::Joint(tagger) => tagger.given_words(),
        }
    }
}
