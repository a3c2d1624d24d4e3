"""What scikit-learn expects of an estimator, without the need to install it."""

from __future__ import annotations

import inspect
import sys
from typing import Any, TypeVar

from .errors import InputError, NotFittedError

E = TypeVar("E", bound="Estimator")


class Estimator:
    """Parameters by name, as in `sklearn.base.BaseEstimator`: `__init__` only stores them."""

    # The type of estimator for scikit-learn.
    _kind: str | None = None

    @classmethod
    def _parameters(cls) -> list[str]:
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters of the estimator by name; `deep` has no effect."""
        return {name: getattr(self, name) for name in self._parameters()}

    def set_params(self: E, **params: Any) -> E:
        """Sets parameters and returns the estimator."""
        known = self._parameters()
        for name, value in params.items():
            if name not in known:
                raise InputError(
                    f"Invalid parameter {name!r} for estimator {type(self).__name__}. "
                    f"Valid parameters are: {known!r}."
                )
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        """The class with the parameters that differ from their defaults."""
        defaults = inspect.signature(type(self).__init__).parameters
        changed = (
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            if repr(value) != repr(defaults[name].default)
        )
        return f"{type(self).__name__}({', '.join(changed)})"

    def __sklearn_tags__(self) -> Any:
        """The properties of the estimator; called by scikit-learn only."""
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        classifier = self._kind == "classifier"
        return Tags(
            estimator_type=self._kind,
            target_tags=TargetTags(
                required=True,
                one_d_labels=True,
                two_d_labels=True,
                multi_output=True,
            ),
            classifier_tags=ClassifierTags(multi_class=False, multi_label=True) if classifier else None,
            input_tags=InputTags(sparse=True, categorical=True, allow_nan=True),
        )


def not_fitted(estimator: Estimator) -> Exception:
    """The error of a query before `fit`: also a `NotFittedError` if scikit-learn is in use."""
    message = (
        f"This {type(estimator).__name__} instance is not fitted yet. Call 'fit' with appropriate arguments "
        "before using this estimator."
    )
    if "sklearn" not in sys.modules:
        return NotFittedError(message)
    from sklearn.exceptions import NotFittedError as Expected

    found: Exception = type("NotFittedError", (NotFittedError, Expected), {})(message)
    return found


def convergence_warning() -> type[Warning]:
    """`ConvergenceWarning` of scikit-learn if it is in use, otherwise `UserWarning`."""
    if "sklearn" not in sys.modules:
        return UserWarning
    from sklearn.exceptions import ConvergenceWarning

    found: type[Warning] = ConvergenceWarning
    return found


def conversion_warning() -> type[Warning]:
    """`DataConversionWarning` of scikit-learn if it is in use, otherwise `UserWarning`."""
    if "sklearn" not in sys.modules:
        return UserWarning
    from sklearn.exceptions import DataConversionWarning

    found: type[Warning] = DataConversionWarning
    return found
