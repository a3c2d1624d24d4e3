"""Random changes of arguments, and the test that a call gives the right answer or an error that names one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

import zhat

ERRORS = (zhat.Error, ValueError, TypeError)
FOREIGN: list[Callable[[], Any]] = [
    lambda: None,
    object,
    lambda: "scores",
    lambda: b"scores",
    dict,
    lambda: len,
    lambda: iter([1.0, 2.0]),
    lambda: [[0.0, 1.0], [2.0]],
    lambda: np.datetime64("2020-01-01"),
    lambda: 1j,
    lambda: float("nan"),
    lambda: 10**400,
]


def outcome(call: Callable[[], Iterable[Any]], names: Iterable[str], what: str) -> list[Any] | None:
    """The arrays that the call returns; `None` if it raises a typed error that names an argument."""
    try:
        return [np.asarray(own, np.float64) for own in call()]
    except Exception as error:
        if isinstance(error, ERRORS) and any(name in str(error) for name in names):
            return None
        raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error


def same(found: list[Any], want: list[Any], tolerance: float, what: str) -> None:
    """Compares results; they are never NaN."""
    for own, other in zip(found, want, strict=True):
        assert not np.isnan(own).any(), what
        np.testing.assert_allclose(own, other, rtol=tolerance, atol=tolerance, err_msg=what)
