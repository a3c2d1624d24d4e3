"""`zhat.torch`: gradients against PyTorch's own finite differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import zhat

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed; zhat.torch is not tested")
zt: Any = pytest.importorskip("zhat.torch")


def tensors(model: Any, *names: str) -> list[Any]:
    arrays = (getattr(model, name) for name in ("emissions", "transitions", "start", *names))
    return [torch.tensor(np.array(array), requires_grad=True) for array in arrays]


P = tensors(zhat.generate.chain(3, 4, 2, seed=2))
Q = tensors(zhat.generate.chain(3, 4, 2, seed=3))


@pytest.mark.parametrize("operation", [zt.log_partition, zt.entropy])
def test_values_of_a_chain(operation: Any) -> None:
    assert torch.autograd.gradcheck(lambda *t: operation(zt.Chain(*t)), P)


@pytest.mark.parametrize("operation", [zt.log_partition, zt.entropy])
def test_values_of_a_low_rank_chain(operation: Any) -> None:
    model = zhat.generate.chain(3, 4, 2, transitions="low-rank", rank=2, seed=2)
    names = ("emissions", "start", "log_left", "log_right")
    own = [torch.tensor(np.array(getattr(model, name)), requires_grad=True) for name in names]

    def value(*own: Any) -> Any:
        return operation(zt.Chain(own[0], start=own[1], log_left=own[2], log_right=own[3]))

    assert torch.autograd.gradcheck(value, own)


@pytest.mark.parametrize("operation", [zt.log_partition, zt.entropy])
def test_values_of_a_semi_markov_chain(operation: Any) -> None:
    def value(*own: Any) -> Any:
        return operation(zt.Chain(own[0], own[1], own[2], segments=own[3]))

    own = tensors(zhat.generate.semi_markov(2, 4, 2, longest=2, seed=2), "segments")
    assert torch.autograd.gradcheck(value, own)


@pytest.mark.parametrize("operation", [zt.log_partition, zt.entropy])
def test_values_of_dependency_trees(operation: Any) -> None:
    trees = zhat.generate.dependency(4, 2, projective=False, single_root=True, seed=2)
    own = [torch.tensor(np.array(array), requires_grad=True) for array in (trees.arcs, trees.roots)]

    def value(arcs: Any, roots: Any) -> Any:
        kind = {"projective": False, "single_root": True}
        return operation(zt.Model(zhat.DependencyTree, arcs=arcs, roots=roots, **kind))

    assert torch.autograd.gradcheck(value, own)


@pytest.mark.parametrize("operation", [zt.log_partition, zt.entropy])
@pytest.mark.parametrize("rules", ["any", "dense", "sparse", "low-rank"])
@pytest.mark.parametrize("spans", ["per-span", "per-symbol", "factored"])
def test_values_of_trees_over_words(operation: Any, rules: str, spans: str) -> None:
    shape: dict[str, Any] = {"rules": rules, "spans": spans, "count": 8, "rank": 2, "embedding": 2}
    trees = zhat.generate.hypertree(4, 2, heads=2, tags=2, overlap=1, strength=0.5, seed=2, **shape)
    names = ["words", "roots", "rules", "rule_heads", "rule_left", "rule_right"]
    names += ["spans", "span_embeddings", "symbol_embeddings"]
    arrays = {name: getattr(trees, name) for name in names}
    own = {name: np.array(array) for name, array in arrays.items() if array is not None}
    unary = torch.tensor(np.array([-1.5, -2.0]), requires_grad=True)
    fixed: dict[str, Any] = {"unary_symbols": torch.tensor([[0, 1], [1, 0]]), "symbols": 3}
    if trees.rule_symbols is not None:
        # In another order than that of the model.
        fixed["rule_symbols"] = trees.rule_symbols[::-1].copy()
        own["rules"] = own["rules"][::-1].copy()

    def value(*tensors: Any) -> Any:
        given = dict(zip([*own, "unary"], tensors, strict=True))
        return operation(zt.Model(zhat.Hypertree, **given, **fixed))

    tensors = [torch.tensor(array, requires_grad=True) for array in own.values()]
    assert torch.autograd.gradcheck(value, (*tensors, unary))


def test_spans_with_words_on_the_diagonal() -> None:
    spans = torch.tensor(np.random.default_rng(1).normal(size=(2, 4, 4, 3)), requires_grad=True)
    assert torch.autograd.gradcheck(lambda own: zt.log_partition(zt.Model(zhat.Hypertree, spans=own)), spans)


@pytest.mark.parametrize("operation", [zt.cross_entropy, zt.kl])
def test_divergences(operation: Any) -> None:
    assert torch.autograd.gradcheck(lambda *t: operation(zt.Chain(*t[:3]), zt.Chain(*t[3:])), (*P, *Q))


def test_relaxed_samples() -> None:
    def soft(*own: Any) -> Any:
        return zt.relaxed_sample(zt.Chain(*own), n=2, temperature=0.7, seed=1)[0]

    assert torch.autograd.gradcheck(soft, P)


@pytest.mark.parametrize("projective", [True, False])
def test_relaxed_trees(projective: bool) -> None:
    rng = np.random.default_rng(3)
    own = [torch.tensor(rng.normal(size=size), requires_grad=True) for size in [(2, 3, 3), (2, 3)]]

    def soft(arcs: Any, roots: Any) -> Any:
        model = zt.Model(zhat.DependencyTree, arcs=arcs, roots=roots, projective=projective)
        return zt.relaxed_sample(model, n=2, temperature=0.7, seed=1)[0]

    assert torch.autograd.gradcheck(soft, own)


def test_relaxed_segmentations() -> None:
    own = tensors(zhat.generate.semi_markov(2, 4, 2, longest=2, seed=2), "segments")

    def soft(*own: Any) -> Any:
        chain = zt.Chain(own[0], own[1], own[2], segments=own[3])
        return zt.relaxed_sample(chain, n=2, temperature=0.7, seed=1)[0]

    assert torch.autograd.gradcheck(soft, own)


def test_relaxed_parses() -> None:
    words = torch.tensor(np.random.default_rng(3).normal(size=(2, 3, 2)), requires_grad=True)
    rules = torch.tensor(np.random.default_rng(4).normal(size=(2, 2, 2)), requires_grad=True)

    def soft(words: Any, rules: Any) -> Any:
        return zt.relaxed_sample(zt.Model(zhat.Hypertree, words=words, rules=rules), n=2, temperature=0.7)[0]

    assert torch.autograd.gradcheck(soft, (words, rules))


def test_a_batch_of_different_lengths() -> None:
    own = tensors(zhat.generate.chain(3, 4, 2, seed=2))
    zt.log_partition(zt.Chain(*own, lengths=[4, 2])).sum().backward()
    np.testing.assert_allclose(own[2].grad.sum(), 2)
