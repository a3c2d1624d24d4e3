"""Joint taggers: agreement with enumeration, bounds, files, resumed training and bad input."""

import itertools
import math
import pickle
import subprocess

import numpy as np
import pytest
from program import COMMAND

from zhat import Tagger
from zhat.errors import InputError

WORDS = [
    ["the", "dog", "barks"],
    ["a", "cat"],
    ["dogs", "bark", "loudly"],
    ["sleep"],
    ["the", "cat", "barks"],
]
TAGS = [["DT", "NN", "VB"], ["DT", "NN"], ["NN", "VB", "RB"], ["VB"], ["DT", "NN", "VB"]]


@pytest.fixture(scope="module")
def tagger():
    return Tagger(objective="joint", l2=0.01).fit(WORDS, TAGS)


def test_training_data_are_learned_and_the_likelihood_is_certified(tagger):
    assert tagger.predict(WORDS) == TAGS
    assert tagger.score(WORDS, TAGS) == 1.0
    assert tagger.classes_ == ["DT", "NN", "RB", "VB"]
    assert tagger.n_iter_ == len(tagger.steps_) > 0
    bounds = tagger.log_likelihoods_
    assert list(bounds) == ["exact", "cover", "star"]
    assert bounds["star"] <= bounds["cover"] < 0
    wide = Tagger(objective="joint", words=5, bound="star", l2=0.01).fit(WORDS, TAGS)
    assert list(wide.log_likelihoods_) == ["cover", "star"]
    assert wide.predict(WORDS) == TAGS


@pytest.mark.parametrize(("context", "words"), [(1, 1), (1, 3), (2, 3)])
def test_probabilities_agree_with_all_sequences(context, words):
    tagger = Tagger(objective="joint", l2=0.05, context=context, words=words).fit(WORDS, TAGS)
    sentence = ["a", "loud", "dog"]
    sequences = [list(tags) for tags in itertools.product(tagger.classes_, repeat=3)]
    logs = tagger.log_probabilities([sentence] * len(sequences), sequences)
    assert math.isclose(np.exp(logs).sum(), 1.0, rel_tol=1e-9)
    order = np.argsort(-logs)
    best = tagger.predict_k_best([sentence], 3)[0]
    assert [one.tags for one in best] == [sequences[i] for i in order[:3]]
    table = tagger.predict_proba([sentence])[0]
    for place, tag in itertools.product(range(3), range(4)):
        own = [log for log, tags in zip(logs, sequences, strict=True) if tags[place] == tagger.classes_[tag]]
        assert math.isclose(table[place, tag], np.exp(own).sum(), abs_tol=1e-9)
    assert tagger.predict([sentence], known=[[None, None, "VB"]])[0][2] == "VB"


def test_files_pickles_and_forbidden_transitions(tagger, tmp_path):
    path = tmp_path / "tagger.zhat"
    tagger.save(path)
    again = Tagger.read(path)
    assert again.objective == "joint"
    assert again.log_likelihoods_ == tagger.log_likelihoods_
    copy = pickle.loads(pickle.dumps(tagger))
    assert again.top_features(50) == copy.top_features(50) == tagger.top_features(50)
    copy.forbid([("DT", "NN")])
    assert copy.predict([["the", "dog"]])[0] != ["DT", "NN"]
    text = tmp_path / "tagged.txt"
    text.write_text("the_DT dog_NN barks_VB\n")
    told = subprocess.run([*COMMAND, "tag", "eval", path, text], capture_output=True, text=True, check=True)
    assert "100.00% of 3" in told.stdout, told


def test_early_stopping_and_resumed_runs(tmp_path):
    early = Tagger(objective="joint", l2=0.01, patience=5).fit(WORDS, TAGS, WORDS, TAGS)
    assert early.predict(WORDS) == TAGS
    options = {"objective": "joint", "l2": 0.01, "tol": 0.0}
    with pytest.warns(UserWarning, match="before it converged"):
        whole = Tagger(**options, max_iter=12).fit(WORDS, TAGS)
    part = Tagger(**options, max_iter=5, checkpoint=tmp_path / "c.zhat")
    with pytest.warns(UserWarning, match="before it converged"):
        part.fit(WORDS, TAGS)
    with pytest.warns(UserWarning, match="before it converged"):
        part.set_params(max_iter=12).fit(WORDS, TAGS)
    assert part.top_features(9999) == whole.top_features(9999)


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"l1": 1.0}, 'l1: belongs to objective="conditional"'),
        ({"hash_bits": 9}, "hash_bits"),
        ({"all_possible": True}, "all_possible"),
        ({"tol": -1.0}, "tol: expected a finite number of at least 0"),
        ({"max_iter": -1}, "max_iter"),
        ({"words": 2}, "odd number"),
        ({"words": 5, "bound": "exact"}, "at most 3 words"),
        ({"bound": "best"}, "bound: expected"),
        ({"context": 3}, "context"),
        ({"l2": math.nan}, "l2"),
        ({"objective": "both"}, "objective: expected"),
        ({"objective": "conditional", "bound": "star"}, 'bound: belongs to objective="joint"'),
    ],
)
def test_bad_options(options, part):
    with pytest.raises(InputError, match=part):
        Tagger(**{"objective": "joint", **options}).fit(WORDS, TAGS)


def test_bad_input(tagger):
    for sentences, y, part in [
        ([], [], "no sentences"),
        (WORDS, TAGS[:2], "2 sentences of tags for 5"),
        ([["a", "b"]], [["X"]], "1 tag for 2 tokens"),
        ([["a"]], [[""]], "empty tag"),
        ([[{"w": "a"}]], [["X"]], "needs words"),
        (["ab"], [["X", "Y"]], "not a list of tokens"),
        ([["<S>"]], [["X"]], "between sentences"),
        ([[]], [[]], "have no words"),
    ]:
        with pytest.raises(InputError, match=part):
            Tagger(objective="joint").fit(sentences, y)
    with pytest.raises(InputError, match="needs words"):
        tagger.predict([[{"w": "a"}]])
    assert tagger.predict([[], ["dog"]])[0] == []
