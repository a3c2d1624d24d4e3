"""`Tagger` as a scikit-learn estimator: its own checks, clones, searches and pickles."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import pytest
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.utils.estimator_checks import (
    check_do_not_raise_errors_in_init_or_set_params,
    check_estimator_cloneable,
    check_estimator_repr,
    check_estimator_tags_renamed,
    check_mixin_order,
    check_no_attributes_set_in_init,
    check_valid_tag_types,
    parametrize_with_checks,
)

import zhat

WORDS = [["the", "dog"], ["a", "cat", "sleeps"], ["dogs", "sleep"], ["the", "cat"], ["a", "dog", "barks"]] * 3
TAGS = [["D", "N"], ["D", "N", "V"], ["N", "V"], ["D", "N"], ["D", "N", "V"]] * 3

# The checks that need no data. scikit-learn leaves out all others, because the input is a list of sequences
# and not a table; the tests below stand in for them.
CHECKS = (
    check_estimator_cloneable,
    check_estimator_tags_renamed,
    check_valid_tag_types,
    check_estimator_repr,
    check_no_attributes_set_in_init,
    check_do_not_raise_errors_in_init_or_set_params,
    check_mixin_order,
)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_checks_of_scikit_learn(check: Any) -> None:
    check("Tagger", zhat.Tagger())


def test_scikit_learn_finds_no_further_check() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        marked = parametrize_with_checks([zhat.Tagger()])
        for estimator, check in list(marked.args[1]):
            check(estimator)


def test_parameters_stay_as_they_were_given() -> None:
    model = zhat.Tagger(l2=0.1, optimizer="sgd", max_iter=3)
    before = dict(model.get_params())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert model.fit(WORDS, TAGS) is model
    assert model.get_params() == before
    assert set(vars(model)) - set(before) == {"_native", "classes_", "n_iter_", "objective_", "steps_"}
    assert is_classifier(model)
    copied = clone(model)
    assert copied.get_params() == before
    with pytest.raises(NotFittedError):
        copied.predict(WORDS)


def test_fits_are_repeated_and_pickled() -> None:
    model = zhat.Tagger(l2=0.1).fit(WORDS, TAGS)
    first = model.predict_proba(WORDS)
    again = model.fit(WORDS, TAGS).predict_proba(WORDS)
    restored = pickle.loads(pickle.dumps(model))
    for a, b, c in zip(first, again, restored.predict_proba(WORDS), strict=True):
        assert (a == b).all()
        assert (a == c).all()
    # The order and the number of the sentences do not matter.
    assert model.predict(WORDS[::-1]) == model.predict(WORDS)[::-1]
    assert [model.predict([one])[0] for one in WORDS] == model.predict(WORDS)


def test_searches_and_cross_validation() -> None:
    folds = KFold(3)
    model = zhat.Tagger(l2=0.1)
    assert cross_val_score(model, WORDS, TAGS, cv=folds).mean() > 0.9
    search = GridSearchCV(model, {"l2": [0.1, 1e4]}, cv=folds).fit(WORDS, TAGS)
    assert search.best_params_ == {"l2": 0.1}
    assert search.predict([["the", "dog"]]) == [["D", "N"]]
