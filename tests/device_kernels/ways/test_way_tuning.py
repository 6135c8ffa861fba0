"""Tuning with a clock of the tests' own: what is measured, decided, kept and used."""

from __future__ import annotations

import time

import pytest
import torch

from tests.support import run_python
from torch_outboard import _C, fallback, ways
from torch_outboard.commands import tune as tune_command
from torch_outboard.tuning import tuning_file, way_savings, way_times, way_tuning
from torch_outboard.tuning.representative_calls import Call
from torch_outboard.tuning.tuning_journal import Journal
from torch_outboard.tuning.way_tuning import BESIDE


def call(overload: str, make, function) -> Call:
    def prepare(device, elements):
        x = make(elements, device=device)
        return lambda: function(x)

    return Call(overload, prepare)


ADD = call("aten::add.Tensor", torch.ones, lambda x: x + x)
SUM = call("aten::sum", torch.ones, torch.sum)
NO_KERNEL = call("aten::_linalg_det", torch.eye, torch.linalg.det)
CALLS = {"pointwise": [ADD], "reduction": [SUM], "solver": [NO_KERNEL]}
SIZES = (8, 64)
TIMES = ((2e-6, 1e-6), (8e-6, 4e-6), (1e-6, 2e-6), (1.0, 9e-6))
# Seconds of a program by the choices; the first one is best.
PROGRAM = tuple(1.0 + i for i in range(len(BESIDE)))


def program(device: torch.device):
    x = torch.ones(8, device=device)
    return lambda: x + x


class Clock:
    """Stands for the measurement: runs the work by each way and answers what a test wants.

    Args:
        answers: seconds by the ways, in their order, for one piece of work after the other.
    """

    def __init__(self, *answers: tuple[float, ...]) -> None:
        self.answers = list(answers)

    def __call__(self, run, take, names, synchronize) -> dict[str, float]:
        for name in names:
            take(name)
            if name in ways.WAYS:
                assert ways.get_way() == name
            run()
            synchronize()
        return dict(zip(names, self.answers.pop(0), strict=True))


@pytest.fixture(autouse=True)
def shared_memory(shares_memory):
    if not shares_memory:
        pytest.skip("there is nothing to tune where host and device share no memory")


def tune(device, *programs: tuple[float, ...], times=TIMES, **options) -> tuning_file.Tuning:
    options = {
        "sizes": SIZES, "calls": CALLS, "compare": Clock(*times),
        "compare_programs": Clock(*(programs or (PROGRAM,))),
        "programs": dict(zip("abcdef", [program] * max(1, len(programs)), strict=False)),
    } | options  # fmt: skip
    return way_tuning.tune(device, **options)


def by_choice(**seconds: float) -> tuple[float, ...]:
    """Of a program: 2.0 by all choices that are not named."""
    names = {"device": "device", "host": "host", "beside60": 60.0, "beside30": 30.0}
    chosen = {names[name]: value for name, value in seconds.items()}
    return tuple(chosen.get(choice, 2.0) for choice in BESIDE)


def test_every_family_is_measured_at_every_size(device, savings):
    """Nothing changes by that, and what has no device kernel is not measured."""
    savings({"sort": 7})
    before = ways.savings(device)
    with ways.way("host", device):
        tuning = tune(device)
        assert ways.get_way(device) == "host"
    assert ways.savings(device) == before
    add, total = {8: (2.0, 1.0), 64: (8.0, 4.0)}, {8: (1.0, 2.0), 64: (1e6, 9.0)}
    assert tuning.times == {
        "pointwise": add, "aten::add": add, "reduction": total, "aten::sum": total
    }  # fmt: skip
    assert tuning.beside == BESIDE[0]
    assert tuning.device == torch.get_device_module(device).get_device_properties(device).name

    chosen = tune(device, times=TIMES[2:], only=["reduction"])
    assert set(chosen.times) == {"reduction", "aten::sum"}
    with pytest.raises(ValueError, match="no family sorting; there are pointwise, reduction"):
        tune(device, only=["sorting"])


def test_the_real_clock():
    """The slower way is found, and chosen in turn with the other one."""
    taken = []

    def run():
        if taken[-1] == "slow":
            time.sleep(0.01)

    found = way_times.compare(run, taken.append, ("slow", "fast"), lambda: None)
    assert found["slow"] > 0.009 > found["fast"]
    assert taken == ["slow", "fast"] * (1 + way_times.ROUNDS)


def test_the_worst_program_decides(device):
    """A table of savings goes before a forced way that is hardly better."""
    tuning = tune(
        device,
        by_choice(device=1.0, host=2.0, beside60=1.0, beside30=1.9),
        by_choice(device=3.0, host=1.0, beside60=1.1, beside30=1.0),
    )
    assert tuning.beside == 60.0
    assert tuning.costs["60.0"] == 1.1
    assert tuning.costs["device"] == 3.0
    assert tune(device, by_choice(host=1.0, beside30=1.04)).beside == 30.0
    assert tune(device, by_choice(host=1.0, beside30=1.2)).beside == "host"


def test_programs_are_measured_by_the_ways_that_are_named(device):
    taken = []

    def compare(run, take, names, synchronize):
        for name in names:
            take(name)
            taken.append((name, ways.get_way(device), _C.way_savings(device.index)))
        return dict.fromkeys(names, 1.0)

    tuning = tune(device, compare_programs=compare)
    times = way_savings.TYPICAL | tuning.times
    for name, way, table in taken:
        assert way == (name if name in ("device", "host") else "auto")
        if way == "auto":
            beside = name if name == "typical" else float(name)
            assert table == way_savings.table(times, beside)
    assert len(taken) == len(BESIDE)


def test_a_stopped_run_is_taken_up_again(device, tmp_path):
    """Whatever it had measured is not measured again, and the same comes out."""
    journal = tmp_path / "j"
    with pytest.raises(IndexError):  # the clock stops
        tune(device, times=TIMES[:3], remember=Journal(journal, {}).remember)
    found = tune(device, times=TIMES[3:], remember=Journal(journal, {}).remember)
    whole = tune(device)
    assert (found.times, found.costs) == (whole.times, whole.costs)


def test_what_was_found_is_kept_and_used(device, savings, tmp_path, monkeypatch):
    """By this process and by the next one; a later measurement of other families adds to it."""
    monkeypatch.setenv("OUTBOARD_CACHE_DIR", str(tmp_path))
    blocks = _C.product_blocks(device.index, torch.float32)
    best = by_choice(device=1.0)
    tuning_file.keep(device.index, tune(device, best, times=TIMES[:2], only=["pointwise"]))
    tiles = tuning_file.empty(device.index)
    tiles.products = {"float32": [4, 1, 2]}
    tuning_file.keep(device.index, tiles)
    assert _C.product_blocks(device.index, torch.float32) == (4, 1, 2)
    file = tuning_file.keep(device.index, tune(device, best, times=TIMES[2:], only=["reduction"]))
    assert file == tuning_file.path(device.index)
    x = torch.ones(64, device=device)
    with fallback.report() as report:
        x + x
    assert {row.way for row in report.rows} == {"device"}
    _C.set_product_blocks(device.index, torch.float32, *blocks)
    printed = run_python(
        """
        import torch, torch_outboard
        from torch_outboard import _C, fallback, ways

        x = torch.ones(64, device=torch_outboard.device_name())
        with fallback.report() as report:
            x + x, x.sum()
        print(sorted({row.way for row in report.rows}), _C.product_blocks(0, torch.float32))
        print(ways.savings())
        """,
        OUTBOARD_CACHE_DIR=str(tmp_path),
        OUTBOARD_WAY="auto",
    ).splitlines()
    assert printed[0] == "['device'] (4, 1, 2)"
    assert {"pointwise", "aten::add", "reduction", "aten::sum"} <= set(eval(printed[1]))


def test_the_table_and_the_summary():
    tuning = tuning_file.Tuning(
        "chip", "1.2",
        times={
            "pooling": {8: (2.0, 1.0), 4096: (3.0, 2.0)}, "aten::avg_pool2d": {4096: (1.0, 2.0)}
        },
        beside=60.0, costs={"device": 2.0, "host": 1.5, "60.0": 1.02},
    )  # fmt: skip
    table = tune_command.table(tuning)
    assert [column.header for column in table.columns][1:] == ["8", "4 K"]
    assert [list(column.cells) for column in table.columns] == [
        ["pooling", "  avg_pool2d"], ["2.00", ""], ["1.50", "0.50"]
    ]  # fmt: skip
    assert "1.02 of the time by the better forced way (2.00 by device, 1.50 by host)" in (
        tune_command.summary(tuning)
    )
