"""Measures of the tags that a tagger predicts."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import _html
from ._frames import Columns, Tabular

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class TagMeasures(NamedTuple):
    """Precision, recall and F1 of a tag, or of a type of spans.

    `observed` and `predicted` count its occurrences in the data and in the prediction, and `correct` those
    that agree. A measure whose denominator is 0 is 0.
    """

    tag: str
    precision: float
    recall: float
    f1: float
    observed: int
    predicted: int
    correct: int


@dataclass(frozen=True, eq=False)
class TagEvaluation(Tabular):
    """Measures of predicted tags.

    - `accuracy`: the share of tokens whose tag is correct; `sentence_accuracy`: that of sentences
    - `seen_accuracy`, `unseen_accuracy`: the same for words that occur in the training data and for the
      others; None without such words, or if the tokens are not words
    - `log_loss`: −ln p(tags | words) per token, in sentences whose tags are all known to the tagger
    - `unseen_tags`: tokens whose tag does not occur in the training data, which count as errors
    - `tags`: precision, recall and F1 of every tag; `to_pandas` and `to_polars` return this table
    - `spans`, `span_types`: the same for whole spans in total and by type, if the tags mark spans (`B-NP`)
    - `confusion`: how often each tag (rows) was predicted as each (columns), in the order of `tags`
    """

    tokens: int
    accuracy: float
    seen_accuracy: float | None
    unseen_accuracy: float | None
    unseen_words: int | None
    sentence_accuracy: float
    log_loss: float | None
    unseen_tags: int
    tags: tuple[TagMeasures, ...]
    spans: TagMeasures | None
    span_types: tuple[TagMeasures, ...]
    confusion: NDArray[np.int64]

    @property
    def labels(self) -> list[str]:
        """The tags of the rows and columns of `confusion`."""
        return [one.tag for one in self.tags]

    @property
    def confusion_shares(self) -> NDArray[np.float64]:
        """`confusion` with every row divided by its sum; rows of tags that do not occur are 0."""
        totals = self.confusion.sum(axis=1, keepdims=True)
        return np.asarray(self.confusion / np.maximum(totals, 1))

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draws the confusion matrix with matplotlib, as shares of every observed tag."""
        from . import _plot

        return _plot.confusion(self.confusion_shares, self.labels, ax)

    def _columns(self) -> Columns:
        return {name: [getattr(one, name) for one in self.tags] for name in TagMeasures._fields}

    def _facts(self) -> dict[str, str]:
        """The measures of all tokens by name."""
        known = {
            "accuracy": self.accuracy,
            "seen words": self.seen_accuracy,
            "unseen words": self.unseen_accuracy,
            "whole sentences": self.sentence_accuracy,
        }
        return {name: f"{value:.4f}" for name, value in known.items() if value is not None}

    def __repr__(self) -> str:
        """The measures of all tokens."""
        facts = ", ".join(f"{name} {value}" for name, value in self._facts().items())
        return f"TagEvaluation({self.tokens} tokens: {facts})"

    def _repr_html_(self) -> str:
        """The measures, a table of the tags, and the confusion matrix."""
        facts = {"tokens": f"{self.tokens:,}", **self._facts()}
        if self.log_loss is not None:
            facts["log-loss"] = f"{self.log_loss:.5f} nats per token"
        if self.unseen_tags:
            tokens = "1 token has" if self.unseen_tags == 1 else f"{self.unseen_tags:,} tokens have"
            facts["unseen tags"] = f"{tokens} a tag that training never saw"
        parts = [_html.table(facts), _table("tag", self.tags)]
        if self.spans is not None:
            parts.append(_table("span", (*self.span_types, self.spans)))
        parts.append(_html.confusion(self.confusion, self.labels))
        return _html.block(*parts)


def _table(name: str, rows: tuple[TagMeasures, ...]) -> _html.Markup:
    """A table of the tags or types of spans, those that occur most often."""
    shown = sorted(rows, key=lambda one: -one.observed)[: _html.MOST_ROWS]
    cells = [
        (one.tag, *(_html.probability(share) for share in one[1:4]), _html.number(one.observed))
        for one in shown
    ]
    more = _html.and_more(len(rows), len(shown), f"{name}s")
    return _html.columns((name, "precision", "recall", "F1", "observed"), cells, more)


def evaluation(text: str) -> TagEvaluation:
    """An evaluation from the JSON of the native module."""
    answer: dict[str, Any] = json.loads(text)
    found = answer["found"]

    def share(hits: dict[str, int] | None) -> float | None:
        return hits["correct"] / hits["all"] if hits and hits["all"] else None

    def measures(counts: dict[str, Any]) -> TagMeasures:
        observed, predicted, correct = (counts[name] for name in ("observed", "predicted", "correct"))

        def ratio(part: int, whole: int) -> float:
            return part / whole if whole else 0.0

        precision, recall = ratio(correct, predicted), ratio(correct, observed)
        f1 = ratio(2 * correct, observed + predicted)
        return TagMeasures(counts["tag"], precision, recall, f1, observed, predicted, correct)

    tags = tuple(measures(counts) for counts in found["tags"])
    place = {one.tag: i for i, one in enumerate(tags)}
    confusion = np.zeros((len(tags), len(tags)), dtype=np.int64)
    for observed, predicted, count in found["confusion"]:
        confusion[place[observed], place[predicted]] = count
    return TagEvaluation(
        tokens=found["total"]["all"],
        accuracy=share(found["total"]) or 0.0,
        seen_accuracy=share(found["seen"]),
        unseen_accuracy=share(found["unseen"]),
        unseen_words=None if found["unseen"] is None else found["unseen"]["all"],
        sentence_accuracy=share(found["sentences"]) or 0.0,
        log_loss=answer["log_loss"],
        unseen_tags=found["unseen_tags"],
        tags=tags,
        spans=None if found["spans"] is None else measures(found["spans"]),
        span_types=tuple(measures(counts) for counts in found["span_types"]),
        confusion=confusion,
    )
