//! Taggers: one tag per token of a sentence, learned from tagged files.
//!
//! [`Corpus`] reads tagged files and writes tags back into them, [`features`] computes features of words, and
//! a [`Dictionary`] numbers them. A [`Template`] says which attributes a token has, [`Examples`] are sentences as
//! attributes, [`train()`] makes a [`Tagger`] of them, and [`evaluate()`] measures its tags. [`joint`] models tags and
//! words together.
//!
//! ```
//! use zhat::learn::tag::{Corpus, ReadOptions, TagSet};
//!
//! let text = "the_DT dog_NN barks_VBZ\n";
//! let corpus = Corpus::parse(text.into(), "example", &ReadOptions::default())?;
//! let sentence = corpus.sentence(0);
//! assert_eq!((sentence.word(1), sentence.tag(1)), ("dog", Some("NN")));
//! assert_eq!(TagSet::of(&corpus)?.names(), ["DT", "NN", "VBZ"]);
//! # Ok::<(), zhat::Error>(())
//! ```

mod any;
mod conditional;
mod corpus;
mod dictionary;
mod evaluate;
mod examples;
pub mod features;
pub mod file;
#[cfg(test)]
mod golden;
pub mod joint;
mod tag_set;
mod tagger;
mod template;

pub use any::AnyTagger;
pub use conditional::{
    Learning, TagOptimizer, TaggerCheckpoint, TaggerProgress, Training, Valid, train, train_file,
};
pub use corpus::{Corpus, Format, ReadOptions, Sentence, Stream};
pub use dictionary::Dictionary;
pub use evaluate::{Evaluation, Hits, TagCounts, evaluate, spans};
pub use examples::Examples;
pub use tag_set::TagSet;
pub use tagger::{Inputs, Tagger, Tagging, Weight};
pub use template::Template;
