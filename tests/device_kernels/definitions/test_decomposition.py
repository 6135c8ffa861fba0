"""Operators that are made of others, by definitions of a test."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from tests.device_kernels.processes import try_program
from tests.support import in_threads
from torch_outboard import _C, fallback
from torch_outboard.ops.decomposition import decomposition, require

INT64_MOST = 2**63 - 1


@pytest.fixture(scope="module")
def library() -> Iterator[torch.library.Library]:
    with torch.library._scoped_library("outboard_decomposed", "DEF") as made:
        made.define("bump_(Tensor(a!) x, bool wrong) -> Tensor(a!)")
        made.define("bump_copy(Tensor x, bool wrong) -> Tensor")
        made.define("bump.out(Tensor x, bool wrong, *, Tensor(a!) out) -> Tensor(a!)")
        made.define("number(Tensor x, int a, int b) -> Tensor")
        made.define("pair(Tensor x, ScalarType dtype, str from) -> (Tensor, Tensor)")
        made.impl("bump_", lambda x, wrong: x.add_(10), "CPU")
        made.impl("bump_copy", lambda x, wrong: x + 10, "CPU")
        made.impl("bump.out", lambda x, wrong, out: out.copy_(x + 10), "CPU")
        made.impl("number", lambda x, a, b: x + 0.5, "CPU")
        made.impl("pair", lambda x, dtype, from_: (x, x), "CPU")
        yield made


OPS = torch.ops.outboard_decomposed


@pytest.fixture
def define(device, library) -> Iterator[Callable[..., None]]:
    added = []

    def add(name: str, body: Callable[..., Any] | str, **fields: Any) -> None:
        qualified = f"outboard_decomposed::{name}"
        _C.load_device_kernels()
        token = _C.add_definition(qualified, decomposition(qualified, body, **fields), None, -1)
        added.append((qualified, token))

    yield add
    for qualified, token in added:
        _C.remove_kernel(qualified, token)


# ---- Declining


def test_nothing_is_written_twice(device, define):
    def body(x, wrong):
        x.add_(1)
        require(not wrong)
        return x

    def through_a_view(x, wrong):
        x[1:].mul_(3)
        require(not wrong)
        return x

    def in_another_body(x, wrong):
        x.masked_scatter_(x > 0, x + 1)
        require(not wrong)
        return x

    define("bump_", body)
    x = torch.zeros(3, device=device)
    assert OPS.bump_(x, False).tolist() == [1, 1, 1]
    for writes in (body, through_a_view, in_another_body):
        define("bump_", writes)
        with pytest.raises(RuntimeError, match="declined a call after it had written to an arg"):
            OPS.bump_(x, True)
        assert x.max() < 10  # what CPU's kernel adds


def test_a_declined_call_leaves_its_arguments_as_they_were(device, define):
    seen = []

    def body(x, wrong):
        y = x * 2
        y.zero_()
        seen.append(x.tolist())
        require(not wrong)
        return y

    define("bump.out", body)
    define("bump.out", body)
    x = torch.arange(3.0, device=device)
    out = torch.full((3,), 7.0, device=device)
    OPS.bump.out(x, True, out=out)
    assert seen == [[0, 1, 2]] * 2  # by each of the definitions
    assert x.tolist() == [0, 1, 2]
    assert out.tolist() == [10, 11, 12]  # the host's
    OPS.bump.out(x, False, out=out)
    assert out.tolist() == [0, 0, 0]

    def functional(x, wrong):
        y = x.clone().add_(1)  # what is its own may be written
        require(not wrong)
        return y

    define("bump_copy", functional)
    with fallback.report() as report:
        assert OPS.bump_copy(x, True).tolist() == [10, 11, 12]
    placements = {entry.op: entry.placement for entry in report.rows}
    assert placements["outboard_decomposed::bump_copy"] != "device"


def test_conditions_decline(device, define):
    x = torch.zeros(1, device=device)
    define("number", lambda x, a, b: x + 1, condition=lambda a, b: (a > 0) & (a // b == 2))
    define("number", lambda x, a, b: x + 2, condition=lambda a, b: (a == 7) & (b >= 3))
    for a, b, expected in ((4, 2, 1), (7, 3, 2), (7, 2, 0.5), (-4, -2, 0.5), (4, 0, 0.5)):
        assert OPS.number(x, a, b).item() == expected
    with pytest.raises(TypeError, match="a symbol has no truth value"):
        define("number", lambda x: x, condition=lambda a, b: a > 0 and b > 0)


def test_arithmetic_without_a_result_declines_and_integers_do_not_wrap(device, define):
    x = torch.zeros(1, device=device)
    without = (
        lambda x, a, b: torch.full_like(x, a // b),
        lambda x, a, b: torch.full_like(x, 1.0 / b),
    )
    for body in without:
        define("number", body)
        assert OPS.number(x, 1, 0).item() == 0.5
    define("number", lambda x, a, b: torch.full_like(x, a + b, dtype=torch.int64))
    assert OPS.number(x, 2**53, 1).item() == 2**53 + 1
    with pytest.raises(RuntimeError, match="without overflow"):
        OPS.number(x, INT64_MOST, 1)


# ---- What a body gets and gives


def test_arguments_by_name(device, define):
    def body(from_, dtype):
        assert isinstance(dtype, torch.dtype)
        number = torch.full([2], float(from_), dtype=dtype, device=device)
        return number, number + 1

    define("pair", body)
    first, second = OPS.pair(torch.zeros(1, device=device), torch.float64, "3")
    assert first.dtype == torch.float64
    assert (first.tolist(), second.tolist()) == ([3, 3], [4, 4])
    with pytest.raises(ValueError, match="a parameter 'y', which is neither an argument nor"):
        define("bump_", lambda y: y)
    with pytest.raises(ValueError, match="there is no function 'nobody'"):
        define("bump_", "nobody")
    define("pair", lambda x: (x, x, x))
    with pytest.raises(ValueError, match="returned 3 values, and the operator returns 2"):
        OPS.pair(torch.zeros(1, device=device), torch.float64, "3")


class Mine(Exception):
    pass


def test_exceptions_keep_their_type_and_message(device, define):
    errors = [Mine("mine"), KeyError("k"), IndexError("i"), torch.OutOfMemoryError("o")]
    raised = iter(errors)

    def body(x):
        raise next(raised)

    define("bump_copy", body)
    x = torch.zeros(3, device=device)
    for error in errors:
        with pytest.raises(type(error)) as caught:
            OPS.bump_copy(x, False)
        assert caught.value is error


# ---- What is on around a call


def test_autograd_and_autocast_do_not_see_a_body(device, define):
    def body(x):
        assert not (x * 2).requires_grad
        product = x @ x
        assert product.dtype == torch.float32
        return product

    define("bump_copy", body)
    x = torch.eye(3, device=device, requires_grad=True)
    with torch.autocast(device.type, dtype=torch.bfloat16):
        assert (x @ x).dtype == torch.bfloat16
        # PyTorch only knows that the operator has no derivative.
        assert OPS.bump_copy(x, False).grad_fn.name().endswith("WarnNotImplemented")
    with torch.inference_mode():
        assert OPS.bump_copy(x, False).is_inference()


def test_modes_do_not_see_a_body(device, define):
    functions, operators = [], []

    class Functions(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            functions.append(func)
            return func(*args, **(kwargs or {}))

    class Operators(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            operators.append(func)
            return func(*args, **(kwargs or {}))

    def body(x):
        return torch.exp(x).sum(0, True)

    define("bump_copy", body)
    x = torch.zeros(3, device=device)
    with Functions(), Operators(), Operators():
        result = OPS.bump_copy(x, False)
    assert result.tolist() == [3]
    assert functions == [OPS.bump_copy]
    assert operators == [OPS.bump_copy.default] * 2
    with torch.device("meta"):  # is such a mode
        define("bump_copy", lambda x: x + torch.ones([1]).to(x.device))
        assert OPS.bump_copy(x, False).device == x.device


def test_traces_and_torch_compile_do_not_see_a_body(device, define):
    define("bump_copy", lambda x: x.reshape([x.shape[0] * x.size(1)]).exp())
    x = torch.zeros(3, 2, device=device)
    traced = torch.jit.trace(lambda x: OPS.bump_copy(x, False), x)
    kinds = [node.kind() for node in traced.graph.nodes() if "prim" not in node.kind()]
    assert kinds == ["outboard_decomposed::bump_copy"]

    watching = []

    def body(x):
        watching.append(torch._C._dynamo.eval_frame.get_eval_frame_callback())
        return x + 1

    @torch.compile(backend="eager")
    def program(x):
        torch._dynamo.graph_break()
        return OPS.bump_copy(x, False)

    define("bump_copy", body)
    assert program(x).tolist() == [[1, 1]] * 3
    assert watching
    assert set(watching) == {None}


def test_call_sites_are_those_of_the_program(device):
    x = torch.rand(4, 6, device=device)
    with fallback.report(call_sites=True) as report:
        x.renorm(2, 0, 1).kthvalue(2)
    assert {"aten::linalg_vector_norm", "aten::renorm"} <= {entry.op for entry in report.rows}
    assert {entry.call_site.partition(":")[0] for entry in report.rows} == {__file__}


# ---- Threads


def test_a_body_in_a_backward_thread(device, define):
    threads = []

    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return OPS.bump_copy(gradient, False)

    def body(x):
        threads.append(threading.get_ident())
        if len(threads) > 1:
            raise Mine("in a thread")
        return x * 2

    define("bump_copy", body)
    x = torch.ones(3, device=device, requires_grad=True)
    with torch.autograd.set_multithreading_enabled(True):
        Doubled.apply(x).sum().backward()
        assert x.grad.tolist() == [2, 2, 2]
        with pytest.raises(Mine, match="in a thread"):
            Doubled.apply(x).sum().backward()
    assert threading.get_ident() not in threads


def test_two_threads_at_once(device, define):
    inside = threading.Barrier(2, timeout=60)

    def body(x):
        inside.wait()  # both are in the body
        return x * 2 + 1

    define("bump_copy", body)

    def work(k):
        x = torch.full((100,), float(k), device=device)
        for _ in range(20):
            x = OPS.bump_copy(x, False) - x - 1
        return x.tolist()

    assert in_threads(work, 2) == [[0.0] * 100, [1.0] * 100]


EXIT = """
import threading
import time

import torch

x = torch.rand(64, 8, device="ocl")
started = threading.Event()

def work():
    try:
        while True:
            torch.bincount((x * 9).int().reshape(-1))
            x.kthvalue(3, 1)
            started.set()
    except RuntimeError as error:
        assert "the process is exiting" in str(error), error

for _ in range(2):
    threading.Thread(target=work, daemon=True).start()
started.wait()
time.sleep(0.1)
print("ends")
"""


def test_exit_while_daemon_threads_call_bodies(device):
    done = try_program(EXIT, OUTBOARD_DRIVER="ocl", timeout=60)
    assert "ends" in done.stdout
    # Python's treatment of daemon threads aborts processes that compute on the CPU, too.
    stopped_by_python = "terminate called without an active exception" in done.stderr
    assert done.returncode == 0 or (stopped_by_python and done.returncode == -signal.SIGABRT), done


def test_bodies_decline_when_the_interpreter_ends(device, shares_memory):
    """Calls of other threads run on the host then, and those under way are waited for."""
    code = """
    import atexit
    import threading

    import torch

    from torch_outboard import _C, fallback

    def placements():
        with fallback.report() as report:
            torch.bincount(x)
        return [entry.placement for entry in report.rows if entry.op == "aten::bincount"]

    def work(found):
        found.append(placements())

    x = torch.ones(3, dtype=torch.int64, device="ocl")
    print(*placements())
    _C.stop_interpreter_calls()
    print(*placements())
    found = []
    thread = threading.Thread(target=work, args=(found,))
    thread.start()
    thread.join()
    print(*found[0])
    """
    done = try_program(code, OUTBOARD_DRIVER="ocl", timeout=60)
    host = "host" if shares_memory else "copied"
    assert done.stdout.split() == ["device", "device", host], done
