"""Lightning: an accelerator and a strategy of the device's name, and mixed precision.

    Trainer(accelerator="host", strategy="host")
    Trainer(**torch_outboard.integrations.lightning.options(precision="bf16-mixed"))

Lightning takes the root device of accelerators that are not its own from the strategy, which
without a name is that of the CPU, and gives mixed precision of all but CPU and MPS to CUDA
(`_AcceleratorConnector`). So the strategy is named, and mixed precision is a plugin.
"""

from __future__ import annotations

import importlib
import importlib.util
from functools import cache
from typing import Any, Literal

import torch

from torch_outboard import device_name

# The package has two names, each with registries of its own.
PACKAGES = ("lightning.pytorch", "pytorch_lightning")


@cache
def _accelerator(package: str) -> type:
    module = importlib.import_module(f"{package}.accelerators")

    class OutboardAccelerator(module.Accelerator):  # type: ignore[misc, name-defined]
        """The device of the driver in use."""

        def setup_device(self, device: torch.device) -> None:
            if device.type != device_name():
                raise RuntimeError(
                    f"Lightning chose the device '{device}' for accelerator='{device_name()}'; "
                    f"pass strategy='{device_name()}' as well"
                )
            torch.accelerator.set_device_index(device.index or 0)

        def teardown(self) -> None:
            torch.get_device_module(device_name()).empty_cache()

        @staticmethod
        def parse_devices(devices: int | str | list[int]) -> list[int]:
            count = torch.accelerator.device_count()
            if isinstance(devices, str) and devices != "-1":
                chosen = [int(part) for part in devices.split(",") if part.strip()]
            elif isinstance(devices, list):
                chosen = devices
            else:
                wanted = int(devices)
                chosen = list(range(count if wanted == -1 else wanted))
            if missing := [index for index in chosen if not 0 <= index < count]:
                raise ValueError(
                    f"there is no device {missing[0]} among the {count} of '{device_name()}'"
                )
            return chosen

        @staticmethod
        def get_parallel_devices(devices: list[int]) -> list[torch.device]:
            return [torch.device(device_name(), index) for index in devices]

        @staticmethod
        def auto_device_count() -> int:
            return torch.accelerator.device_count()

        @staticmethod
        def is_available() -> bool:
            return bool(torch.get_device_module(device_name()).is_available())

        @staticmethod
        def name() -> str:
            return device_name()

        def get_device_stats(self, device: torch.device) -> dict[str, Any]:
            return dict(torch.accelerator.memory_stats(device))

    return OutboardAccelerator


def enable() -> bool:
    """Registers accelerator and strategy under the device's name in each installed package.

    Returns whether there is one. Imports the package.
    """
    found = False
    for package in PACKAGES:
        if importlib.util.find_spec(package.partition(".")[0]) is None:
            continue
        found = True
        accelerators = importlib.import_module(f"{package}.accelerators").AcceleratorRegistry
        strategies = importlib.import_module(f"{package}.strategies")
        if device_name() not in accelerators:
            accelerators.register(
                device_name(), _accelerator(package), description=f"the device {device_name()}"
            )
        if device_name() not in strategies.StrategyRegistry:
            strategies.StrategyRegistry.register(
                device_name(),
                strategies.SingleDeviceStrategy,
                description=f"one device {device_name()}",
                device=f"{device_name()}:0",
            )
    return found


def mixed_precision(
    precision: Literal["16-mixed", "bf16-mixed"], package: str = "lightning.pytorch"
) -> Any:
    """A plugin for `Trainer(plugins=...)` with autocast, and the scaler, of the device."""
    plugins = importlib.import_module(f"{package}.plugins.precision")
    return plugins.MixedPrecision(precision, device_name())


def options(
    precision: str | None = None, index: int = 0, package: str = "lightning.pytorch"
) -> dict[str, Any]:
    """Arguments of `Trainer` for one device.

    Args:
        precision: "16-mixed", "bf16-mixed" or another of Lightning's; as it does by default.
        index: of the device.
        package: "lightning.pytorch" or "pytorch_lightning".
    """
    enable()
    strategies = importlib.import_module(f"{package}.strategies")
    device = torch.device(device_name(), index)
    accelerator = _accelerator(package)()
    chosen: dict[str, Any] = {
        "accelerator": accelerator,
        "devices": [index],
        "strategy": strategies.SingleDeviceStrategy(device=device),
    }
    if precision in ("16-mixed", "bf16-mixed"):
        chosen["plugins"] = [mixed_precision(precision, package)]  # type: ignore[arg-type]
    elif precision is not None:
        chosen["precision"] = precision
    return chosen
