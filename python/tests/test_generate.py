"""Random models."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import zhat
from zhat import generate


@pytest.mark.parametrize(
    "make", [generate.ising, generate.potts, generate.tree, generate.random, generate.bayes]
)
def test_the_same_seed_gives_the_same_model(make: Any) -> None:
    assert make() == make(seed=0)
    assert make(seed=1) == make(seed=1)
    assert make(seed=1) != make(seed=2)
    assert make(seed=2**64 - 1).n_variables > 0
    for seed in (-1, 2**64, 0.5):
        with pytest.raises(zhat.InputError, match="seed"):
            make(seed=seed)


def test_shapes() -> None:
    assert generate.ising(rows=3, columns=4).n_factors == 12 + 17
    assert generate.ising(rows=3, columns=4, torus=True).n_factors == 12 + 24
    assert generate.potts(rows=2, columns=2, states=5).cardinalities == (5,) * 4
    assert generate.tree(variables=6, states=4).n_factors == 11
    assert generate.random(variables=6, factors=9, arity=4).n_factors == 9
    assert all(len(scope) == 4 for scope, _ in generate.random(variables=6, factors=9, arity=4).factors)
    assert generate.bayes(variables=6).n_factors == 6
    assert generate.bayes(variables=6).info()["form"] == "bayes"
    assert generate.tree(variables=0).n_variables == 0


def test_parameters_are_used() -> None:
    def pairs(model: zhat.FactorGraph) -> list[Any]:
        return [table for scope, table in model.factors if len(scope) == 2]

    assert all(table[0, 0] == 0.25 for table in pairs(generate.ising(coupling=0.25, uniform=True)))
    assert all(table[0, 0] == -1 for table in pairs(generate.potts(coupling=-1, uniform=True)))
    assert all(not table.any() for scope, table in generate.ising(field=0).factors if len(scope) == 1)
    assert all(not table.any() for _, table in generate.tree(strength=0).factors)
    zeros = generate.random(zeros=0.5, factors=200)
    assert 0.4 < np.mean([np.mean(table == -np.inf) for _, table in zeros.factors]) < 0.6
    certain = generate.bayes(deterministic=1.0)
    assert all(np.isin(table, [0, -np.inf]).all() for _, table in certain.factors)
    assert max(len(scope) for scope, _ in generate.bayes(parents=2).factors) == 3


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (generate.ising, {"rows": -1}, "rows: "),
        (generate.ising, {"rows": 2**62, "columns": 4}, "model size: "),
        (generate.ising, {"coupling": "strong"}, "coupling: expected a number, found 'strong'"),
        (generate.ising, {"coupling": np.nan}, "it must be finite or -inf"),
        (generate.potts, {"states": 0}, "0 states"),
        (generate.potts, {"states": 2.5}, "states: "),
        (generate.tree, {"variables": "many"}, "variables: "),
        (generate.tree, {"variables": 2**62}, "model size: "),
        (generate.random, {"states": 0}, "0 states"),
        (generate.random, {"factors": 2**62}, "model size: "),
        (generate.random, {"arity": 31}, "arity: "),
        (generate.random, {"zeros": 2}, "zeros: "),
        (generate.random, {"states": 10, "arity": 30}, "model size: "),
        (generate.bayes, {"states": 100, "parents": 29}, "model size: "),
        (generate.bayes, {"parents": -1}, "parents: "),
    ],
)
def test_invalid_arguments_are_errors(make: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(zhat.InputError, match=message):
        make(**options)
