"""Checks of an entry of the operator database, compiled.

A sample is compiled alone, forward and where possible backward, and compared with eager CPU. What
draws random numbers is compared with the device in eager mode, from the same seed.
"""

import contextlib
from itertools import islice
from typing import Any

import torch
from torch.testing._internal.opinfo.core import OpInfo, SampleInput

from tests.opinfo.checks import CPU, in_float64, nature, prepare
from tests.opinfo.comparison import as_exact_as, significant_strides, tensors_in, value_difference
from tests.opinfo.exclusions import exclusions_for
from tests.opinfo.order_statistics import tie_check, ties_of

# Compiled kernels of these round once, at their end.
_HALVES = {torch.float16: 0.05, torch.bfloat16: 0.05}
# Entries with results that decompositions make on all devices and CPU's kernels do not: statistics
# in evaluation, or in the parameters' dtype. There the first result and gradients are compared.
OTHER_STATISTICS = frozenset(
    {
        "native_batch_norm",
        "_native_batch_norm_legit",
        "_batch_norm_with_update",
        "native_layer_norm",
    }
)
# Samples that one cannot run: CPU neither, or Inductor's backend for CPU is wrong, too.
NOT_RUNNABLE, LIKE_CPU = "not runnable", "like Inductor on CPU"


class Run:
    """Calls of a sample."""

    def __init__(self, op: OpInfo, sample: SampleInput, backward: bool) -> None:
        self.op = op
        self.sample = sample
        self.backward = backward
        self.forward_results = 0

    def on(
        self, device: torch.device, function: Any = None, exact: bool = False
    ) -> list[torch.Tensor]:
        """Results and gradients, from the same seed.

        Args:
            function: what to call instead of the entry's operator.
            exact: on CPU, with twice the digits.
        """
        if exact:
            call = in_float64(self.sample, self.backward)
        else:
            call = prepare(self.op, self.sample, device, self.backward)
        torch.manual_seed(0)
        results = tensors_in(call.of(function or self.op.op))
        self.forward_results = len(results)
        leaves = [t for t in call.tensors if t.requires_grad]
        heads = [t for t in results if t.requires_grad and not t.is_complex()]
        if self.backward and heads and leaves:
            loss = sum(t.sum() for t in heads)
            gradients = torch.autograd.grad(loss, leaves, allow_unused=True)
            results += [g for g in gradients if g is not None]
        if device.type != "cpu":
            torch.accelerator.synchronize()  # raises what a kernel found wrong
        return results

    def difference(
        self, expected: list[torch.Tensor], number: int, got: torch.Tensor, values: str
    ) -> str | None:
        """How a result differs from what is expected."""
        want = expected[number]
        if want.shape != got.shape or want.dtype != got.dtype:
            if self.op.full_name in OTHER_STATISTICS and 0 < number < self.forward_results:
                return None
            return f"{got.dtype} of {tuple(got.shape)} instead of {want.dtype}, {tuple(want.shape)}"
        forward = number < self.forward_results
        if forward and significant_strides(want) != significant_strides(got):
            return f"strides {got.stride()} instead of {want.stride()}"
        if values == "undefined" or (difference := value_difference(want, got)) is None:
            return None
        again = tie_check(ties_of(self.op, self.sample), backward=not forward)
        if again is not None and again(number, want, got) is None:
            return None
        if (tolerance := _HALVES.get(want.dtype)) is not None:
            plain = got.detach().cpu().float()
            if torch.allclose(want.float(), plain, tolerance, tolerance, equal_nan=True):
                return None
        if values == "equal" and (want.dtype.is_floating_point or want.dtype.is_complex):
            with contextlib.suppress(Exception):
                if as_exact_as(want, got, self.on(CPU, exact=True)[number]):
                    return None
        return difference


def check_sample(
    op: OpInfo, sample: SampleInput, device: torch.device, backward: bool, dynamic: bool
) -> str:
    """How a compiled sample differs; "" if it does not, NOT_RUNNABLE if it cannot be compared."""
    run, values = Run(op, sample, backward), nature(op, sample).values
    try:
        expected = run.on(device if values == "random" else CPU)
    except Exception:
        return NOT_RUNNABLE
    torch._dynamo.reset()
    compiled = torch.compile(lambda x, *a, **k: op.op(x, *a, **k), dynamic=dynamic or None)
    try:
        actual = run.on(device, compiled)
    except Exception as error:
        lines = [line for line in str(error).splitlines() if line.strip()] or [""]
        return f"{type(error).__name__}: {lines[0][:200]}"
    if len(actual) != len(expected):
        return f"{len(actual)} results instead of {len(expected)}"
    for number, got in enumerate(actual):
        if difference := run.difference(expected, number, got, values):
            return difference
    return ""


def check_entry(
    op: OpInfo, dtype: torch.dtype, device: torch.device, dynamic: bool, count: int
) -> dict[str, Any]:
    """Runs the first samples of an entry.

    Its status is "right", "wrong", LIKE_CPU if that is all that is wrong, or NOT_RUNNABLE.
    """
    backward = dtype.is_floating_point and op.supports_autograd
    name = str(dtype).removeprefix("torch.")
    exclusions = exclusions_for(op.full_name, name, "", "device")
    samples = list(islice(op.sample_inputs("cpu", dtype, requires_grad=backward), count))
    reasons = [check_sample(op, sample, device, backward, dynamic) for sample in samples]
    if backward and set(reasons) == {NOT_RUNNABLE}:
        # CPU has no gradient in this dtype, or no operator.
        backward = False
        reasons = [check_sample(op, sample, device, backward, dynamic) for sample in samples]
    for index, (sample, reason) in enumerate(zip(samples, reasons, strict=True)):
        if reason in ("", NOT_RUNNABLE):
            continue
        if any(e.hides(check, reason) for e in exclusions for check in ("forward", "backward")):
            # Errors of eager CPU do not count against the device.
            reasons[index] = NOT_RUNNABLE
        elif nature(op, sample).values == "random":
            pass  # Inductor's backend for CPU draws other numbers than eager mode
        elif check_sample(op, sample, CPU, backward, dynamic):
            reasons[index] = LIKE_CPU
    ran = [reason for reason in reasons if reason not in (NOT_RUNNABLE, LIKE_CPU)]
    wrong = [reason for reason in ran if reason]
    status = "wrong" if wrong else "right" if ran else LIKE_CPU
    if set(reasons) <= {NOT_RUNNABLE}:
        status = NOT_RUNNABLE
    return {"entry": op.full_name, "status": status, "samples": len(ran), "reasons": wrong[:2]}
