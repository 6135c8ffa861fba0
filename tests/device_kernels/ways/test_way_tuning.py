"""Tuning with a clock of the tests' own: what is measured, decided, kept and used."""

from __future__ import annotations

import pytest
import torch

from tests.device_kernels.clock import ADD, SUM, Clock
from tests.support import run_python
from torch_outboard import _C, fallback, ways
from torch_outboard.commands import tune as tune_command
from torch_outboard.tuning import tuning_file, way_savings, way_tuning
from torch_outboard.tuning.representative_programs import PROGRAMS, perceptron
from torch_outboard.tuning.tuning_journal import Journal
from torch_outboard.tuning.way_tuning import BESIDE

CALLS = {"pointwise": [ADD], "reduction": [SUM]}
SIZES = (8, 64)
TIMES = ((2e-6, 1e-6), (8e-6, 4e-6), (1e-6, 2e-6), (5e-6, 9e-6))
# Seconds of a program by the choices; the first one is best.
PROGRAM = tuple(1.0 + i for i in range(len(BESIDE)))


@pytest.fixture(autouse=True)
def shared_memory(shares_memory):
    if not shares_memory:
        pytest.skip("there is nothing to tune where host and device share no memory")


def tune(device, *programs: tuple[float, ...], times=TIMES, **options) -> tuning_file.Tuning:
    options = {
        "sizes": SIZES, "calls": CALLS, "compare": Clock(*times),
        "compare_programs": Clock(*(programs or (PROGRAM,))),
        "programs": dict(zip("abcdef", [perceptron] * max(1, len(programs)), strict=False)),
    } | options  # fmt: skip
    return way_tuning.tune(device, **options)


def by_choice(**seconds: float) -> tuple[float, ...]:
    """Of a program: 2.0 by all choices that are not named."""
    names = {"device": "device", "host": "host", "beside60": 60.0, "beside30": 30.0}
    chosen = {names[name]: value for name, value in seconds.items()}
    return tuple(chosen.get(choice, 2.0) for choice in BESIDE)


def test_every_family_is_measured_at_every_size(device):
    tuning = tune(device)
    add, total = {8: (2.0, 1.0), 64: (8.0, 4.0)}, {8: (1.0, 2.0), 64: (5.0, 9.0)}
    assert tuning.times == {
        "pointwise": add, "aten::add": add, "reduction": total, "aten::sum": total
    }  # fmt: skip
    assert tuning.beside == BESIDE[0]
    assert tuning.device == torch.get_device_module(device).get_device_properties(device).name


def test_the_worst_program_decides(device):
    """Each forced way is bad for one of them; a table is good for both."""
    tuning = tune(
        device,
        by_choice(device=1.0, host=2.0, beside60=1.0, beside30=1.9),
        by_choice(device=3.0, host=1.0, beside60=1.1, beside30=1.0),
    )
    assert tuning.beside == 60.0
    assert tuning.costs["60.0"] == 1.1
    assert tuning.costs["device"] == 3.0


def test_a_side_wins_where_it_is_best_for_all(device):
    tuning = tune(device, by_choice(host=1.0), by_choice(host=1.0))
    assert tuning.beside == "host"


def test_weighing_goes_before_a_side_that_is_hardly_better(device):
    """Other programs than these may be better on the other side."""
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
    again = tune(device, (), times=(), remember=Journal(journal, {}).remember)
    assert (again.times, again.beside) == (whole.times, whole.beside)


def test_tuning_changes_nothing_by_itself(device, savings):
    savings({"sort": 7})
    before = ways.savings(device)
    with ways.way("host", device):
        tune(device)
        assert ways.get_way(device) == "host"
    assert ways.savings(device) == before


def test_chosen_families(device):
    tuning = tune(device, times=TIMES[2:], only=["reduction"])
    assert set(tuning.times) == {"reduction", "aten::sum"}
    with pytest.raises(ValueError, match="no family sorting; there are pointwise, reduction"):
        tune(device, only=["sorting"])


def test_what_was_found_is_kept_and_used(device, savings, tmp_path, monkeypatch):
    monkeypatch.setenv("OUTBOARD_CACHE_DIR", str(tmp_path))
    best = by_choice(device=1.0)
    tuning_file.keep(device.index, tune(device, best, times=TIMES[:2], only=["pointwise"]))
    file = tuning_file.keep(device.index, tune(device, best, times=TIMES[2:], only=["reduction"]))
    assert file == tuning_file.path(device.index)
    x = torch.ones(64, device=device)
    with fallback.report() as report:
        x + x
    assert {row.way for row in report.rows} == {"device"}
    # The next process reads the file at its first use.
    printed = run_python(
        """
        import torch, torch_outboard
        from torch_outboard import fallback, ways

        x = torch.ones(64, device=torch_outboard.device_name())
        with fallback.report() as report:
            x + x, x.sum()
        print(sorted({row.way for row in report.rows}))
        print(ways.savings())
        """,
        OUTBOARD_CACHE_DIR=str(tmp_path),
        OUTBOARD_WAY="auto",
    ).splitlines()
    assert printed[0] == "['device']"
    assert {"pointwise", "aten::add", "reduction", "aten::sum"} <= set(eval(printed[1]))


def test_the_real_clock_of_programs(device, monkeypatch):
    monkeypatch.setattr(way_tuning, "PROGRAM_SECONDS", 0.001)
    run = PROGRAMS["perceptron, inference"](device)
    synchronize = torch.get_device_module(device).synchronize
    taken = []
    found = way_tuning.compare_programs(run, taken.append, ("a", "b"), synchronize)
    assert set(found) == {"a", "b"}
    assert min(found.values()) > 0
    assert taken == ["a", "b"] * (1 + way_tuning.PROGRAM_ROUNDS)


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


@pytest.mark.parametrize(
    ("elements", "expected"), [(512, "512"), (1024, "1 K"), (1 << 17, "128 K"), (5 << 19, "2.5 M")]
)
def test_short_sizes(elements, expected):
    assert tune_command.in_thousands(elements) == expected
