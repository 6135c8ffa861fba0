"""Programs and launches of the runtime, through sources of the tests."""

import struct

import pytest
import torch

from tests.device_kernels.processes import run_program
from tests.support import in_threads
from torch_outboard import _C

SCALE = """
__kernel void scale(OB_POINTER(float, x), float factor, uint count) {
  OB_BIND(float, x)
  const uint i = get_global_id(0);
  if (i < count) x[i] *= factor;
}
__kernel void shift(OB_POINTER(float, x), uint count, OB_POINTER(const float, by)) {
  OB_BIND(float, x)
  OB_BIND(const float, by)
  const uint i = get_global_id(0);
  if (i < count) x[i] += by[0];
}
"""


def launch(device, source, name, arguments, size=64, local=None, options=""):
    local = local or min(16, largest_group(device))
    _C.launch_kernel(device.index, source, name, options, [size], [local], arguments)


def largest_group(device) -> int:
    return torch.get_device_module(device).get_device_properties(device).max_work_group_size


def number_of(kind: str, value: float) -> tuple[str, bytes]:
    return "value", struct.pack(kind, value)


def address(tensor: torch.Tensor) -> tuple[str, int]:
    return "address", tensor.data_ptr()


def test_kernels_of_one_program_with_offsets(device):
    x = torch.arange(64.0).to(device)
    by = torch.tensor([0.0, 100.0]).to(device)
    built = _C.program_counts()[0]
    launch(device, SCALE, "scale", [address(x[4:]), number_of("f", 2.0), number_of("I", 10)])
    launch(device, SCALE, "shift", [address(x[60:]), number_of("I", 4), address(by[1:])])
    expected = torch.arange(64.0)
    expected[4:14] *= 2
    expected[60:] += 100
    assert x.tolist() == expected.tolist()
    assert _C.program_counts()[0] - built <= 1


LOCAL = """
__kernel void fill_local(OB_POINTER(int, x), __local int *tile) {
  OB_BIND(int, x)
  tile[get_local_id(0)] = 3;
  x[get_global_id(0)] = tile[get_local_id(0)];
}
"""


def test_launches_that_cannot_be(device, device_module, pytestconfig):
    properties = device_module.get_device_properties(device)
    room, most = properties.local_memory, properties.max_work_group_size
    x, tile = torch.ones(64).to(device), torch.zeros(16, dtype=torch.int32, device=device)
    arguments = [address(x), number_of("f", 2.0), number_of("I", 64)]
    with pytest.raises(ValueError, match=rf"fill_local .* with {room + 4} bytes of local"):
        launch(device, LOCAL, "fill_local", [address(tile), ("local", room + 4)], size=16)
    with pytest.raises(ValueError, match="1 to 3 dimensions"):
        _C.launch_kernel(device.index, SCALE, "scale", "", [], [], [])
    with pytest.raises((RuntimeError, ValueError), match="nothing_of_that_name"):
        launch(device, SCALE, "nothing_of_that_name", [])
    source = "__kernel void wrong(uint n) {\n  uint a = n;\n  a = undeclared_name + 1;\n}\n"
    with pytest.raises(
        RuntimeError, match=r"(?s)does not compile.*line 3:   a = undeclared_name \+ 1;"
    ):
        launch(device, source, "wrong", [number_of("I", 1)])
    launch(device, LOCAL, "fill_local", [address(tile), ("local", 64)], size=16)
    launch(device, SCALE, "scale", arguments)
    assert tile.tolist() == [3] * 16
    assert x.tolist() == [2.0] * 64
    if pytestconfig.getoption("configuration") != "gpu":  # its driver takes more than it says
        with pytest.raises(
            ValueError, match=rf"work-groups of {2 * most} work-items, and .* at most"
        ):
            launch(device, SCALE, "scale", arguments, size=2 * most, local=2 * most)


ATTRIBUTES = """
    import torch
    from tests.device_kernels import changed_driver
    from torch_outboard import _C
    def kernel_attributes(context, kernel, attributes):
        attributes.contents.max_work_group_size = limit
        return 0
    changed_driver.use(kernel_attributes=kernel_attributes)
    limit = 0  # what the device says, for kernels of the kit
    x = torch.ones(64).to("ocl")
    limit = 8
    source = "__kernel void k(OB_POINTER(float, x)) { OB_BIND(float, x) x[get_global_id(0)] = 2; }"
    for local in (8, 16):
        try:
            _C.launch_kernel(0, source, "k", "", [64], [local], [("address", x.data_ptr())])
            print(x.cpu().sum().item())
        except ValueError as error:
            print(str(error).partition(chr(10))[0])
"""


def test_what_a_kernel_can_have_is_asked_of_the_driver():
    printed = run_program(ATTRIBUTES, OUTBOARD_DRIVER="ocl", OUTBOARD_FAULTS=None)
    assert printed.splitlines() == [
        "128.0",
        "kernel k was launched with work-groups of 16 work-items, and ocl:0 runs it with at most "
        "8; launch smaller groups",
    ]


def test_local_memory_and_several_dimensions(device):
    if largest_group(device) < 16:
        pytest.skip("needs work groups of 16 work items, and the device has smaller ones")
    source = """
    __kernel void transpose(OB_POINTER(int, out), OB_POINTER(const int, in), __local int *tile) {
      OB_BIND(int, out)
      OB_BIND(const int, in)
      const uint r = get_global_id(1), c = get_global_id(0);
      tile[get_local_id(1) * 4 + get_local_id(0)] = in[r * 8 + c];
      barrier(CLK_LOCAL_MEM_FENCE);
      const uint row = get_group_id(0) * 4 + get_local_id(1);
      const uint column = get_group_id(1) * 4 + get_local_id(0);
      out[row * 8 + column] = tile[get_local_id(0) * 4 + get_local_id(1)];
    }
    """
    x = torch.arange(64, dtype=torch.int32)
    out = torch.zeros(64, dtype=torch.int32, device=device)
    source_tensor = x.to(device)
    arguments = [address(out), address(source_tensor), ("local", 4 * 4 * 4)]
    _C.launch_kernel(device.index, source, "transpose", "", [8, 8], [4, 4], arguments)
    assert torch.equal(out.cpu().view(8, 8), x.view(8, 8).t())


def test_options_make_another_program(device):
    source = (
        "__kernel void write(OB_POINTER(int, x)) { OB_BIND(int, x) x[get_global_id(0)] = VALUE; }"
    )
    for value in (3, 5):
        x = torch.zeros(16, dtype=torch.int32, device=device)
        launch(device, source, "write", [address(x)], 16, options=f"-DVALUE={value}")
        assert x.tolist() == [value] * 16


def test_threads_share_a_kernel(device):
    """A kernel object holds one set of arguments: threads must not see each other's."""

    def work(number: int) -> None:
        x, factor = torch.ones(64, device=device), float(number + 2)
        for _ in range(200):
            x.fill_(1)
            launch(device, SCALE, "scale", [address(x), number_of("f", factor), number_of("I", 64)])
            assert x.tolist() == [factor] * 64

    in_threads(work, 6)


def test_streams_order_launches(device, device_module):
    """A launch belongs to the current stream, and reading a result waits for that one."""
    x = torch.ones(64, device=device)
    side = torch.Stream(device)
    side.wait_stream(torch.accelerator.current_stream())
    with side:
        for _ in range(20):
            launch(device, SCALE, "scale", [address(x), number_of("f", 2.0), number_of("I", 64)])
    torch.accelerator.current_stream().wait_stream(side)
    launch(device, SCALE, "scale", [address(x), number_of("f", 0.5), number_of("I", 64)])
    assert x.tolist() == [2.0**19] * 64
