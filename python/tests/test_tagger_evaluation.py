"""`Tagger.evaluate`: its measures by hand, the program's, tables and pictures."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import matplotlib
import numpy as np
import pytest
from program import COMMAND

import zhat
from zhat.errors import InputError

matplotlib.use("agg")

WORDS = [["the", "dog"], ["a", "cat", "sleeps"], ["dogs", "sleep"], ["the", "cat"]]
TAGS = [["D", "N"], ["D", "N", "V"], ["N", "V"], ["D", "N"]]
NEW = [["the", "mouse", "sleeps"], [], ["a", "dog"], ["cats"]]
SEEN: list[list[str | None]] = [["D", "N", "N"], [], ["D", None], ["Z"]]


def measures(counts: zhat.TagMeasures) -> tuple[int, int, int]:
    return counts.observed, counts.predicted, counts.correct


@pytest.mark.parametrize("objective", ["conditional", "joint"])
def test_measures_agree_with_the_definition(objective: str) -> None:
    tagger = zhat.Tagger(objective=objective, l2=0.01).fit(WORDS, TAGS)
    found = tagger.evaluate(NEW, SEEN)
    vocabulary = {word for sentence in WORDS for word in sentence}
    rows = [
        (word in vocabulary, tag, guess)
        for words, tags, guesses in zip(NEW, SEEN, tagger.predict(NEW), strict=True)
        for word, tag, guess in zip(words, tags, guesses, strict=True)
        if tag is not None
    ]
    assert (found.tokens, found.unseen_words, found.unseen_tags) == (5, 2, 1)
    for value, own in (
        (found.accuracy, rows),
        (found.seen_accuracy, [row for row in rows if row[0]]),
        (found.unseen_accuracy, [row for row in rows if not row[0]]),
    ):
        assert value == np.mean([tag == guess for _, tag, guess in own])
    assert found.labels == sorted({name for row in rows for name in row[1:]})
    for i, a in enumerate(found.labels):
        for j, b in enumerate(found.labels):
            assert found.confusion[i, j] == sum(row[1:] == (a, b) for row in rows)
        one = found.tags[i]
        assert measures(one) == (
            found.confusion[i].sum(),
            found.confusion[:, i].sum(),
            found.confusion[i, i],
        )
        assert one.precision == (one.correct / one.predicted if one.predicted else 0.0)
        assert one.recall == (one.correct / one.observed if one.observed else 0.0)
    np.testing.assert_allclose(found.confusion_shares.sum(axis=1), [one.observed > 0 for one in found.tags])
    # Only sentences whose tags are all known have a probability.
    logs = tagger.log_probabilities(NEW[:1], [["D", "N", "N"]])
    assert found.log_loss == pytest.approx(-logs[0] / 3)
    assert found.spans is None
    assert found.span_types == ()


@pytest.mark.parametrize("objective", ["conditional", "joint"])
def test_the_program_prints_the_same(objective: str, tmp_path: Any) -> None:
    tagger = zhat.Tagger(objective=objective, l2=0.01).fit(WORDS, TAGS)
    tagger.save(tmp_path / "m.zhat")
    pairs = zip(NEW, SEEN, strict=True)
    lines = [
        " ".join(f"{word}_{tag or '_'}" for word, tag in zip(*pair, strict=True)) for pair in pairs if pair[0]
    ]
    (tmp_path / "new.txt").write_text("\n".join(lines) + "\n")
    command = [*COMMAND, "tag", "eval", tmp_path / "m.zhat", tmp_path / "new.txt", "--json"]
    told = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    # Taggers that were saved and read know the words of the training data too.
    found = zhat.Tagger.read(tmp_path / "m.zhat").evaluate(NEW, SEEN)
    for name in ("tokens", "accuracy", "seen_accuracy", "unseen_accuracy", "unseen_words", "unseen_tags"):
        assert told[name] == getattr(found, name), name
    assert told["sentence_accuracy"] == found.sentence_accuracy
    assert told["log_loss"] == pytest.approx(found.log_loss)
    for one, own in zip(told["tags"], found.tags, strict=True):
        assert {name: pytest.approx(value) for name, value in own._asdict().items()} == one


def test_attributes_and_spans() -> None:
    sentences = [[{"w": "He"}, {"w": "sees"}, {"w": "old"}, {"w": "dogs"}]]
    tags = [["B-NP", "B-VP", "B-NP", "I-NP"]]
    tagger = zhat.Tagger(l2=0.001).fit(sentences, tags)
    found = tagger.evaluate(sentences, tags)
    assert found.accuracy == found.sentence_accuracy == 1.0
    assert found.seen_accuracy is found.unseen_accuracy is found.unseen_words is None
    assert found.spans is not None
    assert measures(found.spans) == (3, 3, 3)
    assert [(one.tag, one.f1) for one in found.span_types] == [("NP", 1.0), ("VP", 1.0)]
    assert found.spans.f1 == tagger.span_f1(sentences, tags)


def test_frames_and_pictures() -> None:
    tagger = zhat.Tagger(l2=0.01).fit(WORDS, TAGS)
    found = tagger.evaluate(NEW, SEEN)
    assert repr(found).startswith("TagEvaluation(5 tokens: accuracy 0.")
    table = found.to_pandas()
    assert list(table.columns) == ["tag", "precision", "recall", "f1", "observed", "predicted", "correct"]
    assert table["tag"].tolist() == found.to_polars()["tag"].to_list() == found.labels
    page = found._repr_html_()
    assert page.count("<svg") == 1
    assert "unseen words" in page
    i, j = (int(at) for at in np.argwhere(found.confusion)[0])
    observed = found.confusion[i]
    words = f"{found.labels[i]} as {found.labels[j]}: {observed[j]} of {observed.sum()}"
    assert words in page
    axes = found.plot()
    assert [label.get_text() for label in axes.get_yticklabels()] == found.labels
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("predicted", "observed")
    np.testing.assert_array_equal(axes.images[0].get_array(), found.confusion_shares)
    assert found.plot(axes) is axes


def test_many_tags_and_names_that_need_escapes() -> None:
    words = [[f"w{i}"] for i in range(70)]
    names = [[f"T{i:02}"] for i in range(70)]
    large = zhat.Tagger(l2=0.01).fit(words, names).evaluate(words, names)
    assert "too large to be shown" in large._repr_html_()
    assert "50 more tags" in large._repr_html_()
    assert len(large.plot().get_yticks()) == 35
    odd = [["<b>&", "a" * 40]]
    found = zhat.Tagger(l2=0.01).fit([["x", "y"]], odd).evaluate([["x", "y"]], odd)
    assert "<b>" not in found._repr_html_()
    assert "a…</text>" in found._repr_html_()


@pytest.mark.parametrize(
    ("sentences", "tags", "part"),
    [
        (NEW, SEEN[:3], "3 sentences of tags for 4|fewer|0 tags for 1"),
        (NEW[:1], SEEN, "sentences of tags for 1"),
        ([["a", "b"]], [["D"]], "1 tag for 2 tokens"),
        ([["a"]], [[None]], "no token has a tag"),
        ([["a"]], [[3]], "expected tags as text"),
        ([["a"]], None, "requires y"),
        ([], [], "no words|no token"),
    ],
)
def test_bad_input(sentences: Any, tags: Any, part: str) -> None:
    tagger = zhat.Tagger(l2=0.01).fit(WORDS, TAGS)
    with pytest.raises(InputError, match=part):
        tagger.evaluate(sentences, tags)
    with pytest.raises(zhat.NotFittedError):
        zhat.Tagger().evaluate(sentences, tags)
