"""Random number generators of the devices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import overload

import torch

from torch_outboard import _C
from torch_outboard.device.devices import (
    DeviceLike,
    _lazy_call,
    _lazy_init,
    device_count,
    device_index,
)
from torch_outboard.state import state

__all__ = [
    "default_generators",
    "get_rng_state",
    "get_rng_state_all",
    "initial_seed",
    "manual_seed",
    "manual_seed_all",
    "seed",
    "seed_all",
    "set_rng_state",
    "set_rng_state_all",
]


class _DefaultGenerators(Sequence[torch.Generator]):
    """The default generators by index; reading one initializes the devices."""

    def __len__(self) -> int:
        return device_count()

    @overload
    def __getitem__(self, index: int) -> torch.Generator: ...
    @overload
    def __getitem__(self, index: slice) -> list[torch.Generator]: ...
    def __getitem__(self, index: int | slice) -> torch.Generator | list[torch.Generator]:
        _lazy_init()
        return [_C.default_generator(i) for i in range(len(self))][index]

    def __repr__(self) -> str:
        return f"<default generators of the devices of '{state.name}'>"


# The default generator of each device.
default_generators = _DefaultGenerators()


def _get_generator(device: DeviceLike = None) -> torch.Generator:
    _lazy_init()
    return _C.default_generator(device_index(device))


def _get_rng_state_offset(device: DeviceLike = None) -> int:
    return _get_generator(device).get_offset()


def _set_rng_state_offset(offset: int, device: DeviceLike = None) -> None:
    _get_generator(device).set_offset(offset)


def get_rng_state(device: DeviceLike = None) -> torch.Tensor:
    """The state of a device's default generator: a CPU tensor of 16 uint8."""
    return _get_generator(device).get_state()


def get_rng_state_all() -> list[torch.Tensor]:
    """The states of all devices' default generators."""
    return [get_rng_state(i) for i in range(device_count())]


def set_rng_state(new_state: torch.Tensor, device: DeviceLike = None) -> None:
    """Sets the state of a device's default generator.

    Args:
        new_state: a result of `get_rng_state`.
        device: the device; the current one by default.

    Raises:
        RuntimeError: if the state has another size.
        TypeError: if it is no CPU tensor of dtype uint8.
    """
    _get_generator(device).set_state(new_state)


def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
    """Sets the states of all devices' default generators; raises as `set_rng_state` does."""
    for index, new_state in enumerate(new_states):
        set_rng_state(new_state, index)


def manual_seed(seed: int) -> None:
    """Seeds the current device's default generator, now or when the device is initialized."""
    seed = int(seed)
    _lazy_call(lambda: _get_generator().manual_seed(seed))


def manual_seed_all(seed: int) -> None:
    """Seeds the default generators of all devices; before the first use, at initialization."""
    _C.seed_default_generators(int(seed) & 0xFFFF_FFFF_FFFF_FFFF)


def seed() -> int:
    """Seeds the current device's default generator with a random number and returns it."""
    return _get_generator().seed()


def seed_all() -> None:
    """Seeds the default generators of all devices with one random number."""
    manual_seed_all(seed())


def initial_seed() -> int:
    """The seed of the current device's default generator."""
    return _get_generator().initial_seed()
