//! Taggers that model tags and words jointly, learned by their certified likelihood.
//!
//! A corpus is one cycle of N positions with a tag and a word each; separators stand between sentences. Every tag
//! interacts with its K neighbouring tags and the L nearest words ([`Field`]). The likelihood needs log Z of a model
//! with (T·W)ᴺ states, for which there are three upper bounds; see the modules for derivations:
//!
//! | bound | weights | K = L = 1 | cost per evaluation |
//! |---|---|---|---|
//! | [`Bound::Exact`] | sums over words for all triples of tags; K ≤ 2, L ≤ 3 | exact | W·T³ |
//! | [`Bound::Cover`] | tag chains and word stars, weights optimised | exact | L·W·T + K·T³·log N |
//! | [`Bound::Star`] | stars with period max(K + 1, L), isolated nodes; as published | upper bound | L·W·T |
//!
//! None of them depends on the length of the corpus: it enters by its counts, which are computed once.
//!
//! Reference: Y. Jernite, A. M. Rush, D. Sontag, *A fast variational approach for learning Markov random field
//! language models*, ICML 2015, Section 6 and Appendix B.

mod baseline;
mod bound;
mod counts;
mod cover;
mod decode;
mod emission;
mod exact;
mod field;
pub mod file;
mod given_words;
mod lexicon;
mod objective;
mod second_order;
mod star;
mod tagger;
#[cfg(test)]
mod tests;
mod trace;
mod trained;
mod training;

pub use baseline::MarkovTagger;
pub use bound::{Bound, Certified, certify};
use bound::{Evaluation, Stop};
pub use counts::Moments;
pub use field::{Field, offsets};
pub use lexicon::Lexicon;
pub use tagger::{JointTagger, TagScore};
pub use trained::Trained;
pub use training::{Training, TrainingCheckpoint, TrainingProgress, train};
