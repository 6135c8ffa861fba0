"""A vendor's kernel in C++ that enqueues work by itself shows it in profiles."""

import pytest

from tests.device_kernels.processes import run_program
from tests.support import compile_library

KERNEL = """
#include <ATen/ops/empty_like.h>
#include <outboard/kernel.h>
#include <outboard/runtime.h>

namespace {
at::Tensor copying(const at::Tensor& self) {
  at::Tensor result = at::empty_like(self);
  outboard::ProfiledWork work("my_copy", self.device().index());
  const ob_driver& driver = outboard::driver();
  outboard::throw_if_failed(
      driver.copy_device_to_device(driver.context, outboard::current_queue(self.device().index()),
                                   outboard::address(result), outboard::address(self),
                                   self.nbytes()),
      "copy_device_to_device");
  work.submitted();
  return result;
}
OUTBOARD_KERNEL("aten::erf", copying);
}  // namespace
"""


@pytest.mark.slow
def test_work_of_a_vendors_kernel(tmp_path):
    source = tmp_path / "kernel.cpp"
    source.write_text(KERNEL)
    library = tmp_path / "libkernel.so"
    compile_library(source, library)
    printed = run_program(
        """
        import torch, torch_outboard
        from tests.profiler.traces import *

        torch.ops.load_library(sys.argv[1])
        x = torch.ones(1000, device=torch_outboard.device_name())
        print(bool((x.erf().cpu() == 1).all()))
        profiler = profiled(lambda: x.erf())
        (work,) = of_category(trace_of(profiler), "kernel")
        print(work["name"], work["dur"] > 0)
        rows = {row.key: row for row in profiler.key_averages()}
        print(rows["aten::erf"].self_device_time_total == rows["my_copy"].self_device_time_total)
        """,
        str(library),
    )
    assert printed.splitlines()[-3:] == ["True", "my_copy True", "True"]
