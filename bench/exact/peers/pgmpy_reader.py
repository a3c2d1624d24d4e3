"""pgmpy, with its own reader of UAI files."""

from pgmpy.readwrite import UAIReader

from common import peer, uai
from peers import pgmpy


def load(model, evidence):
    """Reads the model and the evidence."""
    network = UAIReader(model).get_model()
    if hasattr(network, "to_markov_model"):
        network = network.to_markov_model()
    observed = {f"var_{v}": x for v, x in uai.read_evidence(evidence).items()}
    return network, observed


def log10_partition(network, observed):
    """As in `pgmpy.py`; here variables have names."""
    variable = next(name for name in network.nodes() if name not in observed)
    answer = pgmpy.VariableElimination(network).query([variable], evidence=observed, show_progress=False)
    return pgmpy.log10(answer.values.sum())


if __name__ == "__main__":
    peer.main(load, {"logz": log10_partition})
