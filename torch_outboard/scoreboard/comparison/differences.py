"""Says in one line each how what a device returned differs from what CPU returned."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_flatten


def first_line(error: BaseException) -> str:
    """`Type: first line of the message`, short enough for a table."""
    lines = [line for line in str(error).splitlines() if line.strip()] or [""]
    return f"{type(error).__name__}: {lines[0]}"[:240]


def tensors_in(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_flatten(tree)[0] if isinstance(leaf, torch.Tensor)]


def significant_strides(tensor: torch.Tensor) -> tuple[int, ...]:
    """Strides of the dimensions in which there is more than one element; () for empty tensors."""
    if tensor.layout != torch.strided or tensor.is_nested or tensor.numel() == 0:
        return ()
    pairs = zip(tensor.stride(), tensor.size(), strict=True)
    return tuple(stride for stride, size in pairs if size > 1)


def to_plain_cpu(tensor: torch.Tensor) -> torch.Tensor:
    """A CPU tensor without conj and neg bits that assert_close can compare."""
    plain = tensor.detach().cpu()
    if plain.layout == torch.strided and not plain.is_nested:
        plain = plain.resolve_conj().resolve_neg()
    return plain


def value_difference(expected: torch.Tensor, actual: torch.Tensor) -> str | None:
    try:
        torch.testing.assert_close(
            to_plain_cpu(actual), to_plain_cpu(expected), equal_nan=True, check_stride=False
        )
    except AssertionError as error:
        numbers = re.findall(
            r"(?:Mismatched elements|Greatest \w+ difference): [^\n(]+", str(error)
        )
        return "values: " + ("; ".join(n.strip() for n in numbers) or first_line(error))
    return None


def as_exact_as(
    expected: torch.Tensor, actual: torch.Tensor, exact: torch.Tensor, sums: bool = True
) -> bool:
    """Whether `actual` is about as near to the exact result as what CPU computed.

    Each is held against the same computation in float64. An element's error may be twice that of
    CPU's, or what `assert_close` grants relative to the element.

    Args:
        sums: elements are sums of several terms. Those are rounded differently by every order of
            summation, and where terms cancel, two right results can differ by more than any
            relative tolerance. So not every element is looked at, but the largest error of all,
            and what is granted is relative to the largest element.
    """
    exact = to_plain_cpu(exact)
    if exact.shape != expected.shape or exact.dtype not in (torch.float64, torch.complex128):
        return False
    want, got = (to_plain_cpu(t).to(exact.dtype) for t in (expected, actual))
    finite = torch.isfinite(want) & torch.isfinite(exact)
    if not torch.equal(torch.isfinite(got), torch.isfinite(want)) or not finite.any():
        return False
    if not torch.equal(torch.nan_to_num(want[~finite]), torch.nan_to_num(got[~finite])):
        return False
    error_of_cpu = (want - exact)[finite].abs()
    error = (got - exact)[finite].abs()
    relative, absolute = torch.testing._comparison.default_tolerances(expected.dtype)
    size = exact[finite].abs()
    if sums:
        return bool(error.max() <= max(2 * error_of_cpu.max(), relative * size.max()))
    granted = torch.maximum(2 * error_of_cpu, absolute + relative * size)
    return bool((error <= granted).all())


def range_difference(
    expected: torch.Tensor, actual: torch.Tensor, bounds: tuple[int, ...] = (0, 1)
) -> str | None:
    """For random results: whether they can come from where CPU's come from.

    Args:
        bounds: which the device's values keep if all of CPU's do.
    """
    expected, actual = to_plain_cpu(expected), to_plain_cpu(actual)
    if expected.layout != torch.strided or expected.numel() == 0 or expected.is_complex():
        return None
    if expected.dtype.is_floating_point:
        if expected.isfinite().all() and not actual.isfinite().all():
            return "random values are not finite"
        expected, actual = expected.float(), actual.float()
    if expected.numel() >= 50:
        for bound in bounds:
            if (expected >= bound).all() and not (actual >= bound).all():
                return f"random values are below {bound}"
            if (expected <= bound).all() and not (actual <= bound).all():
                return f"random values are above {bound}"
    return None


def tensor_difference(
    expected: torch.Tensor,
    actual: torch.Tensor,
    device: torch.device,
    *,
    values: str = "equal",
    strides: bool = True,
) -> str | None:
    """The first difference, or None.

    Args:
        expected: the result on CPU.
        actual: the result on `device`.
        device: where the result must be if CPU's is on CPU.
        values: "equal", "random" (only a possible range), "random sums" (only finite, as a sum of
            some random choice has no bounds that CPU's could show) or "undefined" (not looked at).
        strides: whether strides must agree, too.
    """
    if actual.device.type != device.type and expected.device.type == "cpu":
        return f"device is {actual.device}"
    for name in ("dtype", "layout"):
        if getattr(actual, name) != getattr(expected, name):
            return f"{name} is {getattr(actual, name)} and not {getattr(expected, name)}"
    if expected.is_nested:
        return None if actual.is_nested else "not a nested tensor"
    if actual.shape != expected.shape:
        return f"shape is {tuple(actual.shape)} and not {tuple(expected.shape)}"
    if actual.is_conj() != expected.is_conj() or actual.is_neg() != expected.is_neg():
        return "conj or neg bit differs"
    if strides and significant_strides(actual) != significant_strides(expected):
        return f"strides are {actual.stride()} and not {expected.stride()}"
    if values == "equal":
        return value_difference(expected, actual)
    if values == "random sums":
        return range_difference(expected, actual, bounds=())
    return range_difference(expected, actual) if values == "random" else None


def tree_difference(
    expected: Any,
    actual: Any,
    device: torch.device,
    exact: Callable[[], Any] | None = None,
    sums: bool = True,
    again: Callable[[int, torch.Tensor, torch.Tensor], str | None] | None = None,
    **options: Any,
) -> str | None:
    """The first difference between two results of any structure, or None.

    Args:
        exact: makes the same results in float64, for values that are not close.
        sums: as in `as_exact_as`.
        again: compares a result, given by its number, once more if its values differ.
    """
    expected_leaves, expected_spec = tree_flatten(expected)
    actual_leaves, actual_spec = tree_flatten(actual)
    if len(expected_leaves) != len(actual_leaves) or expected_spec != actual_spec:
        return f"structure is {actual_spec} and not {expected_spec}"[:240]
    for number, (want, got) in enumerate(zip(expected_leaves, actual_leaves, strict=True)):
        if isinstance(want, torch.Tensor) != isinstance(got, torch.Tensor):
            difference: str | None = f"is a {type(got).__name__} and not a {type(want).__name__}"
        elif isinstance(want, torch.Tensor):
            difference = tensor_difference(want, got, device, **options)
            if difference and difference.startswith("values:") and again is not None:
                difference = again(number, want, got)
            if difference and difference.startswith("values:") and exact is not None:
                leaves = tree_flatten(exact())[0]
                if len(leaves) == len(expected_leaves) and isinstance(leaves[number], torch.Tensor):
                    close = as_exact_as(want, got, leaves[number], sums)
                    difference = None if close else difference
        elif isinstance(want, (torch.device, torch.Generator)):
            difference = None
        elif options.get("values", "equal") == "equal" and not scalars_agree(want, got):
            difference = f"is {got!r} and not {want!r}"
        else:
            difference = None
        if difference:
            return f"result {number}: {difference}" if len(expected_leaves) > 1 else difference
    return None


def scalars_agree(expected: Any, actual: Any) -> bool:
    if isinstance(expected, (bool, int, float, complex)):
        try:
            torch.testing.assert_close(actual, expected, equal_nan=True)
        except AssertionError:
            return False
        return True
    return bool(expected == actual)


def aliasing(outputs: Any, inputs: Sequence[torch.Tensor]) -> list[tuple[Any, ...]]:
    """How results relate to arguments and to each other; equal lists mean equal relations.

    A row per result: the arguments that are the same object, the arguments and the earlier results
    with the same storage, whether autograd sees a view of an argument, and the offset in a shared
    storage.
    """
    rows: list[tuple[Any, ...]] = []
    results = tensors_in(outputs)
    for number, result in enumerate(results):
        if result.layout != torch.strided or result.is_nested:
            rows.append(("not strided",))
            continue
        same = tuple(i for i, tensor in enumerate(inputs) if tensor is result)
        shared = tuple(i for i, tensor in enumerate(inputs) if share_storage(tensor, result))
        earlier = tuple(
            i for i, other in enumerate(results[:number]) if share_storage(other, result)
        )
        offset = result.storage_offset() if shared or earlier else 0
        rows.append((same, shared, earlier, bool(shared) and result._is_view(), offset))
    return rows


def share_storage(a: torch.Tensor, b: torch.Tensor) -> bool:
    if a.layout != torch.strided or b.layout != torch.strided or a.is_nested or b.is_nested:
        return False
    return bool(a.untyped_storage()._cdata == b.untyped_storage()._cdata)
