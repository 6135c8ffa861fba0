"""The choice of a graph's way by the times of its own calls."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
import torch._inductor.compile_fx  # registers the backend

import torch_outboard
from tests.inductor.ways.conftest import AT_ONCE, Clock, ways_of
from tests.support import run_python
from torch_outboard import _C, fallback
from torch_outboard.inductor.ways import choice
from torch_outboard.inductor.ways.remembered import remembered

SLOW, FAST = 0.06, 0.02


pytestmark = pytest.mark.usefixtures("chooses_at_once")


def graph(seconds: dict[str, float], device: torch.device, calls: list[str], clock: Clock) -> Any:
    return choice.MeasuredGraph("key", device.index or 0, ways_of(seconds, calls, clock))


@pytest.mark.parametrize("best", ["kernels", "host", "eager"])
def test_the_fastest_way_stays_and_is_remembered(device: torch.device, best: str, clock: Clock):
    calls: list[str] = []
    seconds = {name: FAST if name == best else SLOW for name in ("kernels", "host", "eager")}
    run = graph(seconds, device, calls, clock)
    for count in range(1, 250):
        (result,) = run([torch.ones(3, device=device)])
        assert result.tolist() == [2, 2, 2]
        assert len(calls) == count  # each call happens once
    assert {*calls} == {*seconds}
    assert calls[-1] == best
    assert remembered() == {"key": best}


@pytest.mark.parametrize("after", [0.0, SLOW])
def test_on_a_processor_the_program_has_to_gain(device: torch.device, after: float, clock: Clock):
    """Whose other work may take longer after a graph that is faster by itself."""
    on_cpu = _C.device_properties(device.index or 0).kind == "cpu"
    calls: list[str] = []
    run = graph({"kernels": 0.75 * SLOW, "host": SLOW}, device, calls, clock)
    for _ in range(250):
        run([torch.ones(3, device=device)])
        clock.now += after if calls[-1] == "kernels" else 0.0
    best = "host" if on_cpu and after else "kernels"
    assert remembered() == {"key": best}
    assert {*calls[-9:]} == {best}


@pytest.mark.parametrize(
    ("change", "best"), [(0.0, ["kernels", "host"]), (SLOW, ["kernels", "kernels"])]
)
def test_graphs_of_a_program(device: torch.device, change: float, best: list[str], clock: Clock):
    """Two that are faster on different sides by themselves, where a change of sides may cost."""
    if _C.device_properties(device.index or 0).kind != "cpu":
        best = ["kernels", "host"]
    calls: list[str] = []
    given = [{"kernels": 0.6 * SLOW, "host": SLOW}, {"kernels": 0.7 * SLOW, "host": 0.5 * SLOW}]
    runs = [graph(seconds, device, calls, clock) for seconds in given]
    for place, run in enumerate(runs):
        run.key = str(place)
    for _ in range(400):
        for run in runs:
            run([torch.ones(3, device=device)])
            clock.now += change if calls[-1] != calls[-2:][0] else 0.0
    assert remembered() == dict(zip("01", best, strict=True))
    assert calls[-4:] == best * 2


def test_a_way_that_does_not_compile_is_left_out(device: torch.device, clock: Clock):
    calls: list[str] = []
    run = graph({"kernels": SLOW, "host": FAST}, device, calls, clock)

    def fails() -> Any:
        raise RuntimeError("no")

    run.makers["host"] = fails
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(9):
            run([torch.ones(3, device=device)])
    assert ["way 'host': no" in str(warning.message) for warning in caught] == [True]
    assert {*calls} == {"kernels"}


def test_results_are_laid_out_as_by_the_first_way(device: torch.device):
    """Code of the gradients was compiled for the strides that it saw."""
    ways = {"kernels": lambda: lambda i: [i[0] + 0], "host": lambda: lambda i: [i[0].t().clone()]}
    run = choice.MeasuredGraph("key", device.index or 0, ways)
    x = torch.arange(9.0, device=device).view(3, 3)
    strides = {run([x])[0].stride() for _ in range(250)}
    assert strides == {(3, 1)}


def test_operators_of_graphs_that_go_the_device_way(device: torch.device, savings: Any):
    """Whatever `auto` says of them otherwise."""
    savings({"matrix_product": 10_000.0})
    x = torch.ones(64, 64, device=device)

    def product(inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        return [inputs[0] @ inputs[0]]

    for run, way in ((product, "shared"), (choice.DeviceGraph(product), "device")):
        if way == "shared" and not torch_outboard._C.shares_host_memory(device.index or 0):
            continue
        with fallback.report() as report:
            (result,) = run([x])
        assert {row.op: row.way for row in report.rows}["aten::mm"] == way
        assert result.cpu().unique().tolist() == [64]


@pytest.mark.parametrize(("best", "known"), [("host", False), ("device", True)])
def test_operators_beside_a_graph_go_to_its_side(
    device: torch.device, savings: Any, best: str, known: bool, clock: Clock
):
    """Whatever they take by themselves; also where the choice was made by an earlier process."""
    index = device.index or 0
    if _C.device_properties(index).kind != "cpu" or not _C.shares_host_memory(index):
        pytest.skip("this is about CPUs that share their memory with the host")
    savings({"aten::add": 1000.0 if best == "device" else -1000.0})
    x = torch.ones(3, device=device)

    def beside() -> str:
        with fallback.report() as report:
            x + x
        return {row.op: row.way for row in report.rows}["aten::add.Tensor"]

    makers = ways_of({"kernels": 0.0, "host": 0.0}, [], clock)
    graph = choice.choose("key", best if known else None, index, makers)
    on_side = {"host": "shared", "device": "device"}[best]
    for _ in range(1 if known else 400):
        graph([x])
        # The program's time depends on its operators: graphs alone take the same.
        clock.now += FAST if beside() == on_side else SLOW
    assert remembered() == ({} if known else {"key": best})
    assert {beside() for _ in range(20)} == {on_side}


def test_broken_files_hold_no_choice(tmp_path: Any):
    (tmp_path / "graph_ways.json").write_text("{")
    assert remembered() == {}


ATTENTION = f"""{AT_ONCE}
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
q, k, v = (torch.randn(1, 2, 256, 16, device=name, requires_grad=True) for _ in range(3))
mask = create_block_mask(lambda b, h, m, n: m >= n, None, None, 256, 256, device=name)
attend = torch.compile(lambda q: flex_attention(q * 2, k, v, block_mask=mask).relu())
results = [torch.autograd.grad(attend(q).sum(), (q, k, v)) for _ in range(250)]
for each in results[1:]:
    torch.testing.assert_close(each, results[0], rtol=1e-3, atol=1e-4)
counted = torch._dynamo.utils.counters[name]["flex_attention_kernels"]
print(counted, len(remembered()))
"""


@pytest.mark.slow
def test_graphs_with_operators_of_the_device_alone_keep_their_kernels(measuring: dict[str, str]):
    assert run_python(ATTENTION, timeout=280, **measuring).split() == ["2", "0"]
