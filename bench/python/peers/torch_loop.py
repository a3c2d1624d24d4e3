"""PyTorch: the forward algorithm as a loop over positions."""

import torch

import modules
import timing


def load(problem):
    """Scores of the tags by indexing, log Z by a loop of log-sum-exps."""
    leaves = start, end, emissions, transitions = modules.tensors(problem)
    tags = torch.tensor(problem.tags)

    def likelihood():
        message = start + emissions[:, 0]
        for t in range(1, emissions.shape[1]):
            message = torch.logsumexp(message[:, :, None] + transitions, 1) + emissions[:, t]
        log_z = torch.logsumexp(message + end, 1)
        score = emissions.gather(2, tags[..., None]).sum() + transitions[tags[:, :-1], tags[:, 1:]].sum()
        return score + start[tags[:, 0]].sum() + end[tags[:, -1]].sum() - log_z.sum()

    return modules.step(likelihood, leaves, problem.threads)


if __name__ == "__main__":
    timing.main({"torch-loop": load})
