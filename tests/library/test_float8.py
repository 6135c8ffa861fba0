"""float8 operands reach a library that the driver says computes on them, and nothing else."""

from __future__ import annotations

from tests.support import run_python

CODE = """
import ctypes, torch, torch_outboard
from torch_outboard.drivers import contract, host

seen = []
original = contract.load(host.library_path())
table = contract.Driver.from_buffer_copy(original)

def device_properties(context, device, result):
    status = original.device_properties(context, device, result)
    result.contents.dtypes |= contract.DType.{declared}
    return status

def matrix_product(context, queue, description):
    product = description.contents
    if product.workspace_query:
        product.workspace_query[0] = 0
        return 0
    dtypes = {{product.a[0].dtype, product.b[0].dtype, product.out[0].dtype}}
    names = [contract.DType(dtype).name for dtype in dtypes]
    seen.append((names, contract.DType(product.accumulation).name))
    return 0

table.device_properties = contract.FUNCTIONS["device_properties"](device_properties)
table.matrix_product = contract.FUNCTIONS["matrix_product"](matrix_product)
torch_outboard.use_driver(table)
for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
    x = torch.ones(4, 4).to(dtype)
    result = torch.mm(x.to("host"), x.to("host")).cpu()
print(seen, torch.equal(result.float(), torch.mm(x, x).float()))
"""


def test_declared_float8_is_offered_to_the_library() -> None:
    printed = run_python(CODE.format(declared="FLOAT8_E4M3FN"), OUTBOARD_DRIVER="host")
    assert printed.splitlines()[-1] == "[(['FLOAT8_E4M3FN'], 'FLOAT32')] True"
