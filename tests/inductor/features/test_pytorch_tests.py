"""The runner of PyTorch's own tests, on a small tree that stands in for PyTorch's."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import pytest

from tests.inductor import pytorch_tests
from tests.inductor.pytorch_tests import plain, side_of
from tests.line_process import ROOT
from tests.support import SLOWNESS

# In the shape of PyTorch's file: a template, what compares, and what copies tests.
TEMPLATE = """
import unittest
import torch
from torch.testing._internal.inductor_utils import GPU_TYPE

TestCase = unittest.TestCase

def check_model(self, function, inputs):
    got = torch.compile(function)(*inputs)
    assert got.device.type == self.device, got.device
    torch.testing.assert_close(got.cpu(), function(*inputs).cpu())

def check_model_gpu(self, function, inputs):
    check_model(self, function, [x.to(GPU_TYPE) for x in inputs])

class CommonTemplate:
    def test_sum(self):
        self.common(lambda x: x.sin().sum(), (torch.randn(9),))

    def test_wrong_for_cpu(self):
        assert self.device != "cpu"

    def test_wrong_on_the_device(self):
        assert self.device == "cpu", "not here"

    def test_skipped_on_the_device(self):
        if self.device != "cpu":
            self.skipTest("for CPU")

def copy_tests(template, other, suffix, test_failures=None):
    for name, value in vars(template).items():
        if name.startswith("test_"):
            setattr(other, f"{name}_{suffix}", lambda self, value=value: value(self))
"""
NAMED = """
import unittest
import torch
from torch.testing._internal.inductor_utils import GPU_TYPE, HAS_GPU, requires_gpu

class OptimizerTests(unittest.TestCase):
    @requires_gpu()
    def test_names_no_device(self):
        assert torch.ones(3, device=GPU_TYPE).device.type == GPU_TYPE

    @requires_gpu
    def test_names_no_device_and_fails(self):
        raise AssertionError("anywhere")

for device in ("cpu", GPU_TYPE):
    def test(self, device=device):
        assert HAS_GPU
        x = torch.ones(3, device=device)
        assert torch.compile(lambda x: x + 1)(x).sum().item() == 6
    setattr(OptimizerTests, f"test_step_{device}", test)
"""


def run(tree: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.inductor.pytorch_tests", "--pytorch-tests", str(tree)]
    return subprocess.run(
        [*command, "--results", str(tree / "results"), *options],
        cwd=ROOT, capture_output=True, text=True, timeout=280 * SLOWNESS, check=False,
    )  # fmt: skip


@pytest.mark.slow
def test_a_small_tree(tmp_path: Path):
    folder = tmp_path / "test" / "inductor"
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "test_torchinductor.py").write_text(TEMPLATE)
    (folder / "test_compiled_optimizers.py").write_text(NAMED)
    result = run(
        tmp_path, "--file", "test_torchinductor", "--file", "test_compiled_optimizers",
        "--file", "test_control_flow",
    )  # fmt: skip
    lines = result.stdout.splitlines()
    assert "Tests.test_wrong_on_the_device: wrong: AssertionError: not here" in lines
    assert (
        "test_torchinductor: 1 of 2 are right that pass for CPU, and 1 more are skipped on the "
        "device" in lines
    )
    assert "test_compiled_optimizers: 1 of 1 are right" in result.stdout
    assert "test_compiled_optimizers: 1 of 2 not for CPU are right" in lines
    assert "OptimizerTests.test_names_no_device_and_fails: wrong: AssertionError: anywhere" in lines
    assert "test_control_flow: error: FileNotFoundError" in result.stdout
    assert lines[-1] == "2 of 3, 66.7 %", result.stdout + result.stderr
    assert result.returncode == 1


@pytest.mark.parametrize(
    ("name", "changed"), [("test_add@cpu", "version"), ("test_add@device", "fingerprint")]
)
def test_answers_that_are_taken_up(
    name: str, changed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Those of the device are for its sources, those of CPU for a version of PyTorch."""

    class Answering:
        asked = 0

        def names(self) -> list[str]:
            return [name]

        def check(self, name: str) -> dict[str, object]:
            Answering.asked += 1
            return {"entry": name, "status": "right", "reasons": [""]}

    def run_again() -> int:
        asked = Answering.asked
        pytorch_tests.run_file("test_control_flow", [Answering()], options)
        return Answering.asked - asked

    options = argparse.Namespace(results=tmp_path, driver="", match="", limit=0, resume=True)
    monkeypatch.setattr(
        pytorch_tests, "answers_of", lambda workers, names: map(workers[0].check, names)
    )
    monkeypatch.setattr(pytorch_tests, "fingerprint", lambda: "first")
    monkeypatch.setattr(pytorch_tests.metadata, "version", lambda package: "2.13.0")
    assert (run_again(), run_again()) == (1, 0)
    monkeypatch.setattr(pytorch_tests, "fingerprint", lambda: "second")
    assert run_again() == (changed == "fingerprint")
    monkeypatch.setattr(pytorch_tests.metadata, "version", lambda package: "2.13.1")
    assert run_again() == (changed == "version")


def test_names_without_devices():
    for name, side in {
        "Tests_cpu.test_add_cpu": "cpu",
        "Tests_ocl.test_add_ocl": "device",
        "TestOpInfoPRIVATEUSE1.test_add_privateuse1_float32": "device",
        "TestOpInfoCPU.test_add_cpu_float32": "cpu",
        "CondTests.test_cond_device_ocl_dynamic_True": "device",
        "CondTests.test_closure": None,
    }.items():
        assert side_of(name, "ocl") == side, name
    for one, other in (
        ("Tests_cpu.test_add_cpu", "Tests_ocl.test_add_ocl"),
        ("OptTestsGPU.test_adam_gpu", "OptTestsCPU.test_adam_cpu"),
        (
            "TestOpInfoPRIVATEUSE1.test_add_privateuse1_float32",
            "TestOpInfoCPU.test_add_cpu_float32",
        ),
    ):
        assert plain(one, "ocl") == plain(other, "ocl")
