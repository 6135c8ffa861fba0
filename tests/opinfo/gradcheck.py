"""PyTorch's `gradcheck` of what device kernels compute, in float64, by family.

    python -m tests.opinfo.gradcheck [--samples 2] [entries...]

Every entry of the operator database that has a gradient is called with the placement `device`:
gradients have to agree with differences of results, as they have to on CPU with the same samples.
Samples that fail there are left out. A family counts an entry if one of its kernels served a call,
forward or backward. Exit status: 0 if no entry fails and every differentiable family was seen.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import tree_map

import torch_outboard
from tests.opinfo.checks import CPU, differentiable, gradients, prepare, spread
from tests.opinfo.comparison import first_line
from torch_outboard import fallback, placement
from torch_outboard.ops import tables

if TYPE_CHECKING:  # it imports Dynamo
    from torch.testing._internal.opinfo.core import OpInfo, SampleInput

# Families whose operators have no derivative, or whose results carry none to check.
NOT_DIFFERENTIABLE = {
    "pointwise_lists": "steps of optimizers",
    "random": "what is drawn does not depend on an argument by a difference",
}
# The operator database has no entry with kernels of these; their own tests call gradcheck.
TESTED_BY_HAND = {"recurrent": "tests/device_kernels/products/test_recurrent.py"}
# On which dtypes a kernel has to have run to count as checked.
COMPUTED = (torch.float64, torch.complex128)
# Tensors with more elements take long and find nothing else.
LARGEST = 4096


def entries() -> dict[str, OpInfo]:
    """Those with a gradient in float64 on CPU, by full name."""
    from torch.testing._internal.common_methods_invocations import op_db

    return {
        op.full_name: op
        for op in op_db
        if op.supports_autograd and torch.float64 in op.supported_backward_dtypes("cpu")
    }


def check_sample(op: OpInfo, sample: SampleInput, device: torch.device) -> bool:
    """Raises what `gradcheck` does; False if there is nothing to differentiate."""
    call = prepare(op, sample, device, requires_grad=True)
    leaves = [t for t in call.tensors if t.requires_grad]
    if not leaves or any(t.numel() > LARGEST for t in call.tensors):
        return False
    numbers = {id(t): number for number, t in enumerate(leaves)}

    def function(*given: torch.Tensor) -> Any:
        def put(value: Any) -> Any:
            return given[numbers[id(value)]] if id(value) in numbers else value

        first, args, kwargs = tree_map(put, (call.input, tuple(call.args), dict(call.kwargs)))
        value = op.gradcheck_wrapper(op.op, first, *args, **kwargs)
        if sample.output_process_fn_grad is not None:
            value = sample.output_process_fn_grad(value)
        return tuple(differentiable(value))

    torch.manual_seed(0)
    if not function(*leaves):
        return False
    return torch.autograd.gradcheck(
        function,
        leaves,
        fast_mode=op.gradcheck_fast_mode is not False,
        nondet_tol=op.gradcheck_nondet_tol,
    )


def check_entry(op: OpInfo, device: torch.device, count: int) -> tuple[set[str], int]:
    """Checks up to `count` samples.

    Returns:
        The families whose kernels took part, and the number of samples that were checked: others
        fail on CPU as well, or have nothing to differentiate.

    Raises:
        AssertionError: if the device fails where CPU does not.
    """
    families: set[str] = set()
    checked = 0
    known = tables.families()
    samples = list(op.sample_inputs("cpu", torch.float64, requires_grad=True))
    for number, sample in spread(samples, count):
        try:
            if not check_sample(op, sample, CPU):
                continue
        except RuntimeError:  # also GradcheckError
            continue
        checked += 1
        with placement.use("device"):
            try:
                differentiated = check_sample(op, sample, device)
            except Exception as error:
                raise AssertionError(
                    f"{op.full_name}, sample {number}: {first_line(error)}"
                ) from error
            if not differentiated:
                raise AssertionError(
                    f"{op.full_name}, sample {number}: nothing to differentiate, unlike on CPU"
                )
            # Once more, since gradcheck calls operators of its own.
            call = prepare(op, sample, device, requires_grad=True)
            with fallback.report() as report:
                gradients(op, sample, call, cotangents=[])
        families |= {
            known[row.op]
            for row in report.rows
            if row.placement == "device" and row.dtype in COMPUTED and row.op in known
        }
    return families, checked


def differentiable_families() -> set[str]:
    """Operators whose entries must have kernels."""
    return set(tables.families().values()) - set(NOT_DIFFERENTIABLE) - set(TESTED_BY_HAND)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("entries", nargs="*", help="full names; all by default")
    parser.add_argument("--samples", type=int, default=2, help="of an entry")
    options = parser.parse_args(argv)
    known = entries()
    if unknown := set(options.entries) - set(known):
        parser.error(f"no gradient is known of {', '.join(sorted(unknown))}")
    device = torch.device(torch_outboard.device_name(), 0)
    fallback.set_policy(copied="allow")
    warnings.simplefilter("ignore")  # CPU gives the same ones
    passed: dict[str, int] = defaultdict(int)
    failures = []
    unchecked = []
    right = 0
    for name in options.entries or known:
        try:
            families, checked = check_entry(known[name], device, options.samples)
        except AssertionError as error:
            failures.append(str(error))
            print(failures[-1], flush=True)
            continue
        if not checked:
            unchecked.append(name)
        right += bool(families)
        for family in families:
            passed[family] += 1
    print("entries in whose gradients a family's kernels took part:")
    for family in sorted(passed):
        print(f"{family:<30} {passed[family]}")
    print(f"{right} entries right by device kernels, {len(failures)} wrong")
    if unchecked:
        print(f"not checked, as gradcheck fails on CPU or finds nothing: {unchecked}")
    missing = set() if options.entries else differentiable_families() - set(passed)
    if missing:
        print(f"no entry has kernels of {', '.join(sorted(missing))}")
    return int(bool(failures or missing))


if __name__ == "__main__":
    sys.exit(main())
