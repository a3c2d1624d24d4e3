"""Cyclic sequence models in Python."""

import copy
import itertools
import math
import pickle
from pathlib import Path

import numpy as np
import pytest

import zhat


def enumerated(model: zhat.SequenceMrf) -> float:
    states = range(len(model.unary))
    return math.log(sum(math.exp(model.score(x)) for x in itertools.product(states, repeat=model.length)))


@pytest.mark.parametrize("rank", [None, 2])
def test_methods_agree_with_enumeration(rank: int | None) -> None:
    model = zhat.generate.sequence_mrf(length=7, states=3, context=2, rank=rank, seed=3)
    exact = enumerated(model)
    answer = model.log_partition()
    assert answer.guarantee.kind == "exact"
    assert answer.method == "transfer-matrix"
    assert answer.value == pytest.approx(exact, abs=1e-10)
    for method in ("spectral", "star"):
        bound = model.log_partition(method=method)
        assert bound.guarantee.high >= exact
        assert bound.value < exact + 3
    estimate = model.log_partition(method="annealed", levels=50, replicates=200, seed=1)
    assert estimate.value == pytest.approx(exact, abs=0.3)


def test_parameters_are_views_and_models_round_trip(tmp_path: Path) -> None:
    left, right = np.ones((3, 2), np.float32), np.full((2, 3, 2), 0.5, np.float32)
    model = zhat.SequenceMrf(10, [0.0, 1.0, -np.inf], left=left, right=right)
    assert model.left is not None
    assert model.right is not None
    assert model.interactions is None
    assert model.left.dtype == np.float32
    assert not model.left.flags.writeable
    assert not model.left.flags.owndata
    assert np.array_equal(model.left, left)
    assert np.array_equal(np.stack(model.right), right)
    assert model.unary.tolist() == [0.0, 1.0, -math.inf]
    assert repr(model) == "SequenceMrf(10 positions, 3 states, context 2, embeddings of length 2)"
    path = tmp_path / "m.zhat"
    model.save(path)
    for other in (zhat.read(path), zhat.SequenceMrf.read(path), pickle.loads(pickle.dumps(model))):
        assert other == model
        assert hash(other) == hash(model)
    assert copy.deepcopy(model) == model
    assert model.info()["states"] == 3


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"length": 1, "unary": [0.0], "interactions": [[[0.0]]]}, "too short"),
        ({"length": 5, "unary": [0.0, 0.0], "interactions": [[[0.0]]]}, "has 1 numbers"),
        ({"length": 5, "unary": [0.0], "interactions": [[0.0]]}, "expected 3 axes"),
        ({"length": 5, "unary": [math.nan], "interactions": [[[0.0]]]}, "must be finite"),
        ({"length": 5, "unary": [0.0], "interactions": [[[math.inf]]]}, "must be finite"),
        ({"length": 5, "unary": [0.0]}, "expected either"),
        ({"length": 5, "unary": [0.0], "left": [[1.0]]}, "expected either"),
        ({"length": 5, "unary": [], "interactions": np.zeros((1, 0, 0))}, "one state at least"),
    ],
)
def test_bad_input_is_named(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(zhat.InputError, match=words):
        zhat.SequenceMrf(**arguments)  # type: ignore[arg-type]
    model = zhat.generate.sequence_mrf(length=3, states=2)
    with pytest.raises(zhat.InputError):
        model.score([0, 1])
    with pytest.raises(zhat.InputError):
        model.score([0, 1, 2])
