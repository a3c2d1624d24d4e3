"""Sparse and banded transitions, and transitions per sequence, against dense tables."""

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

import zhat
from zhat import ops


def example(per_step=False, dtype=np.float64):
    rng = np.random.default_rng(1)
    exists = rng.random((6, 6)) < 0.5
    exists[np.arange(6), (np.arange(6) + 1) % 6] = True
    tables = np.where(exists, rng.normal(size=(4, 6, 6)), -np.inf).astype(dtype)
    emissions = rng.normal(size=(3, 5, 6)).astype(dtype)
    indptr = np.concatenate([[0], np.cumsum(exists.sum(axis=1))])
    indices = np.nonzero(exists)[1]
    if per_step:
        return emissions, tables, tables[:, exists], indices, indptr, exists
    return emissions, tables[0], tables[0][exists], indices, indptr, exists


@pytest.mark.parametrize("per_step", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_answers_are_those_of_the_table(per_step, dtype):
    emissions, table, data, indices, indptr, exists = example(per_step, dtype)
    end = np.linspace(-1, 1, 6)
    dense = zhat.Chain(emissions, table, lengths=[5, 3, 1], end=end)
    sparse = zhat.Chain(emissions, zhat.Sparse(data, indices, indptr), lengths=[5, 3, 1], end=end)
    assert sparse.transitions.shape == data.shape
    tolerance = 1e-4 if dtype == np.float32 else 1e-10
    for query in ("log_partition", "entropy", "marginals"):
        got, want = getattr(sparse, query)().value, getattr(dense, query)().value
        np.testing.assert_allclose(got, want, atol=tolerance)
    _, gradient = ops.log_partition_and_gradient(sparse, np.ones(3))
    _, other = ops.log_partition_and_gradient(dense, np.ones(3))
    np.testing.assert_allclose(gradient.transitions, other.transitions[..., exists], atol=tolerance)
    np.testing.assert_allclose(gradient.end, other.end, atol=tolerance)
    np.testing.assert_allclose(ops.kl(sparse, dense)[0], np.zeros(3), atol=10 * tolerance)
    for ours, theirs in zip(sparse.map().value, dense.map().value, strict=True):
        assert ours.states.tolist() == theirs.states.tolist()


def test_objects_with_the_attributes_of_a_csr_matrix():
    emissions, _, data, indices, indptr, _ = example()
    backwards = np.concatenate([np.arange(a, b)[::-1] for a, b in pairwise(indptr)])
    csr = SimpleNamespace(format="csr", data=data[backwards], indices=indices[backwards], indptr=indptr)
    chain = zhat.Chain(emissions, csr)
    assert chain.indices.tolist() == indices.tolist()
    np.testing.assert_array_equal(chain.transitions, data)
    with pytest.raises(zhat.InputError, match="tocsr"):
        zhat.Chain(emissions, SimpleNamespace(format="csc", data=data, indices=indices, indptr=indptr))


@pytest.mark.parametrize("kind", ["csr_matrix", "csr_array"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tables_of_scipy(kind, dtype):
    scipy_sparse = pytest.importorskip("scipy.sparse")
    emissions, table, data, indices, indptr, exists = example(dtype=dtype)
    make = getattr(scipy_sparse, kind)
    # Log zeros are the entries that are not stored; a stored zero is the score 0.
    data[0] = table[0, indices[0]] = 0.0
    dense = zhat.Chain(emissions, table)
    csr = make((data, indices, indptr), shape=(6, 6))
    tolerance = 1e-4 if dtype == np.float32 else 1e-10
    chain = zhat.Chain(emissions, csr)
    assert chain.transitions.dtype == dtype
    np.testing.assert_array_equal(chain.indices, indices)
    np.testing.assert_allclose(chain.log_partition().value, dense.log_partition().value, atol=tolerance)
    _, gradient = ops.log_partition_and_gradient(chain, np.ones(3))
    _, other = ops.log_partition_and_gradient(dense, np.ones(3))
    np.testing.assert_allclose(gradient.transitions, other.transitions[exists], atol=tolerance)
    # Columns that are not in order, as after some operations of SciPy.
    backwards = np.concatenate([np.arange(a, b)[::-1] for a, b in pairwise(indptr)])
    unsorted = make((data[backwards], indices[backwards], indptr), shape=(6, 6))
    assert not unsorted.has_sorted_indices
    np.testing.assert_array_equal(zhat.Chain(emissions, unsorted).transitions, data)
    for other_format in ("csc", "coo", "lil"):
        with pytest.raises(zhat.InputError, match="tocsr"):
            zhat.Chain(emissions, csr.asformat(other_format))
    with pytest.raises(zhat.InputError, match=r"shape \(6, 9\), expected \(N, N\)"):
        zhat.Chain(emissions, make((data, indices, indptr), shape=(6, 9)))


def test_bad_patterns_are_refused():
    emissions = np.zeros((3, 2))

    def refused(data, indices, indptr):
        with pytest.raises(zhat.InputError) as caught:
            zhat.Chain(emissions, zhat.Sparse(data, indices, indptr))
        return str(caught.value)

    assert "entry 1, in row 1, is 2" in refused([0.0, 0.0], [0, 2], [0, 1, 2])
    assert "repeats" in refused([0.0, 0.0], [1, 1], [0, 2, 2])
    assert "row 1 starts at 2 and ends at 1" in refused([0.0], [0], [0, 2, 1])
    assert "is 42" in refused([0.0], [42], [0, 1, 1])
    assert "not below" in refused([0.0], [-1], [0, 1, 1])
    assert "expected (E,)" in refused([0.0, 1.0], [0], [0, 1, 1])
    assert "NaN" in refused([np.nan], [0], [0, 1, 1])
    assert "integers" in refused([0.0], [0.5], [0, 1, 1])
    with pytest.raises(zhat.InputError, match="need transitions, indptr and indices"):
        zhat.Chain(emissions, [0.0], indptr=[0, 1, 1])
    with pytest.raises(zhat.InputError, match="band"):
        zhat.Sparse.banded(np.zeros((3, 3)), 0, 1)


def test_one_table_per_sequence_and_step(tmp_path):
    rng = np.random.default_rng(2)
    emissions, tables = rng.normal(size=(3, 4, 5)), rng.normal(size=(3, 3, 5, 5))
    chain = zhat.Chain(emissions, tables, lengths=[4, 2, 1])
    alone = [zhat.Chain(emissions[b, :n], tables[b, : n - 1]) for b, n in enumerate([4, 2, 1])]
    np.testing.assert_allclose(chain.log_partition().value, [one.log_partition().value for one in alone])
    _, gradient = ops.log_partition_and_gradient(chain, [1.0, 2.0, 3.0])
    np.testing.assert_allclose(gradient.transitions.sum(axis=(1, 2, 3)), [3.0, 2.0, 0.0], atol=1e-12)
    chain.save(tmp_path / "own.zhat")
    assert zhat.Chain.read(tmp_path / "own.zhat").transitions.shape == (3, 3, 5, 5)
    with pytest.raises(zhat.InputError, match="expected"):
        zhat.Chain(emissions, tables[:2])
    with pytest.raises(zhat.InputError, match="forward-backward"):
        chain.log_partition(method="randomized")


def test_files_and_generators(tmp_path):
    chain = zhat.generate.chain(states=50, steps=6, transitions="sparse", rank=3)
    assert chain.transitions.shape == (150,)
    chain.save(tmp_path / "sparse.zhat")
    again = zhat.Chain.read(tmp_path / "sparse.zhat")
    assert again.log_partition().value == chain.log_partition().value
    assert zhat.generate.chain(states=9, steps=4, transitions="banded", rank=1).transitions.shape == (25,)
