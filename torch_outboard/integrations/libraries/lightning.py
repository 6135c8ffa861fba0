"""Lightning, in both its packages: `Trainer` and `Fabric` by the device's name, or "auto".

In `lightning.pytorch` and `lightning.fabric`, and what is changed:

- `accelerators.AcceleratorRegistry`, `ACCELERATOR_REGISTRY`: an accelerator of the device's name
- `fabric.utilities.device_parser._select_auto_accelerator`: the device where it was the CPU
- connectors, `_choose_strategy`: the list of accelerators whose first device is taken
- `strategies.ddp.DDPStrategy`, `determine_ddp_device_ids`: none, as on CPU; with any, CUDA's
  streams are used
- connectors, `_check_and_init_precision`: the list of devices with mixed precision of their own
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from torch_outboard import device_name
from torch_outboard.integrations.changes import Changes, expect
from torch_outboard.integrations.library import Library, Place


def _accelerator(base: type) -> type:
    class OutboardAccelerator(base):  # type: ignore[misc]
        """The device of the driver in use."""

        def setup_device(self, device: torch.device) -> None:
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


def _register(registry: str, module: Any, changes: Changes) -> None:
    accelerator = _accelerator(module.Accelerator)
    entry = {
        "accelerator": accelerator,
        "accelerator_name": device_name(),
        "description": f"the device '{device_name()}'",
        "init_params": {},
    }
    accelerators = getattr(module, registry)
    expect(set(accelerators["cpu"]) == set(entry), "entries of the registry have other fields")
    changes.insert(accelerators, device_name(), entry)


def _choose_automatically(module: Any, changes: Changes) -> None:
    changes.replace_cpu(module, "_select_auto_accelerator")


def _connect(connector: str, module: Any, changes: Changes) -> None:
    owner = getattr(module, connector)
    changes.extend_constant(owner._choose_strategy, ("cuda", "gpu", "mps"), device_name())
    changes.extend_constant(owner._check_and_init_precision, ("cpu", "mps"), device_name())


def _wrap_any_device(method: str, module: Any, changes: Changes) -> None:
    def make(before: Any) -> Any:
        def determine(self: Any) -> Any:
            return None if self.root_device.type == device_name() else before(self)

        return determine

    changes.replace(module.DDPStrategy, method, make)


def _library(name: str, pytorch: str, fabric: str) -> Library:
    trainer, plain = "Trainer(accelerator=...)", "Fabric(accelerator=...)"
    return Library(
        name=name,
        distribution=name,
        tried="2.6.6",
        places=(
            Place(trainer, f"{pytorch}.accelerators", partial(_register, "AcceleratorRegistry")),
            Place(
                trainer,
                f"{pytorch}.trainer.connectors.accelerator_connector",
                partial(_connect, "_AcceleratorConnector"),
            ),
            Place(plain, f"{fabric}.accelerators", partial(_register, "ACCELERATOR_REGISTRY")),
            Place(plain, f"{fabric}.connector", partial(_connect, "_Connector")),
            Place(
                'strategy="ddp" of Trainer',
                f"{pytorch}.strategies.ddp",
                partial(_wrap_any_device, "determine_ddp_device_ids"),
            ),
            Place(
                'strategy="ddp" of Fabric',
                f"{fabric}.strategies.ddp",
                partial(_wrap_any_device, "_determine_ddp_device_ids"),
            ),
            Place('accelerator="auto"', f"{fabric}.utilities.device_parser", _choose_automatically),
        ),
    )


LIBRARY = _library("lightning", "lightning.pytorch", "lightning.fabric")
# The same library under its older name, as a separate package.
OLDER = _library("pytorch_lightning", "pytorch_lightning", "lightning_fabric")
