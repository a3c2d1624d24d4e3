"""pyAgrum, given arrays: lazy propagation (Bayesian networks), Shafer-Shenoy (Markov random fields)."""

from math import log10

import numpy as np
import pyagrum

from common import peer


def fill(tensor, scope, table):
    """Writes a table whose axes follow `scope`; the array of a tensor has its variables in reverse order."""
    axes = [scope.index(int(name)) for name in reversed(tensor.names)]
    tensor[:] = np.ascontiguousarray(np.transpose(table, axes))


def bayesian(card, factors):
    """A Bayesian network; the last variable of each scope is the child, as in the file."""
    network = pyagrum.BayesNet()
    for v, states in enumerate(card):
        network.add(pyagrum.RangeVariable(str(v), "", 0, states - 1))
    for scope, _ in factors:
        for parent in scope[:-1]:
            network.addArc(parent, scope[-1])
    for scope, table in factors:
        fill(network.cpt(scope[-1]), scope, table)
    return network


def markov(card, factors):
    """A Markov random field; factors over the same variables are multiplied, because only one is allowed."""
    field = pyagrum.MarkovRandomField()
    for v, states in enumerate(card):
        field.add(pyagrum.RangeVariable(str(v), "", 0, states - 1))
    merged = {}
    for scope, table in factors:
        ordered = tuple(sorted(scope))
        table = np.transpose(table, [scope.index(v) for v in ordered])
        merged[ordered] = merged[ordered] * table if ordered in merged else table
    for scope, table in merged.items():
        if scope:
            fill(field.addFactor([str(v) for v in scope]), scope, table)
    return field


def engine(network, observed):
    """The exact engine for a network, with evidence, and whether the network is Bayesian."""
    is_bayesian = isinstance(network, pyagrum.BayesNet)
    inference = (pyagrum.LazyPropagation if is_bayesian else pyagrum.ShaferShenoyMRFInference)(network)
    inference.setNumberOfThreads(1)
    inference.setEvidence(observed)
    return inference, is_bayesian


def load(model, evidence):
    """The engine, the numbers of states and the evidence."""
    kind, card, factors, observed = peer.read(model, evidence)
    network = (bayesian if kind == "BAYES" else markov)(card, factors)
    return *engine(network, observed), card, observed


def log10_partition(inference, is_bayesian, _card, _observed):
    """The probability of the evidence; for a Markov random field that is Z(evidence) / Z, not Z(evidence)."""
    if not is_bayesian:
        raise peer.NotOfferedError("log Z of a Markov random field")
    return log10(inference.evidenceProbability())


def marginals(inference, _is_bayesian, card, observed):
    """All posterior marginals."""
    inference.makeInference()
    return [
        peer.point_mass(k, observed[v]) if v in observed else inference.posterior(v).toarray().tolist()
        for v, k in enumerate(card)
    ]


if __name__ == "__main__":
    peer.main(load, {"logz": log10_partition, "marginals": marginals})
