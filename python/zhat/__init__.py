"""zhat computes log Z = log Σ exp score(x) of structured probabilistic models and derived quantities.

Queries are log Z, marginals, entropy, the best state and samples. Results are exact if that fits the budget;
otherwise they come with a stated guarantee, such as a certified interval or a confidence bound.

>>> import zhat
>>> grid = zhat.generate.ising(rows=10, columns=10, seed=42)
>>> answer = grid.log_partition()
>>> print(answer.guarantee)
exact
>>> estimate = grid.log_partition(method="importance", samples=20_000, seed=1)
>>> estimate.guarantee.low <= answer.value
True
"""

from __future__ import annotations

from . import errors as errors  # first, because the native module raises them
from . import generate, ops, queries
from ._predictor import Evaluation, Prediction
from ._zhat import __version__
from .answer import Answer, Beliefs, BestState, FactorBeliefs, Guarantee, Samples
from .bridges import (
    from_dynamax,
    from_hmmlearn,
    from_networkx,
    from_pgmpy,
    from_pomegranate,
    from_pyagrum,
)
from .catalogue import Method, methods
from .dependency import DependencyGradient, DependencyTree, Tree, TreeSamples
from .errors import (
    Error,
    FileError,
    ImpossibleEvidenceError,
    InputError,
    MissingFileError,
    NotFittedError,
    OverBudgetError,
    UnknownOptionError,
    ZeroPartitionError,
)
from .examples import Examples, read_examples
from .grammar import Grammar
from .hidden_markov import Hmm, HmmCandidate, HmmForecast, HmmStep
from .hierarchies import HierarchyClassifier
from .hypertree import Hypertree, HypertreeGradient, ParseSamples
from .label_sets import LabelSetClassifier
from .language import LanguageModel, TextScore
from .learning import Fitted, LogLikelihood, fit, impute, score
from .mixed import Counts, MixedModel
from .model import FactorGraph, read
from .pairwise import PairwiseGradient, PairwiseGraph
from .parse_tree import ParseTree
from .partitions import PartitionPredictor
from .queries import entropy, factor_marginals, k_best, log_partition, map, marginals, sample
from .rankings import LabelRanker
from .runtime import config, get_num_threads, set_num_threads, show_config
from .sequence import Chain, SemiMarkov
from .sequence_answer import ChainGradient, Path, PathSamples, Segmentation
from .sequence_mrf import SequenceMrf
from .space import SpaceModel
from .sparse import Sparse
from .tagger import Tagger, Tagging, read_tagged, write_tagged
from .tagger_evaluation import TagEvaluation, TagMeasures

__all__ = [
    "Answer",
    "Beliefs",
    "BestState",
    "Chain",
    "ChainGradient",
    "Counts",
    "DependencyGradient",
    "DependencyTree",
    "Error",
    "Evaluation",
    "Examples",
    "FactorBeliefs",
    "FactorGraph",
    "FileError",
    "Fitted",
    "Grammar",
    "Guarantee",
    "HierarchyClassifier",
    "Hmm",
    "HmmCandidate",
    "HmmForecast",
    "HmmStep",
    "Hypertree",
    "HypertreeGradient",
    "ImpossibleEvidenceError",
    "InputError",
    "LabelRanker",
    "LabelSetClassifier",
    "LanguageModel",
    "LogLikelihood",
    "Method",
    "MissingFileError",
    "MixedModel",
    "NotFittedError",
    "OverBudgetError",
    "PairwiseGradient",
    "PairwiseGraph",
    "ParseSamples",
    "ParseTree",
    "PartitionPredictor",
    "Path",
    "PathSamples",
    "Prediction",
    "Samples",
    "Segmentation",
    "SemiMarkov",
    "SequenceMrf",
    "SpaceModel",
    "Sparse",
    "TagEvaluation",
    "TagMeasures",
    "Tagger",
    "Tagging",
    "TextScore",
    "Tree",
    "TreeSamples",
    "UnknownOptionError",
    "ZeroPartitionError",
    "__version__",
    "config",
    "entropy",
    "factor_marginals",
    "fit",
    "from_dynamax",
    "from_hmmlearn",
    "from_networkx",
    "from_pgmpy",
    "from_pomegranate",
    "from_pyagrum",
    "generate",
    "get_num_threads",
    "impute",
    "k_best",
    "log_partition",
    "map",
    "marginals",
    "methods",
    "ops",
    "queries",
    "read",
    "read_examples",
    "read_tagged",
    "sample",
    "score",
    "set_num_threads",
    "show_config",
    "write_tagged",
]


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
