"""The estimators of zhat with the conventions of scikit-learn, which is not needed to import them.

| class | what it learns |
|---|---|
| `LabelSetClassifier` | several labels per row |
| `LabelRanker` | a ranking of items per row |
| `HierarchyClassifier` | classes of a hierarchy |
| `PartitionPredictor` | a partition of elements per row |
| `Tagger` | one tag per token of a sentence |
| `Hmm` | hidden states of sequences |
| `MarkovRandomField` | the joint distribution of the columns of a table; fills in missing values |
"""

from __future__ import annotations

from .hidden_markov import Hmm
from .hierarchies import HierarchyClassifier
from .label_sets import LabelSetClassifier
from .markov_field import MarkovRandomField
from .partitions import PartitionPredictor
from .rankings import LabelRanker
from .tagger import Tagger

__all__ = [
    "HierarchyClassifier",
    "Hmm",
    "LabelRanker",
    "LabelSetClassifier",
    "MarkovRandomField",
    "PartitionPredictor",
    "Tagger",
]
