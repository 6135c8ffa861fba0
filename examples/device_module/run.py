"""Names with the device's name: the module, methods, properties, strings.

python examples/device_module/run.py
"""

import torch
from torch.nn.utils.rnn import pack_sequence

import torch_outboard

name = torch_outboard.device_name()
module = torch.get_device_module(name)
print(
    f"torch.{name}: {module.device_count()} devices, the current one is {module.current_device()}"
)
assert getattr(torch, name) is module

things = {
    "tensor": torch.ones(2, 3),
    "module": torch.nn.Linear(3, 2),
    "packed sequence": pack_sequence([torch.ones(3), torch.ones(2)]),
    "untyped storage": torch.ones(2).untyped_storage(),
    "typed storage": torch.ones(2).storage(),
}
for what, thing in things.items():
    moved = getattr(thing, name)()  # x.ocl(), where the device is called ocl
    if what == "module":
        places = {parameter.device for parameter in moved.parameters()}
    elif what == "packed sequence":
        places = {moved.data.device}
    else:
        places = {moved.device}
    is_there = "" if what == "module" else f"is_{name}: {getattr(moved, f'is_{name}')}"
    print(f"{what:16} .{name}()  {', '.join(map(str, places))}  {is_there}".rstrip())
    assert places == {torch.device(name, 0)}

# Every dtype can be stored, also dtypes without kernels.
for dtype in (torch.float8_e4m3fn, torch.complex32, torch.uint4):
    bits = torch.arange(8, dtype=torch.uint8)
    tensor = bits.view(dtype) if dtype.itemsize > 0 else bits
    moved = getattr(tensor, name)()
    back = moved.cpu().view(torch.uint8)
    assert torch.equal(back, bits), dtype
    assert getattr(tensor.untyped_storage(), name)().device.type == name
print("bytes of every dtype come back as they were")
