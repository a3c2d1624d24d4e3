"""Taggers: `Tagger`, and `read_tagged` for tagged files."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from . import _zhat
from ._arguments import FilePath, integer, real
from ._estimator import Estimator, convergence_warning, not_fitted
from .errors import InputError
from .runtime import run

T = TypeVar("T", bound="Tagger")

Token: TypeAlias = "str | Mapping[str, Any] | Sequence[str]"
"""A word, attributes with values or weights, or a list of attributes."""
Attributes: TypeAlias = list[tuple[str, float]]


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

    def named(value: str | int | None) -> str | None:
        return None if value is None else str(value)

    return _zhat.read_tagged(path, format, named(column), named(word), named(sequence))


def _weighted(name: str, value: Any, found: Attributes) -> None:
    """Adds the attributes of an entry of a dictionary, as python-crfsuite reads it."""
    if isinstance(value, str):
        found.append((f"{name}:{value}", 1.0))
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            _weighted(f"{name}:{key}", inner, found)
    elif isinstance(value, list | tuple | set | frozenset):
        found.extend(
            (f"{name}:{item}", 1.0)
            for item in (sorted(value) if isinstance(value, set | frozenset) else value)
        )
    else:
        found.append((name, real(name, value) if not isinstance(value, bool | np.bool_) else float(value)))


def _attributes(token: Token) -> Attributes:
    """The attributes of a token with their weights."""
    if isinstance(token, Mapping):
        found: Attributes = []
        for name, value in token.items():
            _weighted(str(name), value, found)
        return found
    if isinstance(token, Iterable):
        return [(str(name), 1.0) for name in token]
    raise InputError(f"X: expected a word, a dictionary or a list of attributes, found {token!r}")


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

    Parameters that are None have the default of the objective: `l2` 1 or 0.5 (joint), `min_count` 0 or 2,
    `max_iter` 1000 or 300, `tol` 1e-5 or 1e-4, `patience` 10 or 50.

    >>> from zhat import Tagger
    >>> tagger = Tagger(l2=0.1).fit([["the", "dog"], ["a", "cat"]], [["DT", "NN"], ["DT", "NN"]])
    >>> tagger.predict([["the", "cat"]])
    [['DT', 'NN']]
    """

    _kind = "classifier"

    classes_: list[str]
    n_iter_: int
    objective_: float
    log_likelihoods_: dict[str, float]
    steps_: list[tuple[int, float]]

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
        # The input is a list of sequences, which scikit-learn's checks do not have.
        tags.input_tags.two_d_array = False
        tags.no_validation = True
        return tags

    def _run(self) -> _zhat.Run:
        seed = integer("random_state", self.random_state, 0)
        return run(seed, self.threads, self.memory, self.time, self.progress)

    def _encoded(
        self, X: Iterable[Sequence[Token]], words: int | None, ends: int = 0
    ) -> tuple[list[list[Attributes]], bool]:
        """The attributes of all tokens, and whether the tokens are words."""
        if isinstance(X, str | Mapping):
            raise InputError("X: expected a list of sentences, each a list of tokens")
        all_words: bool | None = None
        encoded: list[list[Attributes]] = []
        for number, sentence in enumerate(X):
            if isinstance(sentence, str | Mapping):
                raise InputError(f"X: sentence {number + 1} is not a list of tokens")
            tokens = list(sentence)
            of_words = [isinstance(token, str) for token in tokens]
            if any(of_words) and not all(of_words):
                raise InputError(f"X: sentence {number + 1} has words and tokens with attributes")
            if tokens and all_words not in (None, of_words[0]):
                raise InputError(f"X: sentence {number + 1} has other tokens than those before it")
            if tokens and of_words[0]:
                if words is None:
                    raise InputError("X: the tagger was trained with attributes, not with words")
                encoded.append(_zhat.word_attributes([str(token) for token in tokens], words, ends))
            else:
                encoded.append([_attributes(token) for token in tokens])
            if tokens:
                all_words = of_words[0]
        return encoded, bool(all_words)

    def fit(
        self: T,
        X: Iterable[Sequence[Token]],
        y: Iterable[Sequence[str]],
        X_dev: Iterable[Sequence[Token]] | None = None,
        y_dev: Iterable[Sequence[str]] | None = None,
    ) -> T:
        """Trains on sentences and their tags.

        With `X_dev` and `y_dev`, training stops after `patience` steps without an improvement of their
        log-loss (joint: of their accuracy), and the best weights are kept.
        """
        if self._joint():
            return self._fit_joint(X, y, X_dev, y_dev)
        sentences, of_words = self._encoded(X, integer("words", self.words, 1, 99))
        if not sentences:
            raise InputError("X: there are no sentences")
        if (X_dev is None) != (y_dev is None):
            raise InputError("X_dev: expected together with y_dev")
        valid = None
        if X_dev is not None and y_dev is not None:
            valid = (self._encoded(X_dev, self.words if of_words else None)[0], _texts(y_dev))
        self._native, self.steps_ = _zhat.train_tagger(
            sentences,
            _texts(y),
            self.words if of_words else None,
            None if self.hash_bits is None else integer("hash_bits", self.hash_bits, 1, 30),
            self._how(),
            valid,
            self._kept(),
            self._run(),
        )
        return self._done()

    def fit_file(
        self: T,
        path: FilePath,
        column: str | int | None = None,
        format: str | None = None,
        word: str | int | None = None,
        sequence: str | int | None = None,
        features: str | None = None,
        block: int = 1 << 26,
    ) -> T:
        """Trains on a tagged file of any size by stochastic gradients, whatever `optimizer` is.

        The file is read in blocks of about `block` bytes, once per epoch and twice more. Only one block is
        in memory, and with `hash_bits` no dictionary of attributes. `features` are the items of
        `zhat tag train --features`, by default the attributes of a file in CRFsuite's format and otherwise
        those of words. The other arguments are those of `read_tagged`.
        """
        if self._joint():
            raise InputError('objective: a file in blocks trains a "conditional" tagger only')
        given = features is not None
        items = features if features is not None else f"appendix-b:{integer('words', self.words, 1, 99)}"

        def named(value: str | int | None) -> str | None:
            return None if value is None else str(value)

        read = (format, named(column), named(word), named(sequence))
        self._native, self.steps_ = _zhat.train_tagger_file(
            path,
            read,
            (items, given),
            integer("block", block, 1),
            None if self.hash_bits is None else integer("hash_bits", self.hash_bits, 1, 30),
            self._how(optimizer="sgd"),
            self._kept(),
            self._run(),
        )
        return self._done()

    def _how(self, **other: Any) -> str:
        """The training options as JSON."""
        how = {
            "l1": real("l1", self.l1),
            "l2": real("l2", 1.0 if self.l2 is None else self.l2),
            "context": integer("context", self.context),
            "min_count": integer("min_count", self.min_count or 0),
            "all_possible": bool(self.all_possible),
            "iterations": integer("max_iter", 1000 if self.max_iter is None else self.max_iter),
            "delta": real("tol", 1e-5 if self.tol is None else self.tol),
            "period": integer("period", self.period),
            "patience": integer("patience", 10 if self.patience is None else self.patience),
            "optimizer": self.optimizer,
            "batch": integer("batch", self.batch),
            "rate": 0.0 if self.rate is None else real("rate", self.rate),
        }
        for name in ("l1", "l2", "delta", "rate"):
            if not math.isfinite(real(name, how[name])):
                raise InputError(f"{name}: expected a finite number, found {how[name]}")
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

    def _fit_joint(
        self: T,
        X: Iterable[Sequence[Token]],
        y: Iterable[Sequence[str]],
        X_dev: Iterable[Sequence[Token]] | None,
        y_dev: Iterable[Sequence[str]] | None,
    ) -> T:
        if (X_dev is None) != (y_dev is None):
            raise InputError("X_dev: expected together with y_dev")
        if integer("words", self.words, 1, 9) % 2 == 0:
            raise InputError(f"words: expected an odd number from 1 to 9, found {self.words}")
        words = _only_words("X", X)
        if not words:
            raise InputError("X: there are no sentences")
        valid = None
        if X_dev is not None and y_dev is not None:
            valid = (_only_words("X_dev", X_dev), _texts(y_dev))
        if self.bound not in (None, "exact", "cover", "star"):
            raise InputError(f'bound: expected "exact", "cover" or "star", found {self.bound!r}')
        how: dict[str, Any] = {
            "context": integer("context", self.context),
            "window": integer("words", self.words),
            "word_scores": bool(self.word_scores),
            "bound": self.bound,
            "period": integer("period", self.period),
        }
        whole = {"min_count": self.min_count, "iterations": self.max_iter, "patience": self.patience}
        how.update({name: integer(name, value) for name, value in whole.items() if value is not None})
        for name, option, number in (("l2", "l2", self.l2), ("tol", "delta", self.tol)):
            if number is not None:
                how[option] = real(name, number)
                if not math.isfinite(how[option]):
                    raise InputError(f"{name}: expected a finite number, found {number}")
        checkpoint = (
            None if self.checkpoint is None else (self.checkpoint, real("keep_every", self.keep_every))
        )
        self._native, self.steps_ = _zhat.train_joint_tagger(
            words, _texts(y), json.dumps(how), valid, checkpoint, self._run()
        )
        self._fitted()
        self._warn_if_late()
        return self

    def _fitted(self) -> None:
        training = json.loads(self._native.training)
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

    def _inputs(self, X: Iterable[Sequence[Token]]) -> list[list[Attributes]]:
        native = self._trained()
        if native.window is not None:
            context, nearest = native.window
            return self._encoded(_only_words("X", X), nearest, context)[0]
        template = native.template
        words = None
        if template is not None and template.startswith("appendix-b"):
            words = int(template.partition(":")[2] or 1)
        return self._encoded(X, words)[0]

    def forbid(self: T, transitions: Iterable[tuple[str, str]]) -> T:
        """Forbids transitions from one tag to the next in all later queries."""
        self._native = self._trained().forbidding([(str(a), str(b)) for a, b in transitions])
        return self

    def predict(
        self, X: Iterable[Sequence[Token]], known: Iterable[Sequence[str | None]] | None = None
    ) -> list[list[str]]:
        """The most probable tags of every sentence, given those in `known` that are not None."""
        native = self._trained()
        return native.predict(self._inputs(X), _known(known), self._run())

    def predict_single(self, xseq: Sequence[Token]) -> list[str]:
        """The most probable tags of one sentence."""
        return self.predict([xseq])[0]

    def predict_marginals(
        self, X: Iterable[Sequence[Token]], known: Iterable[Sequence[str | None]] | None = None
    ) -> list[list[dict[str, float]]]:
        """The probability of every tag of every token, as one dictionary per token."""
        return [
            [dict(zip(self.classes_, map(float, row), strict=True)) for row in table]
            for table in self.predict_proba(X, known)
        ]

    def predict_proba(
        self, X: Iterable[Sequence[Token]], known: Iterable[Sequence[str | None]] | None = None
    ) -> list[NDArray[np.float64]]:
        """The probability of every tag: one array per sentence, tokens × `classes_`."""
        native = self._trained()
        tables = native.marginals(self._inputs(X), _known(known), self._run())
        return [table.reshape(-1, len(self.classes_)) for table in tables]

    def predict_k_best(
        self, X: Iterable[Sequence[Token]], k: int, known: Iterable[Sequence[str | None]] | None = None
    ) -> list[list[Tagging]]:
        """The k most probable sequences of tags of every sentence, best first."""
        native = self._trained()
        found = native.best(self._inputs(X), integer("k", k, 1), _known(known), self._run())
        return [[Tagging(tags, log) for tags, log in ranked] for ranked in found]

    def log_probabilities(
        self, X: Iterable[Sequence[Token]], y: Iterable[Sequence[str]]
    ) -> NDArray[np.float64]:
        """ln p(tags | words) of every sentence; NaN if one of its tags is not in `classes_`."""
        native = self._trained()
        tags: list[list[str | None]] = [list(own) for own in _texts(y)]
        return native.log_probabilities(self._inputs(X), tags, self._run())

    def score(self, X: Iterable[Sequence[Token]], y: Iterable[Sequence[str]]) -> float:
        """The share of tokens whose tag is right."""
        predicted, observed = self.predict(X), _texts(y)
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

    def span_f1(self, X: Iterable[Sequence[Token]], y: Iterable[Sequence[str]]) -> float:
        """F1 of whole spans for tags such as B-NP, I-NP and O, counted as CoNLL's script counts them."""
        hits = total = 0
        for predicted, observed in zip(self.predict(X), _texts(y), strict=True):
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
        """Reads a tagger from a `.zhat` file."""
        tagger = cls()
        tagger._native = _zhat.Tagger.read(path)
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


def _texts(y: Iterable[Sequence[str]]) -> list[list[str]]:
    found = []
    for number, tags in enumerate(y):
        if isinstance(tags, str):
            raise InputError(f"y: sentence {number + 1} is not a list of tags")
        for tag in tags:
            if not isinstance(tag, str):
                raise InputError(f"y: sentence {number + 1}: expected tags as text, found {tag!r}")
        found.append([str(tag) for tag in tags])
    return found


def _only_words(name: str, X: Iterable[Sequence[Token]]) -> list[list[str]]:
    """The sentences of a joint tagger, whose tokens are words."""
    found = []
    for number, sentence in enumerate(X):
        if isinstance(sentence, str | Mapping):
            raise InputError(f"{name}: sentence {number + 1} is not a list of tokens")
        for token in sentence:
            if not isinstance(token, str):
                raise InputError(
                    f"{name}: sentence {number + 1}: a joint tagger needs words, found {token!r}; "
                    'objective="conditional" works with attributes'
                )
        found.append([str(token) for token in sentence])
    return found


def _known(tags: Iterable[Sequence[str | None]] | None) -> list[list[str | None]] | None:
    return None if tags is None else [[None if tag is None else str(tag) for tag in own] for own in tags]
