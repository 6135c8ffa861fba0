"""A kernel that is an expression in OpenCL C: for all dtypes and layouts."""

import torch

import torch_outboard
from torch_outboard import fallback

device = torch.device(torch_outboard.device_name())
torch_outboard.kernel("aten::leaky_relu", expression="a > C(0) ? a : a * negative_slope")

with fallback.report() as report:
    for dtype in (torch.float32, torch.bfloat16):
        x = torch.tensor([[-2.0, 3.0], [4.0, -8.0]], dtype=dtype).to(device)
        print(torch.nn.functional.leaky_relu(x.t(), 0.5).tolist())
print(*sorted(line for line in str(report).splitlines() if "leaky_relu" in line), sep="\n")
assert {row.placement for row in report.rows if row.op == "aten::leaky_relu"} == {"device"}
