"""Runs PyTorch's tests of Inductor for the device, and for its backend for CPU.

    python -m tests.inductor.pytorch_tests --pytorch-tests DIR --driver ocl --resume

DIR is a source tree of the PyTorch that is installed; nothing of it is kept. Tests that are written
for a device to be named later are bound to both, as test_mps_basic.py there does for "mps". Counted
are those that pass for CPU; those that are not for CPU run, too, and are reported apart. Answers
appear in `.test-results/inductor/`; a stopped run goes on with --resume, which keeps what was right
with these sources, and with PyTorch's backend. Exit status 1 means that less than SHARE of what
is counted passes on the device.
"""

import argparse
import importlib
import io
import json
import os
import re
import sys
import unittest
import warnings
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.inductor.worker import Worker, answers_of
from tests.line_process import ROOT
from tests.opinfo.sweep import Journal
from tests.opinfo.worker import Answer

SHARE = 0.97
TIMEOUT = 300  # seconds for a test
# Each file, and the class that holds tests for any device; "" where classes name the devices.
FILES = {
    "test_torchinductor": "CommonTemplate",
    "test_torchinductor_dynamic_shapes": "DynamicShapesCommonTemplate",
    "test_torchinductor_opinfo": "",
    "test_control_flow": "",
    "test_compiled_optimizers": "",
}


def load(folder: str, file: str) -> ModuleType:
    """Imports a file of PyTorch's tests, with the device as what it takes for a GPU.

    Raises:
        FileNotFoundError: if the folder holds no such file.
    """
    from torch._inductor import utils
    from torch.testing._internal import common_optimizers, inductor_utils

    import torch_outboard

    path = Path(folder) / "test" / "inductor" / f"{file}.py"
    if not path.exists():
        raise FileNotFoundError(
            f"{folder} has no test/inductor/{file}.py; --pytorch-tests takes a source tree of "
            "PyTorch"
        )
    name = torch_outboard.device_name()
    assert utils.get_gpu_type() == name, utils.get_gpu_type()
    inductor_utils.GPU_TYPE = name
    # Written for CUDA or XPU otherwise; what a template holds needs none of them.
    if not FILES[file]:
        for flag in ("HAS_GPU", "HAS_GPU_AND_TRITON", "RUN_GPU"):
            if hasattr(inductor_utils, flag):
                setattr(inductor_utils, flag, True)
        inductor_utils.requires_gpu = requires_nothing
        # Optimizers get their cases with capturable=True on these devices alone.
        common_optimizers.CUDA_CONFIG_GPUS.append(name)
    os.environ["PYTORCH_TESTING_DEVICE_FOR_CUSTOM"] = name
    sys.path[:0] = [str(path.parent.parent), str(path.parent)]
    return importlib.import_module(f"inductor.{file}")


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


def collect(module: ModuleType, template: str) -> dict[str, unittest.TestCase]:
    """Tests by "name@device", where device is "cpu" or "device".

    What names no device is "device": such tests of Inductor take what Inductor takes for a GPU.
    """
    import torch_outboard

    name = torch_outboard.device_name()
    if template:
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
            side = side_of(f"{kind.__name__}.{method}", name) or "device"
            tests[f"{plain(f'{kind.__name__}.{method}', name)}@{side}"] = kind(method)
    return tests


def _words(device: str) -> str:
    return rf"(?i:(?<![a-z])(?:cpu|{re.escape(device)}|privateuse1|privateuse|gpu)(?![a-z]))"


def _apart(test: str) -> str:
    """With what names a device in the name of a class as a word of its own."""
    return re.sub(r"(CPU|GPU)(?=\b|[A-Z._])|(?<=[a-z])(Cpu|Gpu|PRIVATEUSE1)", r"_\1\2_", test)


def side_of(test: str, device: str) -> str | None:
    """Whether a test is for "cpu" or for the "device"; None if its name does not say."""
    test = _apart(test)
    found = re.findall(_words(device), test)
    if not found:
        return None
    return "cpu" if found[-1].lower() == "cpu" else "device"


def plain(test: str, device: str) -> str:
    """The name without devices: that of a test is the same for all."""
    test = _apart(test)
    return re.sub(rf"_*{_words(device)}_*", "", test)


def run(test: unittest.TestCase) -> tuple[str, str]:
    """Status, and the last line of an error."""
    import torch

    torch._dynamo.reset()
    result = unittest.TestResult()
    suite = unittest.TestSuite([test])
    suite.run(result)
    wrong = [text for _, text in (*result.failures, *result.errors)]
    if wrong:
        lines = [line for line in wrong[0].splitlines() if re.match(r"\w[\w.]*(Error|Exc)", line)]
        return "wrong", (lines or wrong[0].strip().splitlines())[-1][:300]
    if result.skipped:
        return "skipped", result.skipped[0][1][:200]
    if result.expectedFailures or result.unexpectedSuccesses:
        return "skipped", "marked as a failure there"
    return "right", ""


def work(folder: str, file: str) -> None:
    """Answers names of tests on standard input with lines on standard output."""
    import logging

    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    sys.argv = sys.argv[:1]
    try:
        tests = collect(load(folder, file), FILES[file])
    except Exception as error:
        print(json.dumps([f"error: {type(error).__name__}: {error}"]), file=answers, flush=True)
        return
    print(json.dumps(sorted(tests)), file=answers, flush=True)
    for line in sys.stdin:
        name = line.strip()
        sys.stdout = io.StringIO()
        status, reason = run(tests[name])
        answer = {"entry": name, "status": status, "reasons": [reason]}
        print(json.dumps(answer), file=answers, flush=True)


def report(file: str, on_cpu: dict[str, Answer], on_device: dict[str, Answer]) -> tuple[int, int]:
    """Prints what is wrong on the device alone; how many are right there of those for CPU."""
    both = [name for name in on_cpu if name in on_device and on_cpu[name].status == "right"]
    counted = [name for name in both if on_device[name].status != "skipped"]
    alone = [name for name in on_device if name not in on_cpu]
    alone = [name for name in alone if on_device[name].status != "skipped"]
    wrong = {
        name: on_device[name] for name in (*counted, *alone) if on_device[name].status != "right"
    }
    for name, answer in sorted(wrong.items()):
        print(name, answer.status, answer.failures[0]["reason"], sep=": ")
    right = len(counted) - sum(name in on_cpu for name in wrong)
    print(
        f"{file}: {right} of {len(counted)} are right that pass for CPU, and "
        f"{len(both) - len(counted)} more are skipped on the device"
    )
    if alone:
        of_device = sum(name not in wrong for name in alone)
        print(f"{file}: {of_device} of {len(alone)} not for CPU are right")
    return right, len(counted)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.inductor.pytorch_tests", description=__doc__
    )
    parser.add_argument("--pytorch-tests", required=True, metavar="DIR")
    parser.add_argument("--file", action="append", choices=FILES, help="only this; may be repeated")
    parser.add_argument("--driver", default="", help="default: as the environment says")
    parser.add_argument("--match", default="", help="only tests whose name this expression finds")
    parser.add_argument("--limit", type=int, default=0, help="the first of them; 0: all")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--resume", action="store_true", help="keep what is known to be right")
    parser.add_argument("--results", type=Path, default=ROOT / ".test-results" / "inductor")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    folder = str(Path(options.pytorch_tests).resolve())
    if options.work:
        work(folder, options.work)
        return 0
    environment = {
        "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1",
        "OUTBOARD_PLACEMENT": os.environ.get("OUTBOARD_PLACEMENT", "device"),
    }
    if options.driver:
        environment["OUTBOARD_DRIVER"] = options.driver
    right = counted = 0
    for file in options.file or FILES:
        command = ["-m", "tests.inductor.pytorch_tests", "--work", file]
        command += ["--pytorch-tests", folder]
        workers = [Worker(command, environment, TIMEOUT) for _ in range(options.jobs)]
        more, of = run_file(file, workers, options)
        right, counted = right + more, counted + of
    if not counted:
        print("No test was run on both.")
        return 1
    print(f"{right} of {counted}, {100 * right / counted:.1f} %")
    return 0 if right >= SHARE * counted else 1


def run_file(file: str, workers: list[Worker], options: argparse.Namespace) -> tuple[int, int]:
    """Runs a file for CPU, then on the device what passes; how many are right of how many."""
    listed = workers[0].names()
    if listed[0].startswith("error: "):
        print(f"{file}: {listed[0]}")
        workers[0].close()
        return 0, 0
    names = [name for name in listed if re.search(options.match, name)]
    names = names[: 2 * options.limit] if options.limit else names
    # The key of answers: on CPU they do not depend on our sources.
    sources = {"cpu": metadata.version("torch"), "device": None}
    answers: dict[str, dict[str, Answer]] = {}
    for side, about in sources.items():
        driver = "cpu" if side == "cpu" else options.driver or "default"
        path = options.results / f"pytorch-{file}-{driver}.jsonl"
        journal = Journal(path, options.resume, sources=about)
        done = {answer.entry for answer in journal.answers}
        if side == "device":  # what passes for CPU, or is not for it
            done |= {name for name, a in answers["cpu"].items() if a.status != "right"}
        asked = [name for name in names if name.endswith(f"@{side}")]
        asked = [name for name in asked if name.split("@")[0] not in done]
        for found in answers_of(workers, asked):
            entry, reasons = found["entry"].split("@")[0], found["reasons"]
            journal.add(Answer(entry, found["status"], failures=[{"reason": r} for r in reasons]))
        answers[side] = {answer.entry: answer for answer in journal.answers}
    return report(file, answers["cpu"], answers["device"])


if __name__ == "__main__":
    raise SystemExit(main())
