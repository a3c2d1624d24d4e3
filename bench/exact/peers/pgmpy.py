"""pgmpy, given arrays: a tensor contraction for log Z, a calibrated junction tree for marginals."""

import itertools
import warnings
from math import log10

import numpy as np

from common import peer

warnings.filterwarnings("ignore")

from pgmpy.factors.discrete import DiscreteFactor  # noqa: E402
from pgmpy.inference import BeliefPropagation, VariableElimination  # noqa: E402
from pgmpy.models import DiscreteMarkovNetwork  # noqa: E402


def load(model, evidence):
    """A Markov network also for a BAYES file: pgmpy normalises Bayesian networks, which loses log Z."""
    _, card, factors, observed = peer.read(model, evidence)
    network = DiscreteMarkovNetwork()
    network.add_nodes_from(range(len(card)))
    for scope, _ in factors:
        network.add_edges_from(itertools.combinations(scope, 2))
    network.add_factors(*(DiscreteFactor(list(s), [card[v] for v in s], table) for s, table in factors))
    return network, card, observed


def log10_partition(network, card, observed):
    """The sum of an unnormalised query of one variable."""
    variable = next(v for v in range(len(card)) if v not in observed)
    answer = VariableElimination(network).query([variable], evidence=observed, show_progress=False)
    return log10(np.sum(answer.values))


def marginals(network, card, observed):
    """Evidence is added as factors, so that one calibration gives all marginals."""
    for v, state in observed.items():
        network.add_factors(DiscreteFactor([v], [card[v]], peer.point_mass(card[v], state)))
    propagation = BeliefPropagation(network)
    propagation.calibrate()
    beliefs = sorted(propagation.get_clique_beliefs().items(), key=lambda item: item[1].values.size)
    answers = []
    for v in range(len(card)):
        clique, belief = next((c, b) for c, b in beliefs if v in c)
        marginal = belief.marginalize([u for u in clique if u != v], inplace=False).values
        answers.append((marginal / marginal.sum()).tolist())
    return answers


if __name__ == "__main__":
    peer.main(load, {"logz": log10_partition, "marginals": marginals})
