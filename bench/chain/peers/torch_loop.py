"""PyTorch: a loop over positions, each a matrix product of exponentials shifted by their maximum."""

import torch

import timing
from peers.autograd import with_gradients


def log_partition(start, transitions, emissions):
    """The forward algorithm for all sequences."""
    largest = transitions.detach().max()
    probabilities = (transitions - largest).exp()
    message = start + emissions[:, 0]
    for t in range(1, emissions.shape[1]):
        shift = message.detach().max(1, keepdim=True)[0]
        message = ((message - shift).exp() @ probabilities).log() + shift + largest + emissions[:, t]
    return torch.logsumexp(message, 1)


if __name__ == "__main__":
    timing.main({"torch-loop-gemm": {"dense": with_gradients(log_partition)}})
