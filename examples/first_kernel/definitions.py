"""A kernel that computes the size of a result; a list of tensors, and an optional one."""

import torch

import torch_outboard
from torch_outboard.ops.symbolic import fits, where

# ---- A kernel computes the size of a result: plan.read waits for the count.

torch.library.define("definitions::positive", "(Tensor self) -> Tensor")


@torch_outboard.kernel(
    "definitions::positive",
    source="""
        __kernel void count(OB_PARAMETERS) {
          OB_BEGIN
          OB_ITEM(i)
          if (self_load(i) > 0) atomic_inc(found + 0);
        }
        __kernel void keep(OB_PARAMETERS) {
          OB_BEGIN
          OB_ITEM(item)
          ob_index at = 0;
          for (ob_index i = 0; i < n; ++i) if (self_load(i) > 0) out_store(at++, self_load(i));
        }
    """,
)
def positive(plan, self):
    found = plan.temporary("found", 1, torch.int32, initial=0)
    plan.parameters(n=self.numel())
    plan.launch("count", self.numel())
    count = plan.read(found)
    plan.result("out", [count])
    plan.launch("keep", where(count > 0, 1, 0))


x = torch.tensor([3.0, -1.0, 2.0, -5.0])
assert torch.ops.definitions.positive(x.to("ocl")).tolist() == [3.0, 2.0]


# ---- A list of tensors, and a tensor that may be left out.

torch.library.define(
    "definitions::lookup", "(Tensor index, Tensor[] tables, Tensor? bias) -> Tensor"
)


@torch_outboard.kernel(
    "definitions::lookup",
    source="""
        __kernel void lookup(OB_PARAMETERS) {
          OB_BEGIN
          OB_ITEM(i)
          const ob_index entry = ob_checked_index(index_load(i), n);
          if (entry < 0) { OB_REPORT return; }
          V value = table_load(entry);
        #if HAS_bias
          value += bias_load(i);
        #endif
          out_store(i, value);
        }
    """,
    dtypes=[torch.int64],
    accepts={"bias": [torch.float32], "table": [torch.float32]},
    compute=torch.float32,
    reports=IndexError,
)
def lookup(plan, index, tables, bias):
    table = plan.operand("table", tables[-1])
    plan.require(fits(bias, index.shape))
    plan.parameters(n=table.numel())
    out = plan.result("out", index.shape, torch.float32)
    plan.launch("lookup", out.numel())


tables = [torch.zeros(2, device="ocl"), torch.tensor([5.0, 7.0], device="ocl")]
index = torch.tensor([1, 0], device="ocl")
assert torch.ops.definitions.lookup(index, tables, None).tolist() == [7.0, 5.0]
assert torch.ops.definitions.lookup(index, tables, torch.ones(2).to("ocl")).tolist() == [8.0, 6.0]
print("the definitions agree with their operators")
