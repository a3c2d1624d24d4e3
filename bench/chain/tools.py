"""The peers, and which of them are installed."""

import importlib.metadata
from dataclasses import dataclass


@dataclass(frozen=True)
class Peer:
    """A name in the table, its file in `peers/`, and the Python package it needs."""

    name: str
    script: str
    package: str

    @property
    def version(self) -> str | None:
        """The version of the package, or `None` if it is not installed."""
        try:
            return f"{self.package} {importlib.metadata.version(self.package)}"
        except importlib.metadata.PackageNotFoundError:
            return None


ZHAT = Peer("zhat", "zhat", "zhat")
PEERS = (
    Peer("numpy-scaled", "numpy_scaled", "numpy"),
    Peer("dynamax", "dynamax", "dynamax"),
    Peer("dynamax-par", "dynamax", "dynamax"),
    Peer("hmmlearn-scaling", "hmmlearn", "hmmlearn"),
    Peer("hmmlearn-log", "hmmlearn", "hmmlearn"),
    Peer("pomegranate", "pomegranate", "pomegranate"),
    Peer("torch-struct", "torch_struct", "torch-struct"),
    Peer("torch-loop-gemm", "torch_loop", "torch"),
)
