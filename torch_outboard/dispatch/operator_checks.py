"""PyTorch's checks of custom operators, for tensors of the device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

__all__ = ["opcheck"]

_REGISTRATION = "test_autograd_registration"
_DEFAULT = ("test_schema", _REGISTRATION, "test_faketensor", "test_aot_dispatch_dynamic")
_ALL = (*_DEFAULT[:3], "test_aot_dispatch_static", _DEFAULT[3])


def opcheck(
    op: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    test_utils: str | Sequence[str] = _DEFAULT,
    raise_exception: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
) -> dict[str, str | Exception]:
    """`torch.library.opcheck`, also for tensors of the device that require gradients.

    For these PyTorch's function raises NotImplementedError: its test of the autograd registration
    has a list of devices (torch/testing/_internal/optests/autograd_registration.py). This function
    does that test for the device's key, and runs PyTorch's other tests.

    Args:
        op: an overload, an operator with one overload, or a result of `torch.library.custom_op`.
        args: arguments of a call; tensors of the device.
        kwargs: further arguments of the call.
        test_utils: names of PyTorch's tests, or "ALL".
        raise_exception: raises the first failure instead of returning it.
        rtol: relative tolerance of values; with `atol`, or not at all.
        atol: absolute tolerance of values.

    Returns:
        by test "SUCCESS", or the exception.

    Raises:
        torch.testing._internal.optests.OpCheckError: if a test fails.
        ValueError: if `op` is no operator, or `test_utils` names no test.
    """
    options: dict[str, Any] = {"raise_exception": raise_exception, "rtol": rtol, "atol": atol}
    names = _ALL if test_utils == "ALL" else test_utils
    names = (names,) if isinstance(names, str) else tuple(names)
    arguments = dict(kwargs or {})
    results: dict[str, str | Exception] = {}
    for name in names:
        if name == _REGISTRATION and _is_of_device(args, arguments):
            results[name] = _check_registration(op, args, arguments, raise_exception)
        else:
            results |= torch.library.opcheck(op, args, arguments, test_utils=name, **options)
    return results


def _is_of_device(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    name = torch._C._get_privateuse1_backend_name()
    leaves = pytree.arg_tree_leaves(*args, **kwargs)
    return any(isinstance(leaf, torch.Tensor) and leaf.device.type == name for leaf in leaves)


def _check_registration(
    op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], raise_exception: bool
) -> str | Exception:
    from torch.testing._internal.optests.generate_tests import OpCheckError

    overload = _overload(op)
    try:
        _find_misplaced_derivative(overload, args, kwargs)
    except Exception as error:
        if raise_exception:
            raise OpCheckError(f"opcheck(op, ...): {_REGISTRATION} failed with {error}") from error
        return error
    return "SUCCESS"


def _overload(op: Any) -> torch._ops.OpOverload:
    op = getattr(op, "_opoverload", op)
    if isinstance(op, torch._ops.OpOverloadPacket) and len(op.overloads()) == 1:
        op = getattr(op, op.overloads()[0])
    if not isinstance(op, torch._ops.OpOverload):
        raise ValueError(
            f"opcheck takes one overload, such as torch.ops.aten.sin.default, not {op}"
        )
    return op


def _find_misplaced_derivative(
    op: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """Raises AssertionError if a derivative does not come from an autograd key."""
    from torch.testing._internal.optests.autograd_registration import set_autograd_fallback_mode

    given = [t for t in pytree.arg_tree_leaves(*args, **kwargs) if isinstance(t, torch.Tensor)]
    if not any(tensor.requires_grad for tensor in given):
        return
    keys = ("AutogradPrivateUse1", "Autograd", "CompositeImplicitAutograd")
    if any(torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), key) for key in keys):
        return
    # In this mode results require gradients only if a kernel below autograd recorded them.
    with set_autograd_fallback_mode("nothing"):
        results = pytree.tree_leaves(op(*args, **kwargs))
    known = {id(tensor) for tensor in given}
    for result in results:
        if isinstance(result, torch.Tensor) and result.requires_grad and id(result) not in known:
            raise AssertionError(
                f"{op.name()} returns a tensor that requires a gradient, and the operator has no "
                "autograd kernel: its derivative is recorded in the kernel of a device; register "
                "it with torch.library.register_autograd or under the key Autograd, or the whole "
                "operator as CompositeImplicitAutograd"
            )
