"""Queries of models of tensors, with gradients."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from .._arguments import integer, real, settings
from ..errors import InputError
from . import _states, operators
from ._checks import equal_edges
from ._kinds import CHAIN, DEPENDENCY, FACTOR_GRAPH, HYPERTREE, PAIRWISE, SEMI_MARKOV
from .model import Model
from .score import score


class ChainMarginals(NamedTuple):
    """The gradient of log Z with respect to the parameters of a `Chain`; absent ones are `None`."""

    emissions: Tensor
    transitions: Tensor | None = None
    start: Tensor | None = None
    end: Tensor | None = None
    left: Tensor | None = None
    right: Tensor | None = None
    log_left: Tensor | None = None
    log_right: Tensor | None = None
    segments: Tensor | None = None


class DependencyMarginals(NamedTuple):
    """The gradient of log Z with respect to the parameters of a `zhat.DependencyTree`."""

    arcs: Tensor
    roots: Tensor | None = None


class HypertreeMarginals(NamedTuple):
    """The gradient of log Z with respect to the parameters of a `zhat.Hypertree`."""

    words: Tensor | None = None
    spans: Tensor | None = None
    roots: Tensor | None = None
    rules: Tensor | None = None
    rule_heads: Tensor | None = None
    rule_left: Tensor | None = None
    rule_right: Tensor | None = None
    span_embeddings: Tensor | None = None
    symbol_embeddings: Tensor | None = None
    unary: Tensor | None = None


class PairwiseMarginals(NamedTuple):
    """The gradient of log Z with respect to the parameters of a `zhat.PairwiseGraph`."""

    nodes: Tensor
    interactions: Tensor | None = None
    left: Tensor | None = None
    right: Tensor | None = None


class FactorMarginals(NamedTuple):
    """The probabilities of the states of every factor of a `zhat.FactorGraph`."""

    factors: tuple[Tensor, ...]


class States(NamedTuple):
    """States, padded with −1, and their scores, the log weights."""

    states: Tensor
    scores: Tensor


_MARGINALS: dict[str, Any] = {
    CHAIN.name: ChainMarginals,
    SEMI_MARKOV.name: ChainMarginals,
    DEPENDENCY.name: DependencyMarginals,
    HYPERTREE.name: HypertreeMarginals,
    PAIRWISE.name: PairwiseMarginals,
}


def log_partition(model: Model, *, scores: Tensor | None = None, **options: Any) -> Tensor:
    """Log Z of each item; −inf, with gradient zero, if no state has positive weight.

    The options are those of `zhat.ops.log_partition`. For a pairwise graph or a factor graph `method` is any
    method with factor marginals, which are the gradient.

    >>> import torch, zhat, zhat.torch
    >>> tables = torch.tensor([[0.0, 1.0], [2.0, 3.0]], requires_grad=True)
    >>> graph = zhat.torch.Model(zhat.FactorGraph, cardinalities=[2, 2], factors=[((0, 1), tables)])
    >>> zhat.torch.log_partition(graph).backward()
    >>> tables.grad.sum(axis=1)                     # the probabilities of the first variable
    tensor([0.1192, 0.8808])
    """
    return _first(operators.log_partition(_proposed(model, scores), model.text, _options(options)))


def entropy(model: Model, *, scores: Tensor | None = None, **options: Any) -> Tensor:
    """The entropy of each item; the options are those of `zhat.ops.entropy`.

    In a pairwise graph or factor graph this is log Z minus the expected score, with the factor marginals of
    `method`. An item without a state of positive weight has entropy −inf.
    """
    tensors = _proposed(model, scores)
    if not model.kind.graph:
        return _first(operators.entropy(tensors, model.text, _options(options)))
    return log_partition(model, **options) - _expected(model, model, options)


def cross_entropy(p: Model, q: Model, *, checkpoint: bool = False, **options: Any) -> Tensor:
    """−Σ p(x) log q(x) of each item of two models of the same shape.

    Graphs must have the same variables and the same factors or edges, in the same order. `method` and its
    options are those of `log_partition` for graphs; other kinds are exact, with the options of
    `zhat.ops.cross_entropy`.
    """
    tensors, how = _pair(p, q), _how(p, checkpoint, options)
    if not p.kind.graph:
        return _first(operators.cross_entropy(tensors, f"{p.text} | {q.text}", _options(how)))
    log_z = _first(operators.log_partition(tensors[len(p.tensors) :], q.text, _options(how)))
    return log_z - _expected(p, q, how)


def kl(p: Model, q: Model, *, checkpoint: bool = False, **options: Any) -> Tensor:
    """KL(p ‖ q) of each item of two models of the same shape; the arguments are those of `cross_entropy`.

    >>> import torch, zhat, zhat.torch
    >>> def pair(table):
    ...     return zhat.torch.Model(zhat.FactorGraph, cardinalities=[2, 2], factors=[((0, 1), table)])
    >>> zhat.torch.kl(pair(torch.tensor([[0.0, 1.0], [2.0, 3.0]])), pair(torch.zeros(2, 2)))
    tensor(0.4388)
    """
    tensors, how = _pair(p, q), _how(p, checkpoint, options)
    if not p.kind.graph:
        return _first(operators.kl(tensors, f"{p.text} | {q.text}", _options(how)))
    return cross_entropy(p, q, **how) - entropy(p, **how)


def marginals(model: Model, **options: Any) -> Any:
    """The gradient of log Z with respect to each parameter, as a named tuple of tensors.

    For scores these are expected counts: the probability of each state, arc or node, and the expected number
    of times that a shared score is used, summed over the batch. For embeddings and low-rank factors they are
    the gradient of log Z. The result is differentiable itself: a structured attention. A model without a
    state of positive weight has marginals zero.

    >>> import torch, zhat.torch
    >>> emissions = torch.randn(4, 3, requires_grad=True)
    >>> attention = zhat.torch.marginals(zhat.torch.Chain(emissions, torch.eye(3))).emissions
    >>> attention.sum(axis=1).round(decimals=4)
    tensor([1., 1., 1., 1.], grad_fn=<RoundBackward1>)
    >>> attention[0, 0].backward()
    >>> emissions.grad.shape
    torch.Size([4, 3])
    """
    tensors = _tensors(model)
    items = () if model.single else (tensors[0].shape[0],)
    weights = torch.ones(items, dtype=tensors[0].dtype)
    found = operators.gradient("log_partition", tensors, weights, None, model.text, _options(options))
    if model.kind is FACTOR_GRAPH:
        return FactorMarginals(tuple(found))
    return _MARGINALS[model.kind.name](**dict(zip(model.tensors, found, strict=False)))


def log_prob(model: Model, states: Tensor, **options: Any) -> Tensor:
    """log p(states), the score of the states minus log Z; `score` describes the tensors of states.

    >>> import torch, zhat.torch
    >>> chain = zhat.torch.Chain(torch.zeros(2, 2), torch.tensor([[0.0, 0.0], [0.0, 2.0]]))
    >>> every = torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> zhat.torch.log_prob(chain, every).exp()
    tensor([0.0963, 0.0963, 0.0963, 0.7112])
    """
    value = score(_checked(model), states)
    log_z = log_partition(model, **options)
    log_z = log_z.view((*log_z.shape, *[1] * (value.dim() - log_z.dim())))
    return torch.where(torch.isneginf(value), value, value - log_z)


def best(model: Model, **options: Any) -> States:
    """The state of largest weight of each item and its score, which has a gradient.

    >>> import torch, zhat.torch
    >>> chain = zhat.torch.Chain(torch.zeros(3, 2), torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
    >>> zhat.torch.best(chain)
    States(states=tensor([0, 1, 0]), scores=tensor(2.))
    """
    states = _states.best(_detached(model), model.text, _options(options))
    return States(states, score(model, states))


def k_best(model: Model, k: int, **options: Any) -> States:
    """The `k` states of largest weight of each item, best first, and their scores, which have gradients.

    If fewer than `k` states have positive weight, the others are −1 with score −inf.
    """
    states = _states.k_best(_detached(model), model.text, integer("k", k), _options(options))
    return States(states, score(model, states))


def sample(model: Model, n: int = 1, *, seed: int = 0, **options: Any) -> Tensor:
    """`n` exact samples of each item; the same seed gives the same samples.

    An item without a state of positive weight has samples that are all −1.

    >>> import torch, zhat.torch
    >>> chain = zhat.torch.Chain(torch.zeros(2, 3, 2), torch.eye(2), lengths=[3, 2])
    >>> zhat.torch.sample(chain, 4, seed=1).shape
    torch.Size([2, 4, 3])
    """
    count = integer("n", n)
    return _plain(_states.sample(_detached(model), model.text, count, seed, _options(options)))


def relaxed_sample(
    model: Model, n: int = 1, temperature: float = 1.0, *, seed: int = 0
) -> tuple[Any, Tensor]:
    """Relaxed samples, with gradients, and the hard states, padded with −1: `zhat.ops.relaxed_sample`.

    For a semi-Markov chain the relaxed samples are a pair of tensors, for the states and for the lengths.
    """
    # torch.compile takes a number that changes as an input only if it is a factor of a tensor.
    warmth = torch.ones((), dtype=torch.float64) * real("temperature", temperature)
    soft, lengths, hard, _ = _states.relaxed(_tensors(model), model.text, integer("n", n), warmth, seed)
    return ((soft, lengths) if model.kind is SEMI_MARKOV else soft), hard


def _checked(model: Model) -> Model:
    if not isinstance(model, Model):
        raise InputError(f"model: expected a zhat.torch.Model, found {type(model).__name__}")
    return model


def _tensors(model: Model) -> list[Tensor]:
    return list(_checked(model).tensors.values())


def _detached(model: Model) -> list[Tensor]:
    return [tensor.detach() for tensor in _tensors(model)]


def _options(options: dict[str, Any]) -> str:
    return settings(options) if options else ""


def _first(values: tuple[Tensor, Tensor]) -> Tensor:
    return values[0]


def _plain(value: Any) -> Tensor:
    result: Tensor = value
    return result


def _proposed(model: Model, scores: Tensor | None) -> list[Tensor]:
    """The tensors of a model, and the scores of a proposal if there are any."""
    tensors = _tensors(model)
    if scores is None:
        return tensors
    if model.kind.graph:
        raise InputError(f"scores: are for a proposal of states of a sequence; a {model.kind.name} has none")
    return [*tensors, scores]


def _how(p: Model, checkpoint: bool, options: dict[str, Any]) -> dict[str, Any]:
    """The options of a divergence."""
    how = {**options, **({"checkpoint": True} if checkpoint else {})}
    if not p.kind.graph and how.pop("method", "exact") != "exact":
        raise InputError(f"method: divergences of a {p.kind.name} are exact; expected exact")
    return how


def _pair(p: Model, q: Model) -> list[Tensor]:
    """The tensors of two models of the same kind, for graphs with the same factors or edges."""
    tensors, others = dict(_checked(p).tensors), dict(_checked(q).tensors)
    if p.kind is not q.kind:
        raise InputError(f"q: found a {q.kind.name}, expected a {p.kind.name} like p")
    if p.kind.graph:
        if p.kind is FACTOR_GRAPH:
            _same("cardinalities", p.cardinalities, q.cardinalities)
            _same("scopes", p.scopes, q.scopes)
        elif list(tensors) != list(others):
            raise InputError(f"q: has {' and '.join(others)}, expected {' and '.join(tensors)} as in p")
        for name, own in tensors.items():
            found, expected = tuple(others[name].shape), tuple(own.shape)
            if found != expected:
                raise InputError(f"q: {name} has shape {found}, expected {expected} as in p")
        if "edges" in tensors:
            others["edges"] = equal_edges(tensors["edges"], others["edges"])
    return [*tensors.values(), *others.values()]


def _same(name: str, own: list[Any], others: list[Any]) -> None:
    """Checks that two lists are equal; the message has the first difference."""
    if len(own) != len(others):
        raise InputError(f"q: has {len(others)} {name}, expected {len(own)} as in p")
    for i, (expected, found) in enumerate(zip(own, others, strict=True)):
        if found != expected:
            raise InputError(f"q: {name}[{i}] is {found}, expected {expected} as in p")


def _expected(p: Model, q: Model, options: dict[str, Any]) -> Tensor:
    """The expected score of q under p, for graphs."""
    if p.kind.nonlinear.intersection(p.tensors) or q.kind.nonlinear.intersection(q.tensors):
        raise InputError("left: the expected score of a factored graph is not available; give interactions")
    found = marginals(p, **options)
    probabilities = found.factors if p.kind is FACTOR_GRAPH else [own for own in found if own is not None]
    total = torch.zeros((), dtype=next(iter(p.tensors.values())).dtype)
    for own, scores in zip(probabilities, q.tensors.values(), strict=False):
        total = total + _weighted(own, scores)
    return total


def _weighted(probabilities: Tensor, scores: Tensor) -> Tensor:
    """Σ p · score, without scores of −inf where p is zero; −inf if p is not zero there."""
    forbidden = torch.isneginf(scores)
    terms = probabilities * torch.where(forbidden, torch.zeros_like(scores), scores)
    lost = (forbidden & (probabilities > 0)).any()
    total = terms.sum()
    return torch.where(lost, torch.full_like(total, -torch.inf), total)
