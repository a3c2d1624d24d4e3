"""Exceptions. Each one is an `Error` and also an instance of the matching built-in exception."""

from __future__ import annotations


class Error(Exception):
    """Base class of all exceptions of zhat.

    `kind` is a short, stable name of the reason, the same as in the JSON output of the program.

    >>> import zhat
    >>> try:
    ...     zhat.FactorGraph([2, 0])
    ... except zhat.Error as error:
    ...     print(error.kind, "|", error)
    model | variable 1 has 0 states; every variable needs at least one
    """

    kind: str = "error"

    def __init__(self, message: str, *, kind: str | None = None) -> None:
        """Creates an error with this message; `kind` defaults to that of the class."""
        super().__init__(message)
        if kind is not None:
            self.kind = kind

    def __str__(self) -> str:
        """The message."""
        return str(self.args[0])


class InputError(Error, ValueError):
    """A file, a model or an argument is invalid; the message says where and what would be valid."""

    kind = "argument"


class UnknownOptionError(InputError, TypeError):
    """A keyword argument is not an option of the method."""

    kind = "unknown-option"


class FileError(InputError, OSError):
    """A file cannot be read or written."""

    kind = "io"


class MissingFileError(FileError, FileNotFoundError):
    """A file does not exist."""


class ZeroPartitionError(Error, ArithmeticError):
    """Every state of the model has weight 0, so there is no distribution to query."""

    kind = "zero-partition"


class ImpossibleEvidenceError(ZeroPartitionError):
    """The evidence has probability 0 under the model."""

    kind = "impossible-evidence"


class OverBudgetError(Error, MemoryError):
    """The forecast or the elapsed time exceeds the budget; the message states both and what fits."""

    kind = "over-budget"


class NotFittedError(InputError, AttributeError):
    """A query of an estimator before `fit`."""

    kind = "not-fitted"
