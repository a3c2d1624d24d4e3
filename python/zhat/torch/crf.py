"""The linear-chain CRF of pytorch-crf as a PyTorch module, computed by zhat."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from .._arguments import LARGE, integer, warn_of_copy
from ..errors import InputError, ZeroPartitionError
from ._checks import in_range, mask_lengths
from .model import Chain, on_cpu
from .queries import best, k_best, log_partition, marginals

_REDUCTIONS = ("none", "sum", "mean", "token_mean")


class CRF(torch.nn.Module):
    """A conditional random field over tags: the module of pytorch-crf, `zhat.torch.CRF(num_tags)`.

    Parameters, shapes and results are those of `torchcrf.CRF`, and state dictionaries fit both. With
    `batch_first`, `emissions` are (B, T, N) and `tags` and `mask` are (B, T); otherwise the first two axes
    change places. A mask is true at the positions of a sequence and false after its end.

    `forbidden` lists transitions that have probability zero: pairs (from, to) of tags, where `None` stands
    for the start or the end of a sequence, or a tensor (N, N) of bools. They are no part of the state
    dictionary.

    >>> import torch, zhat.torch
    >>> crf = zhat.torch.CRF(num_tags=3, batch_first=True, forbidden=[(0, 1), (None, 2)])
    >>> emissions, tags = torch.tensor([[[5.0, 0.0, 9.0], [0.0, 9.0, 3.0]]]), torch.tensor([[0, 2]])
    >>> loss = -crf(emissions, tags)
    >>> loss.backward()
    >>> crf.decode(emissions)
    [[1, 1]]
    """

    start_transitions: Tensor
    end_transitions: Tensor
    transitions: Tensor
    _forbidden: Tensor | None

    def __init__(
        self,
        num_tags: int,
        batch_first: bool = False,
        forbidden: Tensor | Iterable[tuple[int | None, int | None]] | None = None,
    ) -> None:
        """Parameters are drawn uniformly from −0.1 to 0.1."""
        super().__init__()
        self.num_tags = integer("num_tags", num_tags, 1)
        self.batch_first = batch_first
        self.start_transitions = torch.nn.Parameter(torch.empty(self.num_tags))
        self.end_transitions = torch.nn.Parameter(torch.empty(self.num_tags))
        self.transitions = torch.nn.Parameter(torch.empty(self.num_tags, self.num_tags))
        table = None if forbidden is None else _forbidden(forbidden, self.num_tags)
        self.register_buffer("_forbidden", table, persistent=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the parameters uniformly from −0.1 to 0.1."""
        for parameter in (self.start_transitions, self.end_transitions, self.transitions):
            torch.nn.init.uniform_(parameter, -0.1, 0.1)

    def extra_repr(self) -> str:
        """The arguments, for printing."""
        return f"num_tags={self.num_tags}, batch_first={self.batch_first}"

    def forward(
        self,
        emissions: Tensor,
        tags: Tensor,
        mask: Tensor | None = None,
        reduction: str = "sum",
    ) -> Tensor:
        """The log-likelihood of the tags: one number, or for the reduction `none` one per sequence.

        `sum` adds up the sequences, `mean` is their mean, and `token_mean` the mean over all positions.
        Tags after the end of a sequence are not read. With a forbidden transition the value is −inf.
        """
        if reduction not in _REDUCTIONS:
            raise InputError(f"reduction: expected one of {', '.join(_REDUCTIONS)}, found {reduction!r}")
        scores, inside, lengths = self._inputs(emissions, mask)
        own = self._tags(tags, emissions, inside)
        start, end, table = self._scores()
        found = scores.gather(2, own[..., None])[..., 0]
        steps = table[own[:, :-1], own[:, 1:]]
        if inside is not None and lengths is not None:
            found, steps = found.masked_fill(~inside, 0.0), steps.masked_fill(~inside[:, 1:], 0.0)
            last = own.gather(1, lengths[:, None] - 1)[:, 0]
        else:
            last = own[:, -1]
        score = found.sum(1) + steps.sum(1) + start[own[:, 0]] + end[last]
        value = score - log_partition(Chain(scores, table, start, end=end, lengths=lengths))
        if reduction == "none":
            return value
        if reduction == "mean":
            return value.mean()
        total = value.sum()
        if reduction == "sum":
            return total
        return total / (own.numel() if lengths is None else lengths.sum())

    def decode(self, emissions: Tensor, mask: Tensor | None = None) -> list[list[int]]:
        """The best tags of each sequence."""
        states = best(self._chain(emissions, mask)).states.tolist()
        for b, own in enumerate(states):
            if own[0] < 0:
                raise ZeroPartitionError(f"zero partition: sequence {b} has no tags that are allowed")
        return [[tag for tag in own if tag >= 0] for own in states]

    def k_best(
        self, emissions: Tensor, k: int, mask: Tensor | None = None
    ) -> list[list[tuple[list[int], float]]]:
        """For each sequence its k best lists of tags, or fewer if there are fewer, with log-probabilities."""
        with torch.no_grad():
            chain = self._chain(emissions, mask)
            found = k_best(chain, integer("k", k, 1))
            values = found.scores - log_partition(chain)[:, None]
        return [
            [
                ([tag for tag in own if tag >= 0], value)
                for own, value in zip(*each, strict=True)
                if own[0] >= 0
            ]
            for each in zip(found.states.tolist(), values.tolist(), strict=True)
        ]

    def marginals(self, emissions: Tensor, mask: Tensor | None = None) -> Tensor:
        """The probability of each tag at each position, in the shape of `emissions`; zero after the end."""
        found: Tensor = marginals(self._chain(emissions, mask)).emissions
        return found if self.batch_first else found.transpose(0, 1)

    def _chain(self, emissions: Tensor, mask: Tensor | None) -> Chain:
        scores, _, lengths = self._inputs(emissions, mask)
        start, end, table = self._scores()
        return Chain(scores, table, start, end=end, lengths=lengths)

    def _scores(self) -> tuple[Tensor, Tensor, Tensor]:
        """Start, end and transition scores, −inf where forbidden."""
        own = (self.start_transitions, self.end_transitions, self.transitions)
        table = self._forbidden
        if table is None:
            return own
        n = self.num_tags
        closed = (table[n, :n], table[:n, n], table[:n, :n])
        start, end, between = (each.masked_fill(no, -torch.inf) for each, no in zip(own, closed, strict=True))
        return start, end, between

    def _inputs(self, emissions: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Emissions and mask with the batch first, and the length of each sequence."""
        if not isinstance(emissions, Tensor) or emissions.dim() != 3:
            found = tuple(emissions.shape) if isinstance(emissions, Tensor) else type(emissions).__name__
            raise InputError(f"emissions: found {found}, expected a tensor with three axes")
        if emissions.shape[2] != self.num_tags:
            raise InputError(f"emissions: found {emissions.shape[2]} tags, expected {self.num_tags}")
        on_cpu("emissions", emissions)
        scores = emissions if self.batch_first else _turned(emissions)
        if mask is None:
            return scores, None, None
        if not isinstance(mask, Tensor) or mask.is_floating_point() or mask.is_complex():
            kind = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
            raise InputError(f"mask: found {kind}, expected a tensor of bools")
        if mask.shape != emissions.shape[:2]:
            expected = tuple(emissions.shape[:2])
            raise InputError(f"mask: found shape {tuple(mask.shape)}, expected {expected}, as emissions")
        mask = on_cpu("mask", mask)
        inside = mask.bool() if self.batch_first else mask.bool().transpose(0, 1)
        return scores, inside, mask_lengths(inside)

    def _tags(self, tags: Tensor, emissions: Tensor, inside: Tensor | None) -> Tensor:
        """The tags with the batch first, zero after the end."""
        if not isinstance(tags, Tensor) or tags.is_floating_point() or tags.is_complex():
            found = tags.dtype if isinstance(tags, Tensor) else type(tags).__name__
            raise InputError(f"tags: found {found}, expected a tensor of integers")
        if tags.shape != emissions.shape[:2]:
            expected = tuple(emissions.shape[:2])
            raise InputError(f"tags: found shape {tuple(tags.shape)}, expected {expected}, as emissions")
        tags = on_cpu("tags", tags)
        own = (tags if self.batch_first else tags.transpose(0, 1)).long()
        if inside is not None:
            own = own.masked_fill(~inside, 0)
        checked: Tensor = in_range(own, "tags", 0, self.num_tags - 1, "tags")
        return checked


def _turned(emissions: Tensor) -> Tensor:
    """A copy with the batch first; a large one has a warning."""
    size = emissions.numel() * emissions.element_size()
    if size > LARGE and not torch.compiler.is_compiling():
        warn_of_copy("emissions", size, "the time axis is first; with batch_first=True a contiguous tensor")
    return emissions.transpose(0, 1).contiguous()


def _forbidden(given: Tensor | Iterable[tuple[int | None, int | None]], tags: int) -> Tensor:
    """A table of bools by the tags before and after; the last row is the start, the last column the end."""
    table = torch.zeros(tags + 1, tags + 1, dtype=torch.bool)
    if isinstance(given, Tensor):
        if given.dtype != torch.bool or tuple(given.shape) != (tags, tags):
            found = f"{given.dtype} of shape {tuple(given.shape)}"
            raise InputError(
                f"forbidden: found {found}, expected bools of shape {(tags, tags)}, or pairs of tags"
            )
        table[:tags, :tags] = given
        return table
    for i, pair in enumerate(given):
        if not isinstance(pair, (tuple, list)) or len(pair) != 2 or list(pair) == [None, None]:
            raise InputError(f"forbidden[{i}]: expected a pair of tags, found {pair!r}")
        place = [tags if tag is None else integer(f"forbidden[{i}]", tag, 0, tags - 1) for tag in pair]
        table[place[0], place[1]] = True
    return table
