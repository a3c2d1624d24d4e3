"""Language models: training, bounds against enumeration, embeddings without copies, files, interruption."""

from __future__ import annotations

import copy
import gzip
import itertools
import json
import math
import pickle
import random
import struct
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zhat


def sentences(seed: int, count: int) -> list[list[str]]:
    draw = random.Random(seed)
    subjects, verbs, objects = ["the cat", "a dog", "she"], ["sees", "has"], ["bread", "the cat", "a house"]
    return [
        f"{draw.choice(subjects)} {draw.choice(verbs)} {draw.choice(objects)}".split() for _ in range(count)
    ]


TEXT, VALID = sentences(1, 120), sentences(2, 30)
MODEL = zhat.LanguageModel.train(TEXT, context=2, rank=4, valid=VALID, iterations=40)


def written(path: Path, text: list[list[str]]) -> Path:
    path.write_text("".join(" ".join(sentence) + "\n" for sentence in text))
    return path


def test_files_and_lists_of_words_are_the_same_text(tmp_path: Path) -> None:
    whole = written(tmp_path / "train.txt", TEXT)
    parts = [written(tmp_path / "one.txt", TEXT[:50]), written(tmp_path / "two.txt", TEXT[50:])]
    packed = tmp_path / "train.txt.gz"
    packed.write_bytes(gzip.compress(whole.read_bytes()))
    valid = written(tmp_path / "valid.txt", VALID)
    for source in (whole, str(whole), parts, [packed]):
        again = zhat.LanguageModel.train(source, context=2, rank=4, valid=[valid], iterations=40, threads=1)
        assert again == MODEL
        assert hash(again) == hash(MODEL)
    assert MODEL.eval(valid) == MODEL.eval(VALID, threads=2)


def test_the_bound_is_below_the_likelihood() -> None:
    text = [["a", "b"], ["b", "a"], ["a", "a", "b"]] * 5
    for bound in ("spectral", "star"):
        for rank in (2, None):
            model = zhat.LanguageModel.train(text, context=1, rank=rank, bound=bound, l2=1e-3, iterations=25)
            score = model.eval(text, pseudo=True)
            # The exact likelihood, by enumeration of all sentences of the same length.
            exact = sum(_log_probability(model, sentence) for sentence in text)
            assert score.log_likelihood <= exact < 0
            assert score.guarantee.kind == "bounds"
            assert (score.tokens, score.sentences) == (35, 15)
            assert score.per_word == float(score) == score.log_likelihood / 35
            assert score.pseudo_log_likelihood is not None
            assert score.pseudo_log_likelihood < 0


def _log_probability(model: zhat.LanguageModel, sentence: list[str]) -> float:
    """Normalises by the scores of all sentences of the same length; the bound on log Z cancels."""
    alike = [list(words) for words in itertools.product(model.words, repeat=len(sentence))]
    own = model.eval([sentence]).log_likelihood
    scores = [model.eval([words]).log_likelihood for words in alike]
    top = max(scores)
    return own - top - math.log(sum(math.exp(score - top) for score in scores))


def test_training_records_its_steps() -> None:
    assert [step for step, _, _ in MODEL.history] == list(range(1, len(MODEL.history) + 1))
    assert MODEL.best is not None
    reached = MODEL.history[MODEL.best - 1][2]
    assert reached is not None
    assert reached == max(valid for _, _, valid in MODEL.history if valid is not None)
    assert MODEL.eval(VALID).per_word == pytest.approx(reached, abs=0.05)
    full = zhat.LanguageModel.train(TEXT, rank=None, iterations=5)
    assert full.rank is None
    assert repr(full) == f"LanguageModel({len(full.words)} words, context 1, full matrices)"
    rotated = zhat.LanguageModel.train(TEXT, context=2, rank=3, rotations=True, iterations=5)
    assert rotated.embeddings.shape == (len(rotated.words), 3)
    assert rotated != zhat.LanguageModel.train(TEXT, context=2, rank=3, iterations=5)
    with pytest.raises(zhat.InputError, match="no embeddings"):
        _ = full.embeddings


def test_embeddings_are_a_view() -> None:
    array = MODEL.embeddings
    assert array.shape == (len(MODEL.words), 4)
    assert array.dtype == np.float32
    assert not array.flags.owndata
    assert not array.flags.writeable
    assert np.shares_memory(array, MODEL.embeddings)
    model = zhat.LanguageModel.train(TEXT, rank=3, iterations=3)
    alone, values = model.embeddings, model.embeddings.copy()
    del model
    assert np.array_equal(alone, values)
    # Cosines computed with NumPy.
    word = MODEL.words.index("cat")
    norms = np.linalg.norm(array.astype(float), axis=1)
    cosines = array.astype(float) @ array[word] / (norms * norms[word])
    cosines[word] = -np.inf
    near = MODEL.neighbours("cat", 3)
    assert [name for name, _ in near] == [MODEL.words[i] for i in np.argsort(-cosines)[:3]]
    assert near[0][1] == pytest.approx(cosines.max(), abs=1e-6)


def test_samples_are_sentences_of_known_words() -> None:
    drawn = MODEL.sample(20, sweeps=5, seed=3)
    assert drawn == MODEL.sample(20, sweeps=5, seed=3, threads=1)
    assert drawn != MODEL.sample(20, sweeps=5, seed=4)
    lengths = {len(sentence) for sentence in TEXT}
    for sentence in drawn:
        assert set(sentence.split()) <= set(MODEL.words)
        assert len(sentence.split()) in lengths


def test_files_pickles_and_exports(tmp_path: Path) -> None:
    path = tmp_path / "m.zhat"
    MODEL.save(path)
    assert zhat.LanguageModel.read(path) == MODEL == zhat.read(path)
    assert pickle.loads(pickle.dumps(MODEL)) == MODEL
    assert copy.deepcopy(MODEL) == MODEL
    assert MODEL != "a model"
    assert "context" in MODEL._repr_html_()
    assert repr(MODEL) == f"LanguageModel({len(MODEL.words)} words, context 2, rank 4)"
    MODEL.export(tmp_path / "m.txt")
    lines = (tmp_path / "m.txt").read_text().splitlines()
    assert lines[0] == f"{len(MODEL.words)} 4"
    assert lines[1].split()[0] == MODEL.words[0]
    MODEL.export(tmp_path / "m.safetensors")
    data = (tmp_path / "m.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    assert json.loads(header["__metadata__"]["words"]) == list(MODEL.words)
    rows = np.frombuffer(data[8 + length :], "<f4").reshape(header["embeddings"]["shape"])
    assert np.array_equal(rows, MODEL.embeddings)
    with pytest.raises(zhat.InputError, match="kind"):
        zhat.LanguageModel.read(_other(tmp_path))
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(zhat.InputError, match="whole"):
        zhat.read(path)
    with pytest.raises(zhat.MissingFileError):
        zhat.read(tmp_path / "none.zhat")


def _other(folder: Path) -> Path:
    zhat.generate.tree(variables=3).save(folder / "tree.zhat")
    return folder / "tree.zhat"


def test_progress_and_interruption() -> None:
    seen: list[str] = []
    zhat.LanguageModel.train(
        TEXT, rank=3, iterations=200, progress=lambda phase, done, total: seen.append(phase)
    )
    assert set(seen) <= {"learning"}

    def enough(phase: str, done: int, total: int) -> None:
        raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        zhat.LanguageModel.train(sentences(3, 3000), context=5, iterations=10**9, l2=0.0, progress=enough)
    short = zhat.LanguageModel.train(TEXT, iterations=10**9, tolerance=0.0, time=0.2)
    assert isinstance(short, zhat.LanguageModel)


def test_training_resumes_from_a_checkpoint(tmp_path: Path) -> None:
    kept = tmp_path / "kept"

    def learn(iterations: int) -> zhat.LanguageModel:
        return zhat.LanguageModel.train(
            TEXT, context=2, rank=4, valid=VALID, iterations=iterations, checkpoint=kept, keep_every=0
        )

    learn(15)
    resumed = learn(40)
    assert resumed == MODEL
    assert [step for step, _, _ in resumed.history] == list(range(16, len(MODEL.history) + 1))
    with pytest.raises(zhat.InputError, match="another text"):
        zhat.LanguageModel.train(VALID, context=2, rank=4, checkpoint=kept)
    kept.write_bytes(b"nothing")
    with pytest.raises(zhat.InputError, match="whole"):
        learn(3)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"texts": 3}, "texts: expected"),
        ({"texts": []}, "no words"),
        ({"texts": [["a b"]]}, "no word"),
        ({"texts": [["a"], "b"]}, r"texts\[1\]"),
        ({"texts": [[3]]}, r"texts\[0\]"),
        ({"context": 0}, "context"),
        ({"rank": 0}, "rank"),
        ({"rank": None, "rotations": True}, "rotations"),
        ({"bound": "sun"}, "bound"),
        ({"bound": "star", "shares": [1.0]}, "shares"),
        ({"shares": [0.5, 0.5]}, "shares"),
        ({"l2": -1.0}, "l2"),
        ({"vocabulary": 0}, "vocabulary"),
        ({"valid": [["zebra"]], "min_count": 1}, "zebra"),
    ],
)
def test_invalid_arguments_are_named(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(zhat.InputError, match=words):
        zhat.LanguageModel.train(**{"texts": TEXT, "iterations": 2, **arguments})


def test_other_errors(tmp_path: Path) -> None:
    with pytest.raises(zhat.MissingFileError):
        zhat.LanguageModel.train(tmp_path / "none.txt")
    with pytest.raises(zhat.OverBudgetError):
        zhat.LanguageModel.train(TEXT, memory=100)
    with pytest.raises(zhat.InputError, match="zebra"):
        MODEL.neighbours("zebra")
    with pytest.raises(zhat.InputError, match="format"):
        MODEL.export(tmp_path / "m.bin", format="numpy")


@pytest.mark.parametrize("objective", ["exact", "lbl", "pseudo"])
def test_models_trained_by_stochastic_gradients(objective: str, tmp_path: Path) -> None:
    text = [["the", "cat", "sleeps"], ["the", "dog", "sleeps"], ["a", "cat", "sees", "a", "dog"]] * 40
    model = zhat.LanguageModel.train(
        text,
        context=2,
        rank=4,
        objective=objective,
        epochs=4,
        rate=0.3,
        valid=text[:20],
        min_count=1,
        seed=1,
    )
    assert model.kind == ("field" if objective == "pseudo" else objective)
    assert len(model.history) <= 4
    score = model.eval(text[:20])
    assert score.guarantee.kind == ("heuristic" if objective == "lbl" else "bounds")
    assert score.per_word > (-12.0 if objective == "pseudo" else -2.0)
    if objective == "exact":
        # The field's log Z is at most 2·log C, and `history` has the exact likelihood.
        watched = model.history[model.best - 1][2] if model.best else None
        assert watched is not None
        assert abs(watched - 2 * np.log(7) / score.tokens - score.per_word) < 1e-3
    assert len(model.sample(3, seed=2)) == 3
    path = tmp_path / "m.zhat"
    model.save(path)
    for other in (zhat.read(path), pickle.loads(pickle.dumps(model))):
        assert other == model
    assert model.embeddings.shape == (6, 4)
    assert not model.embeddings.flags.owndata
    with pytest.raises(zhat.InputError, match="objective"):
        zhat.LanguageModel.train(text, objective="other")
    if objective != "pseudo":
        with pytest.raises(zhat.InputError, match="exact likelihood"):
            model.eval(text, annealed=5)


def test_annealed_estimates_state_their_uncertainty() -> None:
    rows = [(i * 7 % 4, i * 5 % 3, i % 4) for i in range(200)]
    text = [["the", f"a{a}", f"b{b}", "of", "the", f"c{c}"] for a, b, c in rows]
    model = zhat.LanguageModel.train(text, context=1, rank=6, iterations=40)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        score = model.eval(text, annealed=3)
        chosen = model.eval(text, annealed=True)
    for found in (score.annealed, chosen.annealed):
        assert found is not None
        assert found["lower_per_word"] <= found["upper_per_word"]
        assert found["per_word"] <= found["upper_per_word"]
        assert found["guarantee"]["kind"] == "unbiased"
        assert found["guarantee"]["relative_std_error"] >= 0
        assert 1.0 <= found["effective_sample_size"] <= found["replicates"] + 1e-9
    assert score.annealed is not None
    assert chosen.annealed is not None
    assert score.annealed_per_word == score.annealed["per_word"]
    assert chosen.annealed["levels"] >= 16
    with pytest.warns(RuntimeWarning, match="effective sample size"):
        model.eval(text, annealed=1)
    assert model.eval(text).annealed is None


def test_unknown_words_are_scored_by_default(tmp_path):
    train, valid = tmp_path / "train.txt", tmp_path / "valid.txt"
    train.write_text("the cat sees the dog\nthe dog sees a bird\nthe cat sleeps\n")
    valid.write_text("the zebra sees the dog\n")
    model = zhat.LanguageModel.train(train, valid=valid, rank=2, iterations=5)
    assert "<unk>" in model.words
    assert "bird" not in model.words
    assert np.isfinite(model.eval(valid).per_word)
    # With `min_count=1` every word is kept, and there is no unknown word.
    strict = zhat.LanguageModel.train(train, rank=2, iterations=5, min_count=1)
    assert "bird" in strict.words
    with pytest.raises(zhat.InputError, match="zebra"):
        strict.eval(valid)
    # If the text contains <unk> itself, every word is kept.
    own = [["a", "<unk>", "b"], ["a", "c"]]
    default = zhat.LanguageModel.train(own, rank=2, iterations=5)
    assert default == zhat.LanguageModel.train(own, rank=2, iterations=5, min_count=1)
