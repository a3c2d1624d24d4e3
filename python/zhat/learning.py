"""Models of tables: `fit` trains a model, `score` and `impute` evaluate and complete rows.

A table is a pandas or polars frame, a mapping of names to columns, a two-dimensional array, or the path of a
file of comma-separated values (plain, `.gz` or `.zst`), which is read in one pass without loading it into
memory.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from . import _zhat
from ._arguments import integer, real, settings, text
from ._html import table as html_table
from .answer import Guarantee, stated
from .errors import InputError
from .model import FactorGraph, read
from .runtime import Progress, run


class Coded(NamedTuple):
    """A column of a table whose states are known: their names, and a code for every row; −1 is missing."""

    states: list[str]
    codes: NDArray[np.int64]


@dataclass(frozen=True)
class LogLikelihood:
    """The mean log-likelihood per row, in nats, with the guarantee that follows from that of log Z."""

    value: float
    guarantee: Guarantee
    method: str
    diagnostics: dict[str, Any]

    def __float__(self) -> float:
        """The value."""
        return self.value

    def __repr__(self) -> str:
        """The value and its guarantee."""
        value = stated(self.value, self.guarantee, self.diagnostics)
        return f"{value} nats per row; {self.guarantee} ({self.method})"


@dataclass(frozen=True)
class Fitted:
    """A fitted model and details of the fit.

    `dropped` is the number of rows left out because of missing values, and `incomplete` the number of rows
    with missing values that were not; `missing` maps each column with missing values to the number of rows
    concerned. `stationarity` is the largest component of the gradient; of a Bayesian network, the largest
    change of a probability in the last iteration.
    """

    model: FactorGraph
    log_likelihood: LogLikelihood
    rows: int
    dropped: int
    missing: dict[str, int]
    iterations: int
    converged: bool
    objective: float
    stationarity: float
    history: NDArray[np.float64]
    incomplete: int = 0

    def __repr__(self) -> str:
        """The model and its likelihood."""
        state = "converged" if self.converged else "not converged"
        dropped = f" ({self.dropped} more dropped because of missing values)" if self.dropped else ""
        if self.incomplete:
            dropped = f" ({self.incomplete} with missing values)"
        how = f"{self.rows} rows{dropped}, {self.iterations} iterations, {state}"
        return f"Fitted({self.model!r}, {self.log_likelihood!r}, {how})"

    def _repr_html_(self) -> str:
        """A small table, for notebooks."""
        rows = {"model": repr(self.model), "rows": f"{self.rows:,}"}
        if self.dropped:
            by_column = ", ".join(f"{name} {count:,}" for name, count in self.missing.items())
            noun = "row" if self.dropped == 1 else "rows"
            rows["dropped"] = f"{self.dropped:,} {noun} with missing values ({by_column})"
        if self.incomplete:
            rows["incomplete"] = f"{self.incomplete:,} of them with missing values"
        own = self.log_likelihood
        rows["log-likelihood"] = f"{stated(own.value, own.guarantee, own.diagnostics)} nats per row"
        rows["guarantee"] = str(own.guarantee)
        state = "converged" if self.converged else "not converged"
        rows["fit"] = f"{self.iterations:,} iterations, {state}; largest gradient {self.stationarity:.1e}"
        rows["method"] = own.method
        return html_table(rows)


Structure: TypeAlias = (
    "str | PathLike[str] | FactorGraph | Mapping[str, Sequence[str]] | Iterable[tuple[int | str, int | str]]"
)
"""What `fit` takes as the structure of a model."""


def fit(
    table: Any,
    structure: Structure = "chow-liu",
    *,
    method: str = "auto",
    l1: float = 0.0,
    l2: float | None = None,
    pseudo_count: float | None = None,
    equivalent_sample_size: float | None = None,
    optimizer: str = "auto",
    start: str = "forest",
    iterations: int = 1000,
    tolerance: float = 1e-6,
    checkpoint: str | PathLike[str] | None = None,
    header: bool = True,
    encoding: str = "utf-8",
    missing: str = "drop",
    ignore: Sequence[str] = (),
    most_states: int = 1000,
    seed: int = 0,
    threads: int | None = None,
    memory: int | str | None = None,
    time: float | str | None = None,
    progress: Progress | None = None,
    **options: object,
) -> Fitted:
    """Fits a Markov random field, or a Bayesian network of given structure, to a table of categories.

    `structure` defines which pairs interact: "independent", "chow-liu", "chow-liu+M" (the tree plus the M
    next pairs by mutual information), "complete" (with `l1`), or a list of pairs of columns. `method`
    computes log Z and marginals; a method that bounds log Z from below, such as "mean-field", maximises an
    upper bound on the likelihood and issues a `UserWarning`. The penalties are `l1`·‖θ‖₁ + `l2`/2·‖θ‖²; `l2`
    defaults to 1 / rows, or to 0 with `l1`.

    With a Bayesian network as `structure`, its tables are fitted: a `FactorGraph` with conditional
    probability tables, the path of a `.bif`, `.xmlbif`, `.net`, `.uai` or `.zhat` file, or a mapping of
    children to their parents, `{"wet": ["rain", "sprinkler"]}`. Columns without parents need no entry.
    `pseudo_count` is added to the count of every entry of a table (a Dirichlet prior);
    `equivalent_sample_size` is divided equally among the entries of each table (BDeu). The result can be
    written as `.bif`.

    Rows with missing values are dropped. With `missing="em"` they take part with the values that they have:
    expectation-maximisation with exact expected counts finds a stationary point of the likelihood of the
    present values, which assumes that values are missing at random. The objective never rises. With
    `missing="refuse"` such rows are an error, and with `missing="state"` a missing value is a state of its
    column, named "(missing)". In tables in memory, `None`, NaN and masked entries are missing, and states are
    named by `str(value)`, floats without a decimal point if all of a column are whole. Bytes of a file that
    are not UTF-8 are an error; `encoding="latin-1"` reads them as ISO 8859-1.

    The initial parameters are the closed form of a spanning forest, or 0 with `start="zero"`. With
    `checkpoint`, the state of the fit is written to that file, and the fit resumes from it if the file
    exists.

    >>> import zhat
    >>> table = {"rain": ["no", "no", "yes", "yes", "no"], "wet": ["no", "no", "yes", "yes", "yes"]}
    >>> fitted = zhat.fit(table)
    >>> fitted.rows, fitted.converged
    (5, True)
    >>> given = fitted.model.condition({"wet": "yes"}).marginals().value
    >>> bool(given[0][1] > 0.5)  # rain
    True
    >>> table["rain"][0] = None
    >>> network = zhat.fit(table, {"wet": ["rain"]}, missing="em", pseudo_count=1.0)
    >>> network.rows, network.incomplete, network.converged
    (5, 1, True)
    """
    how = run(seed, threads, memory, time, progress)
    source = (table, header, encoding, missing, ignore, most_states, how)
    if _is_network(structure):
        given = {
            "method": method not in ("auto", "exact"),
            "l1": l1 != 0,
            "l2": l2 is not None,
            "optimizer": optimizer not in ("auto", "em"),
            "start": start != "forest",
            "checkpoint": checkpoint is not None,
        } | dict.fromkeys(options, True)
        wrong = next((name for name, used in given.items() if used), None)
        if wrong is not None:
            raise InputError(
                f"{wrong}: is for random fields; a Bayesian network is fitted exactly, with pseudo_count"
            )
        form: dict[str, object] = {
            "pseudo_count": None if pseudo_count is None else real("pseudo_count", pseudo_count),
            "equivalent_sample_size": None
            if equivalent_sample_size is None
            else real("equivalent_sample_size", equivalent_sample_size),
            "iterations": integer("iterations", iterations),
            "tolerance": real("tolerance", tolerance),
        }
        known, network = _network(structure, source)
        return _fitted(_zhat.fit_network(known, network, json.dumps(form), how), known, known.incomplete)
    for name, value in (("pseudo_count", pseudo_count), ("equivalent_sample_size", equivalent_sample_size)):
        if value is not None:
            raise InputError(f"{name}: is for Bayesian networks; give one, or parents, as structure")
    rows = _table(*source, None) if missing in ("em", "marginal") else None
    counted = _statistics(*source) if rows is None else rows.available(how)
    penalty = (0.0 if l1 else 1.0 / counted.rows) if l2 is None else real("l2", l2)
    form = {
        "l1": real("l1", l1),
        "l2": penalty,
        "optimizer": text("optimizer", optimizer),
        "start": text("start", start),
        "iterations": integer("iterations", iterations),
        "tolerance": real("tolerance", tolerance),
    }
    edges = _edges(counted, structure)
    outcome = _zhat.fit(
        counted, rows, edges, text("method", method), settings(options), json.dumps(form), checkpoint, how
    )
    fitted = _fitted(outcome, counted, 0 if rows is None else rows.incomplete)
    if "warning" in fitted.log_likelihood.diagnostics:
        warnings.warn(fitted.log_likelihood.diagnostics["warning"], UserWarning, stacklevel=2)
    return fitted


def _fitted(
    outcome: tuple[_zhat.Model, tuple[float, str, str, str, str], int, bool, float, float, list[float]],
    counted: _zhat.Statistics | _zhat.Table,
    incomplete: int,
) -> Fitted:
    native, told, steps, converged, objective, stationarity, history = outcome
    likelihood = _told(told)
    return Fitted(
        FactorGraph._wrap(native),
        likelihood,
        counted.rows,
        counted.dropped,
        dict(counted.lacking()),
        steps,
        converged,
        objective,
        stationarity,
        np.array(history),
        incomplete,
    )


def score(
    model: FactorGraph,
    table: Any,
    *,
    method: str = "auto",
    header: bool = True,
    encoding: str = "utf-8",
    missing: str = "drop",
    seed: int = 0,
    threads: int | None = None,
    memory: int | str | None = None,
    time: float | str | None = None,
    progress: Progress | None = None,
    **options: object,
) -> tuple[NDArray[np.float64], LogLikelihood]:
    """The log-likelihood of every row, NaN if a value is missing, and the mean with its guarantee.

    `table`, `header`, `encoding` and `missing` are as in `fit`. With `missing="em"` or `"marginal"`, the
    log-likelihood of a row is that of the values it has, summed exactly over the others; it is NaN for a row
    without any value.

    >>> import zhat
    >>> model = zhat.fit({"a": [0, 0, 1], "b": [0, 1, 1]}).model
    >>> rows, mean = zhat.score(model, {"a": [0, 1], "b": [0, None]})
    >>> rows.shape, bool(abs(mean.value - rows[0]) < 1e-12)
    ((2,), True)
    """
    how = run(seed, threads, memory, time, progress)
    codes = _codes_for(model, table, header, encoding, missing, how)
    rows, told = _zhat.score_rows(
        model._native, codes, missing, text("method", method), settings(options), how
    )
    return rows, _told(told)


def impute(
    model: FactorGraph,
    table: Any,
    *,
    method: str = "auto",
    header: bool = True,
    encoding: str = "utf-8",
    seed: int = 0,
    threads: int | None = None,
    memory: int | str | None = None,
    time: float | str | None = None,
    progress: Progress | None = None,
    **options: object,
) -> Any:
    """The table with every missing value replaced by the most probable one given its row.

    `table`, `header` and `encoding` are as in `fit`. A pandas or polars frame gives such a frame, with its
    other columns unchanged; any other table gives a dict of columns.

    >>> import zhat
    >>> model = zhat.fit({"a": ["x", "x", "y"], "b": ["u", "u", "v"]}).model
    >>> zhat.impute(model, {"a": ["x", None], "b": [None, "v"]})
    {'a': ['x', 'y'], 'b': ['u', 'v']}
    """
    how = run(seed, threads, memory, time, progress)
    codes = _codes_for(model, table, header, encoding, "drop", how)
    filled = _zhat.impute_rows(model._native, codes, text("method", method), settings(options), how)
    names, states = _names(model)
    columns = {
        name: [own[code] for code in column] for name, own, column in zip(names, states, filled, strict=True)
    }
    module = type(table).__module__.partition(".")[0]
    if module == "pandas":
        return table.assign(**{name: _completed(table, name, values) for name, values in columns.items()})
    if module == "polars":
        import polars

        return table.with_columns(
            polars.Series(name, _completed(table, name, values)) for name, values in columns.items()
        )
    return columns


def _completed(table: Any, name: str, states: list[str]) -> list[Any]:
    """A column of a frame with its missing values replaced; known values keep their type."""
    if name not in table.columns:
        return states
    values = list(table[name])
    distinct = list(dict.fromkeys(value for value in values if not _is_missing(value)))
    known = dict(zip(_state_names(distinct), distinct, strict=True))
    return [
        known.get(state, state) if _is_missing(value) else value
        for value, state in zip(values, states, strict=True)
    ]


def _told(told: tuple[float, str, str, str, str]) -> LogLikelihood:
    value, guarantee, words, method, diagnostics = told
    return LogLikelihood(
        value, Guarantee(words=words, **json.loads(guarantee)), method, json.loads(diagnostics)
    )


_Source: TypeAlias = tuple[Any, bool, str, str, Sequence[str], int, _zhat.Run]
"""A table, whether it has a header, its encoding, the treatment of missing values, columns to ignore, the
maximum number of states, and the run."""

_MODEL_FILES = (".bif", ".xmlbif", ".bifxml", ".xml", ".net", ".uai", ".zhat")


def _is_network(structure: Structure) -> bool:
    """Whether a structure is that of a Bayesian network."""
    if isinstance(structure, str):
        return structure.removesuffix(".gz").removesuffix(".zst").endswith(_MODEL_FILES)
    return isinstance(structure, (FactorGraph, Mapping, PathLike))


def _network(structure: Any, source: _Source) -> tuple[_zhat.Table, _zhat.Model]:
    """The rows and the network of a structure."""
    if isinstance(structure, Mapping):
        rows = _table(*source, None)
        parents = []
        for child, own in structure.items():
            if isinstance(own, str) or not isinstance(own, Iterable):
                raise InputError(f"structure: expected a list of parents of {child!r}, found {own!r}")
            parents.append((text("structure", child), [text("structure", parent) for parent in own]))
        return rows, rows.network(parents)
    model = structure
    if not isinstance(model, FactorGraph):
        model = read(structure)
        if not isinstance(model, FactorGraph):
            raise InputError(f"structure: expected a Bayesian network, found a {type(model).__name__}")
    return _table(*source, model), model._native


def _table(
    table: Any,
    header: bool,
    encoding: str,
    missing: str,
    ignore: Sequence[str],
    most_states: int,
    how: _zhat.Run,
    structure: FactorGraph | None,
) -> _zhat.Table:
    """The distinct rows of a table; with `structure`, of its variables."""
    _check_missing(missing)
    native = None if structure is None else structure._native
    if isinstance(table, (str, PathLike)):
        format = (bool(header), text("encoding", encoding), missing)
        left_out = [text("ignore", name) for name in ignore]
        return _zhat.Table.read(table, format, left_out, integer("most_states", most_states), native, how)
    if structure is not None:
        left_out = [text("ignore", name) for name in ignore]
        given = {name: column for name, column in _columns(table) if name not in left_out}
        codes = _codes_for(structure, given, header, encoding, missing, how)
        return _zhat.Table.of_codes([], [], codes, missing, native, how)
    names, states, codes = _factorized_columns(table, missing, ignore, most_states)
    return _zhat.Table.of_codes(names, states, codes, missing, None, how)


def _statistics(
    table: Any,
    header: bool,
    encoding: str,
    missing: str,
    ignore: Sequence[str],
    most_states: int,
    how: _zhat.Run,
) -> _zhat.Statistics:
    _check_missing(missing)
    if isinstance(table, (str, PathLike)):
        left_out = [text("ignore", name) for name in ignore]
        return _zhat.Statistics.read(
            table,
            (bool(header), text("encoding", encoding), missing),
            left_out,
            integer("most_states", most_states),
            how,
        )
    return _zhat.Statistics.of_codes(*_factorized_columns(table, missing, ignore, most_states), how)


def _factorized_columns(
    table: Any, missing: str, ignore: Sequence[str], most_states: int
) -> tuple[list[str], list[list[str]], list[NDArray[np.int64]]]:
    """The names, the states and the codes of the columns of a table in memory; −1 is a missing value."""
    left_out = [text("ignore", name) for name in ignore]
    most = integer("most_states", most_states)
    names, states, codes = [], [], []
    for name, column in _columns(table):
        if name in left_out:
            continue
        own, code = _factorized(column)
        if len(own) > most:
            raise InputError(f"column {name} has {len(own)} different values, more than most_states = {most}")
        if missing == "refuse" and (code < 0).any():
            row = int(np.argmax(code < 0))
            raise InputError(f"row {row}: column {name} has no value")
        if missing == "state" and (code < 0).any():
            own, code = _with_state(own, code)
        names.append(name)
        states.append(own)
        codes.append(code)
    return names, states, codes


def _check_missing(missing: str) -> None:
    if missing not in ("drop", "em", "marginal", "refuse", "state"):
        raise InputError(
            f'missing: expected "drop", "em", "marginal", "refuse" or "state", found {missing!r}'
        )


MISSING_STATE = "(missing)"
"""The state of a missing value with `missing="state"`."""


def _with_state(own: list[str], code: NDArray[np.int64]) -> tuple[list[str], NDArray[np.int64]]:
    """Turns missing values into a state."""
    states = own if MISSING_STATE in own else [*own, MISSING_STATE]
    return states, np.where(code < 0, states.index(MISSING_STATE), code)


def _is_missing(value: Any) -> bool:
    if value is None or value is np.ma.masked or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, (float, np.floating, np.datetime64)) and bool(value != value)


def _columns(table: Any) -> list[tuple[str, Any]]:
    if isinstance(table, Mapping):
        return [(str(name), column) for name, column in table.items()]
    if hasattr(table, "columns") and hasattr(table, "__getitem__"):
        return [(str(name), table[name]) for name in table.columns]
    if isinstance(table, np.ndarray) and table.ndim == 2:
        return [(f"x{i}", column) for i, column in enumerate(table.T)]
    found = f"an array of shape {table.shape}" if isinstance(table, np.ndarray) else type(table).__name__
    raise InputError(f"table: expected a frame, a mapping, a two-dimensional array or a path, found {found}")


def _state_names(values: Iterable[Any]) -> list[str]:
    """The names of states. Whole numbers are named as such: a frame turns integers with gaps into floats."""
    known = list(values)
    if all(isinstance(value, (float, np.floating)) and float(value).is_integer() for value in known):
        return [str(int(value)) for value in known]
    return [str(value) for value in known]


def _factorized(column: Any) -> tuple[list[str], NDArray[np.int64]]:
    """The names of the states and a code for every row; −1 is a missing value."""
    if isinstance(column, Coded):
        return column
    module = type(column).__module__.partition(".")[0]
    if module == "pandas":
        import pandas

        codes, values = pandas.factorize(column, use_na_sentinel=True)
        return _state_names(values), np.ascontiguousarray(codes, dtype=np.int64)
    if module == "polars":
        return _factorized_series(column)
    values = list(column)
    known: dict[Any, int] = {}
    codes = np.empty(len(values), dtype=np.int64)
    for row, value in enumerate(values):
        codes[row] = -1 if _is_missing(value) else known.setdefault(value, len(known))
    return _state_names(known), codes


def _factorized_series(column: Any) -> tuple[list[str], NDArray[np.int64]]:
    """The same for a polars series, without a loop over its rows."""
    import polars

    if column.dtype.is_float():
        column = column.fill_nan(None)
    values = column.drop_nulls().unique(maintain_order=True)
    if values.is_empty():
        return [], np.full(len(column), -1, dtype=np.int64)
    codes = polars.Series(range(len(values)), dtype=polars.Int64)
    own = column.replace_strict(values, codes, default=-1, return_dtype=polars.Int64)
    return _state_names(values.to_list()), np.ascontiguousarray(own.to_numpy())


def _edges(counted: _zhat.Statistics, structure: Any) -> list[tuple[int, int]]:
    if isinstance(structure, str):
        rule, _, more = structure.partition("+")
        known = rule in ("independent", "chow-liu", "complete")
        if not known or (more and (rule != "chow-liu" or not more.isdigit())):
            raise InputError(
                'structure: expected "independent", "chow-liu", "chow-liu+M", "complete", pairs, or a '
                "Bayesian network as a model, a .bif file or a mapping of children to parents, "
                f"found {structure!r}"
            )
        return counted.edges(rule, int(more or 0), [])
    names = [name for name, _ in counted.columns()]

    def number(column: int | str) -> int:
        if isinstance(column, str):
            if column not in names:
                raise InputError(f"structure: there is no column {column!r}")
            return names.index(column)
        return integer("structure", column)

    return counted.edges("given", 0, [(number(a), number(b)) for a, b in structure])


def _names(model: FactorGraph) -> tuple[list[str], list[list[str]]]:
    if not isinstance(model, FactorGraph):
        raise InputError(f"model: expected a zhat.FactorGraph, found {type(model).__name__}")
    sizes = model.cardinalities
    names = model.names or tuple(f"x{v}" for v in range(len(sizes)))
    states = model.state_names or ((),) * len(sizes)
    own = [list(given) or [str(s) for s in range(size)] for given, size in zip(states, sizes, strict=True)]
    return list(names), own


def _codes_for(
    model: FactorGraph, table: Any, header: bool, encoding: str, missing: str, how: _zhat.Run
) -> list[NDArray[np.int64]]:
    _check_missing(missing)
    names, states = _names(model)
    if isinstance(table, (str, PathLike)):
        return _zhat.read_codes(model._native, table, bool(header), text("encoding", encoding), missing, how)
    given = dict(_columns(table))
    if not set(given) & set(names):
        raise InputError(f"table: none of the model's columns is in the table: {', '.join(names)}")
    factorized = {name: _factorized(given[name]) for name in names if name in given}
    rows = len(next(iter(factorized.values()))[1])
    codes = []
    for name, own in zip(names, states, strict=True):
        if name not in factorized:
            codes.append(np.full(rows, -1, dtype=np.int64))
            continue
        values, column = factorized[name]
        if missing == "refuse" and (column < 0).any():
            raise InputError(f"row {int(np.argmax(column < 0))}: column {name} has no value")
        if missing == "state" and (column < 0).any():
            values, column = _with_state(values, column)
        place = {state: code for code, state in enumerate(own)}
        unknown = next((value for value in values if value not in place), None)
        if unknown is not None:
            row = int(np.argmax(column == values.index(unknown)))
            raise InputError(f"row {row}: the model does not know the value {unknown!r} of column {name}")
        translation = np.array([place[value] for value in values] + [-1], dtype=np.int64)
        codes.append(np.ascontiguousarray(translation[column]))
    return codes
