"""What can go wrong. Every exception here is an `Error`, and also the built-in one that it is a case of."""

from __future__ import annotations


class Error(Exception):
    """Why there is no answer.

    `kind` is a short, stable name of the reason, the same as in the program's JSON.

    >>> import zhat
    >>> try:
    ...     zhat.FactorGraph([2, 0])
    ... except zhat.Error as error:
    ...     print(error.kind, "|", error)
    model | variable 1 has 0 states; every variable needs at least one
    """

    kind: str = "error"

    def __init__(self, message: str, *, kind: str | None = None) -> None:
        """Says what happened; `kind` is the class's own by default."""
        super().__init__(message)
        if kind is not None:
            self.kind = kind

    def __str__(self) -> str:
        """The message."""
        return str(self.args[0])


class InputError(Error, ValueError):
    """A file, a model or an argument cannot be used; the message names the place and what would work."""

    kind = "argument"


class FileError(InputError, OSError):
    """A file cannot be read or written."""

    kind = "io"


class MissingFileError(FileError, FileNotFoundError):
    """A file does not exist."""


class ZeroPartitionError(Error, ArithmeticError):
    """Every state of the model has weight 0, so there is no distribution to ask about."""

    kind = "zero-partition"


class ImpossibleEvidenceError(ZeroPartitionError):
    """The evidence has probability 0 under the model."""

    kind = "impossible-evidence"


class OverBudgetError(Error, MemoryError):
    """The forecast, or the clock, is over the budget; the message names both figures and what would fit."""

    kind = "over-budget"
