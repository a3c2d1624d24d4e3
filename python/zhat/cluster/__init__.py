"""Queries divided over processes and machines, with the bits of one run.

The work of a query consists of units: replicates, blocks of samples, groups of cases. `run` divides it over
local processes, any `concurrent.futures.Executor` (such as those of Dask and MPI) or a Ray cluster.
`Division` is the same by hand, for array jobs: `part` does some units and returns bytes, `merge` makes the
answer of them.

>>> import zhat, zhat.cluster
>>> model = zhat.generate.ising(rows=6, columns=6, coupling=0.3, seed=1)
>>> division = zhat.cluster.Division(model, method="importance", samples=3200)
>>> division.units
32
>>> parts = [division.part(20, 32), division.part(0, 20)]
>>> merged = division.merge(parts)
>>> merged.value == model.log_partition(method="importance", samples=3200).value
True
"""

from ._division import Division
from ._run import run

__all__ = ["Division", "run"]
