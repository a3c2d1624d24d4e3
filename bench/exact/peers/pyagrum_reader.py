"""pyAgrum, with its own reader of UAI files."""

import pyagrum as library

from common import peer
from peers import pyagrum


def load(model, evidence):
    """Reads the model and the evidence."""
    kind, card, _, observed = peer.read(model, evidence)
    network = library.BayesNet() if kind == "BAYES" else library.MarkovRandomField()
    network.loadUAI(model)
    return *pyagrum.engine(network, observed), card, observed


if __name__ == "__main__":
    peer.main(load, {"logz": pyagrum.log10_partition, "marginals": pyagrum.marginals})
