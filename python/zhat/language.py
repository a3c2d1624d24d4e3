"""Globally normalised language models: `LanguageModel`, and its score of a text, `TextScore`."""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from . import _zhat
from ._arguments import FilePath, integer, real, settings, text
from ._html import table
from .answer import Guarantee
from .errors import InputError
from .runtime import Progress, run

Texts: TypeAlias = "FilePath | Iterable[FilePath] | Iterable[Sequence[str]]"
"""One or several files with one sentence per line (plain, `.gz`, `.zst`), or lists of words."""


@dataclass(frozen=True)
class TextScore:
    """The score of a text under a model: a certified lower bound on its log-likelihood, given the lengths."""

    tokens: int
    sentences: int
    log_likelihood: float
    guarantee: Guarantee
    rounding: float
    log_lengths: float
    pseudo_log_likelihood: float | None
    annealed: dict[str, Any] | None

    @property
    def annealed_per_word(self) -> float | None:
        """The annealed estimate of the likelihood, in nats per word; see `annealed` for its uncertainty."""
        return None if self.annealed is None else float(self.annealed["per_word"])

    @property
    def per_word(self) -> float:
        """Log-likelihood in nats per word, separators included."""
        return self.log_likelihood / self.tokens

    def __float__(self) -> float:
        """Log-likelihood in nats per word."""
        return self.per_word

    def __repr__(self) -> str:
        """The bound and the size of the text."""
        low = _zhat.format_low(math.nextafter(self.per_word, -math.inf), 4)
        return f"TextScore(at least {low} nats per word, {self.tokens} words)"


class LanguageModel:
    """A Markov random field over whole texts, in which a word interacts with the K words on either side.

    `LanguageModel.train` trains one; with the default objective, the cost of a step does not depend on the
    length of the texts.

    >>> import zhat
    >>> text = [["the", "cat", "sleeps"], ["the", "dog", "sleeps"], ["a", "cat", "sees", "a", "dog"]] * 20
    >>> model = zhat.LanguageModel.train(text, context=1, rank=3, iterations=30)
    >>> model
    LanguageModel(7 words, context 1, rank 3)
    >>> model.embeddings.shape  # one row per word, `<unk>` among them
    (7, 3)
    >>> model.eval(text).per_word > -2.0
    True
    >>> [len(model.sample(4)), len(model.neighbours("cat", 2))]
    [4, 2]
    """

    _native: _zhat.LanguageModel

    history: list[tuple[int, float, float | None]]
    """For a model just trained: every step with nats per word on the text and on `valid`."""

    best: int | None
    """The step whose parameters the model has."""

    @classmethod
    def _wrap(cls, native: _zhat.LanguageModel) -> LanguageModel:
        model = cls.__new__(cls)
        model._native = native
        model.history = []
        model.best = None
        return model

    @classmethod
    def train(
        cls,
        texts: Texts,
        *,
        context: int = 1,
        rank: int | None = 30,
        rotations: bool = False,
        objective: str = "lifted",
        valid: Texts | None = None,
        min_count: int | None = None,
        vocabulary: int | None = None,
        bound: str = "spectral",
        shares: Sequence[float] = (),
        l2: float = 4e-6,
        iterations: int = 1000,
        patience: int = 30,
        tolerance: float = 1e-9,
        epochs: int = 20,
        rate: float = 0.1,
        checkpoint: FilePath | None = None,
        keep_every: float = 30.0,
        seed: int = 0,
        threads: int | None = None,
        memory: int | str | None = None,
        time: float | str | None = None,
        progress: Progress | None = None,
    ) -> LanguageModel:
        """Trains a model by maximising a certified bound on the likelihood, or by stochastic gradients.

        `objective` is "lifted" for the bound; its cost does not depend on the length of the texts. The other
        objectives make `epochs` passes over the texts, with initial learning rate `rate`: "exact" gives a
        field that is normalised at every word, so that its certified likelihood is its likelihood; "lbl"
        gives a log-bilinear model conditioned on the preceding words; "pseudo" gives a field trained by
        pseudo-likelihood.

        `rank` is the dimension of the embeddings; None means full matrices. With `rotations` there is one
        right embedding, transformed by a matrix for each distance, instead of one right embedding for each
        distance. Words that occur less often than `min_count`, or are not among the `vocabulary` most
        frequent words, become `<unk>`. Without `min_count`, words that occur once become `<unk>`, unless the
        texts contain `<unk>` themselves, and `<unk>` is always in the vocabulary: unknown words of other
        texts become `<unk>`. `bound` is "spectral", with the `shares` of the distances, or "star". Training
        stops early when the likelihood of `valid` has not improved for `patience` steps. With `checkpoint`,
        the state of training is written to that file every `keep_every` seconds. If the file exists, training
        resumes from it and gives exactly the same result.
        """
        if bound not in ("spectral", "star"):
            raise InputError(f'bound: expected "spectral" or "star", found {bound!r}')
        if rotations and rank is None:
            raise InputError("rotations: are of embeddings; expected a rank")
        if bound == "star" and len(shares):
            raise InputError("shares: are of the spectral bound")
        if objective not in ("lifted", "exact", "lbl", "pseudo"):
            raise InputError(f'objective: expected "lifted", "exact", "lbl" or "pseudo", found {objective!r}')
        if objective != "lifted":
            return cls._stochastic(
                texts,
                valid,
                objective == "pseudo",
                None if min_count is None else integer("min_count", min_count),
                None if vocabulary is None else integer("vocabulary", vocabulary, 1),
                {
                    "context": integer("context", context, 1, 64),
                    "rank": integer("rank", rank, 1, 2**16),
                    "cyclic": objective == "exact",
                    "epochs": integer("epochs", epochs),
                    "rate": real("rate", rate),
                },
                run(seed, threads, memory, time, progress),
            )
        bounded: Any = "star" if bound == "star" else {"spectral": [real("shares", x) for x in shares]}
        form: Any = "full"
        if rank is not None:
            form = {"rotated" if rotations else "products": integer("rank", rank, 1, 2**16)}
        how = {
            "form": form,
            "objective": bounded,
            "l2": real("l2", l2),
            "iterations": integer("iterations", iterations),
            "patience": integer("patience", patience),
            "tolerance": real("tolerance", tolerance),
        }
        native, steps, best = _zhat.train_language_model(
            _source("texts", texts),
            None if valid is None else _source("valid", valid),
            integer("context", context, 1, 64),
            None if min_count is None else integer("min_count", min_count),
            None if vocabulary is None else integer("vocabulary", vocabulary, 1),
            settings(how),
            None if checkpoint is None else (checkpoint, real("keep_every", keep_every)),
            run(seed, threads, memory, time, progress),
        )
        model = cls._wrap(native)
        model.history, model.best = steps, best
        return model

    @classmethod
    def _stochastic(
        cls,
        texts: Texts,
        valid: Texts | None,
        pseudo: bool,
        min_count: int | None,
        vocabulary: int | None,
        how: dict[str, Any],
        attended: _zhat.Run,
    ) -> LanguageModel:
        source = _source("texts", texts)
        other = None if valid is None else _source("valid", valid)
        native, steps, best = _zhat.train_stochastic(
            source, other, pseudo, min_count, vocabulary, settings(how), attended
        )
        model = cls._wrap(native)
        model.history, model.best = steps, best
        return model

    @classmethod
    def read(cls, path: FilePath) -> LanguageModel:
        """Reads a model from a `.zhat` file, as written by `save` or `zhat lm train`."""
        return cls._wrap(_zhat.LanguageModel.read(path))

    def save(self, path: FilePath) -> None:
        """Writes the model to a `.zhat` file."""
        self._native.save(path)

    def export(self, path: FilePath, format: str | None = None) -> None:
        """Writes the embeddings as "word2vec" text or "safetensors"; the default is by file extension."""
        if format is None:
            format = "safetensors" if os.fspath(path).endswith(".safetensors") else "word2vec"
        if format not in ("word2vec", "safetensors"):
            raise InputError(f'format: expected "word2vec" or "safetensors", found {format!r}')
        self._native.export(path, format == "safetensors")

    @property
    def context(self) -> int:
        """K, the largest distance between two words that interact."""
        return self._native.context

    @property
    def rank(self) -> int | None:
        """D, the dimension of the embeddings; None for full matrices."""
        return self._native.rank

    @property
    def kind(self) -> str:
        """The kind of model: "field" (with a bound), "exact" (normalised field) or "lbl" (log-bilinear)."""
        return self._native.kind

    @cached_property
    def words(self) -> tuple[str, ...]:
        """The words in descending order of frequency."""
        return tuple(self._native.words)

    @property
    def embeddings(self) -> NDArray[np.float32]:
        """The embeddings, one row per word in the order of `words`, as a read-only view without a copy."""
        return self._native.embeddings

    def eval(
        self,
        texts: Texts,
        *,
        pseudo: bool = False,
        annealed: int | bool | None = None,
        seed: int = 0,
        threads: int | None = None,
        memory: int | str | None = None,
        time: float | str | None = None,
        progress: Progress | None = None,
    ) -> TextScore:
        """A certified lower bound on the log-likelihood of a text; for "lbl" the log-likelihood itself.

        With `pseudo`, also computes the exact pseudo-likelihood, which takes one pass over the vocabulary for
        each word. With `annealed`, also estimates the likelihood by annealed importance sampling with that
        many levels; True lets a pilot run choose the number of levels. `TextScore.annealed` then contains
        "per_word", the certified "lower_per_word", "upper_per_word" with the confidence of the guarantee,
        "effective_sample_size" and, if that is small, a "warning", which is also issued as a
        `RuntimeWarning`.
        """
        if annealed is None or annealed is False:
            levels = None
        else:
            levels = 0 if annealed is True else integer("annealed", annealed, 1)
        how = run(seed, threads, memory, time, progress)
        told = self._native.evaluate(_source("texts", texts), bool(pseudo), levels, how)
        tokens, sentences, value, guarantee, words, rounding, lengths, exact, estimate = told
        promise = Guarantee(words=words, **json.loads(guarantee))
        found = None if estimate is None else json.loads(estimate)
        if found is not None and "warning" in found:
            warnings.warn(f"annealed: {found['warning']}", RuntimeWarning, stacklevel=2)
        return TextScore(tokens, sentences, value, promise, rounding, lengths, exact, found)

    def neighbours(self, word: str, count: int = 10) -> list[tuple[str, float]]:
        """The words with the largest cosine similarity to the embedding of a word, and the cosines."""
        return self._native.neighbours(text("word", word), integer("count", count))

    def sample(
        self,
        count: int = 1,
        *,
        sweeps: int = 50,
        seed: int = 0,
        threads: int | None = None,
        memory: int | str | None = None,
        time: float | str | None = None,
        progress: Progress | None = None,
    ) -> list[str]:
        """Sample sentences. For a "field", by Gibbs sampling with `sweeps` sweeps over all words."""
        how = run(seed, threads, memory, time, progress)
        return self._native.sample(integer("count", count), integer("sweeps", sweeps), how)

    def _figures(self) -> dict[str, str]:
        size = "full matrices" if self.rank is None else f"rank {self.rank}"
        figures = {"words": f"{len(self.words)} words", "context": f"context {self.context}", "size": size}
        return figures if self.kind == "field" else {**figures, "kind": self.kind}

    def __repr__(self) -> str:
        """The sizes in one line."""
        return f"LanguageModel({', '.join(self._figures().values())})"

    def _repr_html_(self) -> str:
        """A small table, for notebooks."""
        return table({"model": type(self).__name__} | self._figures())

    def __eq__(self, other: object) -> bool:
        """Whether two models are equal in every number."""
        return self._native == other._native if isinstance(other, LanguageModel) else NotImplemented

    def __hash__(self) -> int:
        """A hash that equal models share."""
        return hash((self.words, self.context, self.rank))

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles the model as the bytes of a `.zhat` file."""
        return _restore, (self._native.to_bytes(),)


def _restore(data: bytes) -> LanguageModel:
    return LanguageModel._wrap(_zhat.LanguageModel.from_bytes(data))


def _source(name: str, texts: Texts) -> list[str | os.PathLike[str]] | str:
    """The paths, or the sentences as lines of one string."""
    if isinstance(texts, (str, os.PathLike)):
        return [texts]
    if not isinstance(texts, Iterable):
        raise InputError(f"{name}: expected a path, paths or lists of words, found {texts!r}")
    items = list(texts)
    if items and all(isinstance(item, (str, os.PathLike)) for item in items):
        return cast("list[str | os.PathLike[str]]", items)
    lines = [_line(f"{name}[{i}]", item) for i, item in enumerate(items)]
    return "\n".join(lines)


def _line(name: str, sentence: object) -> str:
    if isinstance(sentence, (str, bytes)) or not isinstance(sentence, Iterable):
        raise InputError(f"{name}: expected a list of words, found {sentence!r}")
    words = [text(name, word) for word in sentence]
    for word in words:
        if not word or any(letter in " \t\n\r\x0b\x0c" for letter in word):
            raise InputError(f"{name}: {word!r} is no word; a word has no blanks")
    return " ".join(words)
