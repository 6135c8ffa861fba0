"""The tables that cache kernels made of a definition."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import torch

import torch_outboard
from tests.device_kernels.processes import run_program
from tests.support import in_threads
from torch_outboard import Plan
from torch_outboard.ops.symbolic import SymInt, SymTensor

Scale = Callable[[torch.Tensor, int], torch.Tensor]

SCALE = """
__kernel void scale(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(i)
  if (x_load(i) < 0) OB_REPORT;
  out_store(i, x_load(i) * BY);
}
"""
THREADS = 6


@contextmanager
def scale_operator() -> Iterator[Scale]:
    """An operator with an empty table and a kernel for every factor."""
    with torch.library._scoped_library("outboard_tables", "DEF") as library:
        library.define("scale(Tensor x, int by) -> Tensor")

        @torch_outboard.kernel(
            "outboard_tables::scale", source=SCALE, reports=RuntimeError("a negative number")
        )
        def scale(plan: Plan, x: SymTensor, by: SymInt) -> None:
            out = plan.result()
            plan.constants(BY=by)
            plan.launch("scale", out.numel())

        with scale:
            yield torch.ops.outboard_tables.scale


def test_threads_that_make_variants(device: torch.device) -> None:
    x = torch.arange(5.0)

    def check(number: int) -> None:
        for by in (THREADS, number, number + 1, number):  # the first is the same for all
            assert torch.equal(scale(x.to(device), by).cpu(), x * by)

    with scale_operator() as scale:
        in_threads(check, THREADS)
        for number in range(THREADS):
            check(number)


def test_one_of_threads_at_a_first_call_is_wrong(device: torch.device) -> None:
    """All of them have to agree on the word into which kernels write what they found."""
    right = torch.ones(3, device=device)
    for _ in range(8):
        with scale_operator() as scale:
            in_threads(
                lambda number, scale=scale: scale(-right if number == 0 else right, 3), THREADS
            )
            with pytest.raises(RuntimeError, match="a negative number in outboard_tables::scale"):
                torch.accelerator.synchronize()


def test_a_forked_child_does_not_wait_for_a_table() -> None:
    """A thread of the parent may be about to make a variant."""
    printed = run_program(
        """
        import threading
        import torch, torch_outboard
        from tests.device_kernels.programs.test_kernel_table import scale_operator
        from tests.forking import in_child

        x = torch.ones(3, device=torch_outboard.device_name())
        with scale_operator() as scale:
            scale(x, 1)
            done = threading.Event()
            def make():
                by = 2
                while not done.is_set():
                    scale(x, by % 7)
                    by += 1
            thread = threading.Thread(target=make)
            thread.start()
            for by in (1, 9):
                print(in_child(lambda: scale(x, by)).split(":")[0])
            done.set()
            thread.join()
        """,
        timeout=240,
    )
    assert printed.splitlines() == ["RuntimeError"] * 2
