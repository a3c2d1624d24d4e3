"""A file to which finished parts are appended, so that a run that ends early can be continued."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from .._arguments import FilePath
from ..errors import InputError

_MAGIC = b"zhat parts 2\n"
_HEADER = 16
_CHECK = 0x9E3779B97F4A7C15
"""A length is written twice, the second time with these bits inverted."""


class Kept:
    """The parts in a file; each is its length, twice in eight bytes, and its bytes."""

    def __init__(self, path: FilePath, check: Callable[[bytes, str], object]) -> None:
        """Reads the parts of an existing file and removes one at its end that was cut off.

        `check` raises an error for a part of another task; the file is then left as it is.
        """
        self.path = Path(path)
        self.parts: list[bytes] = []
        content = self.path.read_bytes() if self.path.exists() else b""
        if _MAGIC.startswith(content):
            self.path.write_bytes(_MAGIC)
            content = _MAGIC
        if not content.startswith(_MAGIC):
            raise InputError(f"keep: {self.path} is not a file of parts")
        end = len(_MAGIC)
        while end + _HEADER <= len(content):
            length = int.from_bytes(content[end : end + 8], "little")
            if int.from_bytes(content[end + 8 : end + _HEADER], "little") != length ^ _CHECK:
                raise InputError(f"keep: {self.path} is damaged at byte {end}; use another file")
            stop = end + _HEADER + length
            if stop > len(content):
                break
            part = content[end + _HEADER : stop]
            check(part, str(self.path))
            self.parts.append(part)
            end = stop
        self._file = self.path.open("r+b")
        self._file.truncate(end)
        self._file.seek(end)

    def add(self, part: bytes) -> None:
        """Appends a part; it is on the disk when this returns."""
        length = len(part)
        self._file.write(length.to_bytes(8, "little") + (length ^ _CHECK).to_bytes(8, "little") + part)
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Closes the file."""
        self._file.close()
