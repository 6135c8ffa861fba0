"""A vendor's class of random number generators for the device.

    python examples/generator/run.py

Compiles `generator.cpp`, draws from the device's default generator and from another one, and
exits with status 1 if a generator is not the vendor's or a state does not repeat its numbers.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch.utils.checkpoint import checkpoint
from torch.utils.cpp_extension import load

import torch_outboard

load("generator_example", [Path(__file__).with_name("generator.cpp")], is_python_module=False)

device = torch_outboard.device_name()
module = torch.get_device_module(device)
is_counter = torch.ops.generator_example.is_counter

torch.manual_seed(7)
default = module.default_generators[0]
first = torch.rand(3, device=device)
print(f"default generator: the vendor's {is_counter(default)}, seed {default.initial_seed()}")
print(f"after one draw: offset {default.get_offset()}, {first.tolist()}")

own = torch.Generator(device=device).manual_seed(7)
clone = own.clone_state()
state = own.get_state()
numbers = torch.randn(4, device=device, generator=own)
own.set_state(state)
repeated = torch.equal(numbers, torch.randn(4, device=device, generator=own))
cloned = torch.equal(numbers, torch.randn(4, device=device, generator=clone))
print(f"own generator: the vendor's {is_counter(own)}, state of {state.numel()} bytes")
print(f"numbers repeat from a state {repeated}, from a clone {cloned}")

before = module.get_rng_state()
with torch.random.fork_rng(devices=[0], device_type=device):
    torch.rand(100, device=device)
forked = torch.equal(before, module.get_rng_state())
x = torch.ones(64, device=device, requires_grad=True)
y = checkpoint(torch.nn.functional.dropout, x, use_reentrant=False)
y.sum().backward()
dropped = torch.equal(y.detach(), x.grad)
print(f"fork_rng restores {forked}, a checkpoint draws the same again {dropped}")

works = (is_counter(default), is_counter(own), repeated, cloned, forked, dropped)
sys.exit(0 if all(works) else 1)
