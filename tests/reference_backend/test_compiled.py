"""`torch.compile` with the device: the backend of its name, and one that needs no kernels."""

import pytest
import torch

import torch_outboard


@pytest.fixture(autouse=True)
def nothing_compiled():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:torch.compile")
@pytest.mark.parametrize("options", [{}, {"mode": "max-autotune-no-cudagraphs"}, {"options": {}}])
def test_the_devices_backend_compiles(device, options, shares_memory):
    x = torch.randn(40, device=device)
    compiled = torch.compile(lambda x: torch.relu((x + 1) * 2), backend=device.type, **options)
    torch.testing.assert_close(compiled(x), torch.relu((x + 1) * 2))
    if not shares_memory and not torch_outboard._C.runs_code(device.index):
        return  # graphs run operator by operator there
    with pytest.raises(RuntimeError, match="no_such_setting"):
        torch.compile(lambda x: x - 3, backend=device.type, options={"no_such_setting": 1})(x)


def test_derivatives_and_shapes_without_kernels(device):
    from torch._dynamo.backends.registry import list_backends  # takes seconds

    assert device.type in list_backends()

    @torch.compile(backend="aot_eager", fullgraph=True, dynamic=True)
    def function(x):
        with torch.autocast(device_type=device.type, dtype=torch.bfloat16):
            return torch.mm(x, x.t()).diagonal() * 2

    for size in (4, 8):
        x = torch.ones(size, 3, device=device, requires_grad=True)
        result = function(x)
        assert result.dtype == torch.bfloat16
        result.sum().backward()
        assert x.grad.tolist() == [[4.0] * 3] * size
