"""pyGMs: its own reader and junction tree (log domain, weighted min-fill order)."""

from math import log

import numpy as np
import pygms
from pygms.wmb import JTree

from common import peer, uai


def load(model, evidence):
    """Uses the reader and the conditioning of pyGMs."""
    graph = pygms.GraphModel(pygms.readUai(model))
    observed = uai.read_evidence(evidence)
    graph.condition(observed)
    return graph, observed


def tree(graph):
    """The junction tree after its forward pass, and ln Z."""
    with np.errstate(divide="ignore", invalid="ignore"):
        junction = JTree(graph, weights=1.0)
        return junction, junction.msgForward()


def log10_partition(graph, _observed):
    """Adds the factors without variables, which the tree omits."""
    constant = sum(np.log(float(factor.table)) for factor in graph.factors if factor.nvar == 0)
    return (tree(graph)[1] + constant) / log(10)


def marginals(graph, _observed):
    """The beliefs of all single variables."""
    junction, _ = tree(graph)
    with np.errstate(divide="ignore", invalid="ignore"):
        beliefs = junction.beliefs([pygms.VarSet([variable]) for variable in graph.X])
    return [np.atleast_1d(beliefs[pygms.VarSet([v])].table).tolist() for v in graph.X]


if __name__ == "__main__":
    peer.main(load, {"logz": log10_partition, "marginals": marginals})
