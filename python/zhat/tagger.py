"""Taggers: `Tagger`, and `read_tagged` and `write_tagged` for tagged files."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from . import _zhat
from ._arguments import FilePath, integer, real
from ._estimator import Estimator, convergence_warning, not_fitted
from ._inputs import check_features
from ._tagger_inputs import (
    Attributes,
    Encoded,
    Token,
    classes_of,
    encoded,
    is_table,
    known_tags,
    label_texts,
    labels,
    only_words,
    rows,
    texts,
    texts_with_gaps,
)
from ._targets import array_like
from .errors import InputError
from .runtime import run
from .tagger_evaluation import TagEvaluation, evaluation

T = TypeVar("T", bound="Tagger")


class Tagging(NamedTuple):
    """A sequence of tags and its log-probability given the words."""

    tags: list[str]
    log_probability: float


class Weight(NamedTuple):
    """A weight of a tagger: of an attribute or of the tags before, and a tag."""

    feature: str
    tag: str
    weight: float
    transition: bool


def read_tagged(
    path: FilePath,
    column: str | int | None = None,
    format: str | None = None,
    word: str | int | None = None,
    sequence: str | int | None = None,
) -> tuple[list[list[str]], list[list[str | None]]]:
    """The words and the tags of the sentences of a tagged file, plain or compressed; `-` is stdin.

    `format` is conllu, columns, words (`word_TAG`), crfsuite or csv, and is found from the file if it is not
    given. `column` is the column of the tags: `"upos"` or `"xpos"` in CoNLL-U, a number from 1, or a name. A
    tag is None where the file has `_`.
    """
    return _zhat.read_tagged(path, format, _named(column), _named(word), _named(sequence))


def write_tagged(
    path: FilePath,
    source: FilePath,
    tags: Iterable[Sequence[str | None]],
    column: str | int | None = None,
    format: str | None = None,
    word: str | int | None = None,
    sequence: str | int | None = None,
    tagged: bool = True,
) -> None:
    """Writes the tagged file `source` to `path` with other tags, one list per sentence of `read_tagged`.

    Everything but the tags stays as it is: the other columns, and the comments, ranges and empty nodes of
    CoNLL-U. A tag of None is written as `_`. A path that ends in `.gz` or `.zst` is compressed. With
    `tagged=False` the source has no column of tags, and gets one. The other arguments are those of
    `read_tagged`.
    """
    columns = (format, _named(column), _named(word), _named(sequence))
    _zhat.write_tagged(path, source, texts_with_gaps(tags), columns, bool(tagged))


def _named(value: str | int | None) -> str | None:
    return None if value is None else str(value)


class Tagger(Estimator):
    """A tagger: one tag per token, by a linear-chain conditional random field or a joint model.

    A token is a word, a dictionary of attributes (as for sklearn-crfsuite: text values become attributes
    `name:value`, numbers are weights) or a list of attributes. Words get the features of Jernite, Rush and
    Sontag (2015), Appendix B, of the `words` nearest words. The objective is -Σ ln p(tags | words) +
    l1·‖θ‖₁ + l2·‖θ‖²; `context=2` adds weights of three tags. `all_possible` adds weights for attributes and
    tags that the data do not have together. Training stops when the objective has fallen by less than the
    share `tol` in `period` steps. `optimizer="sgd"` trains by stochastic gradients, `batch` sentences at a
    time; a step is then an epoch, and `rate` is the first step size, by default chosen by trials.
    `fit_file` trains on a file that is larger than memory.

    With `objective="joint"`, tags and words are one Markov random field (the same paper), tokens are words,
    and the cost of a step does not depend on the number of sentences. The objective is the negative
    log-likelihood of tags and words by a `bound` on log Z ("exact", "cover" or "star"; the tightest if not
    given), plus l2·‖θ‖². `log_likelihoods_` has the certified log-likelihood per token by every bound.
    `word_scores` adds scores of words that do not depend on the tag. Given the words, all answers are exact
    for both objectives.

    Like a classifier of scikit-learn, a conditional tagger also learns from a table of numbers (an array, a
    sparse matrix or a frame) with one label per row. A row is then a sentence of one token whose attributes
    are the columns and a bias; `predict` returns an array of labels, `predict_proba` a matrix, and `classes_`
    is an array. All other methods treat a row as such a sentence, and a label as its text.

    Parameters that are None have the default of the objective: `l2` 1 or 0.5 (joint), `min_count` 0 or 2,
    `max_iter` 1000 or 300, `tol` 1e-5 or 1e-4, `patience` 10 or 50.

    >>> from zhat import Tagger
    >>> tagger = Tagger(l2=0.1).fit([["the", "dog"], ["a", "cat"]], [["DT", "NN"], ["DT", "NN"]])
    >>> tagger.predict([["the", "cat"]])
    [['DT', 'NN']]
    """

    _kind = "classifier"

    classes_: list[str] | NDArray[Any]
    n_features_in_: int
    feature_names_in_: NDArray[np.object_]
    n_iter_: int
    objective_: float
    log_likelihoods_: dict[str, float]
    steps_: list[tuple[int, float]]
    _native: _zhat.Tagger
    # The places of the labels of a table among the tags of `_native`, which are in the order of their texts.
    _order: list[int]

    def __init__(
        self,
        *,
        objective: str = "conditional",
        l1: float = 0.0,
        l2: float | None = None,
        context: int = 1,
        words: int = 3,
        min_count: int | None = None,
        all_possible: bool = False,
        hash_bits: int | None = None,
        bound: str | None = None,
        word_scores: bool = True,
        max_iter: int | None = None,
        tol: float | None = None,
        period: int = 10,
        patience: int | None = None,
        optimizer: str = "lbfgs",
        batch: int = 8,
        rate: float | None = None,
        random_state: int = 0,
        checkpoint: FilePath | None = None,
        keep_every: float = 30.0,
        threads: int | None = None,
        memory: int | str | None = None,
        time: float | str | None = None,
        progress: Any = None,
    ) -> None:
        """Stores the parameters; `fit` checks them."""
        self.objective = objective
        self.bound = bound
        self.word_scores = word_scores
        self.l1 = l1
        self.l2 = l2
        self.context = context
        self.words = words
        self.min_count = min_count
        self.all_possible = all_possible
        self.hash_bits = hash_bits
        self.max_iter = max_iter
        self.tol = tol
        self.period = period
        self.patience = patience
        self.optimizer = optimizer
        self.batch = batch
        self.rate = rate
        self.random_state = random_state
        self.checkpoint = checkpoint
        self.keep_every = keep_every
        self.threads = threads
        self.memory = memory
        self.time = time
        self.progress = progress

    def __sklearn_tags__(self) -> Any:
        """The properties of the estimator; called by scikit-learn only."""
        tags = super().__sklearn_tags__()
        tags.target_tags.two_d_labels = tags.target_tags.multi_output = False
        tags.classifier_tags.multi_class, tags.classifier_tags.multi_label = True, False
        tags.input_tags.categorical = tags.input_tags.allow_nan = False
        return tags

    def _run(self) -> _zhat.Run:
        seed = integer("random_state", self.random_state, 0)
        return run(seed, self.threads, self.memory, self.time, self.progress)

    def fit(self: T, X: Any, y: Any, X_dev: Any = None, y_dev: Any = None) -> T:
        """Trains on sentences and their tags, or on a table and the label of each row.

        With `X_dev` and `y_dev`, training stops after `patience` steps without an improvement of their
        log-loss (joint: of their accuracy), and the best weights are kept.
        """
        joint = self._joint()
        X = array_like(X)
        if is_table(X):
            if joint:
                raise InputError('X: a joint tagger needs words; objective="conditional" works with numbers')
            return self._fit_table(X, y, X_dev, y_dev)
        if joint:
            return self._fit_joint(X, y, X_dev, y_dev)
        words = integer("words", self.words, 1, 99)
        sentences = encoded(X, words)
        if not sentences.attributes:
            raise InputError("X: there are no sentences")
        _both(X_dev, y_dev)
        valid = None
        if X_dev is not None:
            valid = (encoded(X_dev, None if sentences.words is None else words).attributes, texts(y_dev))
        self._train(sentences, texts(y), valid)
        return self._done()

    def _fit_table(self: T, X: Any, y: Any, X_dev: Any, y_dev: Any) -> T:
        _both(X_dev, y_dev)
        table, given = rows(X), labels(y)
        classes, places = classes_of(given)
        valid = None
        if X_dev is not None:
            held, held_labels = rows(array_like(X_dev), table.names), labels(y_dev)
            if held.width != table.width:
                raise InputError(f"X_dev: has {held.width} columns, expected {table.width}")
            valid = (held.attributes, _one_each(held.attributes, held_labels))
        self._train(Encoded(table.attributes), _one_each(table.attributes, given), valid)
        self._fitted()
        self.n_features_in_ = table.width
        if table.names is not None:
            self.feature_names_in_ = np.array(table.names, dtype=object)
        self.classes_ = classes
        self._order = [self._native.tags.index(text) for text in places]
        self._warn_if_late()
        return self

    def _train(
        self,
        sentences: Encoded,
        tags: list[list[str]],
        valid: tuple[list[list[Attributes]], list[list[str]]] | None,
    ) -> None:
        self._native, self.steps_ = _zhat.train_tagger(
            sentences.attributes,
            tags,
            None if sentences.words is None else (integer("words", self.words), sentences.vocabulary),
            None if self.hash_bits is None else integer("hash_bits", self.hash_bits, 1, 30),
            self._how(),
            valid,
            self._kept(),
            self._run(),
        )

    def fit_file(
        self: T,
        path: FilePath,
        column: str | int | None = None,
        format: str | None = None,
        word: str | int | None = None,
        sequence: str | int | None = None,
        features: str | None = None,
        block: int = 1 << 26,
        valid: FilePath | None = None,
    ) -> T:
        """Trains on a tagged file of any size by stochastic gradients, whatever `optimizer` is.

        The file is read in blocks of about `block` bytes, once per epoch and twice more. Only one block is
        in memory, and with `hash_bits` no dictionary of attributes. `features` are the items of
        `zhat tag train --features`, by default the attributes of a file in CRFsuite's format and otherwise
        those of words. With `valid`, a tagged file that is read whole, training stops after `patience`
        epochs without an improvement of its log-loss, and the best weights are kept. The other arguments
        are those of `read_tagged`.
        """
        if self._joint():
            raise InputError('objective: a file in blocks trains a "conditional" tagger only')
        given = features is not None
        items = features if features is not None else f"appendix-b:{integer('words', self.words, 1, 99)}"
        read = (format, _named(column), _named(word), _named(sequence))
        self._native, self.steps_ = _zhat.train_tagger_file(
            path,
            read,
            (items, given),
            integer("block", block, 1),
            None if self.hash_bits is None else integer("hash_bits", self.hash_bits, 1, 30),
            self._how(optimizer="sgd"),
            valid,
            self._kept(),
            self._run(),
        )
        return self._done()

    def _how(self, **other: Any) -> str:
        """The training options as JSON."""
        how = {
            "l1": _from_zero("l1", self.l1),
            "l2": _from_zero("l2", 1.0 if self.l2 is None else self.l2),
            "context": integer("context", self.context),
            "min_count": integer("min_count", self.min_count or 0),
            "all_possible": bool(self.all_possible),
            "iterations": integer("max_iter", 1000 if self.max_iter is None else self.max_iter, 0, 10**9),
            "delta": _from_zero("tol", 1e-5 if self.tol is None else self.tol),
            "period": integer("period", self.period),
            "patience": integer("patience", 10 if self.patience is None else self.patience),
            "optimizer": self.optimizer,
            "batch": integer("batch", self.batch),
            "rate": 0.0 if self.rate is None else _from_zero("rate", self.rate),
        }
        if self.optimizer not in ("lbfgs", "sgd"):
            raise InputError(f"optimizer: expected lbfgs or sgd, found {self.optimizer!r}")
        return json.dumps(how | other)

    def _kept(self) -> tuple[FilePath, float] | None:
        """The file of the checkpoint and the seconds between writes."""
        return None if self.checkpoint is None else (self.checkpoint, real("keep_every", self.keep_every))

    def _done(self: T) -> T:
        self._fitted()
        self._warn_if_late()
        return self

    def _warn_if_late(self) -> None:
        if not json.loads(self._native.training)["converged"]:
            warnings.warn(
                f"training stopped after {self.n_iter_} steps before it converged; increase max_iter",
                convergence_warning(),
                stacklevel=3,
            )

    def _joint(self) -> bool:
        """Whether the objective is joint; parameters that belong to the other objective are refused."""
        if self.objective not in ("conditional", "joint"):
            raise InputError(f'objective: expected "conditional" or "joint", found {self.objective!r}')
        joint = self.objective == "joint"
        usual = Tagger()
        others = (
            ("l1", "all_possible", "hash_bits", "optimizer", "rate") if joint else ("bound", "word_scores")
        )
        for name in others:
            if getattr(self, name) != getattr(usual, name):
                other = "conditional" if joint else "joint"
                raise InputError(f'{name}: belongs to objective="{other}" only')
        return joint

    def _fit_joint(self: T, X: Any, y: Any, X_dev: Any, y_dev: Any) -> T:
        _both(X_dev, y_dev)
        if integer("words", self.words, 1, 9) % 2 == 0:
            raise InputError(f"words: expected an odd number from 1 to 9, found {self.words}")
        words = only_words("X", X)
        if not words:
            raise InputError("X: there are no sentences")
        valid = None if X_dev is None else (only_words("X_dev", X_dev), texts(y_dev))
        if self.bound not in (None, "exact", "cover", "star"):
            raise InputError(f'bound: expected "exact", "cover" or "star", found {self.bound!r}')
        how: dict[str, Any] = {
            "context": integer("context", self.context),
            "window": integer("words", self.words),
            "word_scores": bool(self.word_scores),
            "bound": self.bound,
            "period": integer("period", self.period),
        }
        wholes = {"min_count": "min_count", "max_iter": "iterations", "patience": "patience"}
        for name, option in wholes.items():
            if getattr(self, name) is not None:
                how[option] = integer(name, getattr(self, name), 0, 10**9)
        for name, option in (("l2", "l2"), ("tol", "delta")):
            if getattr(self, name) is not None:
                how[option] = _from_zero(name, getattr(self, name))
        self._native, self.steps_ = _zhat.train_joint_tagger(
            words, texts(y), json.dumps(how), valid, self._kept(), self._run()
        )
        return self._done()

    def _fitted(self) -> None:
        training = json.loads(self._native.training)
        for name in ("n_features_in_", "feature_names_in_", "_order", "log_likelihoods_"):
            self.__dict__.pop(name, None)
        self.classes_ = self._native.tags
        self.n_iter_ = training["steps"]
        self.objective_ = training["objective"]
        if self._native.window is not None:
            self.objective = "joint"
            self.log_likelihoods_ = dict(training["log_likelihoods"])

    def _trained(self) -> _zhat.Tagger:
        native: _zhat.Tagger | None = getattr(self, "_native", None)
        if native is None:
            raise not_fitted(self)
        return native

    def _encoded(self, X: Any) -> Encoded:
        native = self._trained()
        template = native.template
        if is_table(X):
            if template is not None:
                raise InputError("X: the tagger was trained with words, not with rows of numbers")
            names = getattr(self, "feature_names_in_", None)
            if hasattr(self, "n_features_in_"):
                check_features("Tagger", X, self.n_features_in_, names)
            return Encoded(rows(X, names).attributes)
        if native.window is not None:
            context, nearest = native.window
            return encoded(only_words("X", X), nearest, context)
        words = None
        if template is not None and template.startswith("appendix-b"):
            words = int(template.partition(":")[2] or 1)
        return encoded(X, words)

    def _inputs(self, X: Any) -> list[list[Attributes]]:
        return self._encoded(X).attributes

    def _tags(self, X: Any, known: Any = None) -> list[list[str]]:
        """The most probable tags of every sentence; a row of a table is a sentence of one token."""
        native = self._trained()
        if known is not None and is_table(X):
            raise InputError("known: applies to sentences only")
        return native.predict(self._inputs(X), _known(known), self._run())

    def forbid(self: T, transitions: Iterable[tuple[str, str]]) -> T:
        """Forbids transitions from one tag to the next in all later queries."""
        self._native = self._trained().forbidding([(str(a), str(b)) for a, b in transitions])
        return self

    @overload
    def predict(self, X: NDArray[Any]) -> NDArray[Any]: ...
    @overload
    def predict(
        self, X: Iterable[Sequence[Token]], known: Iterable[Sequence[str | None]] | None = None
    ) -> list[list[str]]: ...
    @overload
    def predict(self, X: Any, known: None = None) -> Any: ...
    def predict(self, X: Any, known: Any = None) -> Any:
        """The most probable tags of every sentence, given those in `known` that are not None.

        For a table, the most probable label of each row, as an array.
        """
        X = array_like(X)
        found = self._tags(X, known)
        if not is_table(X):
            return found
        own = [tags[0] for tags in found]
        if not hasattr(self, "_order"):
            return np.array(own)
        places = {text: place for place, text in enumerate(label_texts(np.asarray(self.classes_)))}
        return np.asarray(self.classes_)[[places[tag] for tag in own]]

    def predict_single(self, xseq: Sequence[Token]) -> list[str]:
        """The most probable tags of one sentence."""
        return self.predict([xseq])[0]

    def predict_marginals(
        self, X: Iterable[Sequence[Token]], known: Iterable[Sequence[str | None]] | None = None
    ) -> list[list[dict[str, float]]]:
        """The probability of every tag of every token, as one dictionary per token."""
        classes = np.asarray(self.classes_).tolist() if hasattr(self, "_order") else self._trained().tags
        return [
            [dict(zip(classes, map(float, row), strict=True)) for row in table]
            for table in self._tables(array_like(X), known)
        ]

    def predict_marginals_single(self, xseq: Sequence[Token]) -> list[dict[str, float]]:
        """The probability of every tag of every token of one sentence."""
        return self.predict_marginals([xseq])[0]

    @overload
    def predict_proba(self, X: NDArray[Any]) -> NDArray[np.float64]: ...
    @overload
    def predict_proba(
        self, X: Iterable[Sequence[Token]], known: Iterable[Sequence[str | None]] | None = None
    ) -> list[NDArray[np.float64]]: ...
    @overload
    def predict_proba(self, X: Any, known: None = None) -> Any: ...
    def predict_proba(self, X: Any, known: Any = None) -> Any:
        """The probability of every tag: one array per sentence, tokens × `classes_`.

        For a table, one array, rows × `classes_`.
        """
        X = array_like(X)
        tables = self._tables(X, known)
        return np.concatenate(tables) if is_table(X) else tables

    def _tables(self, X: Any, known: Any) -> list[NDArray[np.float64]]:
        """The probabilities of the tags of every sentence in the order of `classes_`."""
        native = self._trained()
        if known is not None and is_table(X):
            raise InputError("known: applies to sentences only")
        tables = native.marginals(self._inputs(X), _known(known), self._run())
        tables = [table.reshape(-1, len(native.tags)) for table in tables]
        order = getattr(self, "_order", None)
        return tables if order is None else [table[:, order] for table in tables]

    def predict_k_best(
        self, X: Iterable[Sequence[Token]], k: int, known: Iterable[Sequence[str | None]] | None = None
    ) -> list[list[Tagging]]:
        """The k most probable sequences of tags of every sentence, best first."""
        native = self._trained()
        found = native.best(self._inputs(array_like(X)), integer("k", k, 1), _known(known), self._run())
        return [[Tagging(tags, log) for tags, log in ranked] for ranked in found]

    def log_probabilities(self, X: Any, y: Any) -> NDArray[np.float64]:
        """ln p(tags | words) of every sentence; NaN if one of its tags is not in `classes_`."""
        native = self._trained()
        X = array_like(X)
        inputs = self._inputs(X)
        tags: list[list[str | None]] = [list(own) for own in _observed(X, inputs, y)]
        return native.log_probabilities(inputs, tags, self._run())

    def score(self, X: Any, y: Any) -> float:
        """The share of tokens whose tag is right; for a table, of rows."""
        X = array_like(X)
        predicted = self._tags(X)
        observed = _observed(X, predicted, y)
        if [len(own) for own in predicted] != [len(own) for own in observed]:
            raise InputError("y: expected one tag per token")
        pairs = [
            pair
            for own, seen in zip(predicted, observed, strict=True)
            for pair in zip(own, seen, strict=True)
        ]
        if not pairs:
            raise InputError("y: there are no tokens")
        return sum(a == b for a, b in pairs) / len(pairs)

    def evaluate(self, X: Any, y: Any) -> TagEvaluation:
        """Accuracy in total and on words that training saw or did not see, measures of every tag, confusions.

        Tokens whose tag in `y` is None do not count.

        >>> from zhat import Tagger
        >>> words, tags = [["the", "dog"], ["a", "cat"]], [["DT", "NN"], ["DT", "NN"]]
        >>> tagger = Tagger(l2=0.1).fit(words, tags)
        >>> found = tagger.evaluate([["the", "cow"]], [["DT", "NN"]])
        >>> found.accuracy, found.unseen_accuracy, found.unseen_words
        (1.0, 1.0, 1)
        """
        native = self._trained()
        X = array_like(X)
        sentences = self._encoded(X)
        tags: list[list[str | None]]
        if is_table(X):
            tags = [list(own) for own in _one_each(sentences.attributes, labels(y))]
        else:
            tags = texts_with_gaps(y)
        return evaluation(native.evaluate(sentences.attributes, sentences.words, tags, self._run()))

    def span_f1(self, X: Iterable[Sequence[Token]], y: Iterable[Sequence[str]]) -> float:
        """F1 of whole spans for tags such as B-NP, I-NP and O, counted as CoNLL's script counts them."""
        hits = total = 0
        for predicted, observed in zip(self._tags(X), texts(y), strict=True):
            a, b = set(_zhat.tag_spans(predicted)), set(_zhat.tag_spans(observed))
            hits += 2 * len(a & b)
            total += len(a) + len(b)
        return hits / total if total else 0.0

    def top_features(self, count: int = 20) -> list[Weight]:
        """The weights of largest absolute value, largest first."""
        return [Weight(*one) for one in self._trained().top(integer("count", count, 0))]

    @property
    def n_features_(self) -> int:
        """The number of weights that are not 0."""
        return self._trained().sizes[2]

    def save(self, path: FilePath) -> None:
        """Writes the tagger to a `.zhat` file, which `zhat tag` reads too."""
        self._trained().save(path)

    @classmethod
    def read(cls: type[T], path: FilePath) -> T:
        """Reads a tagger from a `.zhat` file, with the parameters that it was trained with.

        Older files have only `l1`, `l2`, `context`, `words` and `hash_bits`, or for joint taggers `context`
        and `words`; the other parameters are the defaults then.
        """
        native = _zhat.Tagger.read(path)
        tagger = cls(**_parameters(native))
        tagger._native = native
        tagger._fitted()
        return tagger

    def __getstate__(self) -> dict[str, Any]:
        """The parameters and the trained tagger as bytes."""
        state = dict(self.__dict__)
        if "_native" in state:
            state["_native"] = state["_native"].to_bytes()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """The inverse of `__getstate__`."""
        state = dict(state)
        if "_native" in state:
            state["_native"] = _zhat.Tagger.from_bytes(state["_native"])
        self.__dict__.update(state)


# The parameters of `Tagger` and their names in the options of training.
_CONDITIONAL = {
    "l1": "l1",
    "l2": "l2",
    "context": "context",
    "min_count": "min_count",
    "all_possible": "all_possible",
    "max_iter": "iterations",
    "tol": "delta",
    "period": "period",
    "patience": "patience",
    "optimizer": "optimizer",
    "batch": "batch",
    "rate": "rate",
}
_JOINT = {
    "l2": "l2",
    "context": "context",
    "words": "window",
    "min_count": "min_count",
    "word_scores": "word_scores",
    "bound": "bound",
    "max_iter": "iterations",
    "tol": "delta",
    "period": "period",
    "patience": "patience",
}
# The numbers that a parameter of None stands for.
_USUAL = {
    "conditional": {"l2": 1.0, "min_count": 0, "max_iter": 1000, "tol": 1e-5, "patience": 10, "rate": 0.0},
    "joint": {"l2": 0.5, "min_count": 2, "max_iter": 300, "tol": 1e-4, "patience": 50},
}


def _parameters(native: _zhat.Tagger) -> dict[str, Any]:
    """The parameters of a tagger in a file."""
    training = json.loads(native.training)
    found: dict[str, Any] = {}
    if native.window is not None:
        objective, names = "joint", _JOINT
        found["context"], found["words"] = native.window
    else:
        objective, names = "conditional", _CONDITIONAL
        found["context"], found["hash_bits"] = native.context, native.hash_bits
        found["l1"], found["l2"] = training["penalties"]
        template = native.template
        name, _, words = (template or "").partition(":")
        if name == "appendix-b" and words.isdigit():
            found["words"] = int(words)
    options = training.get("learning")
    if options is not None:
        found.update({name: options[option] for name, option in names.items()})
        found["random_state"] = training["seed"]
    usual = _USUAL[objective]
    found = {name: None if value == usual.get(name, ...) else value for name, value in found.items()}
    return {"objective": objective, **found}


def _known(tags: Any) -> list[list[str | None]] | None:
    return None if tags is None else known_tags(tags)


def _both(X_dev: Any, y_dev: Any) -> None:
    if (X_dev is None) != (y_dev is None):
        raise InputError("X_dev: expected together with y_dev")


def _one_each(attributes: list[list[Attributes]], own: NDArray[Any]) -> list[list[str]]:
    """The labels of a table as tags of sentences of one token."""
    if len(attributes) != len(own):
        raise InputError(f"X has {len(attributes)} rows and y has {len(own)}")
    return [[text] for text in label_texts(own)]


def _observed(X: Any, sentences: Sequence[Any], y: Any) -> list[list[str]]:
    """The observed tags of sentences or of rows."""
    return _one_each(list(sentences), labels(y)) if is_table(X) else texts(y)


def _from_zero(name: str, value: object) -> float:
    """A finite number of at least 0."""
    number = real(name, value)
    if not math.isfinite(number) or number < 0:
        raise InputError(f"{name}: expected a finite number of at least 0, found {number}")
    return number
