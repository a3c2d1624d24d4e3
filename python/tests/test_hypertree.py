"""Trees over words, against the enumeration of all trees."""

from __future__ import annotations

import copy
import itertools
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import zhat

Nodes = tuple[tuple[int, int, int], ...]

RULES = ["any", "dense", "sparse", "low-rank"]
SPANS = ["none", "per-span", "per-symbol", "factored"]
ARRAYS = ["words", "roots", "rules", "rule_heads", "rule_left", "rule_right", "spans"]
ARRAYS += ["span_embeddings", "symbol_embeddings", "unary"]


def one(array: NDArray[Any] | None, axes: int, b: int) -> Any:
    """The scores of sentence b: those of all sentences, or its own."""
    return None if array is None else np.asarray(array if array.ndim == axes else array[b], np.float64)


def trees(model: zhat.Hypertree, b: int = 0) -> dict[Nodes, float]:
    """All trees of positive weight and their scores, by division of spans; unary rules have no cycles."""
    heads, first_tag = model.n_heads, model.n_symbols - model.n_tags
    words, roots = one(model.words, 2, b), one(model.roots, 1, b)
    rules, left, right = one(model.rules, 3, b), one(model.rule_left, 2, b), one(model.rule_right, 2, b)
    above = one(model.rule_heads, 2, b)
    listed = None if model.rule_symbols is None else [tuple(rule) for rule in model.rule_symbols.tolist()]
    listed_scores = np.asarray(model.rules, np.float64) if listed is not None else None
    unary = {}
    if model.unary_symbols is not None and model.unary is not None:
        unary = {
            tuple(rule): float(x) for rule, x in zip(model.unary_symbols.tolist(), model.unary, strict=True)
        }

    def rule(k: int, a: int, c: int) -> float:
        if listed is not None and listed_scores is not None:
            return float(listed_scores[listed.index((k, a, c))]) if (k, a, c) in listed else -np.inf
        if above is not None:
            return float(np.logaddexp.reduce(above[k] + left[a] + right[c]))
        return 0.0 if rules is None else float(rules[k, a, c])

    def span(i: int, j: int, k: int) -> float:
        if model.span_embeddings is not None and model.symbol_embeddings is not None:
            table = model.span_embeddings if model.batch is None else model.span_embeddings[b]
            return float(
                np.asarray(table[i, j], np.float64) @ np.asarray(model.symbol_embeddings[k], np.float64)
            )
        if model.spans is None:
            return 0.0
        table = model.spans if model.batch is None else model.spans[b]
        return float(table[i, j] if table.ndim == 2 else table[i, j, k])

    def over(i: int, j: int) -> list[tuple[Nodes, float]]:
        found: list[tuple[Nodes, float]] = []
        if i == j:
            found += [(((i, i, first_tag + t),), float(words[i, t])) for t in range(model.n_tags)]
        for middle in range(i, j):
            for (a, x), (c, y) in itertools.product(over(i, middle), over(middle + 1, j)):
                for k in range(heads):
                    total = x + y + span(i, j, k) + rule(k, a[0][2], c[0][2])
                    found.append((((i, j, k), *a, *c), total))
        chains = found
        while chains:
            above_ = [
                (((i, j, k), *own), x + score)
                for own, x in chains
                for (k, a), score in unary.items()
                if a == own[0][2]
            ]
            found, chains = found + above_, above_
        return [(own, x) for own, x in found if x > -np.inf]

    whole = over(0, model.lengths[b] - 1)
    scored = {own: x + float(roots[own[0][2]]) for own, x in whole if own[0][2] < heads}
    return {own: x for own, x in scored.items() if x > -np.inf}


def key(nodes: Any) -> Nodes:
    return tuple((int(i), int(j), int(k)) for i, j, k in nodes)


def check(model: zhat.Hypertree, tolerance: float) -> None:
    """Every query of a batch against enumeration."""
    log_z, entropy = model.log_partition().value, model.entropy().value
    marginals, best, ranked = model.marginals().value, model.map().value, model.k_best(6).value
    drawn = model.sample(50, seed=3).value
    gradient = model.factor_marginals().value
    assert gradient.roots.dtype == marginals.dtype == model.dtype
    roots = np.zeros(model.n_heads)
    for b, length in enumerate(model.lengths):
        every = trees(model, b)
        scores = np.array(list(every.values()))
        expected = float(np.logaddexp.reduce(scores)) if every else -np.inf
        assert log_z[b] == pytest.approx(expected, abs=tolerance)
        if not every:
            assert best[b].nodes.shape == (0, 3)
            assert ranked[b] == drawn.nodes[b] == []
            continue
        p = np.exp(scores - expected)
        assert entropy[b] == pytest.approx(float(-(p * (scores - expected)).sum()), abs=20 * tolerance)
        nodes = np.zeros(marginals[b].shape)
        for tree, own in zip(every, p, strict=True):
            roots[tree[0][2]] += own
            for i, j, k in tree:
                nodes[i, j, k] += own
        assert marginals[b] == pytest.approx(nodes, abs=tolerance)
        assert best[b].score == pytest.approx(scores.max(), abs=tolerance)
        assert every[key(best[b].nodes)] == pytest.approx(scores.max(), abs=tolerance)
        assert model.score(best[b], b) == pytest.approx(best[b].score)
        top = sorted(scores, reverse=True)[:6]
        assert [tree.score for tree in ranked[b]] == pytest.approx(top, abs=tolerance)
        assert len({key(tree.nodes) for tree in ranked[b]}) == len(top)
        assert all(every[key(tree.nodes)] == pytest.approx(tree.score, abs=tolerance) for tree in ranked[b])
        assert len(drawn.nodes[b]) == 50
        assert all(key(tree.nodes) in every for tree in drawn.trees[b])
        for tree in drawn.trees[b][:5]:
            assert tree.score == pytest.approx(every[key(tree.nodes)], abs=tolerance)
        assert len(best[b].spans()) == length - 1
    # One set of roots for all sentences, or one per sentence.
    own = gradient.roots if gradient.roots.ndim == 1 else gradient.roots.sum(axis=0)
    assert own == pytest.approx(roots, abs=20 * tolerance)


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("spans", SPANS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_queries_agree_with_enumeration(rules: str, spans: str, dtype: Any) -> None:
    shape: dict[str, Any] = {"heads": 2, "tags": 2, "overlap": 1, "count": 8, "rank": 3, "embedding": 2}
    for seed, per_sentence in ((1, False), (2, True)):
        model = zhat.generate.hypertree(
            4,
            3,
            ragged=True,
            rules=rules,
            spans=spans,
            per_sentence=per_sentence,
            dtype=dtype,
            seed=seed,
            **shape,
        )
        check(model, 2e-5 if dtype == np.float32 else 1e-10)


def test_unary_rules_agree_with_enumeration() -> None:
    for rules, seed in zip(RULES, range(4), strict=True):
        base = zhat.generate.hypertree(
            3, 2, heads=3, tags=2, overlap=1, rules=rules, count=12, rank=2, seed=seed
        )
        own = {name: getattr(base, name) for name in ARRAYS if getattr(base, name) is not None}
        unary = {"unary_symbols": [(1, 2), (0, 1), (0, 3)], "unary": [0.5, -0.3, 1.0]}
        model = zhat.Hypertree(
            **own, **unary, rule_symbols=base.rule_symbols, symbols=4, heads=3, lengths=[3, 1]
        )
        assert model.unary_symbols is not None
        assert model.unary_symbols.tolist() == [[1, 2], [0, 1], [0, 3]]
        check(model, 1e-10)


def test_cycles_of_unary_rules_are_summed() -> None:
    # X → X with weight 1/2 at the root and at both words: (1 + 1/2 + 1/4 + …)³ = 8.
    model = zhat.Hypertree(np.zeros((2, 1)), unary_symbols=[(0, 0)], unary=[math.log(0.5)])
    assert model.log_partition().value == pytest.approx(math.log(8))
    assert model.factor_marginals().value.unary == pytest.approx([3.0])
    assert model.marginals().value[0, 1, 0] == pytest.approx(2.0)
    with pytest.raises(zhat.InputError, match="diverges"):
        zhat.Hypertree(np.zeros((2, 1)), unary_symbols=[(0, 0)], unary=[0.0])


def test_numbers_of_binary_trees() -> None:
    for words in range(1, 9):
        catalan = math.comb(2 * words - 2, words - 1) // words
        model = zhat.Hypertree(np.zeros((words, 1)))
        assert np.exp(model.log_partition().value) == pytest.approx(catalan)
        assert np.exp(model.entropy().value) == pytest.approx(catalan)
    # Two symbols for each of the 2T − 1 nodes.
    assert np.exp(zhat.Hypertree(np.zeros((4, 2))).log_partition().value) == pytest.approx(5 * 2**7)


def arrays_of(model: zhat.Hypertree) -> dict[str, NDArray[Any]]:
    return {name: np.array(getattr(model, name)) for name in ARRAYS if getattr(model, name) is not None}


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("spans", SPANS)
def test_gradients_agree_with_finite_differences(rules: str, spans: str) -> None:
    shape: dict[str, Any] = {"heads": 2, "tags": 2, "overlap": 1, "count": 9, "rank": 2, "embedding": 2}
    base = zhat.generate.hypertree(4, 2, ragged=True, rules=rules, spans=spans, seed=5, **shape)
    fixed: dict[str, Any] = {"lengths": base.lengths, "rule_symbols": base.rule_symbols, "symbols": 3}
    fixed |= {"unary_symbols": [(1, 0), (0, 1)], "heads": 2}
    arrays = arrays_of(base) | {"unary": np.array([-1.0, -0.7])}
    if base.rule_symbols is not None:
        fixed["rule_symbols"], arrays["rules"] = base.rule_symbols[::-1], arrays["rules"][::-1].copy()
    other = zhat.Hypertree(
        **{name: x + 0.1 * np.cos(np.arange(x.size)).reshape(x.shape) for name, x in arrays.items()}, **fixed
    )
    weights = np.array([1.0, -0.5])
    rng = np.random.default_rng(1)
    operations: list[Any] = [
        zhat.ops.log_partition,
        zhat.ops.entropy,
        lambda own: zhat.ops.kl(own, other),
        lambda own: zhat.ops.cross_entropy(other, own),
    ]
    for at, operation in enumerate(operations):
        value, tape = operation(zhat.Hypertree(**arrays, **fixed))
        gradient = tape.vjp(weights)
        gradient = gradient if at < 2 else gradient[at - 2]
        assert np.shape(value) == (2,)
        assert set(gradient.arrays()) == set(arrays)
        for name, array in arrays.items():
            direction = rng.normal(size=array.shape)
            ends = [
                weights @ operation(zhat.Hypertree(**{**arrays, name: array + step * direction}, **fixed))[0]
                for step in (1e-5, -1e-5)
            ]
            exact = float((getattr(gradient, name) * direction).sum())
            assert exact == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=1e-6), (at, name)
    model = zhat.Hypertree(**arrays, **fixed)
    values, both = model.log_partition_and_gradient(weights)
    again = zhat.ops.log_partition(model)[1].vjp(weights)
    assert values == pytest.approx(model.log_partition().value)
    for name, array in both.arrays().items():
        assert array == pytest.approx(again.arrays()[name], abs=1e-12)
        assert array.shape == arrays[name].shape


@pytest.mark.parametrize("rules", ["any", "dense", "sparse", "low-rank"])
def test_relaxed_trees_and_their_gradients(rules: str) -> None:
    shape: dict[str, Any] = {"heads": 3, "tags": 3, "overlap": 1, "count": 30, "rank": 2}
    base = zhat.generate.hypertree(4, 2, ragged=True, rules=rules, spans="per-span", seed=5, **shape)
    fixed: dict[str, Any] = {"lengths": base.lengths, "rule_symbols": base.rule_symbols}
    fixed |= {"symbols": 5, "heads": 3}
    arrays = arrays_of(base)
    few: dict[str, Any] = {"states": 2, "proposal": "uniform", "replicates": 2}
    operations: list[Any] = [
        lambda own: zhat.ops.relaxed_sample(own, 2, 0.7, seed=3),
        lambda own: zhat.ops.sparse_relaxed_sample(own, 2, 0.7, seed=3, **few),
    ]
    rng = np.random.default_rng(1)
    for dense, operation in zip((True, False), operations, strict=True):
        model = zhat.Hypertree(**arrays, **fixed)
        samples, tape = operation(model)
        soft = samples.soft if dense else samples.values
        if dense:
            assert soft.shape == (2, 2, 4, 4, 5)
            nodes = np.array([[2 * n - 1] * 2 for n in base.lengths])
            assert soft.sum(axis=(2, 3, 4)) == pytest.approx(nodes)
        else:
            assert samples.index.shape == (soft.size, 5)
            assert [len(weights) for weights in samples.log_weights] == [2, 2]
        for b, drawn in enumerate(samples.hard):
            assert [tree.shape for tree in drawn] == [(2 * base.lengths[b] - 1, 3)] * 2
            assert all(np.isfinite(model.score(tree, b)) for tree in drawn)
        weights = rng.normal(size=soft.shape)
        gradient = tape.vjp(weights)
        for name, array in arrays.items():
            direction = rng.normal(size=array.shape)
            ends = []
            for step in (1e-5, -1e-5):
                other = operation(zhat.Hypertree(**{**arrays, name: array + step * direction}, **fixed))[0]
                ends.append(float(np.vdot(other.soft if dense else other.values, weights)))
            exact = float((getattr(gradient, name) * direction).sum())
            assert exact == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=1e-6), (dense, name)
        with pytest.raises(zhat.InputError, match="cotangent: found shape"):
            tape.vjp(weights[:1])
    with pytest.raises(zhat.InputError, match="temperature"):
        zhat.ops.relaxed_sample(base, 1, 0.0)
    with pytest.raises(zhat.InputError, match="scores"):
        zhat.ops.sparse_relaxed_sample(base, 1, scores=np.zeros(3))


def test_the_published_estimator_is_called_biased() -> None:
    model = zhat.generate.hypertree(4, heads=30, tags=30, overlap=30, rules="low-rank", rank=2, seed=1)
    found = model.log_partition(method="randomized-inside-published", states=10, top=5)
    assert found.guarantee.kind == "heuristic"
    assert "smaller than Z" in str(found.guarantee)
    assert found.value < model.log_partition().value


def test_divergences_agree_with_enumeration() -> None:
    shape: dict[str, Any] = {"heads": 2, "tags": 2, "rules": "low-rank", "rank": 2}
    p, q = (zhat.generate.hypertree(4, seed=seed, **shape) for seed in (1, 2))
    scores = {tree: (own, trees(q)[tree]) for tree, own in trees(p).items()}
    log_p, log_q = (np.array(each) for each in zip(*scores.values(), strict=True))
    log_p -= np.logaddexp.reduce(log_p)
    log_q -= np.logaddexp.reduce(log_q)
    assert zhat.ops.kl(p, q)[0] == pytest.approx(float(np.exp(log_p) @ (log_p - log_q)))
    assert zhat.ops.cross_entropy(p, q)[0] == pytest.approx(float(-np.exp(log_p) @ log_q))


def test_samples_follow_the_distribution() -> None:
    model = zhat.generate.hypertree(3, heads=1, tags=2, overlap=1, rules="low-rank", rank=2, seed=4)
    every = trees(model)
    drawn = model.sample(20_000, seed=1).value
    assert str(drawn) == "20000 trees, exact"
    counts = dict.fromkeys(every, 0)
    for nodes in drawn.nodes:
        counts[key(nodes)] += 1
    log_z = model.log_partition().value
    for tree, score in every.items():
        p = math.exp(score - log_z)
        assert counts[tree] / 20_000 == pytest.approx(p, abs=5 * math.sqrt(p / 20_000))


def test_randomized_samples_are_weighted() -> None:
    shape: dict[str, Any] = {"heads": 6, "tags": 6, "rules": "dense", "strength": 0.5}
    model = zhat.generate.hypertree(4, 2, ragged=True, seed=2, **shape)
    how: dict[str, Any] = {"method": "randomized-inside", "states": 3, "replicates": 8, "seed": 1}
    missed = "every replicate missed all trees of positive weight of sentence 1"
    with pytest.warns(RuntimeWarning, match=missed):
        drawn = model.sample(40, **how).value
    assert str(drawn) == "2 sentences with trees, weighted"
    assert [own.shape for own in drawn.log_weights] == [(40,), (len(drawn.nodes[1]),)]
    # One weight per replicate: log Ẑ of the sentence is the logarithm of their mean.
    first = drawn.log_weights[0][:8]
    with pytest.warns(RuntimeWarning, match=missed):
        estimate = model.log_partition(**how)
    assert estimate.value[0] == pytest.approx(float(np.logaddexp.reduce(first) - np.log(8)))
    assert estimate.guarantee.each is not None
    assert "log_weight" in drawn._columns()
    one = zhat.Hypertree(model.words[0], model.rules, roots=model.roots)
    single = one.sample(5, **how).value
    assert (str(single), single.log_weights.shape) == ("5 trees, weighted", (5,))
    assert len(single._columns()["log_weight"]) == 5 * 7
    assert one.sample(5).value.log_weights is None
    value, tape = zhat.ops.log_partition(one, **how)
    assert np.isfinite(value)
    assert tape.vjp(1.0).words.sum() == pytest.approx(4.0)


def test_spans_without_words_have_them_on_the_diagonal() -> None:
    spans = np.random.default_rng(6).normal(size=(2, 4, 4, 3))
    model = zhat.Hypertree(spans=spans, lengths=[4, 3])
    assert repr(model) == (
        "Hypertree(2 sentences of 3 to 4 words, 3 symbols, every rule, scores per span and symbol, float64)"
    )
    diagonal = np.einsum("biik->bik", spans)
    same = zhat.Hypertree(diagonal, spans=spans, lengths=[4, 3])
    check(model, 1e-10)
    assert model == same
    gradient, parts = model.factor_marginals().value, same.factor_marginals().value
    assert gradient.words is None
    assert np.einsum("biik->bik", gradient.spans) == pytest.approx(parts.words)
    assert np.triu(gradient.spans.sum(axis=3), 1) == pytest.approx(np.triu(parts.spans.sum(axis=3), 1))
    assert gradient.spans == pytest.approx(model.marginals().value)
    assert zhat.Hypertree(spans=spans[0]).log_partition().value == pytest.approx(
        model.log_partition().value[0]
    )


def test_evidence_is_the_tag_of_a_word() -> None:
    model = zhat.generate.hypertree(4, 2, heads=2, tags=2, seed=7)
    known = model.condition({(1, 2): 3})
    every = {tree: score for tree, score in trees(model, 1).items() if (2, 2, 3) in tree}
    assert known.log_partition().value[1] == pytest.approx(np.logaddexp.reduce(list(every.values())))
    assert model.log_partition(given={(1, 2): 3}).value == pytest.approx(known.log_partition().value)
    named = zhat.Hypertree(model.words, model.rules, symbol_names=["S", "X", "a", "b"])
    assert named.condition({(1, 2): "b"}).marginals().value[1, 2, 2, 3] == pytest.approx(1.0)
    with pytest.raises(zhat.InputError, match="evidence: there is no symbol 'c'; known are S, X, a, b"):
        named.condition({(1, 2): "c"})
    with pytest.raises(zhat.InputError, match="symbol 0 covers no single word"):
        model.condition({(0, 0): 0})
    with pytest.raises(zhat.InputError, match="evidence: expected a pair of sentence and word"):
        model.condition({0: 2})


def test_arrays_are_used_in_place_and_returned_as_given() -> None:
    words, rules = np.zeros((1, 3, 2), np.float32), np.zeros((1, 2, 4, 4), np.float32)
    roots = np.zeros((1, 2), np.float32)
    model = zhat.Hypertree(words, rules, roots=roots)
    assert (model.n_words, model.n_symbols, model.n_heads, model.n_tags) == (3, 4, 2, 2)
    assert (model.batch, model.lengths, model.dtype) == (1, (3,), np.float32)
    assert np.shares_memory(model.words, words)
    assert model.rules is not None
    assert np.shares_memory(model.rules, rules)
    gradient = model.factor_marginals().value
    assert (gradient.words.shape, gradient.rules.shape, gradient.roots.shape) == (
        (1, 3, 2),
        (1, 2, 4, 4),
        (1, 2),
    )
    assert str(gradient) == "words (1, 3, 2), roots (1, 2), rules (1, 2, 4, 4)"
    single = zhat.Hypertree(words[0], rules[0])
    assert single.factor_marginals().value.words.shape == (3, 2)
    assert single.marginals().value.shape == (3, 3, 4)
    # Listed rules keep their order.
    symbols, scores = [(1, 3, 2), (0, 2, 1), (0, 1, 2)], [1.0, 2.0, 3.0]
    listed = zhat.Hypertree(np.zeros((3, 2)), scores, rule_symbols=symbols, heads=2)
    assert listed.rule_symbols is not None
    assert listed.rules is not None
    assert (listed.rule_symbols.tolist(), listed.rules.tolist()) == ([list(rule) for rule in symbols], scores)
    assert listed.factor_marginals().value.rules[0] == pytest.approx(1.0)
    ascending = zhat.Hypertree(np.zeros((3, 2)), scores[::-1], rule_symbols=symbols[::-1], heads=2)
    assert ascending == listed
    assert pickle.loads(pickle.dumps(listed)).rules.tolist() == scores
    assert listed.condition({0: 2}).factor_marginals().value.rules.shape == (3,)


def test_files_copies_names_and_pictures(tmp_path: Path) -> None:
    for rules, spans in itertools.product(RULES, SPANS):
        shape: dict[str, Any] = {"ragged": True, "overlap": 2, "rules": rules, "spans": spans}
        model = zhat.generate.hypertree(5, 2, dtype=np.float32, seed=4, **shape)
        model.save(tmp_path / "trees.zhat")
        read = zhat.read(tmp_path / "trees.zhat")
        assert isinstance(read, zhat.Hypertree)
        assert read == model == pickle.loads(pickle.dumps(model)) == copy.deepcopy(model)
        assert read.log_partition().value.tolist() == model.log_partition().value.tolist()
        assert model != zhat.generate.hypertree(5, 2, dtype=np.float32, seed=5, **shape)
    words, rules_ = np.zeros((3, 2)), np.zeros((2, 4, 4))
    names, said = ["S", "X", "<a>", "b"], ["the", "(very big)", "dog"]
    model = zhat.Hypertree(words, rules_, roots=[1, 0], symbol_names=names, word_names=said)
    tree = model.condition({0: "<a>", 1: "b", 2: "b"}).map().value
    assert tree.bracketed() == "(S (<a> the) (S (b -LRB-very_big-RRB-) (b dog)))"
    assert str(tree).startswith("score 1")
    model.save(tmp_path / "named.zhat")
    read = zhat.Hypertree.read(tmp_path / "named.zhat")
    assert read.symbol_names == model.symbol_names == tuple(names)
    assert read.map().value.bracketed() == model.map().value.bracketed()
    picture = tree._repr_svg_()
    assert picture.count("<text") == 5 + 3
    assert picture.count("<path") == 4 + 3  # one line per parent, and one above each word
    assert "&lt;a&gt;" in picture
    assert "<svg" in tree._repr_html_()
    plain = zhat.Hypertree(words).map().value
    assert plain.bracketed() == "(0 (0 w0) (0 (0 w1) (0 w2)))"
    assert plain.spans() == [(0, 2), (1, 2)]
    for answer in (
        model.map(),
        model.k_best(3),
        model.marginals(),
        model.sample(3),
        model.factor_marginals(),
    ):
        assert answer._repr_html_()
        assert repr(answer)
    batch = zhat.generate.hypertree(3, 2, ragged=True, overlap=2, seed=1)
    for answer in (batch.map(), batch.k_best(3), batch.marginals(), batch.sample(3)):
        assert answer._repr_html_()


def test_long_sentences_have_deep_trees() -> None:
    # With these rules trees branch to the right only; nothing is recursive.
    words = np.zeros((600, 1))
    model = zhat.Hypertree(words, [0.0, 0.0], rule_symbols=[(0, 1, 0), (0, 1, 1)], heads=1)
    tree = model.map().value
    assert model.log_partition().value == pytest.approx(0.0, abs=1e-9)
    assert tree.bracketed().endswith(")" * 600)
    assert tree._repr_svg_().count("<path") == 1198 + 600


def test_tables_and_plots() -> None:
    pytest.importorskip("pandas", reason="pandas is not installed")
    model = zhat.generate.hypertree(3, 2, ragged=True, heads=2, tags=2, seed=1)
    frame = model.marginals().to_pandas()
    assert list(frame.columns) == ["sentence", "first", "last", "symbol", "expected"]
    assert len(frame) == 4 * sum(n * (n + 1) // 2 for n in model.lengths)
    assert list(model.sample(2).value.to_pandas().columns) == [
        "sentence",
        "sample",
        "first",
        "last",
        "symbol",
    ]
    one = zhat.generate.hypertree(3, heads=2, tags=2, seed=1)
    assert list(one.map().value.to_pandas().columns) == ["score", "first", "last", "symbol"]
    assert len(one.map().to_pandas()) == 5
    assert list(one.marginals().to_pandas().columns) == ["first", "last", "symbol", "expected"]
    matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    matplotlib.use("Agg")
    pyplot = pytest.importorskip("matplotlib.pyplot")
    for answer, chosen in ((one.marginals(), None), (model.marginals(), 1)):
        axes = answer.plot(sequence=chosen)
        assert (axes.get_xlabel(), axes.get_ylabel()) == ("first", "last")
    pyplot.close("all")


def test_numbers_of_symbols() -> None:
    words = np.zeros((3, 4))
    assert zhat.Hypertree(words).n_heads == 4
    fewer = zhat.Hypertree(words, heads=2)
    assert (fewer.n_heads, fewer.n_tags, fewer.n_symbols) == (2, 4, 4)
    apart = zhat.Hypertree(words, roots=np.zeros(2), symbols=6)
    assert (apart.n_heads, apart.n_tags, apart.n_symbols) == (2, 4, 6)
    listed = zhat.Hypertree(words, [0.0], rule_symbols=[(0, 2, 3)], heads=2)
    assert listed.n_symbols == 6
    named = zhat.Hypertree(words, [0.0], rule_symbols=[(0, 2, 3)], heads=2, symbol_names=list("abcd"))
    assert named.n_symbols == 4
    factors: dict[str, Any] = {"rule_left": np.zeros((5, 2)), "rule_right": np.zeros((5, 2))}
    assert zhat.Hypertree(words, rule_heads=np.zeros((3, 2)), **factors).n_symbols == 5


def z(*shape: int) -> NDArray[np.float64]:
    return np.zeros(shape)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "words: are missing"),
        ({"words": z(3)}, r"words: found shape \(3,\), expected \(T, P\) or \(B, T, P\)"),
        ({"words": z(0, 2)}, "words: found shape"),
        ({"spans": z(3, 3)}, r"spans: found shape \(3, 3\), expected \(T, T, N\)"),
        ({"words": z(3, 2), "rules": z(2, 4, 3)}, r"rules: found shape \(2, 4, 3\)"),
        ({"words": z(3, 2), "rules": z(2, 4)}, r"rules: found shape \(2, 4\), expected \(N, S, S\)"),
        ({"words": z(2, 3, 2), "rules": z(3, 2, 4, 4)}, r"rules: .* or \(B, N, S, S\) with B = 2"),
        ({"words": z(3, 2), "rules": z(2, 5, 5)}, "rules: 5 symbols do not fit 2 heads .* expected 2 to 4"),
        ({"words": z(3, 2), "rules": z(2, 4, 4), "roots": z(3)}, "roots: found N = 3, but rules has N = 2"),
        ({"words": z(3, 2), "rule_symbols": [(0, 1, 1)]}, "rules: listed rules need one score each"),
        ({"words": z(3, 2), "rules": [0.0], "rule_symbols": [(0, 1, 1)]}, "heads: give the number"),
        (
            {"words": z(3, 2), "rules": [0.0], "rule_symbols": [(0, 1)], "heads": 1},
            "rule_symbols: found shape",
        ),
        (
            {"words": z(3, 2), "rules": [0.0], "rule_symbols": [(0, 1, 1.5)], "heads": 1},
            "rule_symbols: values",
        ),
        (
            {"words": z(3, 2), "rules": [0.0], "rule_symbols": [(0, 1, -1)], "heads": 1},
            "rule_symbols: found -1",
        ),
        (
            {"words": z(3, 2), "rules": [0.0], "rule_symbols": [(1, 1, 1)], "heads": 1},
            "rule_symbols: the rule 1 → 1 1",
        ),
        (
            {"words": z(3, 2), "rules": [0, 0], "rule_symbols": [(0, 1, 1)] * 2, "heads": 1},
            "rule_symbols: .* twice",
        ),
        (
            {"words": z(3, 2), "rules": [0, 0], "rule_symbols": [(0, 1, 1)], "heads": 1},
            r"rules: found shape \(2,\)",
        ),
        ({"words": z(3, 2), "rule_heads": z(1, 2)}, "rule_left: low-rank rules need"),
        ({"words": z(3, 2), "rules": z(1, 3, 3), "rule_heads": z(1, 2)}, "rule_heads: give either"),
        (
            {"words": z(3, 2), "rule_heads": z(1, 2), "rule_left": z(3, 2), "rule_right": z(3, 1)},
            "rule_right: found rank 1, but rule_heads have rank 2",
        ),
        (
            {"words": z(3, 2), "rule_heads": z(1, 2), "rule_left": z(3, 2), "rule_right": z(2, 2)},
            "rule_right: found S = 2, but rule_left has S = 3",
        ),
        (
            {"words": z(3, 1), "rule_heads": [[np.nan]], "rule_left": z(1, 1), "rule_right": z(1, 1)},
            "rule_heads: number 0 is NaN",
        ),
        ({"words": z(3, 2), "spans": z(2, 2)}, r"spans: found shape \(2, 2\), expected \(T, T\) .* T = 3"),
        ({"words": z(3, 2), "span_embeddings": z(3, 3, 2)}, "symbol_embeddings: give both"),
        (
            {"words": z(3, 2), "span_embeddings": z(3, 3, 2), "symbol_embeddings": z(2, 3)},
            r"symbol_embeddings: found shape \(2, 3\), expected \(N, D\) with D = 2",
        ),
        ({"words": z(3, 2), "unary": [0.0]}, "unary_symbols: give both"),
        ({"words": z(3, 2), "unary": [0.0], "unary_symbols": [(0, 2)]}, "unary_symbols: the rule 0 → 2"),
        ({"words": z(3, 2), "lengths": [3]}, "lengths: are for a batch"),
        ({"words": z(2, 3, 2), "lengths": [3]}, "lengths: found 1 of them for 2 sentences"),
        ({"words": z(2, 3, 2), "lengths": [3, 4]}, "sentence 1 has 4 words, expected 1 to 3"),
        ({"words": z(3, 2), "symbol_names": ["a"]}, "symbol_names: 1 symbols do not fit"),
        ({"words": z(3, 2), "word_names": ["a"]}, "word_names: found 1 for the 3 words"),
        ({"words": [[np.nan]]}, "words: number 0 is NaN"),
        ({"words": z(2, 1), "roots": [np.inf]}, "roots: number 0 is inf"),
    ],
)
def test_bad_input_is_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(zhat.InputError, match=message):
        zhat.Hypertree(**arguments)


def test_bad_queries_are_named() -> None:
    model = zhat.Hypertree(z(3, 2))
    with pytest.raises(zhat.InputError, match="nodes: expected rows of a first word"):
        model.score([(0, 3, 0)])
    with pytest.raises(zhat.InputError, match="sentence"):
        model.score([(0, 2, 0)], sentence=1)
    assert model.score([(0, 2, 0)]) == -np.inf
    with pytest.raises(zhat.ZeroPartitionError):
        zhat.Hypertree(z(1, 2), z(1, 3, 3)).log_partition()
    with pytest.warns(RuntimeWarning, match="sentence 1 has no parse"):
        values = zhat.Hypertree(z(2, 2, 2), z(1, 3, 3), lengths=[2, 1]).log_partition().value
    assert values.tolist() == pytest.approx([math.log(4), -np.inf])
    with pytest.raises(zhat.InputError, match="overlap: expected at most 2"):
        zhat.generate.hypertree(heads=2, tags=3, overlap=3)
    with pytest.raises(zhat.InputError, match="rules"):
        zhat.generate.hypertree(rules="few")
    with pytest.raises(zhat.InputError, match="spans"):
        zhat.generate.hypertree(spans="few")
