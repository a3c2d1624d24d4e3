"""Taggers: agreement with enumeration, files, scikit-learn's conventions and bad input."""

import gzip
import itertools
import json
import math
import pickle
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from program import COMMAND

import zhat
from zhat import Tagger, read_tagged, write_tagged
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
        ([["a"]], [["X", "Y"]], "2 tags for 1 token"),
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
    how: dict[str, Any] = {"l2": 0.3, "max_iter": 400, "tol": 0.0, "period": 1000, "batch": 2}
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


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"l2": 0.1, "context": 2, "min_count": 1, "max_iter": 300, "tol": 1e-4, "period": 5},
        {"l1": 0.25, "l2": 0.0, "words": 5, "all_possible": True, "patience": 4},
        {"l2": 0.2, "hash_bits": 12, "words": 1},
        {"optimizer": "sgd", "batch": 2, "rate": 0.125, "random_state": 2**60, "tol": 1e-2},
        {"objective": "joint", "l2": 0.4, "words": 3, "bound": "star", "tol": 1e-2, "random_state": 3},
        {
            "objective": "joint",
            "context": 2,
            "word_scores": False,
            "min_count": 1,
            "tol": 1e-2,
            "max_iter": 200,
        },
    ],
)
def test_files_keep_the_parameters(options: dict[str, Any], tmp_path: Path) -> None:
    tagger = Tagger(**options).fit(WORDS, TAGS)
    tagger.save(tmp_path / "tagger.zhat")
    again = Tagger.read(tmp_path / "tagger.zhat")
    assert again.get_params() == tagger.get_params()
    found = again.top_features(9999)
    assert again.fit(WORDS, TAGS).top_features(9999) == tagger.top_features(9999)
    assert found == tagger.top_features(9999)


def test_the_program_keeps_the_parameters(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("the_DT dog_NN barks_VB\na_DT cat_NN\n")
    options = ["--l2", "0.25", "--words", "1", "--seed", "9", "--min-count", "1"]
    train = ["tag", "train", str(tmp_path / "train.txt"), "-o", str(tmp_path / "tagger.zhat"), *options]
    subprocess.run([*COMMAND, *train], capture_output=True, check=True)
    found = Tagger.read(tmp_path / "tagger.zhat")
    assert found.get_params() == Tagger(l2=0.25, words=1, random_state=9, min_count=1).get_params()


def test_a_refit_leaves_nothing_of_the_other_objective() -> None:
    tagger = Tagger(objective="joint", l2=0.01).fit(WORDS, TAGS)
    assert "exact" in tagger.log_likelihoods_
    tagger.set_params(objective="conditional").fit(WORDS, TAGS)
    assert not hasattr(tagger, "log_likelihoods_")


@pytest.mark.filterwarnings("ignore:training stopped after")
def test_files_with_validation_data(tmp_path: Path) -> None:
    def written(name: str, tags: list[list[str]]) -> Path:
        path = tmp_path / name
        lines = (
            " ".join(f"{word}_{tag}" for word, tag in zip(*pair, strict=True))
            for pair in zip(WORDS, tags, strict=True)
        )
        path.write_text("".join(f"{line}\n" for line in lines))
        return path

    other = [["NN" if tag == "VB" else "VB" for tag in tags] for tags in TAGS]
    train, valid = written("train.txt", TAGS), written("valid.txt", other)
    # The loss that is kept is that of the tagger on the sentences of the other file.
    found = Tagger(l2=0.3, max_iter=40, patience=3).fit_file(train, valid=valid)
    _, loss = json.loads(found._native.training)["valid"]
    tokens = sum(map(len, WORDS))
    assert loss == pytest.approx(-found.log_probabilities(WORDS, other).sum() / tokens, rel=1e-9)
    with pytest.raises(zhat.Error, match="none"):
        Tagger().fit_file(train, valid=tmp_path / "none")


CONLLU = (
    "# sent_id = 1\n# text = I don't\n1\tI\ti\tPRON\tPRP\t_\t0\troot\t_\t_\n"
    "2-3\tdon't\t_\t_\t_\t_\t_\t_\t_\t_\n2\tdo\tdo\tAUX\tVBP\t_\t1\taux\t_\t_\n"
    "3\tn't\tnot\tPART\tRB\t_\t1\tadvmod\t_\t_\n3.1\tgo\tgo\tVERB\tVB\t_\t_\t_\t_\t_\n\n"
    "# newpar\n1\tYes\tyes\tINTJ\tUH\t_\t0\troot\t_\t_\n\n"
)


@pytest.mark.parametrize("ending", ["", ".gz", ".zst"])
def test_tags_are_written_and_everything_else_stays(ending: str, tmp_path: Path) -> None:
    source, path = tmp_path / "source.conllu", tmp_path / f"found.conllu{ending}"
    source.write_text(CONLLU)
    words, tags = read_tagged(source)
    assert tags == [["PRON", "AUX", "PART"], ["INTJ"]]
    write_tagged(path, source, [["A", None, "C"], ["D"]])
    assert read_tagged(path) == (words, [["A", None, "C"], ["D"]])
    write_tagged(path, source, tags)
    if ending == "":
        assert path.read_text() == CONLLU
    elif ending == ".gz":
        assert gzip.decompress(path.read_bytes()).decode() == CONLLU
    else:
        assert path.read_bytes()[:4] == b"\x28\xb5\x2f\xfd"
    write_tagged(path, source, [["a", "b", "c"], ["d"]], column="xpos")
    assert read_tagged(path)[1] == tags
    assert read_tagged(path, column="xpos")[1] == [["a", "b", "c"], ["d"]]


def test_tags_that_do_not_fit_are_not_written(tmp_path: Path) -> None:
    source = tmp_path / "source.conllu"
    source.write_text(CONLLU)
    with pytest.raises(InputError, match="sentence 2 has 2 tags for 1 token"):
        write_tagged(tmp_path / "found", source, [["A", "B", "C"], ["D", "E"]])
    with pytest.raises(InputError, match="tags of 1 sentence, expected 2"):
        write_tagged(tmp_path / "found", source, [["A", "B", "C"]])
    assert not (tmp_path / "found").exists()
