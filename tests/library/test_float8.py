"""float8 operands reach a library that the driver says computes on them, and nothing else."""

from tests.runtime.memory_checks import run_program

DRIVER = """
from tests.lying_drivers import replaced
from torch_outboard.drivers import contract

seen = []

def device_properties(original, device, result):
    status = original.device_properties(None, device, result)
    result.contents.dtypes |= contract.DType.FLOAT8_E4M3FN
    return status

def matrix_product(original, queue, description):
    product = description.contents
    if product.workspace_query:
        product.workspace_query[0] = 0
        return contract.Status.OK
    dtypes = {product.a[0].dtype, product.b[0].dtype, product.out[0].dtype}
    names = [contract.DType(dtype).name for dtype in dtypes]
    seen.append((names, contract.DType(product.accumulation).name))
    return contract.Status.OK

replaced(list, device_properties=device_properties, matrix_product=matrix_product)()
"""


def test_declared_float8_is_offered_to_the_library() -> None:
    code = """
for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
    x = torch.ones(4, 4).to(dtype)
    result = torch.mm(x.to(device), x.to(device)).cpu()
print(seen, torch.equal(result.float(), torch.mm(x, x).float()))
"""
    printed = run_program(code, before=DRIVER, OUTBOARD_DRIVER="host")
    assert printed.splitlines()[-1] == "[(['FLOAT8_E4M3FN'], 'FLOAT32')] True"
