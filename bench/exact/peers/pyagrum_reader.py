"""pyAgrum, reading the file itself."""

import pyagrum as library

from peers import common, pyagrum


def load(model, evidence):
    """Reads the model and the evidence."""
    kind, card, _, observed = common.read(model, evidence)
    network = library.BayesNet() if kind == "BAYES" else library.MarkovRandomField()
    network.loadUAI(model)
    return *pyagrum.engine(network, observed), card, observed


if __name__ == "__main__":
    common.main(load, {"logz": pyagrum.log10_partition, "marginals": pyagrum.marginals})
