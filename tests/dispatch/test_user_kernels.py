"""Kernels of users: torch_outboard.kernel."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator

import pytest
import torch

import torch_outboard
from tests.dispatch.conftest import constant, ones
from tests.support import in_threads, try_python

pytestmark = pytest.mark.usefixtures("allowed")


def test_replaces_one_dtype(device):
    with torch_outboard.kernel("aten::add.Tensor", dtypes=[torch.float32])(constant(42)):
        assert (ones(device) + ones(device)).tolist() == [42, 42, 42]
        assert (ones(device) + 1).tolist() == [42, 42, 42]
        for dtype in (torch.float64, torch.int64, torch.bfloat16):
            assert (ones(device, dtype=dtype) + ones(device, dtype=dtype)).tolist() == [2, 2, 2]
        assert (torch.ones(3) + 1).tolist() == [2, 2, 2]
    with torch_outboard.kernel("aten::add.Tensor", dtypes=[])(constant(42)) as kernel:
        assert (ones(device) + ones(device)).tolist() == [2, 2, 2]
        assert kernel(torch.ones(2)).tolist() == [42, 42]


def test_replaces_on_one_device(device):
    other = torch.device(device.type, 1)
    for where in (1, other, str(other)):
        with torch_outboard.kernel("aten::neg", device=where)(constant(7)):
            assert torch.neg(ones(other)).tolist() == [7, 7, 7]
            assert torch.neg(ones(device)).tolist() == [-1, -1, -1]


def test_latest_wins_and_removal_brings_the_former_back(device):
    def exp(value: float):
        return torch_outboard.kernel("aten::exp")(constant(value))

    first = exp(1)
    second = exp(2)
    assert torch.exp(ones(device)).tolist() == [2, 2, 2]
    second.remove()
    second.remove()
    assert torch.exp(ones(device)).tolist() == [1, 1, 1]
    third = exp(3)
    first.remove()
    assert torch.exp(ones(device)).tolist() == [3, 3, 3]
    third.remove()
    torch.testing.assert_close(torch.exp(ones(device)).cpu(), torch.ones(3).exp())


class Constant:
    """A kernel that says when it is gone."""

    def __init__(self, value: float):
        self.value = value

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return torch.full_like(x, self.value)


def test_a_function_that_removes_itself_runs_to_its_end(device):
    registrations = []

    def exp(x):
        registrations.pop().remove()
        gc.collect()
        return torch.full_like(x, 5)

    registrations.append(torch_outboard.kernel("aten::exp")(exp))
    reference = weakref.ref(exp)
    del exp
    assert torch.exp(ones(device)).tolist() == [5, 5, 5]
    gc.collect()
    assert reference() is None


def test_removal_while_other_threads_call(device):
    results: set[float] = set()
    end = threading.Event()
    started = threading.Barrier(4)

    def call() -> None:
        x = ones(device)
        started.wait()
        while not end.is_set():
            results.update(torch.exp(x).tolist())

    threads = [threading.Thread(target=call) for _ in range(3)]
    for thread in threads:
        thread.start()
    started.wait()
    references = []
    for value in range(100):
        function = Constant(value)
        references.append(weakref.ref(function))
        registration = torch_outboard.kernel("aten::exp")(function)
        torch.exp(ones(device))
        registration.remove()
        del function, registration
    end.set()
    for thread in threads:
        thread.join()
    gc.collect()
    assert [reference() for reference in references] == [None] * 100
    assert {result for result in results if result != int(result)} <= {torch.ones(1).exp().item()}


def test_arguments_arrive_as_in_the_schema(device):
    seen: list[object] = []

    @torch_outboard.kernel("aten::sum.dim_IntList")
    def total(x, dim, keepdim=False, *, dtype=None):
        seen.append((dim, keepdim, dtype))
        return torch.zeros([1] if keepdim else [], device=x.device, dtype=dtype or x.dtype)

    with total:
        torch.sum(ones(device), dim=[0], dtype=torch.float64)
        torch.sum(ones(device), dim=0, keepdim=True)
    assert seen == [([0], False, torch.float64), ([0], True, None)]


def test_several_results_and_wrong_numbers_of_them(device):
    def maximum(x, dim, keepdim=False):
        return x[0], torch.zeros((), dtype=torch.int64, device=x.device)

    with torch_outboard.kernel("aten::max.dim")(maximum):
        values, indices = torch.max(torch.tensor([5.0, 9.0], device=device), dim=0)
        assert (values.item(), indices.item()) == (5, 0)
    wrong = pytest.raises((ValueError, TypeError, RuntimeError))
    for result in (lambda x: (x,), lambda x: (x, x, x), lambda x: 3):
        kernel = torch_outboard.kernel("aten::max.dim")
        with kernel(lambda x, dim, keepdim=False, result=result: result(x)), wrong:
            torch.max(ones(device), dim=0)
    for result in ("text", 3.5, [1, 2], object()):
        with torch_outboard.kernel("aten::neg")(lambda x, result=result: result), wrong:
            torch.neg(ones(device))
        assert torch.neg(ones(device)).tolist() == [-1, -1, -1]


WRONG_RESULTS = {
    "on another device": (
        lambda x: torch.ones(2, 3),
        r"returned a tensor on cpu, and .* is one on",
    ),
    "of another index": (lambda x: torch.ones(2, 3, device=f"{x.device.type}:1"), r":1, and .*:0"),
    "of another dtype": (lambda x: x.double(), r"float64 of shape \[2, 3\] .* float32 of shape"),
    "of another shape": (lambda x: x[0], r"float32 of shape \[3\] .* float32 of shape \[2, 3\]"),
    "missing": (lambda x: None, "None|expected|Expected"),
}


def test_result_that_is_not_the_operators(device):
    x = torch.ones(2, 3, device=device)
    for kind, (function, words) in WRONG_RESULTS.items():
        with torch_outboard.kernel("aten::neg")(function):
            for _ in range(2):  # results are cached
                with pytest.raises((ValueError, TypeError, RuntimeError), match=words):
                    torch.neg(x)
            # The same shape as the result, by a call that is right.
            if kind == "of another dtype":
                assert torch.neg(x.double()).tolist() == [[1, 1, 1]] * 2
        assert torch.neg(x).tolist() == [[-1, -1, -1]] * 2
    with (
        torch_outboard.kernel("aten::neg_")(lambda x: x.clone()),
        pytest.raises(ValueError, match=r"another tensor than the one that the operator writes"),
    ):
        x.neg_()


def test_results_have_the_dtypes_that_pytorch_promotes_to(device):
    """Numbers in calls promote less than tensors do."""
    x = torch.ones(2, 3, device=device, dtype=torch.int32)
    with torch_outboard.kernel("aten::add.Tensor")(lambda x, y, alpha=1: x.float()):
        assert (x + 1.5).dtype == torch.float32
        with pytest.raises(ValueError, match=r"returned float32 .* operator.s is int32"):
            torch.add(x, 1)
    with torch_outboard.kernel("aten::cat")(lambda tensors, dim=0: tensors[0]):
        assert torch.cat([x]).shape == (2, 3)
        with pytest.raises(ValueError, match=r"of shape \[2, 3\] .* of shape \[4, 3\]"):
            torch.cat([x, x])


def test_results_whose_shape_depends_on_values(device):
    """PyTorch would have to inspect the tensor, so it is not asked."""
    with torch_outboard.kernel("aten::nonzero")(lambda x: torch.zeros(4, 1).long().to(x.device)):
        for _ in range(2):
            assert torch.nonzero(ones(device)).shape == (4, 1)
    with torch.library._scoped_library("outboard_results", "DEF") as library:
        library.define("half(Tensor x) -> Tensor")  # with no function of shapes
        with torch_outboard.kernel("outboard_results::half")(lambda x: x[:1]):
            assert torch.ops.outboard_results.half(ones(device)).shape == (1,)
        wrong = torch_outboard.kernel("outboard_results::half")(lambda x: x.cpu())
        with wrong, pytest.raises(ValueError, match="returned a tensor on cpu"):
            torch.ops.outboard_results.half(ones(device))


# ---- Autograd


def test_many_threads_and_autograd(device):
    """Python kernels in forward and backward passes of several threads do not deadlock."""

    @torch_outboard.kernel("aten::mul.Tensor")
    def multiply(x, y):
        return (x.cpu() * (y.cpu() if isinstance(y, torch.Tensor) else y)).to(x.device)

    def train(_: int) -> None:
        x = ones(device).requires_grad_()
        for _ in range(20):
            x.grad = None
            (x * 3 * x).sum().backward()
            assert x.grad.tolist() == [6, 6, 6]

    with multiply:
        in_threads(train, 4)


def test_composite_operator(device):
    """Without autograd the kernel runs; with it, the parts of the operator do."""
    calls: list[int] = []

    @torch_outboard.kernel("aten::hinge_embedding_loss")
    def loss(x, target, margin=1.0, reduction=1):
        calls.append(reduction)
        return x.new_full((), 11.0)

    with loss:
        x, target = ones(device), ones(device)
        function = torch.nn.functional.hinge_embedding_loss
        assert function(x, target).item() == 11
        assert calls == [1]
        x.requires_grad_()
        with torch.no_grad():
            assert function(x, target).item() == 11
        with torch.inference_mode():
            assert function(x, target).item() == 11
        value = function(x, target)
        value.backward()
        assert value.item() == 1
        torch.testing.assert_close(x.grad.cpu(), torch.full((3,), 1 / 3))
        assert calls == [1, 1, 1]
        wide = ones(device, dtype=torch.float64)
        assert function(wide, wide).item() == 11
    assert function(x.detach(), target).item() == 1


# ---- Errors


class OwnError(Exception):
    pass


def test_exceptions_propagate(device):
    @torch_outboard.kernel("aten::cos")
    def cosine(x):
        raise OwnError("from the kernel")

    x = ones(device).requires_grad_()
    y = torch.sin(x).sum()
    with cosine:
        for _ in range(2):
            with pytest.raises(OwnError, match="from the kernel") as caught:
                torch.cos(x)
            assert any(entry.name == "cosine" for entry in caught.traceback)
        with pytest.raises(OwnError, match="from the kernel"):
            y.backward()
    torch.sin(x).sum().backward()
    torch.testing.assert_close(x.grad.cpu(), torch.ones(3).cos())


def test_a_kernel_that_calls_itself_and_silence_on_stderr():
    """The process survives a kernel that never ends."""
    result = try_python(
        """
        import torch, torch_outboard

        for name in ("add.Tensor", "relu", "linear", "max.dim", "hinge_embedding_loss"):
            for _ in range(2):
                torch_outboard.kernel(name)(lambda *a, **k: a[0])
        x = torch.ones(3, device="host")
        print(torch.relu(-x).tolist())

        @torch_outboard.kernel("aten::neg")
        def neg(x):
            return torch.neg(x)

        try:
            torch.neg(x)
        except RecursionError as error:
            print("RecursionError")
        neg.remove()
        print(torch.neg(x)[0].item())
        """,
        OUTBOARD_FALLBACK_COPIED="allow",
    )
    printed = ["[-1.0, -1.0, -1.0]", "RecursionError", "-1.0"]
    assert (result.returncode, result.stderr, result.stdout.splitlines()) == (0, "", printed)


def test_what_cannot_be_replaced():
    absent = ["aten::no_such_operator", "nothing::add", "aten::add.NoSuchOverload", "aten::add", ""]
    for name in absent:
        words = r"does not exist|operator|attribute"
        with pytest.raises((ValueError, AttributeError), match=words):
            torch_outboard.kernel(name)(lambda x: x)
    for name in ("aten::view", "empty.memory_format", "aten::_copy_from"):
        with pytest.raises(ValueError, match="cannot be replaced"):
            torch_outboard.kernel(name)(lambda *arguments: None)
    with pytest.raises(ValueError, match="'cpu' was given"):
        torch_outboard.kernel("aten::neg", device="cpu")


# ---- Other namespaces


def accumulate(x: torch.Tensor, y: torch.Tensor) -> None:
    x.add_(y)


@pytest.fixture(scope="module")
def library() -> Iterator[torch.library.Library]:
    with torch.library._scoped_library("outboard_tests", "DEF") as library:
        library.define("double(Tensor x) -> Tensor")
        library.impl("double", lambda x: x * 2, "CPU")
        library.define("accumulate_(Tensor(a!) x, Tensor y) -> ()")
        library.impl("accumulate_", accumulate, "CPU")
        library.define("nowhere(Tensor x) -> Tensor")
        yield library


def test_custom_operator_with_a_cpu_kernel(device, library, shares_memory):
    x = torch.arange(3.0, device=device)
    double = torch.ops.outboard_tests.double
    with torch_outboard.fallback.report() as report:
        result = double(x)
    assert result.device == device
    assert result.tolist() == [0, 2, 4]
    placements = {row.op: row.placement for row in report.rows}
    assert placements["outboard_tests::double"] == ("host" if shares_memory else "copied")
    denied = pytest.raises(NotImplementedError, match="outboard_tests::double")
    with torch_outboard.fallback.policy(deny=["outboard_tests::double"]), denied:
        double(x)
    with torch_outboard.kernel("outboard_tests::double")(lambda x: x.clone().fill_(6)):
        assert double(x).tolist() == [6, 6, 6]
        assert double(torch.ones(1)).tolist() == [2]
    assert double(x).tolist() == [0, 2, 4]
    with pytest.raises(NotImplementedError, match=r"outboard_tests::nowhere.*neither the device"):
        torch.ops.outboard_tests.nowhere(x)


@pytest.mark.separate
def test_custom_operator_that_writes(device, library):
    x = torch.zeros(3, device=device)
    assert torch.ops.outboard_tests.accumulate_(x[1:], torch.ones(2, device=device)) is None
    assert x.tolist() == [0, 1, 1]
