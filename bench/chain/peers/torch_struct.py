"""torch-struct: `LinearChainCRF`, whose potentials have one table per pair of positions."""

import torch
from torch_struct import LinearChainCRF

import timing
from peers.autograd import with_gradients


def log_partition(start, transitions, emissions):
    """Potentials by sequence, position, next and previous state; the first table includes the start."""
    edges = transitions.t()[None, None] + emissions[:, 1:, :, None]
    first = (start + emissions[:, 0])[:, None, None, :]
    is_first = torch.zeros(1, edges.shape[1], 1, 1)
    is_first[:, 0] = 1
    return LinearChainCRF(edges + is_first * first).partition


if __name__ == "__main__":
    timing.main({"torch-struct": {"dense": with_gradients(log_partition)}})
