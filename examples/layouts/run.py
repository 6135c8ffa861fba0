"""Sparse, nested and quantized tensors on the device.

python examples/layouts/run.py
"""

import warnings

import torch

import torch_outboard
from torch_outboard import fallback

# PyTorch warns that some of these are in beta, and that quantized dtypes are deprecated.
warnings.filterwarnings("ignore", category=UserWarning)
fallback.set_policy(copied="allow")
device = torch_outboard.device_name()
dense = torch.tensor([[0.0, 1.0, 0.0, 2.0], [3.0, 0.0, 0.0, 4.0]])

# Sparse: indices and values are tensors of the device.
for name, make in (
    ("coo", torch.Tensor.to_sparse),
    ("csr", torch.Tensor.to_sparse_csr),
    ("bsr", lambda x: x.to_sparse_bsr((2, 2))),
):
    sparse = make(dense.to(device))
    product = sparse @ dense.T.to(device)
    torch.testing.assert_close(product.cpu(), dense @ dense.T)
    print(f"{name}: on {sparse.device}, its product on {product.device}")

# Nested: tensors of different lengths in one buffer. Operators that work on the buffer run on the
# device, as on any dense tensor.
rows = [torch.randn(2, 4), torch.randn(3, 4)]
layer = torch.nn.Linear(4, 4)
expected = [layer(row).relu() for row in rows]
layer = layer.to(device)
for layout in (torch.strided, torch.jagged):
    nested = torch.nested.nested_tensor(rows, layout=layout, device=device)
    with fallback.report() as report:
        found = layer(nested).relu()
    for row, other in zip(found.unbind(), expected, strict=True):
        torch.testing.assert_close(row.cpu(), other)
    placements = {row.placement for row in report.rows}
    print(f"nested, {layout}: on {found.device}, by {', '.join(sorted(placements))}")

# Quantized: integers with a scale and a zero point.
x = torch.tensor([-1.0, 0.0, 0.25, 1.0])
quantized = torch.quantize_per_tensor(x.to(device), scale=0.1, zero_point=10, dtype=torch.quint8)
print(f"quantized: {quantized.int_repr().tolist()} on {quantized.device}")
total = torch.ops.quantized.add(quantized, quantized, 0.1, 10)
print(f"sum: {[round(value, 1) for value in total.dequantize().tolist()]}")
