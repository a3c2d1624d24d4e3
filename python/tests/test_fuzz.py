"""Random changes of arrays: type, shape, layout and numbers, of `zhat.ops` and factor graphs."""

from __future__ import annotations

import itertools
import warnings
from functools import partial
from typing import Any

import numpy as np
import pytest
from arrays import MODELS
from fuzz import FOREIGN, outcome, same

import zhat

CASES = 200  # of each model; all of them take a few seconds

Array = Any


def graph(**tables: Any) -> zhat.FactorGraph:
    scopes = {"unary": (1,), "pair": (0, 1), "triple": (2, 0, 1)}
    return zhat.FactorGraph([2, 3, 2], [(scopes[name], table) for name, table in tables.items()])


RANDOM = np.random.default_rng(27)
TABLES = {
    "unary": RANDOM.normal(size=3),
    "pair": RANDOM.normal(size=(2, 3)),
    "triple": RANDOM.normal(size=(2, 2, 3)),
}
TARGETS: dict[str, tuple[Any, dict[str, Any], dict[str, Any]]] = {
    **MODELS,
    "factor graph": (graph, TABLES, {}),
}
NAMES = ("lengths", "edges", "factor", "variable", "model", "cardinalities", "sequence", "scores", "states")


def changed(array: Array, random: np.random.Generator) -> tuple[str, Any]:
    """One random change of an array."""
    place = tuple(int(random.integers(size)) for size in array.shape)
    kinds = ["f2", "f4", "f8", ">f8", "<f4", "i1", "i8", "u2", "?", "c8", "O", "U8", "M8[s]", "V8"]
    kind = kinds[int(random.integers(len(kinds)))]
    value = [np.nan, np.inf, -np.inf, 1e300, -1e300, 1e-300, 0.0][int(random.integers(7))]
    axis = int(random.integers(array.ndim))

    def typed() -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return (
                np.round(array).astype(kind) if kind[-1] in "128" and kind[0] in "iu" else array.astype(kind)
            )

    def numbered() -> Any:
        made = array.copy()
        made[place] = value
        return made

    def frozen() -> Any:
        made = array.copy()
        made.flags.writeable = False
        return made

    changes = {
        f"type {kind}": typed,
        f"number {value}": numbered,
        "read-only": frozen,
        "Fortran": lambda: np.asfortranarray(array),
        "reversed": lambda: np.flip(np.flip(array, axis).copy(), axis),
        "strided": lambda: np.repeat(array, 2, axis).take(range(0, 2 * array.shape[axis], 2), axis),
        "every second": lambda: np.repeat(array, 2, -1)[..., ::2],
        "broadcast": lambda: np.broadcast_to(array.flat[0], array.shape),
        "overlapping": lambda: np.lib.stride_tricks.as_strided(array, array.shape, (8,) * array.ndim),
        "masked": lambda: np.ma.masked_greater(array, 0.0),
        "list": array.tolist,
        "one axis less": lambda: array[0],
        "one axis more": lambda: array[None],
        "transposed": lambda: array.T,
        "shorter": lambda: array.take(range(array.shape[axis] - 1), axis),
        "longer": lambda: np.concatenate([array, array], axis),
        "empty": lambda: array.take([], axis),
        "flat": array.ravel,
        "a number": lambda: array.flat[0],
        "foreign": FOREIGN[int(random.integers(len(FOREIGN)))],
    }
    what = list(changes)[int(random.integers(len(changes)))]
    return what, changes[what]()


def asked(make: Any, arrays: dict[str, Any], other: dict[str, Any]) -> list[Any]:
    model = make(**arrays, **other)
    if isinstance(model, (zhat.FactorGraph, zhat.PairwiseGraph)):
        marginals = model.marginals().value
        return [model.log_partition(method="exact").value, *map(np.asarray, marginals)]
    value, gradient = zhat.ops.log_partition_and_gradient(model)
    entropy, _ = zhat.ops.entropy(model)
    return [value, entropy, *(own for own in vars(gradient).values() if own is not None)]


def plain(value: Any) -> Any:
    """A contiguous copy in double precision, of anything that is made of numbers; `None` is left out."""
    return None if value is None else np.array(value, np.float64, order="C")


@pytest.mark.parametrize("name", TARGETS)
def test_arguments(name: str) -> None:
    make, arrays, other = TARGETS[name]
    random = np.random.default_rng(list(TARGETS).index(name))
    names, answers = (*arrays, *NAMES), 0
    for case in range(CASES):
        given, words = dict(arrays), [f"{name}, case {case}"]
        for _ in range(1 + int(random.integers(2))):
            argument = list(arrays)[int(random.integers(len(arrays)))]
            what, given[argument] = changed(arrays[argument], random)
            words.append(f"{argument}: {what}")
        text = "; ".join(words)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = outcome(partial(asked, make, given, other), names, text)
        if found is None:
            continue
        answers += 1
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            want = asked(make, {key: plain(own) for key, own in given.items()}, other)
        short = any(getattr(own, "dtype", None) in (np.float32, np.float16) for own in given.values())
        same(found, [np.asarray(own) for own in want], 1e-3 if short else 1e-9, text)
    assert CASES // 10 < answers < CASES


@pytest.mark.parametrize("kind", [zhat.Chain, zhat.DependencyTree, zhat.Hypertree])
def test_lengths(kind: Any) -> None:
    """Lengths of any type are right, or an error that names them."""
    array = np.random.default_rng(3).normal(size=(2, 3, 3))
    given = {"emissions": array, "transitions": np.eye(3)} if kind is zhat.Chain else {}
    given = {"arcs": array} if kind is zhat.DependencyTree else given or {"words": array}
    make = (
        kind if kind is not zhat.Hypertree else lambda **own: zhat.Hypertree(rules=np.zeros((3, 3, 3)), **own)
    )
    random = np.random.default_rng(4)
    values: list[Any] = [
        0,
        1,
        2,
        3,
        4,
        -1,
        2**63,
        1.5,
        2.0,
        None,
        "2",
        np.int8(2),
        np.uint64(3),
        True,
        np.nan,
    ]

    def asked_with(lengths: Any) -> list[Any]:
        return [make(**given, lengths=lengths).log_partition().value]

    for _ in range(100):
        lengths: Any = [values[int(i)] for i in random.integers(len(values), size=int(random.integers(4)))]
        if random.random() < 0.3:
            lengths = np.array(lengths, object if random.random() < 0.5 else None)
        found = outcome(partial(asked_with, lengths), ["length"], repr(lengths))
        if found is not None:
            same(found, asked_with([int(own) for own in lengths]), 1e-12, repr(lengths))


# Evidence, and the numbers of samples and of best states.


def chain() -> zhat.Chain:
    random = np.random.default_rng(28)
    return zhat.Chain(random.normal(size=(3, 2)), random.normal(size=(2, 2)))


QUERIED: dict[str, tuple[Any, list[int]]] = {
    "factor graph": (graph(**TABLES), [2, 3, 2]),
    "chain": (chain(), [2, 2, 2]),
}
WHOLE: list[Any] = [
    0,
    1,
    2,
    3,
    7,
    -1,
    True,
    np.int8(1),
    np.uint64(2),
    np.array(1),
    2**31,
    2**62,
    2**63,
    2.0,
    0.5,
]
WHOLE += [np.nan, "2", "", None, [1], {1}, np.float64(1), np.datetime64("2020-01-01"), 1j, 10**400]
SETS: list[Any] = [
    {0},
    {0, 1},
    {1, 2},
    frozenset([np.int64(1)]),
    set(),
    {0.5},
    {"0"},
    {-1},
    {True, 0},
    {None},
]


def weights(known: Any, states: int) -> Any:
    """One weight per state, of evidence that was accepted."""
    if isinstance(known, (set, frozenset)):
        return np.isin(np.arange(states), [int(state) for state in known]).astype(float)
    return np.asarray(known, float) if np.ndim(known) else (np.arange(states) == int(known)).astype(float)


def enumerated(model: Any, sizes: list[int]) -> tuple[Any, Any]:
    """All states and their scores."""
    states = np.array(list(itertools.product(*map(range, sizes))))
    return states, np.array([model.score(state) for state in states])


@pytest.mark.parametrize("name", QUERIED)
def test_evidence(name: str) -> None:
    """Evidence of any type multiplies the weights of the states, or is an error that names it."""
    model, sizes = QUERIED[name]
    states, scores = enumerated(model, sizes)
    random, answers = np.random.default_rng(29), 0
    for case in range(2 * CASES):
        given, words = {}, [f"{name}, case {case}"]
        for _ in range(1 + int(random.integers(2))):
            variable: Any = int(random.integers(3))
            what, known = changed(np.abs(random.normal(size=sizes[variable])), random)
            if random.random() < 0.4:
                known = [*WHOLE, *SETS][int(random.integers(len(WHOLE) + len(SETS)))]
                what = repr(known)
            if random.random() < 0.1:
                variable = [-1, 3, 2**63, 0.5, "a", None, True, np.int16(2)][int(random.integers(8))]
            given[variable] = known
            words.append(f"{variable!r}: {what}")
        text = "; ".join(words)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = outcome(
                lambda given=given: [model.log_partition(given=given).value],
                ("evidence", "variable", "state", "position", "likelihood"),
                text,
            )
        if found is None:
            continue
        answers += 1
        logs = scores.copy()
        for place, known in given.items():
            with np.errstate(divide="ignore"):
                logs += np.log(weights(known, sizes[int(place)]))[states[:, int(place)]]
        same(found, [np.logaddexp.reduce(logs)], 1e-6, text)
    assert CASES // 5 < answers < 2 * CASES


@pytest.mark.parametrize("name", QUERIED)
def test_numbers_of_samples_and_best_states(name: str) -> None:
    model, sizes = QUERIED[name]
    _, scores = enumerated(model, sizes)
    ranked = np.sort(scores)[::-1]
    answers = 0
    for number in WHOLE:
        best = outcome(
            lambda k=number: [[own.score for own in model.k_best(k).value]],
            ("k: ", "memory"),
            f"k = {number!r}",
        )
        if best is not None:
            same(best, [ranked[: int(number)]], 1e-9, f"k = {number!r}")
        for n, seed in ((number, 1), (2, number)):
            text = f"n = {n!r}, seed = {seed!r}"
            drawn = outcome(
                lambda n=n, seed=seed: [model.sample(n, seed=seed).value.states],
                ("n: ", "seed: ", "memory"),
                text,
            )
            if drawn is not None:
                answers += 1
                assert drawn[0].shape == (int(n), len(sizes)), text
                assert ((drawn[0] >= 0) & (drawn[0] < sizes)).all(), text
                same(drawn, [model.sample(int(n), seed=int(seed)).value.states], 0, text)
    assert len(WHOLE) // 2 < answers < 2 * len(WHOLE)
