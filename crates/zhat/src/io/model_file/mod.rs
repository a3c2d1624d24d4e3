//! The `.zhat` model file: [safetensors](https://github.com/huggingface/safetensors) with metadata.
//!
//! Metadata: `zhat` (the version, `1`) and `kind` (`factor-graph`, `chain`, `semi-markov`, `dependency-tree`,
//! `hypertree`, `pairwise-graph`, `mixed-model`, `space`, `sequence-mrf`, `grammar`). A factor graph also has `form` (`markov` or
//! `bayes`) and optionally `names` (JSON: `{"variables": [...], "states": [[...], ...]}`). Tensors of a
//! factor graph with n variables and m factors:
//!
//! | tensor | type | content |
//! |---|---|---|
//! | `cardinalities` | U64 \[n\] | number of states of each variable |
//! | `scope_lengths` | U64 \[m\] | number of variables of each factor |
//! | `scopes` | U64 | the scopes, concatenated |
//! | `log_values` | F64 | the tables, row-major, concatenated; −∞ allowed |
//! | `evidence` | U64 \[k, 2\] | optional: the observations that this model is conditioned on |
//! | `uncertain_evidence` | U64 \[u\] | optional: the factors that stand for sets of states and likelihoods given as evidence |
//!
//! Tensors of a chain with B sequences, T positions and N states; all real numbers have one precision, F32 or
//! F64:
//!
//! | tensor | type | content |
//! |---|---|---|
//! | `lengths` | U64 \[B\] | number of positions of each sequence |
//! | `start` | F \[N\] | start scores |
//! | `emissions` | F \[B, T, N\] | emission scores; scores after the end of a sequence are ignored |
//! | `transitions` | F \[N, N\], \[T − 1, N, N\] or \[B, T − 1, N, N\] | transition scores, shared, per step, or per sequence and step; or instead |
//! | `indptr`, `indices`, `transitions` | U64 \[N + 1\], U64 \[E\], F \[E\] or \[T − 1, E\] | sparse transitions, shared or per step: row i has the entries `indptr[i]` to `indptr[i + 1]` − 1 with the target states `indices`, ascending |
//! | `left`, `right` | F \[N, D\] | the embeddings of factored transitions; `right` defaults to `left` |
//! | `log_left`, `log_right` | F \[N, R\] | the log factors of low-rank transitions |
//! | `end` | F \[N\] | optional: end scores |
//!
//! Additional tensor of a semi-Markov chain:
//!
//! | tensor | type | content |
//! |---|---|---|
//! | `segments` | F \[L, N\] or \[B, T, L, N\] | segment scores by length and state, shared or per start |
//!
//! Tensors of dependency trees with B sentences of up to T words, with metadata `projective` and
//! `single_root` (`true` or `false`); with L labels the last two have one more axis \[…, L\]:
//!
//! | tensor | type | content |
//! |---|---|---|
//! | `lengths` | U64 \[B\] | number of words of each sentence |
//! | `arcs` | F \[B, T, T\] | scores by head and dependent; the diagonal is ignored |
//! | `roots` | F \[B, T\] | scores of arcs from the root |
//!
//! Tensors of a hypertree (trees with symbols) with B sentences of up to T words and S symbols, of which the first N can
//! be divided and the last P cover single words; the optional metadata `names` is a JSON object with `symbols`,
//! `hidden` and `words`. Rules of a rank and roots can have a first axis B, with one set per sentence:
//!
//! | tensor | type | content |
//! |---|---|---|
//! | `lengths` | U64 \[B\] | number of words of each sentence |
//! | `symbols` | U64 \[3\] | S, N and P |
//! | `words` | F \[B, T, P\] | scores of the tags of each word |
//! | `roots` | F \[N\] | scores of the symbol of the root |
//! | `rules` | F \[N, S, S\] or \[B, N, S, S\] | dense rules; or instead |
//! | `rule_symbols`, `rules` | U64 \[M, 3\], F \[M\] | listed rules: head, left and right symbol, and score |
//! | `rule_heads`, `rule_left`, `rule_right` | F \[N, R\], \[S, R\], \[S, R\] | the log factors of rules of rank R |
//! | `spans` | F \[B, T, T\] or \[B, T, T, N\] | optional: scores by first and last word, or by symbol as well |
//! | `span_embeddings`, `symbol_embeddings` | F \[B, T, T, D\], \[N, D\] | instead of `spans`: embeddings |
//! | `unary_symbols`, `unary` | U64 \[U, 2\], F \[U\] | optional: unary rules and their scores |
//!
//! Tensors of a pairwise graph with V variables of N states and E edges:
//!
//! | tensor | type | content |
//! |---|---|---|
//! | `edges` | U64 \[E, 2\] | the two variables of each edge |
//! | `nodes` | F \[V, N\] | node scores |
//! | `interactions` | F \[N, N\] or \[E, N, N\] | shared or per edge (called `transitions` in older files); or `left` and `right` as above |
//!
//! Tensors of a mixed model with n variables and d terms that have m factors in total:
//!
//! | tensor | type | content |
//! |---|---|---|
//! | `cardinalities` | U64 \[n\] | number of states of each variable, 0 for a continuous one |
//! | `term_lengths` | U64 \[d\] | number of factors of each term |
//! | `variables` | U64 \[m\] | the variable of each factor |
//! | `statistics` | U64 \[m\] | the function of each factor: 0 a power, 1 a power of the logarithm, 2 ln(1 − x), 3 a state, 4 a power of \|x − centre\|, 5 ln x! |
//! | `intervals` | F64 \[n, 2\] | the ends of each continuous variable and count; ∞ for an unbounded count |
//! | `weights` | F64 \[d\] | θ |
//! | `arguments` | F64 \[m\] | the power, or the state |
//! | `counts` | F64 \[n\] | optional: 1 for a count variable, 0 for others |
//! | `centres` | F64 \[m\] | optional: the centre of each power of \|x − centre\|, 0 for others |
//!
//! Tensors of a model on a combinatorial space of n elements, with metadata `space` (`hypercube`, `signs`,
//! `permutations`, `subtrees`, `subtrees-with-empty`, `cycles`, `partitions`) and `scores` (`unary`,
//! `products`, `pairwise`, `position`, `precedence`, `links`, or a distance: `kendall`, `cayley`, `hamming`,
//! `footrule`, `spearman`):
//!
//! | tensor | type | content |
//! |---|---|---|
//! | `parents` | U64 \[n\] | for subtrees: the parent of each node, n for the root |
//! | `unary` | F64 \[n\] | single scores (`unary`, `pairwise`) |
//! | `weights`, `inputs` | F64 \[n, d\], \[d\] | Θ and x of `products` |
//! | `pairs`, `pair_scores` | U64 \[m, 2\], F64 \[m\] | the pairs of `pairwise` |
//! | `matrix` | F64 \[n, n\] | scores by item and position, by item before and item after, or of links |
//! | `reference`, `spread` | U64 \[n\], F64 \[1\] | the reference order of a distance, and θ |
//! | `conditions` | U64 \[m, 4\] | optional: 0 chosen (i, 0), 1 at (item, position), 2 before (i, j), 3 linked (i, j), 4 size (min, max); then 1 for `not` |
//!
//! Tensors of a cyclic sequence model with C states, context K and rank D:
//!
//! | tensor | type | content |
//! |---|---|---|
//! | `length` | U64 \[1\] | N |
//! | `unary` | F64 \[C\] | θ⁰ |
//! | `left`, `right` | F32 \[C, D\], \[K, C, D\] | U and Wˡ; or instead |
//! | `interactions` | F32 \[K, C, C\] | θˡ |
//!
//! A grammar has no tensors; the metadata `text` is its text, in the format of [`crate::model::Grammar`].
//!
//! Hidden Markov models (`hmm`) are described in `learn::hmm::file`.
//!
//! A language model is a cyclic sequence model with words, see `learn::language::file`. Its log Z is that of a cycle as
//! long as its training text.

use std::io::Write;
use std::sync::{PoisonError, RwLock};

use super::tensor_file::{self, TensorFile};
use crate::error::{Error, Result};
use crate::model::{Model, READERS, Reader};

pub(crate) use super::tensor_file::looks_like;

/// The kinds registered by other crates.
static REGISTERED: RwLock<Vec<Reader>> = RwLock::new(Vec::new());

/// Registers a reader for a kind of model that is not part of the library.
///
/// # Errors
/// If the kind already has a reader.
pub fn register(reader: Reader) -> Result<()> {
    let mut registered = REGISTERED.write().unwrap_or_else(PoisonError::into_inner);
    if READERS
        .iter()
        .chain(crate::LATER_READERS)
        .chain(registered.iter())
        .any(|known| known.kind == reader.kind)
    {
        return Err(Error::argument("kind", format!("`{}` has a reader already", reader.kind)));
    }
    registered.push(reader);
    Ok(())
}

/// Reads a model; `name` is the file's name for messages.
///
/// # Errors
/// If the bytes are not a model file, or the file is damaged, newer or of an unknown kind.
pub fn parse(bytes: &[u8], name: &str) -> Result<Model> {
    let (kind, mut tensors) = tensor_file::parse(bytes, name)?;
    // A language model is a sequence model with words.
    let wanted = if kind == "language-model" { "sequence-mrf" } else { &kind };
    let registered = REGISTERED.read().unwrap_or_else(PoisonError::into_inner).clone();
    let readers = || READERS.iter().chain(crate::LATER_READERS).chain(&registered);
    match readers().find(|reader| reader.kind.name() == wanted) {
        Some(reader) => (reader.read)(&mut tensors),
        None if kind.starts_with("hmm-checkpoint") => {
            Err(tensors
                .error("a checkpoint of training, not a model to query; `zhat fit --checkpoint` uses it"))
        }
        None if kind.starts_with("language-model") => {
            Err(tensors.error(format!("a file of kind `{kind}`, not a model to query; `zhat lm` uses it")))
        }
        None => {
            let known: Vec<&str> = readers().map(|reader| reader.kind.name()).collect();
            let known = known.join(", ");
            Err(tensors.error(format!("unknown kind of model `{kind}`; known kinds: {known}")))
        }
    }
}

fn file(model: &Model) -> TensorFile<'_> {
    TensorFile::new(model.kind().name(), model.texts(), model.tensors())
}

/// Writes a model; the same model gives the same bytes.
///
/// # Errors
/// If `out` fails, or the model has user-defined functions.
pub fn write(model: &Model, out: &mut dyn Write) -> std::io::Result<()> {
    model.check_writable().map_err(|error| std::io::Error::other(error.to_string()))?;
    file(model).write(out)
}

/// The size of a model's file in bytes.
pub fn length(model: &Model) -> usize {
    file(model).length()
}

/// The bytes of a model's file.
pub fn to_bytes(model: &Model) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(length(model));
    // Writing to memory cannot fail.
    let _ = write(model, &mut bytes);
    bytes
}

#[cfg(test)]
mod tests;
