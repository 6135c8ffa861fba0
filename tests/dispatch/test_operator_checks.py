"""`torch_outboard.opcheck` finds on the device what `torch.library.opcheck` finds on CPU."""

from collections.abc import Iterator

import pytest
import torch

import torch_outboard

DEFAULT = [
    "test_schema",
    "test_autograd_registration",
    "test_faketensor",
    "test_aot_dispatch_dynamic",
]


@pytest.fixture(scope="module")
def library(device) -> Iterator[torch.library.Library]:
    """Operators with one mistake each, or none; the same on CPU and on the device."""

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 2

    def add_into(x):
        x.add_(1)
        return x.clone()

    kernels = {
        "right": torch.exp,
        "derivative_in_kernel": Double.apply,
        "wrong_schema": add_into,
        "wrong_shape": lambda x: x.exp().sum(),
    }
    library = torch.library.Library("opcheck_tests", "FRAGMENT")
    for name, kernel in kernels.items():
        library.define(f"{name}(Tensor x) -> Tensor")
        for key in ("CPU", "PrivateUse1"):
            library.impl(name, kernel, key)
        library._register_fake(name, torch.empty_like)

    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return x.exp() * gradient

    torch.library.register_autograd(
        "opcheck_tests::right",
        backward,
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
        lib=library,
    )
    yield library
    library._destroy()


def outcomes(check, op, device) -> dict[str, bool]:
    x = torch.linspace(-1, 1, 6).to(device).requires_grad_()
    results = check(op, (x,), raise_exception=False)
    return {name: result == "SUCCESS" for name, result in results.items()}


def test_mistakes_are_found_as_on_the_cpu(device, library):
    for name, failing in (
        ("right", None),
        ("derivative_in_kernel", "test_autograd_registration"),
        ("wrong_schema", "test_schema"),
        ("wrong_shape", "test_faketensor"),
    ):
        op = getattr(torch.ops.opcheck_tests, name)
        found = outcomes(torch_outboard.opcheck, op, device)
        assert found == outcomes(torch.library.opcheck, op, "cpu")
        assert list(found) == DEFAULT
        assert failing is None or not found[failing]
    # When this fails, PyTorch has learned of other devices, and ours can go.
    op = torch.ops.opcheck_tests.right
    assert not outcomes(torch.library.opcheck, op, device)["test_autograd_registration"]


def test_a_failure_raises(device, library):
    from torch.testing._internal.optests import OpCheckError  # its import takes seconds

    x = torch.ones(3, device=device, requires_grad=True)
    op = torch.ops.opcheck_tests.derivative_in_kernel
    with pytest.raises(OpCheckError, match="its derivative is recorded in the kernel of a device"):
        torch_outboard.opcheck(op.default, (x,), test_utils="test_autograd_registration")
    assert torch._C._get_autograd_fallback_mode() == "warn"
    # Nothing to find without gradients.
    torch_outboard.opcheck(op, (x.detach(),), test_utils=["test_autograd_registration"])


def test_other_arguments(device):
    x = torch.linspace(-1, 1, 6, device=device).requires_grad_()
    sin = torch.ops.aten.sin.default
    results = torch_outboard.opcheck(sin, (x,), test_utils="ALL")
    assert results == dict.fromkeys([*DEFAULT, "test_aot_dispatch_static"], "SUCCESS")
    with pytest.raises(ValueError, match="opcheck takes one overload"):
        torch_outboard.opcheck(torch.sin, (x,), test_utils="test_autograd_registration")
    with pytest.raises(ValueError, match="test_nothing"):
        torch_outboard.opcheck(sin, (x,), test_utils="test_nothing")
