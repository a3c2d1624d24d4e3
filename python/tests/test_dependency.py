from __future__ import annotations

import copy
import itertools
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import zhat


def is_tree(heads: tuple[int, ...], projective: bool, single_root: bool) -> bool:
    """Whether every word reaches the root, by following heads, under the conditions."""

    def above(word: int) -> list[int]:
        path = [word]
        while heads[path[-1]] and len(path) <= len(heads):
            path.append(heads[path[-1]] - 1)
        return path

    if any(len(above(word)) > len(heads) for word in range(len(heads))):
        return False
    if single_root and heads.count(0) != 1:
        return False
    arcs = [(head - 1, d) for d, head in enumerate(heads) if head]
    return not projective or all(h in above(k) for h, d in arcs for k in range(min(h, d) + 1, max(h, d)))


def trees(words: int, projective: bool, single_root: bool) -> list[tuple[int, ...]]:
    every = itertools.product(range(words + 1), repeat=words)
    return [heads for heads in every if is_tree(heads, projective, single_root)]


def score(arcs: NDArray[Any], roots: NDArray[Any], heads: tuple[int, ...]) -> float:
    return float(sum(arcs[head - 1, d] if head else roots[d] for d, head in enumerate(heads)))


@pytest.mark.parametrize("projective", [True, False])
@pytest.mark.parametrize("single_root", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_queries_agree_with_enumeration(projective: bool, single_root: bool, dtype: Any) -> None:
    rng = np.random.default_rng(1)
    arcs, roots = rng.normal(size=(4, 4)).astype(dtype), rng.normal(size=4).astype(dtype)
    arcs[2, 0] = -np.inf
    model = zhat.DependencyTree(arcs, roots, projective=projective, single_root=single_root)
    all_trees = trees(4, projective, single_root)
    scores = np.array([score(arcs, roots, heads) for heads in all_trees])
    log_z = float(np.log(np.exp(scores).sum()))
    p = np.exp(scores - log_z)
    tolerance = 1e-5 if dtype == np.float32 else 1e-10
    assert model.log_partition().value == pytest.approx(log_z, abs=tolerance)
    expected = np.zeros((4, 5))
    for heads, own in zip(all_trees, p, strict=True):
        for d, head in enumerate(heads):
            expected[d, head] += own
    marginals = model.marginals().value
    assert marginals.dtype == dtype
    assert marginals == pytest.approx(expected, abs=tolerance)
    gradient = model.factor_marginals().value
    assert gradient.roots == pytest.approx(expected[:, 0], abs=tolerance)
    assert gradient.arcs == pytest.approx(expected[:, 1:].T, abs=tolerance)
    assert model.entropy().value == pytest.approx(-(p[p > 0] * np.log(p[p > 0])).sum(), abs=tolerance)
    best = model.map().value
    assert tuple(best.heads) == all_trees[int(scores.argmax())]
    assert best.labels is None
    assert model.score(best.heads) == pytest.approx(best.score)
    ranked = [tree.score for tree in model.k_best(5).value]
    assert ranked == pytest.approx(sorted(scores, reverse=True)[:5], abs=tolerance)
    drawn = model.sample(200, seed=3).value
    assert {tuple(heads) for heads in drawn.heads.tolist()} <= set(all_trees)
    value, tape = zhat.ops.log_partition(model)
    assert value == pytest.approx(log_z, abs=tolerance)
    assert tape.vjp(2.0).arcs == pytest.approx(2 * gradient.arcs, abs=tolerance)


def test_batches_have_lengths_and_labels() -> None:
    rng = np.random.default_rng(2)
    arcs, roots = rng.normal(size=(3, 4, 4, 2)), rng.normal(size=(3, 4, 2))
    batch = zhat.DependencyTree(arcs, roots, labelled=True, lengths=[4, 2, 1])
    assert repr(batch) == "DependencyTree(3 sentences of 1 to 4 words, projective trees, 2 labels, float64)"
    values = batch.log_partition().value
    for b, n in enumerate(batch.lengths):
        one = zhat.DependencyTree(arcs[b, :n, :n], roots[b, :n], labelled=True)
        assert one.log_partition().value == pytest.approx(values[b])
        tree = one.map().value
        assert tree.heads.tolist() == batch.map().value[b].heads.tolist()
        assert tree.labels is not None
        assert one.score(tree.heads, tree.labels) == pytest.approx(tree.score)
    assert batch.marginals().value.shape == (3, 4, 5)
    assert batch.factor_marginals().value.arcs.shape == arcs.shape
    samples = batch.sample(3).value
    assert [own.shape for own in samples.heads] == [(3, 4), (3, 2), (3, 1)]
    assert [own.shape for own in samples.labels] == [(3, 4), (3, 2), (3, 1)]
    known = batch.condition({(0, 1): 0}).map().value[0]
    assert known.heads[1] == 0
    frame = samples.to_pandas()
    assert list(frame.columns) == ["sentence", "sample", "word", "head", "label"]
    assert len(frame) == 3 * (4 + 2 + 1)


def test_files_copies_and_pictures(tmp_path: Path) -> None:
    model = zhat.generate.dependency(words=5, single_root=True, dtype=np.float32, seed=4)
    model.save(tmp_path / "trees.zhat")
    read = zhat.read(tmp_path / "trees.zhat")
    assert read == model
    assert (read.projective, read.single_root, read.dtype) == (True, True, np.float32)
    assert pickle.loads(pickle.dumps(model)) == model == copy.deepcopy(model)
    assert model != zhat.generate.dependency(words=5, single_root=True, dtype=np.float32, seed=5)
    picture = model.map().value._repr_html_()
    assert picture.count("<path d=") == 4 + 5  # the arcs between words, and an arrow head for each word
    matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    matplotlib.use("Agg")
    pyplot = pytest.importorskip("matplotlib.pyplot")
    axes = model.marginals().plot()
    assert {axes.get_xlabel(), axes.get_ylabel()} == {"word", "head"}
    pyplot.close("all")


def test_randomized_estimates() -> None:
    # The tree in which every word depends on the word before is always kept.
    arcs = np.random.default_rng(3).normal(size=(2, 30, 30)) + 6 * np.eye(30, k=1)
    model = zhat.DependencyTree(arcs, np.tile(6 * np.eye(30)[0], (2, 1)))
    exact = model.log_partition().value
    how: dict[str, Any] = {"method": "randomized-inside", "states": 30, "seed": 1}
    np.testing.assert_allclose(model.log_partition(**how).value, exact, rtol=1e-12)
    np.testing.assert_allclose(model.marginals(**how).value, model.marginals().value, atol=1e-9)
    np.testing.assert_allclose(model.entropy(**how).value, model.entropy().value, rtol=1e-9)
    how |= {"states": 12, "proposal": "two-pass"}
    found = model.log_partition(**how)
    assert np.all(np.abs(found.value - exact) < 5)
    samples = model.sample(5, **how).value
    assert [own.shape for own in samples.heads] == [(5, 30)] * 2
    assert [own.shape for own in samples.log_weights] == [(5,)] * 2
    assert "weighted" in str(samples)
    assert "log_weight" in samples._columns()
    value, tape = zhat.ops.log_partition(model, **how)
    assert np.all(value == found.value)
    assert tape.vjp().arcs.shape == (2, 30, 30)
    with pytest.raises(zhat.Error, match="projective"):
        zhat.DependencyTree(np.zeros((3, 3)), projective=False).log_partition(method="randomized-inside")


@pytest.mark.parametrize("projective", [True, False])
@pytest.mark.parametrize("labels", [None, 2])
def test_relaxed_samples(projective: bool, labels: int | None) -> None:
    rng = np.random.default_rng(2)
    extra = () if labels is None else (labels,)
    kind: dict[str, Any] = {"labelled": labels is not None, "projective": projective}
    arcs, roots = rng.normal(size=(2, 4, 4, *extra)), rng.normal(size=(2, 4, *extra))

    def build(arcs: NDArray[Any]) -> zhat.DependencyTree:
        return zhat.DependencyTree(arcs, roots, lengths=[4, 3], **kind)

    samples, tape = zhat.ops.relaxed_sample(build(arcs), n=3, temperature=0.6, seed=4)
    assert samples.soft.shape == (2, 3, 4, 5, *extra)
    assert [own.shape for own in samples.hard.heads] == [(3, 4), (3, 3)]
    sums = samples.soft.reshape(2, 3, 4, -1).sum(axis=-1)
    np.testing.assert_allclose(sums[0], 1)
    np.testing.assert_allclose(sums[1, :, :3], 1)
    assert np.all(samples.soft[1, :, 3] == 0)
    cotangent = rng.normal(size=samples.soft.shape)
    gradient = tape.vjp(cotangent).arcs
    direction = rng.normal(size=arcs.shape)

    def moved(by: float) -> float:
        soft = zhat.ops.relaxed_sample(build(arcs + by * direction), n=3, temperature=0.6, seed=4)[0].soft
        return float((soft * cotangent).sum())

    assert (gradient * direction).sum() == pytest.approx((moved(1e-5) - moved(-1e-5)) / 2e-5, abs=1e-6)
    if projective:
        few, tape = zhat.ops.sparse_relaxed_sample(build(arcs), n=3, temperature=0.6, states=3, seed=4)
        assert few.index.shape == (len(few.values), 4 + len(extra))
        assert tape.vjp(few.values).roots.shape == roots.shape
        with pytest.raises(zhat.InputError, match="scores"):
            zhat.ops.sparse_relaxed_sample(build(arcs), scores=np.zeros((4, 4)))
    else:
        with pytest.raises(zhat.Error, match="projective"):
            zhat.ops.sparse_relaxed_sample(build(arcs), states=3)
    with pytest.raises(zhat.InputError, match="temperature"):
        zhat.ops.relaxed_sample(build(arcs), temperature=0.0)


def test_bad_input_is_named() -> None:
    with pytest.raises(zhat.InputError, match=r"arcs: found shape \(2, 3\)"):
        zhat.DependencyTree(np.zeros((2, 3)))
    with pytest.raises(zhat.InputError, match=r"roots: found shape \(3,\), expected \(2,\)"):
        zhat.DependencyTree(np.zeros((2, 2)), np.zeros(3))
    with pytest.raises(zhat.InputError, match="arcs: number 1 is NaN"):
        zhat.DependencyTree([[0, np.nan], [0, 0]])
    with pytest.raises(zhat.InputError, match="lengths"):
        zhat.DependencyTree(np.zeros((2, 2, 2)), lengths=[2])
    with pytest.raises(zhat.InputError, match="has 3 words"):
        zhat.DependencyTree(np.zeros((2, 2, 2)), lengths=[2, 3])
    with pytest.raises(zhat.InputError, match="heads"):
        zhat.DependencyTree(np.zeros((2, 2))).score([1, 1])
    with pytest.raises(zhat.InputError, match="its own head"):
        zhat.DependencyTree(np.zeros((2, 2))).condition({0: 1})
    with pytest.raises(zhat.ZeroPartitionError):
        zhat.DependencyTree(np.full((2, 2), -np.inf), [0.0, -np.inf], single_root=True).log_partition()
