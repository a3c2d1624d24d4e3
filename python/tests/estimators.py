"""scikit-learn's checks of estimators that do not inherit from its `BaseEstimator`."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

# test_sklearn_array_api.py runs the first in a process with the setting that it needs. The second needs a
# decision function, which no estimator has.
LEFT_OUT = ("check_array_api_input", "check_classifiers_multilabel_output_format_decision_function")


def all_checks(estimators: Sequence[Any], expected: Mapping[str, Mapping[str, str]]) -> list[Any]:
    """The checks of some estimators; `expected` has the reasons of expected failures by class and check."""

    def failures(estimator: Any) -> dict[str, str]:
        return dict(expected.get(type(estimator).__name__, {}))

    with warnings.catch_warnings():
        # The estimators do not inherit from BaseEstimator, because scikit-learn is optional.
        warnings.filterwarnings("ignore", message=".*does not inherit from.*BaseEstimator")
        marked = parametrize_with_checks(list(estimators), expected_failed_checks=failures)
        checks = list(marked.args[1])
    assert all(len(reasons) <= 5 for reasons in expected.values())
    kept = [check for check in checks if not any(name in str(check[-1]) for name in LEFT_OUT)]
    assert len(kept) > 30 * len(estimators), "scikit-learn leaves out most checks of some estimator"
    return kept


def name_of(value: Any) -> str | None:
    """The name of a check or of an estimator, for the names of tests."""
    function = getattr(value, "func", value)
    return function.__name__ if hasattr(function, "__name__") else type(value).__name__


def checked(estimators: Sequence[Any], expected: Mapping[str, Mapping[str, str]]) -> Any:
    """A mark of a test with the parameters `estimator` and `check`: one test per check."""

    def mark(test: Any) -> Any:
        for warning in (
            "ignore:.*does not inherit from.*BaseEstimator",
            "ignore::sklearn.exceptions.ConvergenceWarning",
        ):
            test = pytest.mark.filterwarnings(warning)(test)
        checks = all_checks(estimators, expected)
        return pytest.mark.parametrize(("estimator", "check"), checks, ids=name_of)(test)

    return mark
