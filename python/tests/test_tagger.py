"""Taggers: agreement with enumeration, files, scikit-learn's conventions and bad input."""

import itertools
import math
import pickle
from pathlib import Path

import numpy as np
import pytest

import zhat
from zhat import Tagger, read_tagged
from zhat.errors import InputError, NotFittedError

WORDS = [["the", "dog", "barks"], ["a", "cat"], ["dogs", "bark", "loudly"], ["sleep"]]
TAGS = [["DT", "NN", "VB"], ["DT", "NN"], ["NN", "VB", "RB"], ["VB"]]


@pytest.fixture(scope="module")
def tagger():
    return Tagger(l2=0.1).fit(WORDS, TAGS)


def test_training_data_are_learned(tagger):
    assert tagger.predict(WORDS) == TAGS
    assert tagger.predict_single(WORDS[0]) == TAGS[0]
    assert tagger.score(WORDS, TAGS) == 1.0
    assert tagger.classes_ == ["DT", "NN", "RB", "VB"]
    assert tagger.n_iter_ == len(tagger.steps_) > 0
    assert tagger.objective_ == tagger.steps_[-1][1]


@pytest.mark.parametrize("context", [1, 2])
def test_probabilities_agree_with_all_sequences(context):
    tagger = Tagger(l2=0.1, context=context).fit(WORDS, TAGS)
    sentence = ["a", "loud", "dog"]
    sequences = [list(tags) for tags in itertools.product(tagger.classes_, repeat=3)]
    logs = tagger.log_probabilities([sentence] * len(sequences), sequences)
    assert math.isclose(np.exp(logs).sum(), 1.0, rel_tol=1e-9)
    order = np.argsort(-logs)
    best = tagger.predict_k_best([sentence], 3)[0]
    assert [one.tags for one in best] == [sequences[i] for i in order[:3]]
    table = tagger.predict_proba([sentence])[0]
    for place, tag in itertools.product(range(3), range(4)):
        total = sum(
            math.exp(log)
            for log, own in zip(logs, sequences, strict=True)
            if own[place] == tagger.classes_[tag]
        )
        assert math.isclose(table[place, tag], total, abs_tol=1e-9)
    marginals = tagger.predict_marginals([sentence])[0]
    assert marginals[0]["DT"] == table[0, 0]
    assert tagger.predict_marginals_single(sentence) == marginals
    assert [set(token) for token in marginals] == [set(tagger.classes_)] * 3


def test_attributes_as_python_crfsuite_reads_them():
    X = [[{"w": "a", "upper": True, "n": 2.5, "near": {"left": "x"}, "set": ["p", "q"]}, {"w": "b"}]]
    tagger = Tagger(l2=0.1).fit(X, [["A", "B"]])
    names = {one.feature for one in tagger.top_features(100) if not one.transition}
    assert names == {"w:a", "upper", "n", "near:left:x", "set:p", "set:q", "w:b"}
    assert Tagger(l2=0.1).fit([[["w=a", "bias"], ["w=b"]]], [["A", "B"]]).predict([[["w=b"]]]) == [["B"]]


def test_known_tags_and_forbidden_transitions(tagger):
    assert tagger.predict([["the", "dog"]], known=[[None, "VB"]])[0][1] == "VB"
    other = pickle.loads(pickle.dumps(tagger)).forbid([("DT", "NN")])
    assert other.predict([["the", "dog"]])[0] != ["DT", "NN"]
    assert tagger.predict([["the", "dog"]]) == [["DT", "NN"]]
    with pytest.raises(InputError, match="forbidden transition"):
        other.predict([["the", "dog"]], known=[["DT", "NN"]])
    with pytest.raises(InputError, match="not a tag"):
        other.forbid([("DT", "XX")])


def test_files_and_resumed_runs(tagger, tmp_path):
    path = tmp_path / "tagger.zhat"
    tagger.save(path)
    assert Tagger.read(path).predict(WORDS) == TAGS
    assert pickle.loads(pickle.dumps(tagger)).top_features(3) == tagger.top_features(3)
    whole = Tagger(l2=0.01, max_iter=12, tol=0.0, checkpoint=tmp_path / "a.zhat")
    with pytest.warns(UserWarning, match="before it converged"):
        whole.fit(WORDS, TAGS)
    part = Tagger(l2=0.01, max_iter=5, tol=0.0, checkpoint=tmp_path / "b.zhat")
    with pytest.warns(UserWarning, match="before it converged"):
        part.fit(WORDS, TAGS)
    with pytest.warns(UserWarning, match="before it converged"):
        part.set_params(max_iter=12).fit(WORDS, TAGS)
    assert part.top_features(999) == whole.top_features(999)
    text = tmp_path / "tagged.txt"
    text.write_text("a B-X\nb I-X\n\nc O\n")
    assert read_tagged(text) == ([["a", "b"], ["c"]], [["B-X", "I-X"], ["O"]])
    assert read_tagged(text, column=2, format="columns")[0] == [["a", "b"], ["c"]]


def test_l1_hashing_early_stopping_and_spans():
    sparse = Tagger(l1=0.5, l2=0.0).fit(WORDS, TAGS)
    assert sparse.n_features_ < Tagger(l2=0.1).fit(WORDS, TAGS).n_features_
    assert Tagger(l2=0.01, hash_bits=12).fit(WORDS, TAGS).predict(WORDS) == TAGS
    early = Tagger(l2=0.01, patience=2).fit(WORDS, TAGS, WORDS, TAGS)
    assert early.predict(WORDS) == TAGS
    chunks = [["B-NP", "I-NP", "B-VP"], ["B-NP", "I-NP"], ["B-NP", "B-VP", "O"], ["B-VP"]]
    assert Tagger(l2=0.01).fit(WORDS, chunks).span_f1(WORDS, chunks) == 1.0


def test_scikit_learn_conventions(tagger):
    assert Tagger(l2=0.5).get_params()["l2"] == 0.5
    assert repr(Tagger(l2=0.5)) == "Tagger(l2=0.5)"
    with pytest.raises(NotFittedError):
        Tagger().predict(WORDS)
    sklearn = pytest.importorskip("sklearn.base")
    assert sklearn.clone(tagger).get_params() == tagger.get_params()


def test_bad_input():
    for X, y, part in [
        ([], [], "no sentences"),
        (WORDS, TAGS[:2], "y"),
        ([["a", "b"]], [["X"]], "fewer tags than tokens"),
        ([["a"]], [["X", "Y"]], "2 tags for 1 tokens"),
        (["ab"], [["X", "Y"]], "not a list of tokens"),
        ([["a", {"w": "b"}]], [["X", "Y"]], "words and tokens with attributes"),
        ([["a"]], [[1]], "tags as text"),
        ([[{"w": float("nan")}]], [["X"]], "w"),
    ]:
        with pytest.raises(InputError, match=part):
            Tagger().fit(X, y)
    for wrong in [{"l2": -1.0}, {"context": 3}, {"words": 2}, {"hash_bits": 31}, {"tol": float("nan")}]:
        with pytest.raises(InputError):
            Tagger(**wrong).fit(WORDS, TAGS)
    with pytest.raises(zhat.Error):
        read_tagged("no such file")


def test_stochastic_gradients_reach_the_same_tags(tmp_path: Path) -> None:
    best = Tagger(l2=0.3).fit(WORDS, TAGS)
    how = {"l2": 0.3, "max_iter": 400, "tol": 0.0, "period": 1000, "batch": 2}
    with pytest.warns(UserWarning, match="max_iter"):
        found = Tagger(optimizer="sgd", **how).fit(WORDS, TAGS)
    assert found.predict(WORDS) == best.predict(WORDS)
    assert found.objective_ == pytest.approx(best.objective_, rel=1e-2)
    assert found.n_iter_ == 400
    path = tmp_path / "train.txt"
    path.write_text(
        "".join(
            " ".join(f"{word}_{tag}" for word, tag in zip(*pair, strict=True)) + "\n"
            for pair in zip(WORDS, TAGS, strict=True)
        )
    )
    with pytest.warns(UserWarning, match="max_iter"):
        from_file = Tagger(**how).fit_file(path)
    assert from_file.predict(WORDS) == best.predict(WORDS)
    assert from_file.objective_ == pytest.approx(found.objective_, rel=1e-6)
    with pytest.warns(UserWarning, match="max_iter"):
        hashed = Tagger(hash_bits=16, **how).fit_file(path, block=16)
    assert hashed.predict(WORDS) == best.predict(WORDS)
    for wrong in [{"optimizer": "adam"}, {"optimizer": "sgd", "batch": 0}, {"rate": float("inf")}]:
        with pytest.raises(InputError):
            Tagger(**wrong).fit(WORDS, TAGS)
    with pytest.raises(zhat.Error):
        Tagger().fit_file("no such file")
