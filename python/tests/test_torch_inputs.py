"""Inputs of `zhat.torch`: types, layouts, sizes, and errors that name the argument."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from torch_models import CASES, torch, zt

import zhat

ZEROS: Any = torch.zeros(3, 2)
TABLE: Any = torch.zeros(2, 2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: zt.Chain(ZEROS.long(), TABLE), "emissions: has values of type torch.int64; expected real"),
        (lambda: zt.Chain(ZEROS, TABLE.bool()), "transitions: has values of type torch.bool"),
        (lambda: zt.Chain(ZEROS, TABLE + 0j), "transitions: has values of type torch.complex64"),
        (lambda: zt.Chain(ZEROS.to("meta"), TABLE), r"emissions: is on the device meta; .* call .cpu\(\)"),
        (lambda: zt.Chain(ZEROS, TABLE.to("meta")), "transitions: is on the device meta"),
        (lambda: zt.Chain(ZEROS, TABLE.to_sparse()), "transitions: has the layout torch.sparse_coo"),
        (lambda: zt.Chain(ZEROS[None], TABLE, lengths=torch.tensor([1.5])), "lengths: has values of type"),
        (lambda: zt.Model(zhat.Chain, transitions=TABLE), "emissions: is missing"),
        (lambda: zt.Model(zhat.Chain, emissions=ZEROS, arcs=TABLE), "arcs: is not a parameter of the kind"),
        (lambda: zt.Model(zhat.SpaceModel, emissions=ZEROS), "kind: expected one of the classes zhat.Chain"),
        (lambda: zt.Model(zhat.FactorGraph, cardinalities=[2]), "factors: a model of tensors needs"),
    ],
)  # fmt: skip
def test_models_that_cannot_be_built(make: Any, message: str) -> None:
    with pytest.raises(zhat.InputError, match=message):
        make()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: zt.Chain(torch.zeros(2), TABLE), "emissions: found shape"),
        (lambda: zt.Chain(torch.zeros(2, 2, 2, 2), TABLE), "emissions: found shape"),
        (lambda: zt.Chain(torch.zeros(0, 2), TABLE), "emissions|length"),
        (lambda: zt.Chain(torch.zeros(3, 0), torch.zeros(0, 0)), "state"),
        (lambda: zt.Chain(ZEROS, torch.zeros(3, 3)), "transitions"),
        (lambda: zt.Chain(ZEROS), "transitions"),
        (lambda: zt.Chain(ZEROS * torch.nan, TABLE), "NaN|nan|finite"),
        (lambda: zt.Chain(ZEROS[None], TABLE, lengths=[4]), "length"),
        (lambda: zt.Chain(ZEROS[None], TABLE, lengths=[-1]), "lengths"),
        (lambda: zt.Model(zhat.DependencyTree, arcs=torch.zeros(2, 3)), "arcs: found shape"),
        (lambda: zt.Model(zhat.FactorGraph, cardinalities=[2], factors=[((0,), torch.zeros(3))]), "factor"),
    ],
)  # fmt: skip
def test_shapes_are_checked_by_operations(make: Any, message: str) -> None:
    model = make()
    for operation in (zt.log_partition, zt.marginals):
        with pytest.raises(zhat.InputError, match=message):
            operation(model)


def test_operations_of_other_objects() -> None:
    with pytest.raises(zhat.InputError, match=r"model: expected a zhat.torch.Model, found Chain"):
        zt.log_partition(zhat.generate.chain(3, 4))
    with pytest.raises(zhat.InputError, match="q: found a dependency-tree, expected a chain"):
        zt.kl(CASES["chain"].model(), CASES["projective"].model())
    with pytest.raises(zhat.InputError, match="two single sequences or two batches"):
        zt.kl(CASES["chain"].model(), CASES["steps"].model())
    with pytest.raises(zhat.InputError, match="left: the expected score of a factored graph"):
        zt.entropy(CASES["factored graph"].model())
    with pytest.raises(zhat.UnknownOptionError, match="speed"):
        zt.log_partition(CASES["chain"].model(), speed=3)


@pytest.mark.parametrize("name", ["chain", "segments", "projective", "trees", "factors"])
def test_other_layouts_give_the_same_numbers(name: str) -> None:
    """Transposed, strided and expanded tensors are copied; gradients reach the original."""
    case = CASES[name]
    tensors = case.tensors()
    want = zt.log_partition(case.model(*tensors)).sum()
    wanted = torch.autograd.grad(want, tensors)
    strided = []
    for tensor in tensors:
        wide = torch.stack([tensor.detach(), torch.full_like(tensor, torch.nan)], -1)
        strided.append(wide.requires_grad_())
    views = [own[..., 0] for own in strided]
    assert not all(own.is_contiguous() for own in views)
    value = zt.log_partition(case.model(*views)).sum()
    torch.testing.assert_close(value, want)
    for own, expected in zip(torch.autograd.grad(value, strided), wanted, strict=True):
        torch.testing.assert_close(own[..., 0], expected)
        assert (own[..., 1] == 0).all()
    transposed = [own.detach().T.contiguous().T if own.dim() == 2 else own.detach() for own in tensors]
    torch.testing.assert_close(zt.log_partition(case.model(*transposed)).sum(), want.detach())


def test_expanded_tensors() -> None:
    row = torch.tensor([0.5, -1.0], dtype=torch.float64, requires_grad=True)
    chain = zt.Chain(row.expand(2, 3, 2), torch.eye(2, dtype=torch.float64))
    assert torch.autograd.gradcheck(
        lambda own: zt.log_partition(zt.Chain(own.expand(2, 3, 2), torch.eye(2, dtype=torch.float64))), row
    )
    assert zt.log_partition(chain).shape == (2,)


def test_integers_of_every_kind() -> None:
    want = zt.log_partition(zt.Chain(torch.zeros(2, 3, 2), TABLE, lengths=[3, 2]))
    for lengths in (
        (3, 2),
        np.array([3, 2], np.int32),
        torch.tensor([3, 2], dtype=torch.int16),
        range(3, 1, -1),
    ):
        assert torch.equal(zt.log_partition(zt.Chain(torch.zeros(2, 3, 2), TABLE, lengths=lengths)), want)


def test_arrays_and_sparse_tables_as_constants() -> None:
    emissions = torch.zeros(3, 2, requires_grad=True)
    table = zhat.Sparse([0.5, -0.5, 0.0], indices=[0, 1, 1], indptr=[0, 2, 3])
    want = zhat.Chain(np.zeros((3, 2)), table).log_partition().value
    assert zt.log_partition(zt.Chain(emissions, table)).item() == pytest.approx(want, abs=1e-6)
    dense = zt.Chain(emissions, np.array([[0.5, -0.5], [-np.inf, 0.0]]))
    value = zt.log_partition(dense)
    assert value.item() == pytest.approx(want, abs=1e-6)
    value.backward()
    assert emissions.grad.sum() == pytest.approx(3)


def test_tables_of_scipy() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    table = sparse.csr_matrix(([0.5, -0.5, 0.25], [0, 1, 1], [0, 2, 3]), shape=(2, 2))
    emissions = torch.linspace(-1, 1, 6, dtype=torch.float64).view(3, 2).requires_grad_()
    dense = torch.tensor([[0.5, -0.5], [-torch.inf, 0.25]], dtype=torch.float64)
    for ask in (zt.log_partition, zt.entropy):
        ours, want = ask(zt.Chain(emissions, table)), ask(zt.Chain(emissions, dense))
        torch.testing.assert_close(ours, want)
        (own,), (other,) = (torch.autograd.grad(value, emissions) for value in (ours, want))
        torch.testing.assert_close(own, other)


def test_entries_in_any_order() -> None:
    """Listed entries need not be ascending; gradients are in the order given."""
    emissions = torch.randn(3, 2, dtype=torch.float64)
    data = torch.tensor([-0.5, 0.5, 0.0], dtype=torch.float64, requires_grad=True)
    pattern = {"indptr": torch.tensor([0, 2, 3]), "indices": torch.tensor([1, 0, 1])}
    dense = torch.tensor([[0.5, -0.5], [-torch.inf, 0.0]], dtype=torch.float64, requires_grad=True)
    ours, want = zt.Chain(emissions, data, **pattern), zt.Chain(emissions, dense)
    torch.testing.assert_close(zt.log_partition(ours), zt.log_partition(want))
    (own,) = torch.autograd.grad(zt.log_partition(ours), data)
    (other,) = torch.autograd.grad(zt.log_partition(want), dense)
    torch.testing.assert_close(own, torch.stack([other[0, 1], other[0, 0], other[1, 1]]))
    every = torch.tensor([[0, 0, 1], [0, 1, 1], [1, 1, 1], [1, 0, 0]])
    torch.testing.assert_close(zt.score(ours, every), zt.score(want, every))


def test_empty_batches_of_samples() -> None:
    chain = CASES["chain"].model()
    assert zt.sample(chain, 0).shape == (2, 0, 3)
    assert zt.k_best(chain, 1).states.shape == (2, 1, 3)
    assert zt.relaxed_sample(chain, 1)[1].shape == (2, 1, 3)


def test_methods_of_factor_graphs() -> None:
    """The gradient is the factor marginals of the method."""
    case = CASES["factors"]
    tensors = case.tensors()
    value = zt.log_partition(case.model(*tensors), method="bp")
    scopes, sizes = case.other["scopes"], case.other["cardinalities"]
    graph = zhat.FactorGraph(sizes, [(s, t.detach().numpy()) for s, t in zip(scopes, tensors, strict=True)])
    assert value.item() == pytest.approx(graph.log_partition(method="bp").value, abs=1e-12)
    wanted = graph.factor_marginals(method="bp").value
    for own, want in zip(torch.autograd.grad(value, tensors), wanted, strict=True):
        np.testing.assert_allclose(own.numpy(), want, atol=1e-12)
