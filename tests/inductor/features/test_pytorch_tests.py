"""The runner of PyTorch's tests, on a small tree that stands in for PyTorch's."""

import subprocess
import sys
from pathlib import Path

import pytest

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


@pytest.mark.slow
def test_a_small_tree(tmp_path: Path):
    folder = tmp_path / "test" / "inductor"
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "test_torchinductor.py").write_text(TEMPLATE)
    (folder / "test_compiled_optimizers.py").write_text(NAMED)
    command = [sys.executable, "-m", "tests.inductor.pytorch_tests", "--pytorch-tests", tmp_path]
    for file in ("test_torchinductor", "test_compiled_optimizers", "test_control_flow"):
        command += ["--file", file]
    result = subprocess.run(
        [*command, "--results", tmp_path / "results"],
        cwd=ROOT, capture_output=True, text=True, timeout=280 * SLOWNESS, check=False,
    )  # fmt: skip
    lines = result.stdout.splitlines()
    for line in (
        "Tests.test_wrong_on_the_device: wrong: AssertionError: not here",
        "test_torchinductor: 1 of 2 are right that pass for CPU, and 1 more are skipped on the "
        "device",
        "test_compiled_optimizers: 1 of 2 not for CPU are right",
        "OptimizerTests.test_names_no_device_and_fails: wrong: AssertionError: anywhere",
    ):
        assert line in lines
    assert "test_compiled_optimizers: 1 of 1 are right" in result.stdout
    assert "test_control_flow: error: FileNotFoundError" in result.stdout
    assert lines[-1] == "2 of 3, 66.7 %", result.stdout + result.stderr
    assert result.returncode == 1
