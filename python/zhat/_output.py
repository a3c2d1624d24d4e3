"""The containers of the outputs of transformers: `set_output`, without the need to install scikit-learn."""

from __future__ import annotations

import sys
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._categories import objects
from ._frames import library
from .errors import InputError
from .learning import _is_missing

T = TypeVar("T", bound="Transformer")

CONTAINERS = ("default", "pandas", "polars")


class Transformer:
    """Names and containers of the columns that a transformer returns: those of its inputs."""

    n_features_in_: int
    feature_names_in_: NDArray[np.object_]
    _sklearn_output_config: dict[str, str]

    def set_output(self: T, *, transform: str | None = None) -> T:
        """Chooses what `transform` returns: an array ("default"), or a frame of "pandas" or "polars".

        `None` changes nothing. Without a choice, that of `sklearn.set_config(transform_output=…)` applies.
        """
        if transform is None:
            return self
        if transform not in CONTAINERS:
            raise InputError(f"transform: expected one of {', '.join(CONTAINERS)}, found {transform!r}")
        # scikit-learn's `clone` copies this attribute.
        self._sklearn_output_config = {"transform": transform}
        return self

    def _container(self) -> str:
        own = getattr(self, "_sklearn_output_config", {}).get("transform")
        if own is not None or "sklearn" not in sys.modules:
            return own or "default"
        from sklearn import get_config

        return str(get_config()["transform_output"])

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
        """The names of the columns that `transform` returns: those of the inputs."""
        names = getattr(self, "feature_names_in_", None)
        if input_features is None:
            return objects(f"x{j}" for j in range(self.n_features_in_)) if names is None else names.copy()
        given = np.asarray(input_features, dtype=object)
        if names is not None and not np.array_equal(names, given):
            raise InputError("input_features is not equal to feature_names_in_")
        if given.shape != (self.n_features_in_,):
            raise InputError(
                "input_features should have length equal to number of features "
                f"({self.n_features_in_}), got {given.size}"
            )
        return given

    def _output(self, columns: list[NDArray[Any]], x: Any) -> Any:
        """The columns in the chosen container; columns of a frame `x` keep their types."""
        container = self._container()
        names = self.get_feature_names_out().tolist()
        own = type(x).__module__.partition(".")[0]
        given = [None] * len(columns)
        if own == container:
            given = [x.iloc[:, j].dtype if own == "pandas" else x[:, j].dtype for j in range(x.shape[1])]
        if container != "default":
            frames = library(container, "frames")
            index = {"index": x.index} if own == container == "pandas" else {}
            made = {
                name: _series(frames, column, kind, index)
                for name, column, kind in zip(names, columns, given, strict=True)
            }
            return frames.DataFrame(made, **index)
        if all(column.dtype.kind in "fiub" for column in columns):
            return np.column_stack(columns)
        array = np.empty((len(columns[0]), len(columns)), dtype=object)
        for j, column in enumerate(columns):
            array[:, j] = column
        return array


def _series(frames: Any, column: NDArray[Any], kind: Any, index: dict[str, Any]) -> Any:
    """A column of a frame, of type `kind` if that can hold its values."""
    values: Any = column
    if column.dtype.kind in "OU":
        values = [None if _is_missing(value) else value for value in column.tolist()]
    if kind is not None:
        try:
            return frames.Series(values, dtype=kind, **index)
        except (TypeError, ValueError, OverflowError):
            pass  # the type of the values
    return frames.Series(values, **index)
