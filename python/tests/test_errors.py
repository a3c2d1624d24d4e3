"""The exceptions: types, kinds and messages."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zhat

MODEL = zhat.generate.ising(rows=4, columns=4)


def test_exceptions_are_also_built_in_exceptions() -> None:
    for error, bases in {
        zhat.InputError: (zhat.Error, ValueError),
        zhat.FileError: (zhat.InputError, OSError),
        zhat.MissingFileError: (zhat.FileError, FileNotFoundError),
        zhat.ZeroPartitionError: (zhat.Error, ArithmeticError),
        zhat.ImpossibleEvidenceError: (zhat.ZeroPartitionError,),
        zhat.OverBudgetError: (zhat.Error, MemoryError),
    }.items():
        assert issubclass(error, bases)
        assert all(issubclass(error, base) for base in bases)


def caught(kind: type[zhat.Error], act: Any, *arguments: Any, **options: Any) -> zhat.Error:
    with pytest.raises(kind) as info:
        act(*arguments, **options)
    assert type(info.value) is kind
    again = pickle.loads(pickle.dumps(info.value))
    assert (type(again), str(again), again.kind) == (kind, str(info.value), info.value.kind)
    return info.value


def test_files(tmp_path: Path) -> None:
    missing = caught(zhat.MissingFileError, zhat.read, tmp_path / "none.uai")
    assert missing.kind == "io"
    assert str(missing).startswith(f"{tmp_path / 'none.uai'}: ")
    assert caught(zhat.FileError, zhat.read, tmp_path).kind == "io"
    assert caught(zhat.MissingFileError, MODEL.save, tmp_path / "none" / "model.zhat").kind == "io"
    broken = tmp_path / "broken.uai"
    broken.write_text("MARKOV\n2\n2 x\n")
    error = caught(zhat.InputError, zhat.read, broken)
    assert error.kind == "parse"
    assert str(error).endswith(
        "line 3: expected the number of states of variable 1, a whole number, found `x`"
    )
    broken.write_bytes(b"\x00\xff\xfe")
    assert caught(zhat.InputError, zhat.read, broken).kind == "parse"
    MODEL.save(tmp_path / "model.zhat")
    (tmp_path / "bad.evid").write_text("1 99 0")
    error = caught(zhat.InputError, zhat.read, tmp_path / "model.zhat", tmp_path / "bad.evid")
    assert "no variable 99" in str(error)
    assert caught(zhat.MissingFileError, zhat.read, tmp_path / "model.zhat", "none.evid").kind == "io"
    assert "the extension" in str(caught(zhat.InputError, MODEL.save, tmp_path / "model.txt"))
    # A number is not a file, even if it is the descriptor of one, which must stay open.
    with (tmp_path / "bad.evid").open() as file:
        with pytest.raises(TypeError):
            zhat.read(file.fileno())  # type: ignore[arg-type]
        assert file.read() == "1 99 0"


def test_zero_partition_and_impossible_evidence() -> None:
    zero = zhat.FactorGraph([2], [((0,), [-np.inf, -np.inf])])
    assert caught(zhat.ZeroPartitionError, zero.log_partition).kind == "zero-partition"
    certain = zhat.FactorGraph([2], [((0,), [0, -np.inf])])
    error = caught(zhat.ImpossibleEvidenceError, certain.condition({0: 1}).marginals)
    assert error.kind == "impossible-evidence"
    assert "probability 0" in str(error)


def test_over_budget() -> None:
    error = caught(zhat.OverBudgetError, MODEL.marginals, method="elimination", memory=100)
    assert error.kind == "over-budget"
    assert "the budget is 100 B" in str(error)
    large = zhat.generate.ising(rows=60, columns=60)
    error = caught(zhat.OverBudgetError, large.log_partition, method="exact", memory="1GiB")
    assert "these fit: anytime-bounds" in str(error)
    error = caught(zhat.OverBudgetError, MODEL.sample, 2**62)
    assert "of memory" in str(error)
    error = caught(zhat.OverBudgetError, MODEL.sample, 2**62, method="importance")
    assert "of memory" in str(error)
    error = caught(zhat.OverBudgetError, MODEL.entropy, method="importance", replicates=10**6, memory="100MB")
    assert "of memory" in str(error)
    slow = zhat.FactorGraph([2] * 40)
    error = caught(zhat.OverBudgetError, slow.entropy, method="enumeration", time="50ms")
    assert "the budget is 50 ms" in str(error)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "magic"}, "there is no method `magic`; expected one of: auto, exact, bounds"),
        ({"method": None}, "method: expected a text, found None"),
        ({"method": "\ud800"}, "method: 'utf-8' codec"),
        ({"seed": -1}, "seed: expected an integer between 0 and 18446744073709551615, found -1"),
        ({"seed": 2**64}, "seed: "),
        ({"seed": "a"}, "seed: expected an integer, found 'a'"),
        ({"threads": 0}, "threads: expected an integer between 1 and 1024, found 0"),
        ({"threads": 1.5}, "threads: "),
        ({"memory": "much"}, 'memory: expected a number of bytes or a size such as "4GiB", found `much`'),
        ({"memory": -1}, "memory: "),
        ({"memory": float("nan")}, "memory: "),
        ({"memory": [1]}, "memory: "),
        ({"time": "soon"}, 'time: expected a number of seconds or a duration such as "5min", found `soon`'),
        ({"time": -1}, "time: "),
        ({"time": float("inf")}, "time: "),
        ({"memory": "1e30"}, "memory: "),
        ({"time": 1e300}, "time: "),
        ({"progress": 3}, "progress: expected True or a function"),
        (
            {"method": "importance", "samples": -3},
            "samples: -3 is out of range; expected a whole number from 1 to 10^15",
        ),
        (
            {"method": "importance", "samples": "many"},
            "samples: expected a whole number from 1 to 10^15, found `many`",
        ),
        (
            {"method": "importance", "samples": float("nan")},
            "samples: expected a whole number from 1 to 10^15, found `nan`",
        ),
        ({"method": "importance", "samples": object()}, "options: expected numbers, texts"),
        (
            {"method": "importance", "proposal": "magic"},
            "proposal: expected one of tree, uniform, found `magic`",
        ),
        (
            {"method": "importance", "replicates": 1},
            "replicates: 1 is out of range; expected a whole number from 2",
        ),
        (
            {"method": "importance", "confidence": 1},
            "confidence: 1 is out of range; expected a number above 0 and below 1",
        ),
    ],
)
def test_bad_arguments_are_named(options: dict[str, Any], message: str) -> None:
    error = caught(zhat.InputError, MODEL.log_partition, **options)
    assert error.kind == "argument"
    assert message in str(error)


def test_invalid_models_and_counts_are_refused() -> None:
    assert "found str" in str(caught(zhat.InputError, zhat.log_partition, "model.uai"))
    for n in (-1, 1.5, "3", None):
        assert "n: expected an integer" in str(caught(zhat.InputError, MODEL.sample, n))


def test_numpy_numbers_are_accepted() -> None:
    plain = MODEL.log_partition(method="importance", samples=320, confidence=0.5, seed=3)
    same = MODEL.log_partition(
        method="importance",
        samples=np.int64(320),
        confidence=np.float64(0.5),
        seed=np.uint8(3),  # type: ignore[arg-type]
        threads=np.int32(1),  # type: ignore[arg-type]
        memory=np.float64(1e9),  # type: ignore[arg-type]
        time=np.int16(60),  # type: ignore[arg-type]
    )
    assert same.value == plain.value
    assert same.guarantee == plain.guarantee


def test_masked_entries_are_refused():
    masked = np.ma.array([[0.0, 1.0], [2.0, 3.0]], mask=[[False, True], [False, False]])
    for use in (
        lambda: zhat.FactorGraph([2, 2], [((0, 1), masked)]),
        lambda: zhat.FactorGraph([2, 2], [((0, 1), [masked[0], masked[1]])]),
        lambda: zhat.Chain(masked, np.zeros((2, 2))),
        lambda: zhat.Chain(np.zeros((3, 2)), masked),
        lambda: zhat.SequenceMrf(5, masked[0], np.zeros((1, 2, 2))),
        lambda: zhat.FactorGraph(np.ma.array([2, 2], mask=[True, False])),
    ):
        with pytest.raises(zhat.InputError, match="masked"):
            use()
    # A masked array without masked entries is accepted.
    zhat.FactorGraph([2, 2], [((0, 1), np.ma.array(masked.data))])
