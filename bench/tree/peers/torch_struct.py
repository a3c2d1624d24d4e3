"""torch-struct: the partition function of a distribution, differentiated by PyTorch."""

import torch
from torch_struct import DependencyCRF, NonProjectiveDependencyCRF, SentCFG, TreeCRF

import timing


def gradients(distribution):
    """A loader for a function of tensors by name that returns a distribution."""

    def load(problem):
        torch.set_num_threads(problem.threads)
        tensors = {name: torch.tensor(array, requires_grad=True) for name, array in problem.arrays.items()}

        def solve():
            log_z = distribution(**tensors).partition
            found = torch.autograd.grad(log_z.sum(), list(tensors.values()))
            return log_z.detach().numpy(), {name: g.numpy() for name, g in zip(tensors, found, strict=True)}

        return solve

    return load


def with_roots(arcs, roots):
    """The scores of roots are on the diagonal of the arcs, by head and dependent."""
    diagonal = torch.eye(arcs.shape[1], dtype=torch.bool)
    return torch.where(diagonal, roots[:, None, :], arcs)


def dependency(arcs, roots):
    """Projective dependency trees with any number of roots."""
    return DependencyCRF(with_roots(arcs, roots), multiroot=True)


def nonprojective(arcs, roots):
    """All dependency trees with any number of roots."""
    return NonProjectiveDependencyCRF(with_roots(arcs, roots), multiroot=True)


def span(spans):
    """Every node of a binary tree has a label."""
    return TreeCRF(spans)


def cfg(words, rules, roots):
    """A dense grammar; nonterminals are numbered before preterminals."""
    return SentCFG((words, rules, roots))


def rank(words, roots, rule_heads, rule_left, rule_right):
    """Rules of low rank, multiplied out to a table for every sentence."""
    largest = [scores.detach().max() for scores in (rule_heads, rule_left, rule_right)]
    factors = [(s - top).exp() for s, top in zip((rule_heads, rule_left, rule_right), largest, strict=True)]
    rules = torch.einsum("kr,ar,br->kab", *factors).log() + sum(largest)
    batch = words.shape[0]
    return cfg(words, rules.expand(batch, *rules.shape), roots.expand(batch, *roots.shape))


if __name__ == "__main__":
    kinds = {
        "dependency": dependency,
        "nonprojective": nonprojective,
        "span": span,
        "cfg": cfg,
        "rank": rank,
    }
    timing.main({"torch-struct": {kind: gradients(distribution) for kind, distribution in kinds.items()}})
