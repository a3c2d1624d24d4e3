"""Type stubs of the native module."""

import os
from collections.abc import Callable, Sequence
from typing import Any, TypedDict, final, type_check_only

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Hmm",
    "Inputs",
    "LanguageModel",
    "Model",
    "Predictor",
    "Run",
    "Statistics",
    "Table",
    "Tagger",
    "Tape",
    "__version__",
    "bayes",
    "chain",
    "compare_hmm_states",
    "cycle_score",
    "dependency",
    "draw_dependency",
    "draw_parse",
    "family",
    "fit",
    "fit_network",
    "forecast_hmm",
    "format_bytes",
    "format_low",
    "format_number",
    "format_seconds",
    "format_value",
    "forward",
    "gaussian_mixture",
    "grammar",
    "grammar_parts",
    "grammar_trees",
    "grammar_trees_of_file",
    "graph_score",
    "hmm",
    "hmm_of",
    "hypertree",
    "hypertree_names",
    "impute_rows",
    "ising",
    "log_partition_and_gradient",
    "machine",
    "methods",
    "mixed",
    "mixed_parts",
    "mixed_score",
    "pairwise",
    "pairwise_relaxed_sample",
    "parse_score",
    "path_score",
    "potts",
    "processors",
    "random",
    "random_chain",
    "random_dependency",
    "random_grammar",
    "random_hypertree",
    "random_mixture",
    "random_pairwise",
    "random_sequence_mrf",
    "random_space",
    "rdp_chain",
    "read_codes",
    "read_examples",
    "read_tagged",
    "relaxed_sample",
    "relaxed_trees",
    "run_program",
    "score_rows",
    "segments_score",
    "semi_markov",
    "sequence_mrf",
    "space_model",
    "space_model_of",
    "space_score",
    "sparse_relaxed_sample",
    "sparse_relaxed_trees",
    "tag_spans",
    "train_hmm",
    "train_joint_tagger",
    "train_language_model",
    "train_predictor",
    "train_stochastic",
    "train_tagger",
    "train_tagger_file",
    "tree",
    "tree_score",
    "word_attributes",
    "write_tagged",
]

__version__: str

@type_check_only
class _Method(TypedDict):
    name: str
    kind: str
    about: str
    queries: list[str]
    options: str
    ranges: list[tuple[str, str]]

@type_check_only
class _Machine(TypedDict):
    simd: str
    simd_detected: str
    memory: int

@type_check_only
class Cost(TypedDict):
    bytes: float
    seconds: float
    guarantee: str

@type_check_only
class Parts(TypedDict):
    value: Any
    guarantee: str
    words: str
    each: list[tuple[str, str]]
    method: str
    diagnostics: str
    forecast: Cost
    trace: list[tuple[float, float, float]]

@final
class Run:
    def __new__(
        cls,
        seed: int,
        threads: int,
        memory: str | None,
        time: str | None,
        progress: Callable[[str, int, int], object] | None,
        partial: bool,
    ) -> Run: ...

@final
class Division:
    def __new__(cls, model: Model, query: str, method: str, settings: str, run: Run) -> Division: ...
    @property
    def units(self) -> int: ...
    @property
    def unit_seconds(self) -> float: ...
    @property
    def expected_units(self) -> int: ...
    @property
    def preparation_seconds(self) -> float: ...
    @property
    def ends_itself(self) -> bool: ...
    @property
    def is_anytime(self) -> bool: ...
    @property
    def looks(self) -> list[int]: ...
    @property
    def method(self) -> str: ...
    def part(self, start: int, stop: int, run: Run) -> bytes: ...
    def check_part(self, data: bytes, name: str, mixed: bool) -> tuple[int, int]: ...
    def merge(self, parts: list[bytes], mixed: bool, look: int | None, run: Run) -> Parts: ...

def model_hash(model: Model) -> str: ...

@final
class Model:
    def __new__(
        cls,
        cardinalities: list[int],
        factors: list[tuple[list[int], NDArray[np.float64]]],
        names: tuple[list[str], list[list[str]]] | None,
    ) -> Model: ...
    def variable(self, label: int | str) -> int: ...
    def __eq__(self, value: object, /) -> bool: ...
    @staticmethod
    def read(path: str | os.PathLike[str], evidence: str | os.PathLike[str] | None) -> Model: ...
    @property
    def kind(self) -> str: ...
    @staticmethod
    def from_bytes(data: bytes) -> Model: ...
    def to_bytes(self) -> bytes: ...
    def save(self, path: str | os.PathLike[str]) -> None: ...
    @property
    def cardinalities(self) -> list[int]: ...
    @property
    def factor_count(self) -> int: ...
    @property
    def evidence(self) -> list[tuple[int, int]]: ...
    @property
    def uncertain_evidence(self) -> list[int]: ...
    @property
    def names(self) -> tuple[list[str], list[list[str]]] | None: ...
    @property
    def scopes(self) -> list[tuple[int, ...]]: ...
    @property
    def factors(self) -> list[tuple[tuple[int, ...], NDArray[np.float64]]]: ...
    def score(self, state: list[int]) -> float: ...
    @property
    def lengths(self) -> list[int]: ...
    def condition(self, evidence: Sequence[object]) -> Model: ...
    def parameters(self) -> dict[str, Any]: ...
    def summary(self) -> str: ...
    def info(self, run: Run) -> tuple[str, list[tuple[str, str, bool, Cost]]]: ...
    def answer(self, query: str, count: int, method: str, settings: str, run: Run) -> Parts: ...
    def clear_cache(self) -> None: ...
    @property
    def cache_len(self) -> int: ...

@final
class Tape:
    def vjp(self, cotangent: NDArray[Any]) -> list[dict[str, NDArray[Any]]]: ...

@type_check_only
class Dense(TypedDict):
    hard: list[Any]
    soft: NDArray[Any]
    lengths: NDArray[Any] | None
    tape: Tape

@type_check_only
class Sparse(TypedDict):
    hard: list[Any]
    index: NDArray[np.int64]
    values: NDArray[Any]
    length_index: NDArray[np.int64] | None
    lengths: NDArray[Any] | None
    log_weights: list[NDArray[np.float64]]
    tape: Tape

@type_check_only
class DenseTrees(TypedDict):
    hard: list[NDArray[np.int64]]
    soft: NDArray[Any]
    tape: Tape

@type_check_only
class FewArcs(TypedDict):
    hard: list[NDArray[np.int64]]
    index: NDArray[np.int64]
    values: NDArray[Any]
    log_weights: list[NDArray[np.float64]]
    tape: Tape

def methods() -> list[_Method]: ...
def machine() -> _Machine: ...
def processors() -> int: ...
def format_bytes(bytes: float) -> str: ...
def format_low(value: float, places: int) -> str: ...
def format_number(value: float) -> str: ...
def format_seconds(seconds: float) -> str: ...
def format_value(value: float, guarantee: str, rounding: float) -> str: ...
def run_program(arguments: list[str]) -> int: ...
def ising(grid: tuple[int, int, bool], coupling: float, field: float, uniform: bool, seed: int) -> Model: ...
def potts(
    grid: tuple[int, int, bool], states: int, coupling: float, field: float, uniform: bool, seed: int
) -> Model: ...
def rdp_chain(sizes: tuple[int, int, int], sharpness: str | int, double: bool, seed: int) -> Model: ...
def tree(variables: int, states: int, strength: float, seed: int) -> Model: ...
def random(sizes: tuple[int, int, int, int], strength: float, zeros: float, seed: int) -> Model: ...
def bayes(variables: int, states: int, parents: int, deterministic: float, seed: int) -> Model: ...
def random_chain(
    sizes: tuple[int, int, int, bool],
    transitions: tuple[str, int, bool],
    scores: tuple[float, float, bool],
    longest: int | None,
    seed: int,
) -> Model: ...
def random_dependency(
    sizes: tuple[int, int, bool, int | None],
    trees: tuple[bool, bool],
    scores: tuple[float, float, bool],
    seed: int,
) -> Model: ...
def dependency(
    arcs: NDArray[Any],
    roots: NDArray[Any],
    lengths: list[int],
    labelled: bool,
    projective: bool,
    single_root: bool,
) -> Model: ...
def grammar(text: str) -> Model: ...
def grammar_parts(model: Model) -> tuple[str, str, list[str], list[str], int]: ...
def grammar_trees(model: Model, sentences: list[list[str]]) -> Model: ...
def grammar_trees_of_file(model: Model, path: str | os.PathLike[str]) -> Model: ...
def random_grammar(symbols: int, words: int, rules: int, seed: int) -> Model: ...
def draw_parse(entries: list[tuple[int, str, bool]]) -> str: ...
def draw_dependency(words: list[str], heads: list[int], labels: list[str]) -> str: ...
def hypertree(
    arrays: dict[str, NDArray[Any]],
    lengths: list[int],
    symbols: tuple[int, int, int],
    names: tuple[list[str], list[list[str]]] | None,
) -> Model: ...
def hypertree_names(model: Model) -> tuple[list[str], list[int], list[list[str]]] | None: ...
def parse_score(model: Model, sentence: int, nodes: list[tuple[int, int, int]]) -> float: ...
def random_hypertree(
    sizes: tuple[int, int, bool],
    symbols: tuple[int, int, int],
    rules: tuple[str, int, bool],
    spans: tuple[str, int],
    scores: tuple[float, float, bool],
    seed: int,
) -> Model: ...
def tree_score(model: Model, sentence: int, heads: list[int], labels: list[int]) -> float: ...
def random_pairwise(
    sizes: tuple[int, int, bool, int],
    interactions: tuple[str, int, bool],
    scores: tuple[float, float, bool],
    seed: int,
) -> Model: ...
def chain(
    start: NDArray[Any],
    emissions: NDArray[Any],
    lengths: list[int],
    transitions: NDArray[Any] | None,
    embeddings: tuple[NDArray[Any], NDArray[Any] | None] | None,
    factors: tuple[NDArray[Any], NDArray[Any]] | None,
    end: NDArray[Any] | None,
    pattern: tuple[NDArray[np.int64], NDArray[np.int64]] | None,
) -> Model: ...
def semi_markov(chain: Model, segments: NDArray[Any]) -> Model: ...
def hmm(
    start: NDArray[Any], transitions: NDArray[Any], emissions: NDArray[Any], observations: list[list[int]]
) -> Model: ...
def pairwise(
    nodes: NDArray[Any],
    edges: list[tuple[int, int]],
    interactions: NDArray[Any] | None,
    left: NDArray[Any] | None,
    right: NDArray[Any] | None,
) -> Model: ...
def mixed(
    variables: list[tuple[int, bool, float, float]],
    terms: list[tuple[float, list[tuple[int, str, float, float]]]],
) -> Model: ...
def mixed_parts(
    model: Model,
) -> tuple[list[tuple[int, bool, float, float]], list[tuple[float, list[tuple[int, str, float, float]]]]]: ...
def mixed_score(model: Model, point: list[float]) -> float: ...
def family(name: str, parameters: list[float], low: float | None, high: float | None) -> Model: ...
def gaussian_mixture(
    weights: list[float], means: list[float], deviations: list[float], bounds: tuple[float, float]
) -> Model: ...
def random_mixture(classes: int, bounds: tuple[float, float], seed: int) -> Model: ...
def sequence_mrf(
    length: int,
    unary: NDArray[np.float64],
    interactions: NDArray[np.float32] | None,
    left: NDArray[np.float32] | None,
    right: NDArray[np.float32] | None,
) -> Model: ...
def cycle_score(model: Model, states: list[int]) -> float: ...
def random_sequence_mrf(
    sizes: tuple[int, int, int, int | None], strength: float, coupling: float, seed: int
) -> Model: ...
def space_model(
    space: str, size: int, parents: list[int | None], scores: str, numbers: dict[str, Any]
) -> Model: ...
def space_model_of(
    space: str,
    size: int,
    parents: list[int | None],
    function: Callable[[list[int]], float],
    low: float,
    high: float,
) -> Model: ...
def random_space(kind: str, size: int, scores: str, strength: float, seed: int) -> Model: ...
def space_score(model: Model, structure: list[int]) -> float: ...
def graph_score(model: Model, state: list[int]) -> float: ...
def pairwise_relaxed_sample(
    model: Model, count: int, temperature: float, settings: str, run: Run
) -> tuple[NDArray[np.int64], NDArray[Any]]: ...
def path_score(model: Model, sequence: int, path: list[int]) -> float: ...
def segments_score(model: Model, sequence: int, segments: list[tuple[int, int]]) -> float: ...

@final
class Statistics:
    @staticmethod
    def of_codes(
        names: list[str], states: list[list[str]], codes: list[NDArray[np.int64]], run: Run
    ) -> Statistics: ...
    @staticmethod
    def read(
        path: str | os.PathLike[str],
        format: tuple[bool, str, str],
        ignore: list[str],
        most_states: int,
        run: Run,
    ) -> Statistics: ...
    @property
    def rows(self) -> int: ...
    @property
    def dropped(self) -> int: ...
    def lacking(self) -> list[tuple[str, int]]: ...
    def columns(self) -> list[tuple[str, list[str]]]: ...
    def mutual_information(self, i: int, j: int) -> float: ...
    def edges(self, rule: str, more: int, given: list[tuple[int, int]]) -> list[tuple[int, int]]: ...

@final
class Table:
    @staticmethod
    def of_codes(
        names: list[str],
        states: list[list[str]],
        codes: list[NDArray[np.int64]],
        missing: str,
        structure: Model | None,
        run: Run,
    ) -> Table: ...
    @staticmethod
    def read(
        path: str | os.PathLike[str],
        format: tuple[bool, str, str],
        ignore: list[str],
        most_states: int,
        structure: Model | None,
        run: Run,
    ) -> Table: ...
    @property
    def rows(self) -> int: ...
    @property
    def dropped(self) -> int: ...
    @property
    def incomplete(self) -> int: ...
    def lacking(self) -> list[tuple[str, int]]: ...
    def available(self, run: Run) -> Statistics: ...
    def network(self, parents: list[tuple[str, list[str]]]) -> Model: ...

def fit_network(
    table: Table, structure: Model, how: str, run: Run
) -> tuple[Model, tuple[float, str, str, str, str], int, bool, float, float, list[float]]: ...
def fit(
    statistics: Statistics,
    table: Table | None,
    edges: list[tuple[int, int]],
    method: str,
    settings: str,
    how: str,
    checkpoint: str | os.PathLike[str] | None,
    run: Run,
) -> tuple[Model, tuple[float, str, str, str, str], int, bool, float, float, list[float]]: ...
def read_codes(
    model: Model, path: str | os.PathLike[str], header: bool, encoding: str, missing: str, run: Run
) -> list[NDArray[np.int64]]: ...
def score_rows(
    model: Model, codes: list[NDArray[np.int64]], missing: str, method: str, settings: str, run: Run
) -> tuple[NDArray[np.float64], tuple[float, str, str, str, str]]: ...
def impute_rows(
    model: Model, codes: list[NDArray[np.int64]], method: str, settings: str, run: Run
) -> list[NDArray[np.int64]]: ...
def forward(
    operation: str, models: list[Model], method: tuple[str, str], scores: NDArray[np.float64] | None, run: Run
) -> tuple[NDArray[np.float64], Tape]: ...
def log_partition_and_gradient(
    model: Model, cotangent: list[float], settings: str, run: Run
) -> tuple[NDArray[np.float64], dict[str, NDArray[Any]]]: ...
def relaxed_sample(model: Model, count: int, temperature: float, run: Run) -> Dense: ...
def sparse_relaxed_sample(
    model: Model,
    count: int,
    temperature: float,
    settings: str,
    scores: NDArray[np.float64] | None,
    run: Run,
) -> Sparse: ...
def relaxed_trees(model: Model, count: int, temperature: float, run: Run) -> DenseTrees: ...
def sparse_relaxed_trees(
    model: Model, count: int, temperature: float, settings: str, run: Run
) -> FewArcs: ...

@final
class LanguageModel:
    def __eq__(self, value: object, /) -> bool: ...
    @staticmethod
    def read(path: str | os.PathLike[str]) -> LanguageModel: ...
    @staticmethod
    def from_bytes(data: bytes) -> LanguageModel: ...
    def to_bytes(self) -> bytes: ...
    def save(self, path: str | os.PathLike[str]) -> None: ...
    def export(self, path: str | os.PathLike[str], safetensors: bool) -> None: ...
    @property
    def words(self) -> list[str]: ...
    @property
    def context(self) -> int: ...
    @property
    def rank(self) -> int | None: ...
    @property
    def kind(self) -> str: ...
    @property
    def embeddings(self) -> NDArray[np.float32]: ...
    def neighbours(self, word: str, count: int) -> list[tuple[str, float]]: ...
    def sample(self, count: int, sweeps: int, run: Run) -> list[str]: ...
    def evaluate(
        self,
        source: list[str | os.PathLike[str]] | str,
        pseudo: bool,
        annealed: int | None,
        run: Run,
    ) -> tuple[int, int, float, str, str, float, float, float | None, str | None]: ...

def train_stochastic(
    texts: list[str | os.PathLike[str]] | str,
    valid: list[str | os.PathLike[str]] | str | None,
    pseudo: bool,
    min_count: int | None,
    vocabulary: int | None,
    how: str,
    run: Run,
) -> tuple[LanguageModel, list[tuple[int, float, float | None]], int]: ...
def train_language_model(
    texts: list[str | os.PathLike[str]] | str,
    valid: list[str | os.PathLike[str]] | str | None,
    context: int,
    min_count: int | None,
    vocabulary: int | None,
    how: str,
    checkpoint: tuple[str | os.PathLike[str], float] | None,
    run: Run,
) -> tuple[LanguageModel, list[tuple[int, float, float | None]], int]: ...

@final
class Inputs:
    @staticmethod
    def dense(columns: list[tuple[str, list[str] | None]], cells: NDArray[np.float64]) -> Inputs: ...
    @staticmethod
    def sparse(
        columns: list[tuple[str, list[str] | None]],
        ends: NDArray[np.int64],
        indices: NDArray[np.int64],
        values: NDArray[np.float64],
    ) -> Inputs: ...
    @property
    def rows(self) -> int: ...

@final
class Predictor:
    @staticmethod
    def read(path: str | os.PathLike[str]) -> Predictor: ...
    @staticmethod
    def from_bytes(data: bytes) -> Predictor: ...
    def to_bytes(self) -> bytes: ...
    def save(self, path: str | os.PathLike[str]) -> None: ...
    @property
    def space(self) -> str: ...
    @property
    def names(self) -> list[str]: ...
    @property
    def parents(self) -> list[int | None]: ...
    @property
    def pairs(self) -> list[tuple[int, int]]: ...
    @property
    def form(self) -> str: ...
    @property
    def columns(self) -> list[tuple[str, list[str] | None]]: ...
    @property
    def width(self) -> int: ...
    @property
    def parameters(self) -> NDArray[np.float64]: ...
    @property
    def training(self) -> tuple[float, int, float, float, float]: ...
    @property
    def exact(self) -> bool: ...
    def predict(
        self, inputs: Inputs, decision: str, run: Run
    ) -> tuple[NDArray[np.uint32], NDArray[np.float64], list[tuple[tuple[str, str], tuple[str, str]]]]: ...
    def best(
        self, inputs: Inputs, count: int, run: Run
    ) -> tuple[
        list[int],
        tuple[NDArray[np.uint32], NDArray[np.float64], list[tuple[tuple[str, str], tuple[str, str]]]],
    ]: ...
    @property
    def centres(self) -> tuple[float, float, float] | None: ...
    @property
    def left_out(self) -> int: ...
    def marginals(self, inputs: Inputs, run: Run) -> tuple[NDArray[np.float64], list[tuple[str, str]]]: ...
    def log_probabilities(
        self,
        inputs: Inputs,
        observed: tuple[str, int, NDArray[np.int64], NDArray[np.uint32]],
        run: Run,
    ) -> tuple[NDArray[np.float64], list[tuple[str, str]]]: ...
    def event_log_probabilities(
        self, inputs: Inputs, event: str, run: Run
    ) -> tuple[NDArray[np.float64], list[tuple[str, str]]]: ...
    def sample(self, inputs: Inputs, count: int, run: Run) -> NDArray[np.uint32]: ...
    def evaluate(
        self,
        inputs: Inputs,
        observed: tuple[str, int, NDArray[np.int64], NDArray[np.uint32]],
        decision: str | None,
        run: Run,
    ) -> tuple[str, tuple[str, str], tuple[str, str]]: ...

@final
class Hmm:
    @staticmethod
    def read(path: str | os.PathLike[str]) -> Hmm: ...
    @staticmethod
    def from_bytes(data: bytes) -> Hmm: ...
    def to_bytes(self) -> bytes: ...
    def save(self, path: str | os.PathLike[str]) -> None: ...
    @property
    def states(self) -> int: ...
    @property
    def columns(self) -> int: ...
    @property
    def family(self) -> str: ...
    @property
    def layout(self) -> str: ...
    @property
    def parameter_count(self) -> int: ...
    def parameters(self) -> list[tuple[str, NDArray[np.float64]]]: ...
    @property
    def ties(self) -> list[int]: ...
    @property
    def durations(self) -> tuple[str, int] | None: ...
    def unreachable(self) -> list[int]: ...
    def log_likelihoods(
        self, values: NDArray[np.float64], lengths: list[int], run: Run
    ) -> NDArray[np.float64]: ...
    def posteriors(
        self, values: NDArray[np.float64], lengths: list[int], run: Run
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
    def decode(
        self, values: NDArray[np.float64], lengths: list[int], run: Run
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]: ...
    def sample(self, lengths: list[int], run: Run) -> tuple[NDArray[np.float64], NDArray[np.int64]]: ...
    def chain(self, values: NDArray[np.float64], lengths: list[int], run: Run) -> Model: ...

def train_hmm(
    values: NDArray[np.float64],
    lengths: list[int],
    states: int,
    family: str,
    how: str,
    layout: str,
    given: Hmm | None,
    labels: list[int] | None,
    checkpoint: tuple[str | os.PathLike[str], float] | None,
    run: Run,
) -> tuple[Hmm, list[tuple[int, int, float]], float, float, int, bool]: ...
def forecast_hmm(
    values: NDArray[np.float64],
    lengths: list[int],
    states: int,
    family: str,
    how: str,
    given: Hmm | None,
    run: Run,
) -> tuple[float, float]: ...
def compare_hmm_states(
    values: NDArray[np.float64],
    lengths: list[int],
    states: list[int],
    family: str,
    how: str,
    folds: int,
    run: Run,
) -> list[tuple[int, int, float, float, float, float | None]]: ...
def hmm_of(
    start: NDArray[np.float64],
    transitions: NDArray[np.float64],
    emissions: str,
    covariance: str,
    probabilities: NDArray[np.float64],
    means: NDArray[np.float64],
    covariances: NDArray[np.float64],
    weights: NDArray[np.float64],
    durations: NDArray[np.float64],
    ties: list[int],
) -> Hmm: ...
def train_predictor(
    inputs: Inputs,
    observed: tuple[str, int, NDArray[np.int64], NDArray[np.uint32]],
    weights: list[float] | None,
    names: list[str],
    parents: list[int | None],
    how: str,
    checkpoint: tuple[str | os.PathLike[str], float] | None,
    run: Run,
) -> tuple[
    Predictor,
    list[tuple[int, float, float, bool]],
    list[tuple[float, float]],
    tuple[int, float, float, float, float] | None,
]: ...
def read_examples(
    path: str | os.PathLike[str],
    space: str,
    labels: list[str],
    xml: str | os.PathLike[str] | None,
    partial: bool,
) -> tuple[
    list[tuple[str, list[str] | None]],
    tuple[list[int], list[int], NDArray[np.float64]],
    list[str],
    list[int | None],
    tuple[list[int], NDArray[np.uint32]] | None,
    int,
]: ...

@final
class Tagger:
    @staticmethod
    def read(path: str | os.PathLike[str]) -> Tagger: ...
    @staticmethod
    def from_bytes(data: bytes) -> Tagger: ...
    def to_bytes(self) -> bytes: ...
    def save(self, path: str | os.PathLike[str]) -> None: ...
    @property
    def tags(self) -> list[str]: ...
    @property
    def window(self) -> tuple[int, int] | None: ...
    @property
    def context(self) -> int: ...
    @property
    def hash_bits(self) -> int | None: ...
    @property
    def template(self) -> str | None: ...
    @property
    def training(self) -> str: ...
    @property
    def sizes(self) -> tuple[int, int, int]: ...
    def forbidding(self, transitions: list[tuple[str, str]]) -> Tagger: ...
    def top(self, count: int) -> list[tuple[str, str, float, bool]]: ...
    def predict(
        self,
        sentences: list[list[list[tuple[str, float]]]],
        known: list[list[str | None]] | None,
        run: Run,
    ) -> list[list[str]]: ...
    def marginals(
        self,
        sentences: list[list[list[tuple[str, float]]]],
        known: list[list[str | None]] | None,
        run: Run,
    ) -> list[NDArray[np.float64]]: ...
    def best(
        self,
        sentences: list[list[list[tuple[str, float]]]],
        count: int,
        known: list[list[str | None]] | None,
        run: Run,
    ) -> list[list[tuple[list[str], float]]]: ...
    def evaluate(
        self,
        sentences: list[list[list[tuple[str, float]]]],
        words: list[list[str]] | None,
        tags: list[list[str | None]],
        run: Run,
    ) -> str: ...
    def log_probabilities(
        self,
        sentences: list[list[list[tuple[str, float]]]],
        tags: list[list[str | None]],
        run: Run,
    ) -> NDArray[np.float64]: ...

def read_tagged(
    path: str | os.PathLike[str],
    format: str | None,
    column: str | None,
    word: str | None,
    sequence: str | None,
) -> tuple[list[list[str]], list[list[str | None]]]: ...
def write_tagged(
    path: str | os.PathLike[str],
    source: str | os.PathLike[str],
    tags: list[list[str | None]],
    columns: tuple[str | None, str | None, str | None, str | None],
    tagged: bool,
) -> None: ...
def word_attributes(words: list[str], count: int, ends: int) -> list[list[tuple[str, float]]]: ...
def tag_spans(tags: list[str]) -> list[tuple[int, int, str]]: ...
def train_joint_tagger(
    words: list[list[str]],
    tags: list[list[str]],
    how: str,
    valid: tuple[list[list[str]], list[list[str]]] | None,
    checkpoint: tuple[str | os.PathLike[str], float] | None,
    run: Run,
) -> tuple[Tagger, list[tuple[int, float]]]: ...
def train_tagger(
    sentences: list[list[list[tuple[str, float]]]],
    tags: list[list[str]],
    words: tuple[int, list[str]] | None,
    hash_bits: int | None,
    how: str,
    valid: tuple[list[list[list[tuple[str, float]]]], list[list[str]]] | None,
    checkpoint: tuple[str | os.PathLike[str], float] | None,
    run: Run,
) -> tuple[Tagger, list[tuple[int, float]]]: ...
def train_tagger_file(
    path: str | os.PathLike[str],
    columns: tuple[str | None, str | None, str | None, str | None],
    features: tuple[str, bool],
    block: int,
    hash_bits: int | None,
    how: str,
    valid: str | os.PathLike[str] | None,
    checkpoint: tuple[str | os.PathLike[str], float] | None,
    run: Run,
) -> tuple[Tagger, list[tuple[int, float]]]: ...
