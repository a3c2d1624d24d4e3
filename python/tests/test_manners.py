"""Conveniences: evidence in queries, numbers, printing, progress, interrupts, frames, files."""

from __future__ import annotations

import _thread
import gzip
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zhat

NETWORK = zhat.FactorGraph(
    [2, 2],
    [((0,), [0.8, 0.2]), ((0, 1), [[0.9, 0.1], [0.2, 0.8]])],
    log=False,
    names=["rain", "wet"],
    state_names=[["no", "yes"], ["no", "yes"]],
)
GIVEN = {"wet": "yes"}


def test_every_query_takes_evidence() -> None:
    posterior = 0.16 / 0.24
    assert np.isclose(np.exp(NETWORK.log_partition(given=GIVEN)), 0.24)
    assert np.isclose(NETWORK.marginals(given=GIVEN).value[0][1], posterior)
    assert np.isclose(zhat.marginals(NETWORK, ["rain"], given=GIVEN).value.by_name()["rain"][1], posterior)
    assert NETWORK.map(given=GIVEN).value.by_name() == {"rain": "yes", "wet": "yes"}
    assert [best.state.tolist() for best in NETWORK.k_best(5, given=GIVEN).value] == [[1, 1], [0, 1]]
    assert (NETWORK.sample(50, given=GIVEN).value.states[:, 1] == 1).all()
    assert np.isclose(NETWORK.entropy(given=GIVEN), NETWORK.condition(GIVEN).entropy().value)
    scopes = NETWORK.factor_marginals(given=GIVEN).value.scopes
    assert scopes == NETWORK.condition(GIVEN).factor_marginals().value.scopes
    chain = zhat.generate.chain(3, 4)
    assert chain.map(given={2: 1}).value.states[2] == 1
    orders = zhat.SpaceModel.permutations(kendall=range(4), spread=0.0)
    assert np.isclose(np.exp(orders.log_partition(given="before 3 0")), 12)
    mixed = zhat.generate.gaussian_mixture()
    with pytest.raises(zhat.InputError, match="cannot be conditioned"):
        mixed.log_partition(given={0: 0})


def test_unknown_names_are_refused_with_a_suggestion() -> None:
    with pytest.raises(TypeError, match="did you mean `samples`"):
        NETWORK.log_partition(method="importance", sampels=10)
    with pytest.raises(zhat.UnknownOptionError, match="no method for log_partition"):
        NETWORK.log_partition(count=3)
    with pytest.raises(zhat.InputError, match="did you mean `rain`"):
        NETWORK.marginals(["rian"])
    with pytest.raises(zhat.InputError, match="there is no variable 7"):
        NETWORK.marginals([7])
    with pytest.raises(zhat.InputError, match="expected a list"):
        NETWORK.marginals("rain")
    with pytest.raises(zhat.InputError, match="no state `si`"):
        NETWORK.marginals(given={"wet": "si"})
    with pytest.raises(zhat.InputError, match="expected a whole number from 1 to"):
        NETWORK.log_partition(method="importance", samples="abc")
    with pytest.raises(zhat.InputError, match="no named variables"):
        zhat.generate.chain(3, 4).marginals([0])


def test_answers_behave_like_their_numbers() -> None:
    z = zhat.FactorGraph([2, 2]).log_partition()
    assert f"{z:.3f}" == "1.386"
    assert f"{z}".startswith("log_partition: 1.386")
    assert np.isclose(np.exp(z), 4)
    assert z + 1 == 1 + z == z.value + 1
    assert z - 1 == -(1 - z) == z.value - 1
    assert 2 * z == z * 2 == z.value + z.value == z + z
    assert z / 2 == z.value / 2
    assert 1 / z == 1 / z.value
    assert 1 < z < 2
    batch = zhat.generate.chain(3, 4, 2).log_partition()
    np.testing.assert_allclose(batch - np.log(3), batch.value - np.log(3))
    with pytest.raises(TypeError, match="not a number"):
        NETWORK.map() + 1


def test_marginals_print_their_probabilities() -> None:
    answer = NETWORK.marginals(["wet"])
    assert str(answer.value) == "wet: no 0.760000, yes 0.240000"
    assert str(answer).splitlines()[0] == "wet: no 0.760000, yes 0.240000"
    assert "0.760000" in answer._repr_html_()
    assert "exact" in answer._repr_html_()
    unnamed = zhat.generate.tree(variables=30, states=10).marginals()
    assert len(str(unnamed.value).splitlines()) == 21
    assert "and 2 more" in str(unnamed.value)
    assert list(unnamed.value.by_name())[:2] == ["x0", "x1"]


def test_progress_is_a_line_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    zhat.generate.ising(12, 12).log_partition(method="importance", samples=1 << 18, progress=True)
    shown = capsys.readouterr().err
    assert "%" in shown
    assert shown.endswith("\r")
    assert NETWORK.log_partition(progress=False).guarantee.kind == "exact"


def test_an_interrupt_can_return_the_result_so_far() -> None:
    grid = zhat.generate.ising(10, 10)

    def ask(partial: bool) -> Any:
        timer = threading.Timer(0.3, _thread.interrupt_main)
        timer.start()
        return grid.log_partition(method="importance", samples=10**12, partial=partial)

    answer = ask(partial=True)
    assert answer.diagnostics["stopped_early"]
    assert answer.guarantee.kind == "unbiased"
    with pytest.raises(KeyboardInterrupt):
        ask(partial=False)


def test_tables_come_back_as_what_they_were() -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    model = zhat.fit({"a": [1, 1, 2, 2], "b": ["u", "u", "v", "v"]}).model
    table = {"a": [1, None, 2], "b": [None, "v", "v"], "c": [0.5, 1.5, 2.5]}
    frame = zhat.impute(model, pandas.DataFrame(table))
    assert isinstance(frame, pandas.DataFrame)
    assert frame["b"].tolist() == ["u", "v", "v"]
    assert frame["a"].tolist() == [1, 2, 2]
    assert frame["c"].tolist() == table["c"]
    series = zhat.impute(model, polars.DataFrame(table))
    assert isinstance(series, polars.DataFrame)
    assert series.to_dict(as_series=False) == {"a": [1, 2, 2], "b": ["u", "v", "v"], "c": table["c"]}


def test_arrays_are_tables_and_dropped_rows_are_mentioned() -> None:
    fitted = zhat.fit(np.array([[0, 0], [0, 1], [1, 1]]))
    assert fitted.model.names == ("x0", "x1")
    assert "dropped" not in repr(fitted)
    assert "(1 more dropped" in repr(zhat.fit({"a": [0, 1, None], "b": [0, 1, 1]}))
    with pytest.raises(zhat.InputError, match=r"array of shape \(3,\)"):
        zhat.fit(np.zeros(3))


def test_read_reads_every_kind_also_compressed(tmp_path: Path) -> None:
    for name in ("net.uai", "net.zhat"):
        NETWORK.save(tmp_path / name)
        packed = tmp_path / f"{name}.gz"
        packed.write_bytes(gzip.compress((tmp_path / name).read_bytes()))
        assert zhat.read(packed).log_partition().value == zhat.read(tmp_path / name).log_partition().value
    model = zhat.LanguageModel.train([["a", "b", "a"], ["b", "a"]], context=1, iterations=3)
    model.save(tmp_path / "language.zhat")
    assert zhat.read(tmp_path / "language.zhat") == model


def test_only_public_names_are_listed() -> None:
    assert dir(zhat) == sorted(zhat.__all__)
    assert all(hasattr(zhat, name) for name in dir(zhat))
