"""Random changes of tensors: type, shape, layout, device and numbers, of the classes of `zhat.torch`."""

from __future__ import annotations

import itertools
import warnings
from functools import partial
from typing import Any

import numpy as np
import pytest
from fuzz import FOREIGN, outcome, same
from torch_models import torch, zt

import zhat

struct: Any = pytest.importorskip("zhat.torch.struct")

CASES = 150  # of each class; all of them take a few seconds


def real(*shape: int) -> Any:
    return torch.tensor(np.random.default_rng(sum(shape)).normal(size=shape))


def crf(emissions: Any, tags: Any, mask: Any) -> list[Any]:
    torch.manual_seed(1)
    module = zt.CRF(3, batch_first=True).double()
    value = module(emissions, tags, mask, reduction="none")
    value.sum().backward()
    ranked = module.k_best(emissions, 2, mask)
    scores = [own for each in ranked for _, own in each]
    return [value, module.transitions.grad, module.marginals(emissions, mask), torch.tensor(scores)]


def chain(**given: Any) -> list[Any]:
    model = zt.Chain(**given)
    return [zt.log_partition(model), zt.entropy(model), *(x for x in zt.marginals(model) if x is not None)]


def graph(pair: Any, triple: Any) -> list[Any]:
    factors = [((0, 1), pair), ((2, 0, 1), triple)]
    model = zt.Model(zhat.FactorGraph, cardinalities=[2, 3, 2], factors=factors)
    return [zt.log_partition(model), zt.entropy(model), zt.best(model).scores, *zt.marginals(model).factors]


def numbers(dist: Any) -> list[Any]:
    """Every query; samples have the right shape and are possible."""
    events = dist.marginals
    found = [dist.partition, dist.entropy, dist.max, dist.kmax(2), dist.count]
    if not torch.isneginf(dist.partition).any():
        sampled = dist.sample((2,))
        if not isinstance(dist, struct.HMM):
            assert torch.isfinite(dist.log_prob(sampled)).all()
    return [*found, *([events] if torch.is_tensor(events) else events)]


Target = tuple[Any, dict[str, Any]]
LENGTHS = torch.tensor([4, 2])
TARGETS: dict[str, Target] = {
    "CRF": (
        crf,
        {
            "emissions": real(2, 4, 3),
            "tags": torch.tensor([[0, 1, 2, 0], [2, 2, 1, 0]]),
            "mask": torch.arange(4) < LENGTHS[:, None],
        },
    ),
    "Chain": (
        chain,
        {"emissions": real(2, 4, 3), "transitions": real(3, 3), "start": real(3), "lengths": LENGTHS},
    ),
    "FactorGraph": (graph, {"pair": real(2, 3), "triple": real(2, 2, 3)}),
    "LinearChainCRF": (
        lambda **own: numbers(struct.LinearChainCRF(**own)),
        {"log_potentials": real(2, 3, 3, 3), "lengths": LENGTHS},
    ),
    "SemiMarkovCRF": (
        lambda **own: numbers(struct.SemiMarkovCRF(**own)),
        {"log_potentials": real(2, 3, 3, 2, 2), "lengths": LENGTHS},
    ),
    "TreeCRF": (
        lambda **own: numbers(struct.TreeCRF(**own)),
        {"log_potentials": real(2, 4, 4, 2), "lengths": LENGTHS},
    ),
    "SentCFG": (
        lambda terms, rules, roots, lengths: numbers(struct.SentCFG((terms, rules, roots), lengths)),
        {"terms": real(2, 4, 2), "rules": real(2, 2, 4, 4), "roots": real(2, 2), "lengths": LENGTHS},
    ),
    "DependencyCRF": (
        lambda **own: numbers(struct.DependencyCRF(**own)),
        {"log_potentials": real(2, 4, 4), "lengths": LENGTHS},
    ),
    "NonProjectiveDependencyCRF": (
        lambda **own: numbers(struct.NonProjectiveDependencyCRF(**own)),
        {"log_potentials": real(2, 4, 4), "lengths": LENGTHS},
    ),
    "HMM": (
        lambda **own: numbers(struct.HMM(**own)),
        {
            "transition": real(3, 3),
            "emission": real(5, 3),
            "init": real(3),
            "observations": torch.tensor([[0, 1, 4, 2], [3, 3, 0, 0]]),
            "lengths": LENGTHS,
        },
    ),
}
# The models of zhat have names of their own for the potentials.
NAMES = (
    "emissions",
    "transitions",
    "segments",
    "arcs",
    "roots",
    "spans",
    "words",
    "rules",
    "start",
    "factor",
)


def changed(tensor: Any, random: np.random.Generator) -> tuple[str, Any]:
    """One random change of a tensor."""
    axis = int(random.integers(tensor.dim()))
    place = tuple(int(random.integers(size)) for size in tensor.shape)
    names = [
        "float16",
        "bfloat16",
        "float32",
        "float64",
        "int8",
        "int32",
        "int64",
        "uint8",
        "bool",
        "complex64",
    ]
    name = names[int(random.integers(len(names)))]
    whole = not tensor.is_floating_point()
    numbers = [-1, 7, 2**62, -(2**62)] if whole else [np.nan, np.inf, -np.inf, 1e300, -1e300, 0.0]
    value = numbers[int(random.integers(len(numbers)))]

    def numbered() -> Any:
        made = tensor.clone()
        made[place] = value
        return made

    changes = {
        f"type {name}": lambda: tensor.to(getattr(torch, name)),
        f"number {value}": numbered,
        "gradient": lambda: tensor.clone().requires_grad_(),
        "columns first": lambda: tensor.transpose(0, -1).contiguous().transpose(0, -1),
        "strided": lambda: torch.stack([tensor, tensor], -1)[..., 0],
        "expanded": lambda: tensor[:1].expand(tensor.shape),
        "overlapping": lambda: tensor.flatten().as_strided(tensor.shape, (1,) * tensor.dim()),
        "negated view": lambda: tensor if tensor.dtype is torch.bool else torch._neg_view(-tensor),
        "array": lambda: tensor.numpy(),
        "read-only array": lambda: np.broadcast_to(tensor.numpy()[:1], tensor.shape),
        "list": tensor.tolist,
        "meta": lambda: tensor.to("meta"),
        "sparse": tensor.to_sparse,
        "one axis less": lambda: tensor[0],
        "one axis more": lambda: tensor[None],
        "transposed": lambda: tensor.transpose(0, -1),
        "shorter": lambda: tensor.narrow(axis, 0, tensor.shape[axis] - 1),
        "longer": lambda: torch.cat([tensor, tensor], axis),
        "empty": lambda: tensor.narrow(axis, 0, 0),
        "flat": tensor.flatten,
        "a number": lambda: tensor.flatten()[0],
        "foreign": FOREIGN[int(random.integers(len(FOREIGN)))],
    }
    what = list(changes)[int(random.integers(len(changes)))]
    return what, changes[what]()


def plain(value: Any) -> Any:
    """A contiguous copy in double precision or of integers."""
    if value is None:
        return None
    made = value.detach().resolve_neg() if torch.is_tensor(value) else torch.as_tensor(np.array(value))
    return made.double().contiguous() if made.is_floating_point() else made.clone()


def answered(make: Any, given: dict[str, Any]) -> list[Any]:
    return arrays(make(**given))


def arrays(results: list[Any]) -> list[Any]:
    return [own.detach().double().numpy() for own in results]


@pytest.mark.parametrize("name", TARGETS)
def test_tensors(name: str) -> None:
    make, known = TARGETS[name]
    random = np.random.default_rng(list(TARGETS).index(name))
    names, answers = (*known, *NAMES), 0
    for case in range(CASES):
        given, words = dict(known), [f"{name}, case {case}"]
        for _ in range(1 + int(random.integers(2))):
            argument = list(known)[int(random.integers(len(known)))]
            try:
                what, given[argument] = changed(known[argument], random)
            except RuntimeError as error:  # PyTorch has no gradients of integers
                assert "can require gradients" in str(error)  # noqa: PT017
                continue
            words.append(f"{argument}: {what}")
        text = "; ".join(words)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = outcome(partial(answered, make, given), names, text)
        if found is None:
            continue
        answers += 1
        same(found, answered(make, copied(known, given)), tolerance(given), text)
    assert CASES // 10 < answers < CASES


def copied(known: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Contiguous copies, of integers where the argument is made of integers."""
    made = {key: plain(own) for key, own in given.items()}
    whole = {key for key, own in known.items() if not own.is_floating_point()}
    return {key: own.long() if key in whole and own is not None else own for key, own in made.items()}


def tolerance(given: dict[str, Any]) -> float:
    """The precision of the shortest numbers."""
    types = [own.dtype for own in given.values() if torch.is_tensor(own) and own.is_floating_point()]
    if isinstance(next(iter(given.values())), list):  # the first parameter sets the precision
        types.append(torch.get_default_dtype())
    return max([1e-9, *(30 * torch.finfo(own).eps for own in types if own is not torch.float64)])


NUMBERS: list[Any] = [
    0,
    1,
    2,
    3,
    40,
    -1,
    True,
    np.int8(2),
    np.uint64(3),
    torch.tensor(2),
    torch.tensor([1]),
    0.5,
    2.0,
]
NUMBERS += [torch.tensor(0.5), np.nan, np.inf, "2", None, [1], {}, 1j, object(), 2**50, 2**62, 2**63, 10**400]


def test_numbers_of_states() -> None:
    """Numbers, seeds and temperatures of any type are right, or an error that names them."""
    model = zt.Chain(real(3, 2), real(2, 2))
    states = torch.tensor(list(itertools.product(range(2), repeat=3)))
    ranked = zt.score(model, states).sort(descending=True).values.tolist() + [-np.inf] * 40
    asks: dict[str, tuple[Any, Any]] = {
        "k": (lambda k: [zt.k_best(model, k).scores], lambda k: [ranked[: int(k)]]),
        "n": (lambda n: [zt.sample(model, n, seed=1)], lambda n: [zt.sample(model, int(n), seed=1)]),
        "seed": (lambda seed: relaxed(2, 0.5, seed), lambda seed: relaxed(2, 0.5, int(seed))),
        "temperature": (lambda t: relaxed(2, t, 1), lambda t: relaxed(2, float(t), 1)),
    }

    def relaxed(n: Any, temperature: Any, seed: Any) -> list[Any]:
        return [*zt.relaxed_sample(model, n, temperature, seed=seed)]

    for name, (ask, wanted) in asks.items():
        answers = 0
        for number in NUMBERS:
            text = f"{name} = {number!r}"
            found = outcome(partial(ask, number), (f"{name}: ", "memory"), text)
            if found is not None:
                answers += 1
                same(found, wanted(number), 1e-12, text)
        assert 5 < answers < len(NUMBERS), name
