"""Generators of a device."""

from __future__ import annotations

import torch


def test_generators_of_every_device(device, device_module):
    for index in range(device_module.device_count()):
        generator = torch.Generator(device=f"{device.type}:{index}")
        assert generator.device == torch.device(device.type, index)
        generator.manual_seed(42)
        assert generator.initial_seed() == 42


def test_seeds_of_all_devices(device_module):
    device_module.manual_seed_all(42)
    assert device_module.initial_seed() == 42
    seeds = []
    for _ in range(2):
        device_module.seed_all()
        seeds.append(device_module.initial_seed())
    assert seeds[0] != seeds[1]
    device_module.set_rng_state(device_module.get_rng_state(0), 0)
    device_module.set_rng_state_all(device_module.get_rng_state_all())


def test_offsets_can_be_had_and_set(device, device_module):
    # The reference backend, whose numbers are CPU's, refuses both.
    generator = torch.Generator(device).manual_seed(1)
    x = torch.rand(8, device=device, generator=generator)
    assert generator.get_offset() > 0
    generator.set_offset(0)
    assert torch.equal(torch.rand(8, device=device, generator=generator), x)
