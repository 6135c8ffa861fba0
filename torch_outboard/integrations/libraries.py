"""Libraries with a fixed list of devices: the code that names devices, and its changes.

The comment above the changes of a library lists the changed names upstream, by their modules.
"""

from __future__ import annotations

import inspect
import os
import sys
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from torch_outboard import device_name
from torch_outboard.integrations.library import Change, Changes, Feature, Library, expect


def _instead_of_cpu(function: str, only_for: object = None) -> Change:
    """The change of a function that chooses a device; see `Changes.replace_cpu`."""
    return lambda module, changes: changes.replace_cpu(module, function, only_for)


def _replaced(function: str, change: Callable[..., Any]) -> Change:
    """The change of a function in all modules that import it; see `Changes.replace`."""
    return lambda module, changes: changes.replace(module, function, change)


# ---- accelerate, by which transformers.Trainer, trl and others choose their device
#
# - `state.PartialState.default_device`: reads ACCELERATE_TORCH_DEVICE, which is set
# - `accelerator.Accelerator.__init__`: the list of devices with `mixed_precision="fp16"`
# - `accelerator.get_grad_scaler`: a scaler of the device, where it was CUDA's
# - `utils.modeling.get_max_memory`: the device's memory for `device_map="auto"`

_ACCELERATE_VARIABLE = "ACCELERATE_TORCH_DEVICE"


def _set_accelerate_variable(_: Any, changes: Changes) -> None:
    changes.insert(os.environ, _ACCELERATE_VARIABLE, device_name())
    module = sys.modules.get("accelerate.state")
    state = getattr(module, "PartialState", None)
    device = state._shared_state.get("device") if state is not None else None
    if device is not None and device.type != os.environ[_ACCELERATE_VARIABLE].partition(":")[0]:
        warnings.warn(
            f"accelerate has chosen {device} already; enable its integration before the first "
            "Accelerator, Trainer or TrainingArguments is made",
            stacklevel=6,
        )


def _allow_float16(module: Any, changes: Changes) -> None:
    # Both are needed: the list alone would allow training without a scaler.
    changes.extend_constant(module.Accelerator.__init__, ("xpu", "cuda", "npu"), device_name())
    changes.replace(module, "get_grad_scaler", _with_scaler)


def _with_scaler(before: Any, distributed_type: Any = None, **options: Any) -> Any:
    scaler = before(distributed_type, **options)
    # The scaler is CUDA's, which is disabled on a machine without CUDA.
    if type(scaler) is torch.amp.GradScaler and not scaler.is_enabled():
        return torch.amp.GradScaler(device_name(), **options)
    return scaler


def _with_device_memory(before: Any, max_memory: Any = None) -> Any:
    found = before(max_memory)
    if max_memory is not None or any(isinstance(key, int) for key in found):
        return found
    device_module = torch.get_device_module(device_name())
    free = {
        index: device_module.mem_get_info(index)[0]
        for index in range(torch.accelerator.device_count())
    }
    if all(device_module.get_device_properties(i).host_access == "coherent" for i in free):
        found.pop("cpu", None)  # host and device share memory, which would count twice
    return free | found


_ACCELERATE = Library(
    name="accelerate",
    tried="1.15.0",
    features=(
        Feature("the default device", None, _set_accelerate_variable),
        Feature('mixed_precision="fp16"', "accelerate.accelerator", _allow_float16),
        Feature(
            'device_map="auto"',
            "accelerate.utils.modeling",
            _replaced("get_max_memory", _with_device_memory),
        ),
    ),
)


# ---- pytorch-ignite: `ignite.distributed.device()` and the code that moves data there
#
# - `distributed.comp_models.base._SerialModel.device`: the device instead of the CPU


def _use_device_in_ignite(module: Any, changes: Changes) -> None:
    def device(before: Any, self: Any) -> torch.device:
        found: torch.device = before(self)
        return torch.device(device_name()) if found.type == "cpu" else found

    changes.replace(module._SerialModel, "device", device)


_IGNITE = Library(
    name="ignite",
    distribution="pytorch-ignite",
    tried="0.5.5",
    features=(
        Feature("the default device", "ignite.distributed.comp_models.base", _use_device_in_ignite),
    ),
)


# ---- keras with the backend "torch": the device of its variables and results
#
# - `src.backend.torch.core.DEFAULT_DEVICE`: the device instead of the CPU, unless
#   KERAS_TORCH_DEVICE names one


def _use_device_in_keras(module: Any, changes: Changes) -> None:
    expect(isinstance(module.DEFAULT_DEVICE, str), "DEFAULT_DEVICE is no name")
    if module.DEFAULT_DEVICE == "cpu" and "KERAS_TORCH_DEVICE" not in os.environ:
        changes.set(module, "DEFAULT_DEVICE", device_name())


_KERAS = Library(
    name="keras",
    tried="3.15.1",
    features=(Feature("the default device", "keras.src.backend.torch.core", _use_device_in_keras),),
)


# ---- Lightning, in both its packages: `Trainer` and `Fabric` by the device's name, or "auto"
#
# In `lightning.pytorch` and `lightning.fabric`:
#
# - `accelerators.AcceleratorRegistry`, `ACCELERATOR_REGISTRY`: an accelerator of the device's name
# - `fabric.utilities.device_parser._select_auto_accelerator`: the device where it was the CPU
# - connectors, `_choose_strategy`: the list of accelerators whose first device is taken
# - `strategies.ddp.DDPStrategy`, `determine_ddp_device_ids`: none, as on CPU; with any, CUDA's
#   streams are used
# - connectors, `_check_and_init_precision`: the list of devices with mixed precision


def _lightning_accelerator(base: type) -> type:
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


def _register_accelerator(registry: str, module: Any, changes: Changes) -> None:
    entry = {
        "accelerator": _lightning_accelerator(module.Accelerator),
        "accelerator_name": device_name(),
        "description": f"the device '{device_name()}'",
        "init_params": {},
    }
    accelerators = getattr(module, registry)
    expect(set(accelerators["cpu"]) == set(entry), "entries of the registry have other fields")
    changes.insert(accelerators, device_name(), entry)


def _connect(connector: str, module: Any, changes: Changes) -> None:
    owner = getattr(module, connector)
    changes.extend_constant(owner._choose_strategy, ("cuda", "gpu", "mps"), device_name())
    changes.extend_constant(owner._check_and_init_precision, ("cpu", "mps"), device_name())


def _wrap_any_device(method: str, module: Any, changes: Changes) -> None:
    def determine(before: Any, self: Any) -> Any:
        return None if self.root_device.type == device_name() else before(self)

    changes.replace(module.DDPStrategy, method, determine)


def _lightning(name: str, pytorch: str, fabric: str) -> Library:
    trainer, plain = "Trainer(accelerator=...)", "Fabric(accelerator=...)"
    connector = f"{pytorch}.trainer.connectors.accelerator_connector"
    return Library(
        name=name,
        tried="2.6.6",
        features=(
            Feature(
                trainer,
                f"{pytorch}.accelerators",
                partial(_register_accelerator, "AcceleratorRegistry"),
            ),
            Feature(trainer, connector, partial(_connect, "_AcceleratorConnector")),
            Feature(
                plain,
                f"{fabric}.accelerators",
                partial(_register_accelerator, "ACCELERATOR_REGISTRY"),
            ),
            Feature(plain, f"{fabric}.connector", partial(_connect, "_Connector")),
            Feature(
                'strategy="ddp" of Trainer',
                f"{pytorch}.strategies.ddp",
                partial(_wrap_any_device, "determine_ddp_device_ids"),
            ),
            Feature(
                'strategy="ddp" of Fabric',
                f"{fabric}.strategies.ddp",
                partial(_wrap_any_device, "_determine_ddp_device_ids"),
            ),
            Feature(
                'accelerator="auto"',
                f"{fabric}.utilities.device_parser",
                _instead_of_cpu("_select_auto_accelerator"),
            ),
        ),
    )


# ---- safetensors: `load_file(path, device="ocl")`, and `safe_open`
#
# - `safetensors.safe_open`, written in Rust, which knows a list of names: takes the device's name
#   as its index, which stands for the accelerator


def _with_index(
    before: Any, filename: Any, framework: str, device: Any = "cpu", **options: Any
) -> Any:
    if str(device).partition(":")[0] == device_name():
        index = torch.device(device).index
        device = torch.accelerator.current_device_index() if index is None else index
    return before(filename, framework, device=device, **options)


_SAFETENSORS = Library(
    name="safetensors",
    tried="0.8.0",
    features=(Feature("the device's name", "safetensors", _replaced("safe_open", _with_index)),),
)


# ---- sentence-transformers: `SentenceTransformer()` without a device
#
# - `util.get_device_name`: the device's name instead of "cpu"

_SENTENCE_TRANSFORMERS = Library(
    name="sentence_transformers",
    tried="6.2.0",
    features=(
        Feature(
            "the default device", "sentence_transformers.util", _instead_of_cpu("get_device_name")
        ),
    ),
    needs=("accelerate", "transformers"),
)


# ---- stable-baselines3: `device="auto"`, the default of every algorithm
#
# - `common.utils.get_device`: "auto" is the device instead of the CPU

_STABLE_BASELINES3 = Library(
    name="stable_baselines3",
    tried="2.9.2",
    features=(
        Feature(
            'device="auto"',
            "stable_baselines3.common.utils",
            _instead_of_cpu("get_device", only_for="auto"),
        ),
    ),
)


# ---- torch_geometric: `device("auto")`, and `PrefetchLoader`
#
# - `device.device`: "auto" is the device instead of the CPU
# - `loader.prefetch.DeviceHelper.__init__`: the device without one; the list of devices to copy to
#   ahead


def _prefetch(module: Any, changes: Changes) -> None:
    def __init__(before: Any, self: Any, device: Any = None) -> None:
        before(self, device_name() if device is None else device)

    changes.extend_constant(module.DeviceHelper.__init__, ("cuda", "xpu"), device_name())
    changes.replace(module.DeviceHelper, "__init__", __init__)


_TORCH_GEOMETRIC = Library(
    name="torch_geometric",
    tried="2.8.1",
    features=(
        Feature(
            'device("auto")', "torch_geometric.device", _instead_of_cpu("device", only_for="auto")
        ),
        Feature("PrefetchLoader", "torch_geometric.loader.prefetch", _prefetch),
    ),
)


# ---- transformers: `TrainingArguments(bf16=True)` and `pipeline()`
#
# - `training_args.is_torch_bf16_gpu_available`: true
# - `pipelines.base.Pipeline.__init__`: without a device, or with an index, the device instead of
#   the CPU
#
# `device_map="auto"`, `Trainer` and `fp16=True` ask accelerate.


def _put_pipelines_on_device(module: Any, changes: Changes) -> None:
    parameters = inspect.signature(module.Pipeline.__init__).parameters
    expect(
        {"model", "device"} <= set(parameters) and parameters["device"].default is None,
        "Pipeline takes no model and device",
    )
    changes.replace(module.Pipeline, "__init__", _on_device)


def _on_device(before: Any, *arguments: Any, **options: Any) -> None:
    call = inspect.signature(before).bind(*arguments, **options)
    device = call.arguments.get("device")
    if device is None and getattr(call.arguments["model"], "hf_device_map", None) is None:
        device = 0
    if isinstance(device, int) and device >= 0:
        call.arguments["device"] = torch.device(device_name(), device)
    before(*call.args, **call.kwargs)


_TRANSFORMERS = Library(
    name="transformers",
    tried="5.23.0",
    features=(
        Feature(
            "TrainingArguments(bf16=True)",
            "transformers.training_args",
            _replaced("is_torch_bf16_gpu_available", lambda _: True),
        ),
        Feature(
            "pipeline() without a device", "transformers.pipelines.base", _put_pipelines_on_device
        ),
    ),
    needs=("accelerate",),
)


# ---- ultralytics: `device="ocl"` of `train`, `predict` and `val`
#
# - `utils.torch_utils.select_device`: passes the device's name on, as it does a `torch.device`
# - `utils.checks.check_amp`: the list of devices that train without mixed precision, whose scaler
#   would be CUDA's


def _with_name(before: Any, device: Any = "", *arguments: Any, **options: Any) -> Any:
    if isinstance(device, str) and device.lower().partition(":")[0] == device_name():
        device = torch.device(device.lower())
    found = before(device, *arguments, **options)
    if device in (None, "") and found.type == "cpu":
        return torch.device(device_name())
    return found


def _without_mixed_precision(module: Any, changes: Changes) -> None:
    changes.extend_constant(module.check_amp, ("cpu", "mps"), device_name())


_ULTRALYTICS = Library(
    name="ultralytics",
    tried="8.4.190",
    features=(
        Feature(
            "the device's name",
            "ultralytics.utils.torch_utils",
            _replaced("select_device", _with_name),
        ),
        Feature("training", "ultralytics.utils.checks", _without_mixed_precision),
    ),
)


LIBRARIES: dict[str, Library] = {
    library.name: library
    for library in (
        _ACCELERATE,
        _IGNITE,
        _KERAS,
        _lightning("lightning", "lightning.pytorch", "lightning.fabric"),
        # The same library under its older name, as a separate package.
        _lightning("pytorch_lightning", "pytorch_lightning", "lightning_fabric"),
        _SAFETENSORS,
        _SENTENCE_TRANSFORMERS,
        _STABLE_BASELINES3,
        _TORCH_GEOMETRIC,
        _TRANSFORMERS,
        _ULTRALYTICS,
    )
}
