"""A file to which finished parts are appended, so that a run that ends early can be continued."""

from __future__ import annotations

import os
from pathlib import Path

from .._arguments import FilePath
from ..errors import InputError

_MAGIC = b"zhat parts 1\n"


class Kept:
    """The parts in a file; each is its length in eight bytes and its bytes."""

    def __init__(self, path: FilePath) -> None:
        """Reads the complete parts of an existing file, and removes one that was cut off."""
        self.path = Path(path)
        self.parts: list[bytes] = []
        end = len(_MAGIC)
        if self.path.exists() and self.path.stat().st_size > 0:
            content = self.path.read_bytes()
            if not content.startswith(_MAGIC):
                raise InputError(f"keep: {self.path} is not a file of parts")
            while end + 8 <= len(content):
                length = int.from_bytes(content[end : end + 8], "little")
                if end + 8 + length > len(content):
                    break
                self.parts.append(content[end + 8 : end + 8 + length])
                end += 8 + length
        else:
            self.path.write_bytes(_MAGIC)
        self._file = self.path.open("r+b")
        self._file.truncate(end)
        self._file.seek(end)

    def add(self, part: bytes) -> None:
        """Appends a part; it is on the disk when this returns."""
        self._file.write(len(part).to_bytes(8, "little") + part)
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Closes the file."""
        self._file.close()
