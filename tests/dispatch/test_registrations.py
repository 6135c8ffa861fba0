"""Kernels that were registered with PyTorch's dispatcher, and who registered what."""

import gc
from collections.abc import Iterator

import pytest
import torch

import torch_outboard
from tests.dispatch.conftest import constant, ones
from tests.support import run_python, try_python
from torch_outboard import fallback

pytestmark = pytest.mark.usefixtures("allowed")


@pytest.fixture
def library() -> Iterator[torch.library.Library]:
    with torch.library._scoped_library("aten", "IMPL") as library:
        yield library


def decline(*arguments):
    raise torch_outboard.Declined


def placements(report: fallback.Report) -> dict[str, str]:
    return {row.op: row.placement for row in report.rows}


# ---- Kernels of PyTorch's dispatcher


def test_ranks_with_kernels_of_users(device, library):
    library.impl("erf", constant(4), "PrivateUse1")
    with torch_outboard.kernel("aten::erf")(constant(5)):
        assert torch.erf(ones(device)).tolist() == [5, 5, 5]
        sources = [(k.source, k.raw) for k in torch_outboard.registrations("aten::erf")]
        assert sources[:2] == [("user", False), ("user", True)]
    assert torch.erf(ones(device)).tolist() == [4, 4, 4]


def test_goes_with_its_library(device):
    expected = torch.erf(torch.ones(3)).tolist()
    library = torch.library.Library("aten", "IMPL")
    library.impl("erf", constant(4), "PrivateUse1")
    with fallback.report():
        assert torch.erf(ones(device)).tolist() == [4, 4, 4]
    library._destroy()
    del library
    gc.collect()
    for _ in range(2):
        assert torch.erf(ones(device)).tolist() == pytest.approx(expected)
    assert all(not kernel.raw for kernel in torch_outboard.registrations("aten::erf"))


def test_a_second_one_wins(device, library):
    library.impl("erf", constant(4), "PrivateUse1")
    with fallback.report():
        assert torch.erf(ones(device)).tolist() == [4, 4, 4]
    with torch.library._scoped_library("aten", "IMPL") as second:
        # Before 2.13 PyTorch has to be told that a second one is no mistake.
        second.impl("erf", constant(6), "PrivateUse1", allow_override=True)
        assert torch.erf(ones(device)).tolist() == [6, 6, 6]
        with fallback.report() as report:
            assert torch.erf(ones(device)).tolist() == [6, 6, 6]
        assert placements(report)["aten::erf"] == "device"
    assert torch.erf(ones(device)).tolist() == [4, 4, 4]


def test_denying_refuses_what_it_declines(device, library):
    def erf(x):
        if x.numel() > 1:
            raise torch_outboard.Declined
        return torch.full_like(x, 4)

    library.impl("erf", erf, "PrivateUse1")
    with fallback.policy(deny=["aten::erf"]):
        assert torch.erf(ones(device, 1)).tolist() == [4]
        if torch_outboard.placement.get_placement(device) != "device":
            with pytest.raises(NotImplementedError, match="the operator is denied"):
                torch.erf(ones(device))


def test_exceptions_are_its_own(device, library):
    def erf(x):
        raise KeyError("from the kernel")

    library.impl("erf", erf, "PrivateUse1")
    for _ in range(2):
        with fallback.report(), pytest.raises(KeyError, match="from the kernel"):
            torch.erf(ones(device))


def test_memory_stays_with_the_dispatcher(device):
    code = """
        import torch, torch_outboard
        calls = []
        library = torch.library.Library("aten", "IMPL")
        def view(x, size):
            calls.append(size)
            return torch.as_strided(x, size, [1] * len(size))
        library.impl("view", view, "PrivateUse1")
        x = torch.ones(4, device="host")
        with torch_outboard.fallback.report():
            assert x.view(4, 1).shape == (4, 1)
        print(calls, [k.source for k in torch_outboard.registrations("aten::view")])
    """
    assert run_python(code, OUTBOARD_DRIVER="host").split("\n")[0] == "[[4, 1]] ['user']"


ORDERS = """
    import sys, os
    import torch
    order = sys.argv[1]
    def relu(x):
        return torch.full_like(x, 7)
    library = torch.library.Library("aten", "IMPL")
    if order == "before":
        library.impl("relu", relu, "PrivateUse1")
        library.impl("mul.Tensor", lambda x, y: torch.full_like(x, 8), "PrivateUse1")
    import torch_outboard
    if order == "late":
        torch.ones(1, device=torch_outboard.device_name())
    if order != "before":
        library.impl("relu", relu, "PrivateUse1")
        library.impl("mul.Tensor", lambda x, y: torch.full_like(x, 8), "PrivateUse1")
    x = torch.ones(2, device=torch_outboard.device_name())
    with torch_outboard.fallback.report() as report:
        print(torch.relu(x).tolist(), (x * x).tolist())
    placements = {row.op: row.placement for row in report.rows}
    print(placements["aten::relu"], placements["aten::mul.Tensor"])
"""


@pytest.mark.by_turns(3)
@pytest.mark.parametrize("order", ["before", "after", "late"])
def test_every_order_of_loading(order):
    done = try_python(
        ORDERS,
        order,
        TORCH_DEVICE_BACKEND_AUTOLOAD="0",
        OUTBOARD_DRIVER="host",
        OUTBOARD_FALLBACK_COPIED="allow",
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "[7.0, 7.0] [8.0, 8.0]",
        "device device",
    ]


def test_registering_gives_late_kernels_their_rank(device, library):
    x = ones(device)
    assert (x + x).tolist() == [2, 2, 2]  # the device has been used
    with torch_outboard.registering():
        library.impl("add.out", fill_out(9), "PrivateUse1")
        library.impl("neg", constant(4), "PrivateUse1")
    assert (x + x).tolist() == [9, 9, 9]
    with torch_outboard.kernel("aten::neg")(constant(5)):
        assert (-x).tolist() == [5, 5, 5]
    with torch_outboard.registering(), torch_outboard.registering():
        library.impl("sign", decline, "PrivateUse1")
    assert torch.sign(x).tolist() == [1, 1, 1]


FALLBACKS = """
    import torch, torch_outboard
    device = torch_outboard.device_name()
    module = torch.get_device_module(device)
    definitions = torch.library.Library("late_fallback", "DEF")
    for name in ("twice", "also_twice"):
        definitions.define(f"{name}(Tensor x) -> Tensor")
        definitions.impl(name, lambda x: x * 2, "CPU")
    def call(name="twice"):
        return getattr(torch.ops.late_fallback, name)(torch.ones(2, device=device)).tolist()
    def theirs(op, *arguments):
        return torch.full_like(arguments[0], 7)
    def bring():
        library = torch.library.Library("_", "IMPL")
        library.fallback(theirs, "PrivateUse1")
        return library
    print(call())
    try:
        bring()
    except RuntimeError as error:
        assert "in a `with torch_outboard.registering():`" in str(error), error
    with torch_outboard.registering():
        pass
    print(call())
    with torch_outboard.registering():
        library = bring()
        with torch_outboard.registering():
            pass
    print(call())
    with torch_outboard.kernel("late_fallback::also_twice")(lambda x: x * 3):
        print(call("also_twice"))
    print(call("also_twice"))
    library._destroy()
    with torch_outboard.registering():
        pass
    print(call())
"""


def test_a_fallback_that_comes_late():
    out = run_python(FALLBACKS, OUTBOARD_FALLBACK_COPIED="allow")
    expected = ([2, 2], [2, 2], [7, 7], [3, 3], [7, 7], [2, 2])
    assert out.splitlines() == [str([float(x) for x in line]) for line in expected]


def test_a_place_for_a_fallback_before_the_first_use():
    code = """
        import torch, torch_outboard
        device = torch_outboard.device_name()
        with torch_outboard.registering():
            assert torch.ones(2, device=device).sum() == 2  # the first use
            library = torch.library.Library("_", "IMPL")
            library.fallback(lambda op, x: torch.full_like(x, 7), "PrivateUse1")
        torch.library.define("late_fallback::twice", "(Tensor x) -> Tensor")
        print(torch.ops.late_fallback.twice(torch.ones(2, device=device)).tolist())
    """
    assert run_python(code).strip() == "[7.0, 7.0]"


def test_autograd_key(device, library):
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            with torch._C._AutoDispatchBelowAutograd():
                return torch.erf(x)

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 100

    library.impl("erf", Square.apply, "AutogradPrivateUse1")
    x = ones(device).requires_grad_()
    torch.erf(x).sum().backward()
    assert x.grad.tolist() == [100, 100, 100]
    kernels = torch_outboard.registrations("aten::erf")
    assert next((k.key, k.source) for k in kernels) == ("AutogradPrivateUse1", "user")


# ---- Forms that follow


def fill_out(value: float):
    return lambda x, *others, out, **numbers: out.fill_(value)


def test_forms_follow_the_out_form(device):
    x = ones(device)
    with torch_outboard.kernel("aten::add.out")(fill_out(9)):
        assert (x + x).tolist() == [9, 9, 9]
        assert x.clone().add_(1).tolist() == [9, 9, 9]
        assert (x.int() + x.double()).dtype == torch.float64
        assert (ones(device, 2, 1) + x).shape == (2, 3)
        with pytest.raises(RuntimeError, match="can't be cast"):
            x.int().add_(1.5)
        with pytest.raises(RuntimeError, match="must match the size"):
            x + ones(device, 2)
        with torch_outboard.kernel("aten::add.Tensor")(constant(3)):
            assert (x + x).tolist() == [3, 3, 3]
            assert x.clone().add_(x).tolist() == [9, 9, 9]
            found = torch_outboard.registrations("add.Tensor")
            assert [kernel.follows for kernel in found][:2] == [False, True]
    assert not any(kernel.follows for kernel in torch_outboard.registrations("add.Tensor"))
    assert (x + x).tolist() == [2, 2, 2]
    with torch_outboard.kernel("aten::add.out", dtypes=[torch.float64])(fill_out(9)):
        assert (x + 1).tolist() == [2, 2, 2]
        assert (x.double() + 1).tolist() == [9, 9, 9]
    # No structured operator, and still one of its out= form.
    with torch_outboard.kernel("aten::abs.out")(lambda x, *, out: out.resize_(3).fill_(9)):
        assert x.abs().tolist() == [9, 9, 9]
        assert x.clone().abs_().tolist() == [9, 9, 9]
    x.requires_grad_()
    with torch_outboard.kernel("aten::mul.out")(lambda a, b, *, out: torch.div(a, 1 / b, out=out)):
        (x * 3).sum().backward()
    assert x.grad.tolist() == pytest.approx([3, 3, 3])


def test_forms_follow_a_kernel_of_the_dispatcher(device):
    with torch.library._scoped_library("aten", "IMPL") as library:
        library.impl("add.out", fill_out(9), "PrivateUse1")
        with fallback.report() as report:
            assert (ones(device) + 1).tolist() == [9, 9, 9]
        assert placements(report)["aten::add.out"] == "device"
        assert "aten::add.Tensor" not in placements(report)
    # The first call afterwards finds that the kernel is gone.
    assert (ones(device) + 1).tolist() == [2, 2, 2]


def test_a_form_is_denied_where_its_out_form_has_gone(device):
    x = ones(device)
    with torch.library._scoped_library("aten", "IMPL") as library:
        library.impl("add.out", fill_out(9), "PrivateUse1")
        with fallback.report():
            assert (x + 1).tolist() == [9, 9, 9]
    with fallback.policy(deny=["aten::add.Tensor"]):
        for _ in range(2):
            if torch_outboard.placement.get_placement(device) == "device":
                assert (x + 1).tolist() == [2, 2, 2]
            else:
                with pytest.raises(NotImplementedError, match="the operator is denied"):
                    x + 1
    assert (x + 1).tolist() == [2, 2, 2]


# ---- Declining


@pytest.mark.separate
def test_a_function_declines(device):
    seen = []

    @torch_outboard.kernel("aten::cat")
    def cat(tensors, dim=0):
        seen.append(len(tensors))
        raise torch_outboard.Declined

    with cat:
        x = ones(device)
        # Arguments that PyTorch pops for the kernel are on the stack for the next.
        assert torch.cat([x, 2 * x]).tolist() == [1, 1, 1, 2, 2, 2]
        assert torch.cat([ones(device, 1, 2)] * 3, 1).shape == (1, 6)
    assert seen == [2, 3]


def test_declined_calls_reach_the_next_kernel(device):
    def first(x):
        if x.dim() == 1:
            raise torch_outboard.Declined
        return torch.full_like(x, 1)

    neg = torch_outboard.kernel("aten::neg")
    with neg(constant(2)), neg(first), fallback.report() as report:
        assert torch.neg(ones(device)).tolist() == [2, 2, 2]
        assert torch.neg(ones(device, 1, 1)).tolist() == [[1]]
    assert [(r.op, r.calls) for r in report.rows if r.op == "aten::neg"] == [("aten::neg", 2)]


# ---- Who registered what


def test_source_locations_of_kernels(device):
    with torch_outboard.kernel("aten::relu", dtypes=[torch.float32])(constant(1)) as relu:
        kernel = torch_outboard.registrations("relu")[0]
    assert relu.function is not None
    assert (kernel.source, kernel.dtypes, kernel.device) == ("user", (torch.float32,), -1)
    file, _, line = kernel.origin.rpartition(":")
    assert file == constant.__code__.co_filename
    assert int(line) == constant.__code__.co_firstlineno + 2
    with pytest.raises(ValueError, match="does not exist"):
        torch_outboard.registrations("aten::no_such_operator")
