"""Imports a file of PyTorch's tests for CPU and the device, and runs its tests one by one.

Most files use PyTorch's generic machinery, which makes a class of tests for each type of device. Of
Inductor's tests some are templates that a file for each device binds, as test_mps_basic.py does.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import sys
import unittest
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from torch_outboard.scoreboard.answers import FAIL, PASS, SKIPPED

# Files below `test`, and the class that holds tests for any device; "" where classes name the
# devices.
INDUCTOR = {
    "inductor/test_torchinductor": "CommonTemplate",
    "inductor/test_torchinductor_dynamic_shapes": "DynamicShapesCommonTemplate",
    "inductor/test_torchinductor_opinfo": "",
    "inductor/test_control_flow": "",
    "inductor/test_compiled_optimizers": "",
}
# What the generic machinery calls the device before its first test.
GENERIC = "privateuse1"


def path_of(folder: str, file: str) -> Path:
    """Of a file below `test`.

    Raises:
        FileNotFoundError: if the folder holds no such file.
    """
    path = Path(folder) / "test" / f"{file}.py"
    if not path.exists():
        raise FileNotFoundError(
            f"{folder} has no test/{file}.py; --pytorch-tests takes a source tree of PyTorch"
        )
    return path


def load(folder: str, file: str) -> ModuleType:
    """Imports a file for CPU and the device.

    Raises:
        FileNotFoundError: if the folder holds no such file.
    """
    path = path_of(folder, file)
    sys.argv = sys.argv[:1]  # PyTorch's modules parse it
    sys.path[:0] = [str(Path(folder) / "test"), str(path.parent)]
    os.chdir(Path(folder) / "test")
    if file in INDUCTOR:
        prepare_inductor(file)
        return importlib.import_module(file.replace("/", "."))
    os.environ["PYTORCH_TESTING_DEVICE_ONLY_FOR"] = f"cpu,{GENERIC}"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def prepare_inductor(file: str) -> None:
    """The device is what Inductor's tests take for a GPU."""
    from torch._inductor import utils
    from torch.testing._internal import common_optimizers, inductor_utils

    import torch_outboard

    name = torch_outboard.device_name()
    assert utils.get_gpu_type() == name, utils.get_gpu_type()
    inductor_utils.GPU_TYPE = name
    # Written for CUDA or XPU otherwise; what a template holds needs none of them.
    if not INDUCTOR[file]:
        for flag in ("HAS_GPU", "HAS_GPU_AND_TRITON", "RUN_GPU"):
            if hasattr(inductor_utils, flag):
                setattr(inductor_utils, flag, True)
        setattr(inductor_utils, "requires_gpu", requires_nothing)  # noqa: B010, of another type
        # Optimizers get their cases with capturable=True on these devices alone.
        common_optimizers.CUDA_CONFIG_GPUS.append(name)
    os.environ["PYTORCH_TESTING_DEVICE_FOR_CUSTOM"] = name


def requires_nothing(function: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """In place of decorators that skip; some files write it with brackets, and some without."""
    return function or requires_nothing


def bound(module: ModuleType, template: str, device: str, common: str) -> type[unittest.TestCase]:
    """The tests of a template for a device; `common` names the function that compares."""
    values = {"device": device, "common": getattr(module, common)}
    source = module if hasattr(module, "copy_tests") else sys.modules["inductor.test_torchinductor"]
    kind = type(f"Tests_{device}", (source.TestCase,), values)
    kind.__module__ = module.__name__
    source.copy_tests(
        getattr(module, template), kind, device, getattr(module, "test_failures", None)
    )
    return kind


def collect(module: ModuleType, file: str) -> dict[str, unittest.TestCase]:
    """Tests by "name@device", where device is "cpu" or "device".

    Of Inductor's tests those that name no device are "device", since they use a GPU; of others they
    are left out, since they are not about a device.
    """
    import torch_outboard

    name = torch_outboard.device_name()
    if template := INDUCTOR.get(file, ""):
        kinds = [
            bound(module, template, "cpu", "check_model"),
            bound(module, template, name, "check_model_gpu"),
        ]
    else:
        kinds = [
            kind
            for kind in vars(module).values()
            if isinstance(kind, type)
            and issubclass(kind, unittest.TestCase)
            and kind.__module__ == module.__name__
        ]
    tests = {}
    for kind in kinds:
        for method in unittest.defaultTestLoader.getTestCaseNames(kind):
            side = side_of(f"{kind.__name__}.{method}", name)
            side = side or ("device" if file in INDUCTOR else None)
            if side is not None:
                tests[f"{plain(f'{kind.__name__}.{method}', name)}@{side}"] = kind(method)
    return tests


def _words(device: str) -> str:
    names = rf"cpu|{re.escape(device)}|{GENERIC}|privateuse|gpu"
    return rf"(?i:(?<![a-z])(?:{names})(?![a-z]))"


def _apart(test: str, device: str) -> str:
    """With what names a device in the name of a class as a word of its own."""
    end = rf"(?<=[a-z0-9])(Cpu|Gpu|{re.escape(device.upper())}(?=\b|[A-Z._]))"
    return re.sub(rf"(CPU|GPU|PRIVATEUSE1)(?=\b|[A-Z._])|{end}", r"_\1\2_", test)


def side_of(test: str, device: str) -> str | None:
    """Whether a test is for "cpu" or for the "device"; None if its name does not say."""
    test = _apart(test, device)
    found = re.findall(_words(device), test)
    if not found:
        return None
    return "cpu" if found[-1].lower() == "cpu" else "device"


def plain(test: str, device: str) -> str:
    """The name without devices: that of a test is the same for all."""
    test = _apart(test, device)
    test = re.sub(rf"_*{_words(device)}_*", "_", test)
    return re.sub(r"_(?=\.|$)", "", test)


def run(test: unittest.TestCase) -> tuple[str, str]:
    """Status, and the last line of an error, with the greatest difference of compared values."""
    import torch

    torch._dynamo.reset()
    result = unittest.TestResult()
    unittest.TestSuite([test]).run(result)
    wrong = [text for _, text in (*result.failures, *result.errors)]
    if wrong:
        lines = [line for line in wrong[0].splitlines() if re.match(r"\w[\w.]*(Error|Exc)", line)]
        greatest = re.search(r"^Greatest absolute difference: .*", wrong[0], re.MULTILINE)
        reason = (lines or wrong[0].strip().splitlines())[-1][:300]
        return FAIL, f"{reason} {greatest[0]}" if greatest else reason
    if result.skipped:
        return SKIPPED, result.skipped[0][1][:200]
    if result.expectedFailures or result.unexpectedSuccesses:
        return SKIPPED, "marked as a failure there"
    return PASS, ""
