"""pyGMs: its reader, its junction tree (log domain, weighted min-fill order)."""

from math import log

import numpy as np
import pygms
from pygms.wmb import JTree

from common import peer, uai


def load(model, evidence):
    """Its own reader and its own conditioning."""
    graph = pygms.GraphModel(pygms.readUai(model))
    observed = uai.read_evidence(evidence)
    graph.condition(observed)
    return graph, observed


def tree(graph):
    """The junction tree and ln Z, after its forward pass."""
    with np.errstate(divide="ignore", invalid="ignore"):
        junction = JTree(graph, weights=1.0)
        return junction, junction.msgForward()


def log10_partition(graph, _observed):
    """Factors without variables are not in the tree."""
    constant = sum(np.log(float(factor.table)) for factor in graph.factors if factor.nvar == 0)
    return (tree(graph)[1] + constant) / log(10)


def marginals(graph, _observed):
    """Every belief of one variable."""
    junction, _ = tree(graph)
    with np.errstate(divide="ignore", invalid="ignore"):
        beliefs = junction.beliefs([pygms.VarSet([variable]) for variable in graph.X])
    return [np.atleast_1d(beliefs[pygms.VarSet([v])].table).tolist() for v in graph.X]


if __name__ == "__main__":
    peer.main(load, {"logz": log10_partition, "marginals": marginals})
