"""Device-side asserts: the next wait raises them once, and the device goes on."""

import textwrap
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

import torch_outboard
from tests.device_kernels.processes import run_program
from tests.support import in_threads
from torch_outboard import placement

pytestmark = pytest.mark.by_turns(2)


def wrong_gather(device: torch.device) -> torch.Tensor:
    x = torch.arange(5.0, device=device)
    return torch.gather(x, 0, torch.tensor([1, 7], device=device))


WAITS: dict[str, Callable[[torch.Tensor], object]] = {
    "synchronize": lambda x: torch.accelerator.synchronize(),
    "stream": lambda x: torch.accelerator.current_stream().synchronize(),
    "cpu": lambda x: x.cpu(),
    "item": lambda x: x[0].item(),
    "tolist": lambda x: x.tolist(),
    "print": repr,
}


def test_the_next_wait_raises_once(device):
    for wait in WAITS.values():
        result = wrong_gather(device)
        with pytest.raises(
            RuntimeError, match=r"index out of range in aten::gather, which ran on .*:0"
        ):
            wait(result)
        torch.accelerator.synchronize()
        x, last = torch.ones(3, device=device), torch.tensor([2], device=device)
        assert torch.gather(x, 0, last).item() == 1


def test_several_faults_are_one_error(device):
    """Calls do not wait."""
    # Where memory is the device's own, copying to it is a wait.
    far, table = torch.tensor([9], device=device), torch.ones(3, 2, device=device)
    result = wrong_gather(device)
    F.embedding(far, table)
    assert (result + 1).shape == (2,)
    with pytest.raises((RuntimeError, IndexError), match="index out of range"):
        torch.accelerator.synchronize()
    torch.accelerator.synchronize()


REFUSED: list[tuple[Callable[[torch.device], torch.Tensor], type[Exception], str]] = [
    (lambda d: F.embedding(torch.tensor([3], device=d), torch.ones(3, 2, device=d)),
     IndexError, "index out of range in aten::embedding"),
    (lambda d: F.multi_margin_loss(torch.ones(1, 3, device=d), torch.tensor([-1], device=d)),
     RuntimeError, "a target is not a class in aten::multi_margin_loss"),
    *((lambda d, p=p: torch.bernoulli(torch.tensor([0.5, p], device=d)),
       RuntimeError, r"a probability is not in \[0, 1\]") for p in (1.5, float("nan"))),
    *((lambda d, rate=rate: torch.poisson(torch.tensor([1.0, rate], device=d)),
       RuntimeError, "invalid Poisson rate") for rate in (-1.0, float("nan"))),
]  # fmt: skip


def test_values_that_cpu_refuses(device):
    for call, error, words in REFUSED:
        with pytest.raises((RuntimeError, IndexError)):
            call(torch.device("cpu"))
        result = call(device)
        with pytest.raises(error, match=words):
            result.cpu()
    edges = torch.bernoulli(torch.tensor([0.0, 1.0], device=device))
    assert edges.tolist() == [0, 1]


def test_a_stream_that_is_not_waited_for_keeps_its_fault(device):
    stream = torch.Stream(device=device)
    with stream:
        wrong_gather(device)
    torch.accelerator.current_stream().synchronize()
    with pytest.raises(RuntimeError, match="index out of range in aten::gather"):
        stream.synchronize()


def test_threads(device, shares_memory):
    """Every fault is raised somewhere, and right results stay right."""
    errors, wrong = [], []

    def work(number: int) -> None:
        x = torch.arange(100.0, device=device)
        with placement.use("device"):
            for step in range(30):
                indices = torch.full((10,), 200 if step == 15 else number, device=device)
                try:
                    taken = x.gather(0, indices).cpu()
                    if step != 15 and not bool((taken == number).all()):
                        wrong.append(taken)
                except RuntimeError as error:
                    errors.append(error)

    in_threads(work, 4)
    assert not wrong
    # Elsewhere a fault is read by one copy and cleared by another; threads may read in between.
    assert 1 <= len(errors) <= (4 if shares_memory else 16)


@pytest.mark.parametrize("memory", ["handles", "coarse"])
def test_memory_that_the_host_cannot_touch(memory):
    """A driver that fails while it is asked loses no fault."""
    printed = run_program(
        """
        import torch, torch_outboard
        import torch.nn.functional as F
        from torch_outboard.drivers import faults

        device = torch_outboard.device_name()
        x, scores = torch.arange(5.0, device=device), torch.zeros(2, 2, device=device)
        far, target = torch.tensor([9], device=device), torch.tensor([0, 7], device=device)
        torch.accelerator.synchronize()

        def outcome():
            try:
                torch.accelerator.synchronize()
            except (RuntimeError, IndexError) as error:
                return str(error).partition(",")[0].partition(": ")[0]

        x.gather(0, far)
        print([outcome() for _ in range(2)])
        print(x.gather(0, far - 6).item())
        x.gather(0, far)
        faults.fail("copy_device_to_host", 1, "error")
        print([outcome() for _ in range(3)])
        x.gather(0, far)
        F.nll_loss(scores, target)
        faults.fail("copy_device_to_host", 1, "error")
        print([outcome() for _ in range(3)])
        """,
        OUTBOARD_OCL_MEMORY=memory,
        OUTBOARD_HOST_ACCESS="separate",
        OUTBOARD_FAULTS="count",
    )
    gather, loss = "index out of range in aten::gather", "a target is not a class"
    name = torch_outboard.device_name()
    failure = f"driver '{name}' returned error from `copy_device_to_host`"
    plain, right, first, second = printed.splitlines()
    assert plain == str([gather, None])
    assert right == "3.0"
    assert first == str([failure, gather, None])
    assert loss in second.split(", ")[0]
    assert second.endswith(str([gather, None])[1:])


# ---- Graphs

_WITH_GRAPHS = """
import torch, torch_outboard
import torch.nn.functional as F
from torch_outboard.drivers import faults

device = torch.device("ocl", 0)
x = torch.arange(5.0, device=device)
indices = torch.tensor([1, 2], device=device)
target = torch.tensor([0, 1], device=device)
scores = torch.zeros(2, 2, device=device)
torch.Stream(device).__enter__()
torch.accelerator.synchronize()

def capture(work):
    graph = torch.accelerator.Graph()
    with graph:
        result = work()
    return graph, result

def outcome(run):
    try:
        return run()
    except (RuntimeError, IndexError) as error:
        return f"{type(error).__name__}: {error}".partition(",")[0].partition("\\n")[0]
"""

_GATHER = "RuntimeError: index out of range in aten::gather"
_LOSS = "IndexError: a target is not a class in aten::nll_loss_forward"

with_graphs = pytest.mark.skipif(
    not hasattr(torch.accelerator, "Graph"), reason="this PyTorch has no torch.accelerator.Graph"
)


def run_with_graphs(code: str, **env: str) -> list[str]:
    code = _WITH_GRAPHS + textwrap.dedent(code)
    return run_program(code, OUTBOARD_DRIVER="ocl", OUTBOARD_FAULTS="count", **env).splitlines()


@with_graphs
@pytest.mark.parametrize("memory", ["handles", "shared"])
def test_every_replay_is_asked(memory):
    printed = run_with_graphs(
        """
        graph, taken = capture(lambda: x.gather(0, indices))
        outer, _ = capture(graph.replay)

        def replayed(graph):
            graph.replay()
            return outcome(taken.tolist)

        print(replayed(graph))
        indices.fill_(9)
        print(replayed(graph))
        print(replayed(graph))
        print(replayed(outer))
        indices.fill_(3)
        print(replayed(graph))
        print(replayed(outer))

        # Kernels without asserts are not checked.
        plain, added = capture(lambda: x + 1)
        reads = faults.calls()["copy_device_to_host"]
        plain.replay()
        torch.accelerator.synchronize()
        print(faults.calls()["copy_device_to_host"] - reads)

        # Faults outlive their graph, whether it is reset or gone.
        del plain, outer
        before = faults.live()["graphs"]
        indices.fill_(9)
        graph.replay()
        print(outcome(graph.reset), before - faults.live()["graphs"])
        print(outcome(lambda: indices.fill_(2).tolist()))
        with graph:
            loss = F.nll_loss(scores, target)
        target.fill_(7)
        graph.replay()
        del graph
        print(faults.live()["graphs"])
        print(outcome(torch.accelerator.synchronize))

        # A fault from before a capture is raised by its begin, which waits.
        x.gather(0, indices + 9)
        print(outcome(torch.accelerator.Graph().capture_begin))
        print(faults.calls()["graph_begin"] - faults.calls()["graph_end"])

        # A graph that is never replayed expects nothing.
        graph, _ = capture(lambda: x.gather(0, indices))
        torch.accelerator.synchronize()
        del graph
        print(x.gather(0, indices).tolist(), faults.live()["graphs"])
        """,
        OUTBOARD_OCL_MEMORY=memory,
    )
    assert printed == [
        "[1.0, 2.0]", _GATHER, _GATHER, _GATHER, "[3.0, 3.0]", "[3.0, 3.0]", "0",
        f"{_GATHER} 1", "[2, 2]", "0", _LOSS, _GATHER, "0", "[2.0, 2.0] 0",
    ]  # fmt: skip


@with_graphs
def test_blocking_launches_and_replays_raise_at_the_call():
    printed = run_with_graphs(
        """
        print(outcome(lambda: x.gather(0, indices + 9)))
        graph, _ = capture(lambda: (x.gather(0, indices), F.nll_loss(scores, target)))
        print(outcome(graph.replay))
        indices.fill_(9)
        target.fill_(7)
        print(outcome(graph.replay))
        indices.fill_(3)
        target.fill_(1)
        print(x.gather(0, indices).tolist(), F.nll_loss(scores, target).item() == 0)
        """,
        OUTBOARD_BLOCKING="1",
    )
    # Both kernels found something; one is raised, and none is left over.
    assert printed == [_GATHER, "None", _GATHER, "[3.0, 3.0] True"]
