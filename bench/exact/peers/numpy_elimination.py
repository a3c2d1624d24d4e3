"""Variable elimination in a few lines of NumPy: min-fill order, tables divided by their maximum."""

from math import log

from common import peer

LOG2_LARGEST_TABLE = 29


def log10_partition(reader, card, factors, evidence):
    """The order, then the elimination; variables in no factor are summed out by hand."""
    order, _, _ = reader.minfill(factors, card, limit_s=1e9)
    log_z = reader.ve_logZ(card, factors, order, maxlog2=LOG2_LARGEST_TABLE)
    seen = set(order) | set(evidence)
    return (log_z + sum(log(k) for v, k in enumerate(card) if v not in seen)) / log(10)


def load(model, evidence):
    """Reads the model and the evidence."""
    reader = peer.numpy_reader()
    _, card, factors = reader.read_uai(model)
    observed = reader.read_evid(evidence)
    return reader, card, reader.condition(card, factors, observed), observed


if __name__ == "__main__":
    peer.main(load, {"logz": log10_partition})
