//! The `.zhat` model file: [safetensors](https://github.com/huggingface/safetensors) with metadata.
//!
//! Metadata: `zhat` (the version, `1`) and `kind` (`factor-graph`, `chain`, `semi-markov`, `pairwise-graph`,
//! `mixed-model`, `space`, `sequence-mrf`); of a factor graph also `form` (`markov` or `bayes`), and
//! optionally `names` (JSON: `{"variables": [...], "states": [[...], ...]}`). Tensors of a factor graph with
//! n variables and m factors:
//!
//! | tensor | type | content |
//! |---|---|---|
//! | `cardinalities` | U64 \[n\] | states of each variable |
//! | `scope_lengths` | U64 \[m\] | variables of each factor |
//! | `scopes` | U64 | the scopes, one after the other |
//! | `log_values` | F64 | the tables, row-major, one after the other; −∞ allowed |
//! | `evidence` | U64 \[k, 2\] | optional: what was observed to make this model |
//!
//! Of a chain with B sequences, T positions and N states, all numbers of one precision, F32 or F64:
//!
//! | tensor | type | content |
//! |---|---|---|
//! | `lengths` | U64 \[B\] | positions of each sequence |
//! | `start` | F \[N\] | start scores |
//! | `emissions` | F \[B, T, N\] | emission scores; what stands behind a sequence's end is of no account |
//! | `transitions` | F \[N, N\] or \[T − 1, N, N\] | transition scores, shared or for each step; or instead |
//! | `left`, `right` | F \[N, D\] | the embeddings of factored transitions; without a `right` it is `left` |
//!
//! A semi-Markov chain has besides
//!
//! | tensor | type | content |
//! |---|---|---|
//! | `segments` | F \[L, N\] or \[B, T, L, N\] | scores of a segment's length, or of each place, length first |
//!
//! Of a pairwise graph with V variables of N states and E edges:
//!
//! | tensor | type | content |
//! |---|---|---|
//! | `edges` | U64 \[E, 2\] | the two variables of each edge |
//! | `nodes` | F \[V, N\] | node scores |
//! | `interactions` | F \[N, N\] or \[E, N, N\] | shared or for each edge (called `transitions` in older files); or `left` and `right` as above |
//!
//! Of a mixed model with n variables and d terms, which have m factors together:
//!
//! | tensor | type | content |
//! |---|---|---|
//! | `cardinalities` | U64 \[n\] | states of each variable, 0 for a continuous one |
//! | `term_lengths` | U64 \[d\] | factors of each term |
//! | `variables` | U64 \[m\] | the variable of each factor |
//! | `statistics` | U64 \[m\] | what is taken of it: 0 a power, 1 a power of the logarithm, 2 ln(1 − x), 3 a state, 4 a power of \|x − centre\|, 5 ln x! |
//! | `intervals` | F64 \[n, 2\] | the ends of each continuous variable and of each count; ∞ for a count without a largest value |
//! | `weights` | F64 \[d\] | θ |
//! | `arguments` | F64 \[m\] | the power, or the state |
//! | `counts` | F64 \[n\] | optional: 1 for a variable that counts, 0 for others |
//! | `centres` | F64 \[m\] | optional: the centre of each factor that is a power of \|x − centre\|, 0 for others |
//!
//! Of a model on a combinatorial space of n elements, with metadata `space` (`hypercube`, `signs`,
//! `permutations`, `subtrees`, `subtrees-with-empty`, `cycles`, `partitions`) and `scores` (`unary`,
//! `products`, `pairwise`, `position`, `precedence`, `links`, or a distance: `kendall`, `cayley`, `hamming`,
//! `footrule`, `spearman`):
//!
//! | tensor | type | content |
//! |---|---|---|
//! | `parents` | U64 \[n\] | of subtrees: the parent of each node, n for the root |
//! | `unary` | F64 \[n\] | single scores (`unary`, `pairwise`) |
//! | `weights`, `inputs` | F64 \[n, d\], \[d\] | Θ and x of `products` |
//! | `pairs`, `pair_scores` | U64 \[m, 2\], F64 \[m\] | the pairs of `pairwise` |
//! | `matrix` | F64 \[n, n\] | scores by item and position, by item before and item after, or of links |
//! | `reference`, `spread` | U64 \[n\], F64 \[1\] | the order that a distance is to, and θ |
//! | `conditions` | U64 \[m, 4\] | optional: 0 chosen (i, 0), 1 at (item, position), 2 before (i, j), 3 linked (i, j), 4 size (least, most); then 1 for `not` |
//!
//! Of a cyclic sequence model with C states, context K and rank D:
//!
//! | tensor | type | content |
//! |---|---|---|
//! | `length` | U64 \[1\] | N |
//! | `unary` | F64 \[C\] | θ⁰ |
//! | `left`, `right` | F32 \[C, D\], \[K, C, D\] | U and Wˡ; or instead |
//! | `interactions` | F32 \[K, C, C\] | θˡ |
//!
//! A language model is such a model with words, see `learn::language::file`; its log Z is that of its text.

use std::io::Write;
use std::sync::{PoisonError, RwLock};

use super::tensor_file::{self, TensorFile};
use crate::error::{Error, Result};
use crate::model::{Model, READERS, Reader};

pub(crate) use super::tensor_file::looks_like;

/// The kinds that other crates have registered.
static REGISTERED: RwLock<Vec<Reader>> = RwLock::new(Vec::new());

/// Makes files of a kind that the library does not know readable.
///
/// # Errors
/// If the name of the kind is taken.
pub fn register(reader: Reader) -> Result<()> {
    let mut registered = REGISTERED.write().unwrap_or_else(PoisonError::into_inner);
    if READERS.iter().chain(registered.iter()).any(|known| known.kind == reader.kind) {
        return Err(Error::argument("kind", format!("`{}` has a reader already", reader.kind)));
    }
    registered.push(reader);
    Ok(())
}

/// Reads a model; `name` is the file's name for messages.
///
/// # Errors
/// For bytes that are no model file, or one that is broken, newer or of an unknown kind.
pub fn parse(bytes: &[u8], name: &str) -> Result<Model> {
    let (kind, mut tensors) = tensor_file::parse(bytes, name)?;
    // A language model is a sequence model with words.
    let wanted = if kind == "language-model" { "sequence-mrf" } else { &kind };
    let registered = REGISTERED.read().unwrap_or_else(PoisonError::into_inner).clone();
    let readers = || READERS.iter().chain(&registered);
    match readers().find(|reader| reader.kind.name() == wanted) {
        Some(reader) => (reader.read)(&mut tensors),
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
/// Where `out` fails, or the model has user-defined functions.
pub fn write(model: &Model, out: &mut dyn Write) -> std::io::Result<()> {
    model.check_writable().map_err(|error| std::io::Error::other(error.to_string()))?;
    file(model).write(out)
}

/// How many bytes a model's file has.
pub fn length(model: &Model) -> usize {
    file(model).length()
}

/// The bytes of a model's file.
pub fn to_bytes(model: &Model) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(length(model));
    // Writing to memory does not fail.
    let _ = write(model, &mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::generate::{self, ChainShape, TransitionForm};
    use crate::model::{
        FactorGraph, Family, Interactions, MixedModel, PairwiseGraph, Segments, SemiMarkov, SequenceMrf,
        Transitions,
    };

    fn models() -> Vec<Model> {
        let plain = generate::random(6, 3, 8, 3, 2.0, 0.3, 5).unwrap();
        let names = |prefix: &str, n: usize| (0..n).map(|i| format!("{prefix}{i}")).collect::<Vec<_>>();
        let named = generate::bayes(4, 2, 2, 0.0, 1).unwrap();
        let named =
            named.with_names(names("v", 4), vec![names("s", 2), vec![], vec![], names("t", 2)]).unwrap();
        let given = named.condition(&[(2, 1)]).unwrap();
        let mut models: Vec<Model> =
            [plain, named, given, FactorGraph::new(vec![]).unwrap()].map(Model::from).into();
        let shape =
            ChainShape { states: 2, steps: 3, batch: 2, ragged: true, zeros: 0.3, ..Default::default() };
        for transitions in [
            TransitionForm::Shared,
            TransitionForm::PerStep,
            TransitionForm::Factored { rank: 2, tied: true },
            TransitionForm::Factored { rank: 3, tied: false },
        ] {
            let shape = ChainShape { transitions, ..shape };
            models.push(generate::chain::<f32>(&shape, 1).unwrap().into());
            models.push(generate::chain::<f64>(&shape, 2).unwrap().into());
            models.push(generate::semi_markov::<f32>(&shape, 2, 3).unwrap().into());
        }
        let chain = generate::chain::<f64>(&shape, 4).unwrap();
        let places = (0..24).map(f64::from).collect::<Vec<_>>();
        models.push(SemiMarkov::new(chain, Segments::Places(places.into()), 2).unwrap().into());
        models.push(generate::chain::<f64>(&ChainShape { steps: 1, ..shape }, 5).unwrap().into());
        let edges = vec![(0, 1), (2, 1)];
        for interactions in [
            Transitions::Shared(vec![0.5, 1.0, f64::NEG_INFINITY, 2.0].into()),
            Transitions::PerStep(vec![0.25; 8].into()),
            Transitions::Factored { left: vec![0.5; 6].into(), right: None },
        ] {
            let nodes = vec![0.125; 6].into();
            models.push(PairwiseGraph::new(2, nodes, edges.clone(), interactions).unwrap().into());
        }
        let alone = Transitions::Shared(vec![0.0f32; 4].into());
        models.push(PairwiseGraph::new(2, vec![1.0f32; 2].into(), vec![], alone).unwrap().into());
        let mixture = MixedModel::gaussian_mixture(&[0.25, 1.0], &[0.0, 1.5], &[1.0, 2.0], (-3.0, 4.0));
        models.push(mixture.unwrap().into());
        models.push(Family::Weibull { shape: 1.5, scale: 2.0 }.on((0.1, 9.0)).unwrap().into());
        models.push(Family::Beta { alpha: 2.0, beta: 3.5 }.on((0.1, 0.9)).unwrap().into());
        models.push(MixedModel::new(vec![], vec![]).unwrap().into());
        let embeddings = Interactions::LowRank { rank: 1, left: vec![0.5; 3], right: vec![vec![-1.0; 3]; 2] };
        for interactions in [embeddings, Interactions::Full(vec![vec![f32::NEG_INFINITY; 9]])] {
            models.push(SequenceMrf::new(4, vec![0.5, 1.0, f64::NEG_INFINITY], interactions).unwrap().into());
        }
        models.extend(crate::model::space::file::examples().into_iter().map(Model::from));
        models
    }

    #[test]
    fn what_is_written_is_read_back_to_the_bit() {
        for model in models() {
            let bytes = to_bytes(&model);
            assert!(looks_like(&bytes));
            assert_eq!(bytes.len(), length(&model));
            assert_eq!(parse(&bytes, "").unwrap(), model);
            assert_eq!(to_bytes(&model), bytes);
        }
    }

    #[test]
    fn cut_or_altered_files_are_refused_or_read_but_never_panic() {
        for model in models() {
            let bytes = to_bytes(&model);
            for length in 0..bytes.len() {
                assert!(parse(&bytes[..length], "").is_err());
            }
            for at in 0..bytes.len() {
                for value in [0, 0xff, b'9', bytes[at] ^ 1] {
                    let mut altered = bytes.clone();
                    altered[at] = value;
                    let _ = parse(&altered, "");
                }
            }
        }
    }

    /// The message for a file in which one text of the header is replaced by another of the same length.
    fn refusal(model: &Model, from: &str, to: &str) -> String {
        let mut bytes = to_bytes(model);
        let at = bytes.windows(from.len()).position(|w| w == from.as_bytes()).unwrap();
        bytes[at..at + from.len()].copy_from_slice(to.as_bytes());
        parse(&bytes, "m.zhat").unwrap_err().to_string()
    }

    #[test]
    fn a_newer_version_and_a_strange_kind_are_named() {
        let replaced = |from: &str, to: &str| refusal(&models()[0], from, to);
        assert!(replaced("\"zhat\":\"1\"", "\"zhat\":\"9\"").contains("version 9"));
        assert!(replaced("factor-graph", "factor-grape").contains("`factor-grape`"));
        assert!(replaced("\"zhat\"", "\"that\"").contains("no version"));
        assert!(replaced("\"scopes\"", "\"scoops\"").contains("`scopes` is missing"));
    }

    #[test]
    fn tensors_of_sequences_that_do_not_fit_are_named_with_what_was_expected() {
        let models = models();
        let dense = &models[4];
        assert_eq!(dense.kind(), crate::model::Chain::KIND);
        for (from, to, words) in [
            ("\"emissions\"", "\"omissions\"", "`emissions` is missing"),
            ("\"start\"", "\"stall\"", "`start` is missing"),
            ("\"lengths\"", "\"strengs\"", "`lengths` is missing"),
            ("\"transitions\"", "\"transmitted\"", "`transitions`, or `left`, is missing"),
            ("[2,3,2]", "[3,2,2]", "`lengths` has shape [2], expected [B] = [3]"),
            ("[2,3,2]", "[2,2,3]", "`start` has shape [2], expected [N] = [3]"),
            ("[2,3,2]", "[1,12 ]", "`emissions` has shape [1, 12], expected [B, T, N]"),
            ("[2,2]", "[4]  ", "`transitions` has shape [4], expected [N, N] = [2, 2] or [T − 1, N, N]"),
            ("[2,2]", "[4,1]", "`transitions` has shape [4, 1], expected [N, N] = [2, 2]"),
            ("\"U64\"", "\"I64\"", "`lengths` has type I64, expected U64"),
        ] {
            let message = refusal(dense, from, to);
            assert!(message.contains(words) && message.starts_with("m.zhat: "), "{message}");
        }
        let per_step = &models[7];
        assert!(refusal(per_step, "[2,2,2]", "[4,2,1]").contains("expected [T − 1, N, N] = [2, 2, 2]"));
        let factored = &models[13];
        assert!(refusal(factored, "[2,3]", "[3,2]").contains("`left` has shape [3, 2], expected [N, D]"));
        assert!(refusal(factored, "\"left\"", "\"lift\"").contains("`left`, is missing"));
        let semi_markov = &models[6];
        assert!(refusal(semi_markov, "\"segments\"", "\"sagments\"").contains("`segments` is missing"));
        // A length that no sequence can have lies in the data.
        let mut bytes = to_bytes(dense);
        let at = bytes.windows(8).position(|w| w == 3u64.to_le_bytes()).unwrap();
        bytes[at] = 4;
        let message = parse(&bytes, "").unwrap_err().to_string();
        assert!(message.contains("lengths: sequence 0 has length 4, expected 1 to 3"), "{message}");
    }
}
