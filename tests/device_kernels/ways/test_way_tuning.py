"""Tuning with a clock of the tests' own: what is measured, decided, kept and used."""

from __future__ import annotations

import pytest
import torch

from tests.device_kernels.clock import ADD, SUM, Clock, call
from tests.device_kernels.conftest import ways_of
from tests.support import run_python
from torch_outboard import _C, fallback, ways
from torch_outboard.commands import tune as tune_command
from torch_outboard.tuning import tuning_file, way_tuning
from torch_outboard.tuning.representative_calls import COPY
from torch_outboard.tuning.representative_steps import perceptron
from torch_outboard.tuning.tuning_journal import Journal
from torch_outboard.tuning.way_ratios import REPEATS

NLL = call(
    "aten::nll_loss_forward",
    lambda elements, device: torch.zeros(elements, 1, device=device),
    lambda x: torch.nn.functional.nll_loss(x, torch.zeros_like(x[:, 0], dtype=torch.int64)),
)
SORT = call("aten::sort.stable", torch.ones, torch.sort)
# No device kernel.
DET = call("aten::_linalg_det", torch.eye, torch.linalg.det)
CALLS = {"pointwise": [ADD], "reduction": [SUM], "solver": [DET]}
SIZES = (8, 64)
STEPS = {"perceptron": perceptron}
SMALL, LARGE = [(0, 22)], [(22, None)]


@pytest.fixture(autouse=True)
def shared_memory(shares_memory):
    if not shares_memory:
        pytest.skip("there is nothing to tune where host and device share no memory")


def judged(*ratios: float) -> list[float]:
    """What a clock answers so that pieces of work are judged to take such ratios."""
    times = {ratio: way_tuning.CONFIRMATIONS if ratio > 1 else 1 for ratio in ratios}
    return [ratio for ratio in ratios for _ in range(times[ratio] * REPEATS)]


def tune(device, clock: Clock, **options) -> way_tuning.Tuning:
    options = {"sizes": SIZES, "calls": CALLS, "steps": STEPS} | options
    return way_tuning.tune(device, compare=clock, **options)


def test_every_family_is_measured_at_every_size(device):
    clock = Clock(2.0, 0.5, 0.4, 3.0)
    tuning = tune(device, clock)
    add, total = {"8": 2.0, "64": 0.5}, {"8": 0.4, "64": 3.0}
    # What no device kernel takes is not measured and follows the default.
    assert tuning.ratios == {
        "pointwise": add, "aten::add": add, "reduction": total, "aten::sum": total
    }  # fmt: skip
    assert tuning.ranges == {
        "pointwise": LARGE, "aten::add": LARGE, "reduction": SMALL, "aten::sum": SMALL
    }  # fmt: skip
    # The size that stays on the host of each family and operator, and the training step.
    assert clock.compared == 4 + 5 * REPEATS
    assert tuning.device == torch.get_device_module(device).get_device_properties(device).name


def test_a_slower_training_step_closes_the_device_way(device):
    questions = [1.0] * 4 * REPEATS
    tuning = tune(device, Clock(2.0, 0.5, 3.0, 0.4, *questions, training=1.2))
    # The step reaches neither an addition nor another reduction than sums.
    assert tuning.ranges == {
        "pointwise": [],
        "aten::add": LARGE,
        "reduction": LARGE,
        "aten::sum": [],
    }
    assert tuning.ratios["pointwise"] == {"8": 2.0, "64": 0.5}


def test_host_calls_that_do_not_bear_the_question_close_the_device_way(device):
    tuning = tune(device, Clock(2.0, 0.5, 0.4, 3.0, *judged(1.3, 1.0, 1.3, 1.0)))
    assert tuning.ranges == {
        "pointwise": [], "aten::add": LARGE, "reduction": [], "aten::sum": SMALL
    }  # fmt: skip


def test_a_loss_has_to_be_confirmed(device):
    """Something else ran on the machine, during a question and during the training step."""
    once = [1.5] * REPEATS
    clock = Clock(2.0, 0.5, 0.4, 3.0, *once, *judged(1.0, 1.0, 1.0, 1.0), *once)
    assert tune(device, clock).ranges == {
        "pointwise": LARGE, "aten::add": LARGE, "reduction": SMALL, "aten::sum": SMALL
    }  # fmt: skip
    assert not clock.ratios


def test_only_what_slows_training_down_is_closed(device):
    """Together too slow, and so is the first one; the second one is fine."""
    clock = Clock(2.0, 0.5, 3.0, 0.4, *judged(1.0, 1.0, 1.0, 1.0, 1.2, 1.1, 0.9))
    assert tune(device, clock).ranges == {
        "pointwise": [], "aten::add": LARGE, "reduction": LARGE, "aten::sum": LARGE
    }  # fmt: skip
    assert not clock.ratios


def test_a_range_is_narrowed_before_it_is_closed(device):
    """The first one passes from the second size on; the second one does not go with it."""
    ratios = (0.5, 0.5, 2.0, 0.5)
    clock = Clock(*ratios, *judged(1.0, 1.0, 1.2, 1.1, 0.9, 1.3))
    assert tune(device, clock).ranges == {
        "pointwise": LARGE, "aten::add": [(0, None)], "reduction": LARGE, "aten::sum": []
    }  # fmt: skip
    assert not clock.ratios


def test_every_training_step_has_to_bear_it(device):
    """Those that do nothing on the device are not asked; one that becomes slower is enough."""
    asked = []

    def step_of(name, function):
        def prepare(device):
            x = torch.ones(100, device=device)

            def run():
                asked.append(name)
                function(x)

            return run

        return prepare

    steps = {
        "sums": step_of("sums", torch.sum),
        "sines": step_of("sines", torch.sin),
        "totals": step_of("totals", lambda x: x.sum(0)),
    }
    clock = Clock(0.5, 0.5, *judged(1.0, 1.2, 1.0, 1.2, 1.0, 1.2))
    tuning = tune(device, clock, calls={"reduction": [SUM]}, steps=steps)
    assert tuning.ranges == {"reduction": [(0, None)], "aten::sum": []}
    assert not clock.ratios
    # Sines only to see that none of them runs on the device.
    assert asked.count("sines") < asked.count("sums")


def test_a_training_step_judges_what_it_does_on_the_device(device):
    """It sorts nothing, and adds up more elements at a time."""
    calls = {"pointwise": [ADD], "reduction": [SUM], "sorting": [SORT]}
    clock = Clock(0.5, 0.5, 0.4, 3.0, 0.5, 0.5, *judged(1.0, 1.0, 1.2, 1.2, 1.2))
    assert tune(device, clock, calls=calls).ranges == {
        "pointwise": [], "aten::add": [(0, None)], "reduction": SMALL, "aten::sum": SMALL,
        "sorting": [(0, None)], "aten::sort": [(0, None)],
    }  # fmt: skip
    assert not clock.ratios


def test_a_range_that_the_training_step_does_not_reach_is_kept(device):
    """From the first size on it slows the step down; from the second one on it does nothing."""
    sizes = (8, 1 << 20)
    clock = Clock(0.5, 0.5, *judged(1.2, 1.2, 1.2))
    tuning = tune(device, clock, sizes=sizes, calls={"loss": [NLL]})
    assert tuning.ranges == {"loss": [(2896, None)], "aten::nll_loss_forward": [(2896, None)]}
    assert not clock.ratios


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([(22, None)], [[(22, None)], [(181, None)]]),
        ([(0, 22)], [[(0, 22)]]),
        ([(0, 40), (50, None)], [[(0, 40), (50, None)], [(22, 40), (50, None)], [(181, None)]]),
    ],
)
def test_narrower_ranges(found, expected):
    assert list(way_tuning.narrower(found, (8, 64, 512))) == expected


def test_without_an_open_family_no_training_step_is_needed(device):
    clock = Clock(2.0, 2.0, 2.0, 2.0)
    assert list(tune(device, clock).ranges.values()) == [[]] * 4
    assert clock.compared == 4


def test_a_stopped_run_is_taken_up_again(device, tmp_path):
    """Whatever it had measured is not measured again, and the same comes out."""
    answers = (2.0, 0.5, 0.4, 3.0)

    class Stopped(Exception):
        pass

    class StoppedClock(Clock):
        def __call__(self, *arguments):
            if self.compared == 3:
                raise Stopped
            return super().__call__(*arguments)

    with pytest.raises(Stopped):
        tune(device, StoppedClock(*answers), remember=Journal(tmp_path / "j", {}).remember)
    rest = Clock(*answers[3:])
    found = tune(device, rest, remember=Journal(tmp_path / "j", {}).remember)
    assert (found.ranges, found.ratios) == (
        (whole := tune(device, Clock(*answers))).ranges, whole.ratios
    )  # fmt: skip
    assert rest.compared == 1 + 5 * REPEATS
    again = Clock()
    tune(device, again, remember=Journal(tmp_path / "j", {}).remember)
    assert again.compared == 0


def test_tuning_changes_nothing_by_itself(device, ranges):
    ranges({"sort": [(7, None)]})
    with ways.way("host", device):
        tune(device, Clock(0.5, 0.5, 0.5, 0.5))
        assert ways.get_way(device) == "host"
    assert ways.ranges(device) == {"sort": [(7, None)]}


def test_chosen_families(device):
    tuning = tune(device, Clock(2.0, 2.0), only=["reduction"])
    assert tuning.ranges == {"reduction": [], "aten::sum": []}
    with pytest.raises(ValueError, match="no family sorting; there are pointwise, reduction"):
        tune(device, Clock(), only=["sorting"])


def test_an_operator_goes_before_its_family(device):
    """One is better by the device, the other one is not: each gets its own way."""
    call_of_mul = call("aten::mul.Tensor", torch.ones, lambda x: x * x)
    clock = Clock(0.5, 3.0, 0.5, 3.0)
    tuning = tune(device, clock, calls={"pointwise": [ADD, call_of_mul]})
    assert tuning.ranges == {"pointwise": [], "aten::add": [(0, None)], "aten::mul": []}


def test_auto_is_compared_with_the_host_alone(device, ranges):
    ranges({"sort": [(7, None)]})
    step = perceptron(device)
    chosen = {"pointwise": [(0, None)]}
    assert way_tuning.auto_ratio(chosen, step, device, Clock(0.9, 0.7, 0.2)) == 0.7
    assert ways.ranges(device) == {"sort": [(7, None)]}


def test_what_was_found_is_kept_and_used(device, ranges, tmp_path, monkeypatch):
    monkeypatch.setenv("OUTBOARD_CACHE_DIR", str(tmp_path))
    tuning_file.keep(device.index, tune(device, Clock(2.0, 0.5), only=["pointwise"]))
    file = tuning_file.keep(device.index, tune(device, Clock(2.0, 2.0), only=["reduction"]))
    assert file == tuning_file.path(device.index)
    small, large = torch.ones(8, device=device), torch.ones(64, device=device)
    for x, expected in ((small, "shared"), (large, "device")):
        with fallback.report() as report:
            x + x
        assert ways_of(report)["aten::add.Tensor"] == expected
    # The next process reads the file at its first use.
    printed = run_python(
        """
        import torch, torch_outboard
        from torch_outboard import fallback, ways

        x = torch.ones(64, device=torch_outboard.device_name())
        with fallback.report() as report:
            x + x, x[:8] + x[:8], x.sum()
        print([(row.op, row.way) for row in report.rows])
        print(ways.ranges())
        """,
        OUTBOARD_CACHE_DIR=str(tmp_path),
        OUTBOARD_WAY="auto",
    ).splitlines()
    assert sorted(eval(printed[0])) == [
        ("aten::add.Tensor", "device"), ("aten::add.Tensor", "shared"), ("aten::sum", "shared")
    ]  # fmt: skip
    assert eval(printed[1]) == {
        "pointwise": LARGE, "aten::add": LARGE, "reduction": [], "aten::sum": []
    }  # fmt: skip


def test_operators_ask_only_where_the_way_is_open(device, ranges):
    """Typed host kernels skip the router, which costs more than small operators take."""
    if torch.get_device_module(device).get_device_properties(device).kind != "cpu":
        pytest.skip("all families are open by default where a GPU shares the host's memory")
    asked = _C.router_is_asked
    torch.ones(3, device=device).sin()
    ranges({"pointwise": [], "reduction": []})
    assert not asked("aten::add.Tensor")
    ranges({"pointwise": [(1 << 20, None)], "reduction": []})
    assert asked("aten::add.Tensor")
    assert not asked("aten::sum")
    with ways.way("device", device):
        assert asked("aten::sum")
        # No device kernel is known for it, so there is nothing to ask.
        assert not asked("aten::_linalg_det.result")
    with ways.way("host", device):
        assert not asked("aten::add.Tensor")
    ranges({"pointwise": [(1 << 20, None)], "aten::add": []})
    assert not asked("aten::add.Tensor")
    assert asked("aten::mul.Tensor")
    ranges({"pointwise": [], "aten::add": [(1 << 20, None)]})
    assert asked("aten::add.Tensor")
    assert asked("aten::add_.Tensor")
    assert not asked("aten::mul.Tensor")
    ranges({})
    assert not asked("aten::add.Tensor")


def test_an_operator_stands_for_its_overloads(device, ranges):
    ranges({"pointwise": [], "aten::add": [(10, None)]})
    x = torch.ones(10, device=device)
    with fallback.report() as report:
        x + 1, x.add_(x), torch.add(x, x, out=torch.empty_like(x)), x * x, x[:9] + x[:9]
    assert {(row.op, row.way) for row in report.rows if "add" in row.op or "mul" in row.op} == {
        ("aten::add.Tensor", "device"), ("aten::add_.Tensor", "device"),
        ("aten::add.out", "device"), ("aten::mul.Tensor", "shared"), ("aten::add.Tensor", "shared"),
    }  # fmt: skip


def test_lists_count_all_of_their_tensors(device, ranges):
    ranges({"pointwise": [(10, None)]})
    for length, expected in ((3, "shared"), (4, "device")):
        x = [torch.ones(3, device=device) for _ in range(length)]
        with fallback.report() as report:
            torch._foreach_add_(x, 1.0)
        assert set(ways_of(report).values()) == {expected}, length
        assert [t.tolist() for t in x] == [[2.0] * 3] * length


def test_host_kernels_that_call_operators_wait_for_the_device(device, ranges):
    """layer_norm copies a strided input by itself; the copy must not still be on a queue."""
    ranges({COPY: [(0, None)], "pointwise": [(0, None)]})
    for _ in range(20):
        x = torch.rand(512, 256)
        weight, bias = torch.rand(512), torch.rand(512)
        on_device = x.to(device)
        result = torch.nn.functional.layer_norm(
            (on_device + 1).t(), (512,), weight.to(device), bias.to(device)
        )
        expected = torch.nn.functional.layer_norm((x + 1).t(), (512,), weight, bias)
        torch.testing.assert_close(result.cpu(), expected)


@pytest.mark.parametrize(("ratio", "advised"), [(0.5, True), (0.95, False), (1.4, False)])
def test_advice_for_programs_that_keep_python_busy(device, ratio, advised):
    seen = []

    def compare(run, take, synchronize):
        for way in ("device", "host"):
            take(way)
            seen.append(ways.get_way(device))
        return ratio, 1.0

    with ways.way("host", device):
        assert way_tuning.forced_ratio(device, compare) == ratio
        assert ways.get_way(device) == "host"
    assert set(seen) == {"device", "auto"}
    assert tune_command.advice(ratio).endswith("try that with your program") == advised


def test_the_table_of_families_and_operators():
    tuning = tuning_file.Tuning(
        "chip", "1.2",
        ranges={"pooling": [], "aten::avg_pool2d": [(22, 64), (2048, None)]},
        ratios={"pooling": {"8": 2.0, "4096": 1.5}, "aten::avg_pool2d": {"4096": 0.5}},
    )  # fmt: skip
    table = tune_command.table(tuning)
    assert [column.header for column in table.columns][1:] == ["8", "4 K", "device way"]
    assert [list(column.cells) for column in table.columns] == [
        ["pooling", "  avg_pool2d"], ["2.00", ""], ["1.50", "0.50"],
        ["never", "22 to 64, from 2,048"],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("elements", "expected"), [(512, "512"), (1024, "1 K"), (1 << 17, "128 K"), (5 << 19, "2.5 M")]
)
def test_short_sizes(elements, expected):
    assert tune_command.in_thousands(elements) == expected
