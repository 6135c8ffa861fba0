"""The runner of PyTorch's tests, on a small tree that stands in for PyTorch's."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.changed import ROOT
from tests.support import SLOWNESS
from torch_outboard.scoreboard.pytorch_tests.loading import plain, side_of

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


# In the shape of files of the generic machinery.
GENERIC = """
import os, time
import torch
from torch.testing._internal.common_device_type import (
    dtypes, instantiate_device_type_tests, onlyCPU,
)
from torch.testing._internal.common_utils import TestCase, run_tests

class TestShape(TestCase):
    def test_no_device(self):
        raise AssertionError("not about a device")

class TestThings(TestCase):
    @dtypes(torch.float32, torch.int64)
    def test_sum(self, device, dtype):
        self.assertEqual(torch.ones(3, device=device, dtype=dtype).sum().item(), 3)

    def test_wrong_on_the_device(self, device):
        self.assertEqual(torch.device(device).type, "cpu")

    def test_wrong_for_cpu(self, device):
        self.assertNotEqual(torch.device(device).type, "cpu")

    @onlyCPU
    def test_for_one_alone(self, device):
        pass

    def test_ends(self, device):
        if torch.device(device).type != "cpu":
            os.abort()

    def test_hangs(self, device):
        if torch.device(device).type != "cpu":
            time.sleep(600)

    def test_leaves_something_behind(self, device):
        assert not hasattr(torch, "left_behind"), "not run alone"
        torch.left_behind = 1

    def test_needs_what_was_not_left(self, device):
        assert not hasattr(torch, "left_behind"), "not run alone"

instantiate_device_type_tests(TestThings, globals())

if __name__ == "__main__":
    run_tests()
"""


def board(folder: Path, tree: Path, *options: str) -> tuple[int, str, dict[str, str]]:
    """Exit status, output, and the outcomes by suite and test."""
    command = [sys.executable, "-m", "torch_outboard", "scoreboard", "--pytorch-tests", str(tree)]
    result = subprocess.run(
        [*command, "--output", str(folder), *options],
        cwd=ROOT, capture_output=True, text=True, timeout=280 * SLOWNESS, check=False,
    )  # fmt: skip
    path = folder / "results.json"
    rows = json.loads(path.read_text())["answers"] if path.exists() else []
    found = {f"{row['suite']} {row['entry']}": row["status"] for row in rows}
    return result.returncode, result.stdout + result.stderr, found


@pytest.mark.by_turns(4)
def test_files_of_the_generic_machinery(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "test").mkdir(parents=True)
    (tree / "test" / "test_things.py").write_text(GENERIC)
    before = sorted(tree.rglob("*"))
    excluded = tmp_path / "exclusions.toml"
    excluded.write_text("""
[[exclusion]]
entry = "TestThings.test_wrong_on_the_device"
check = "test"
reason = "it is made to fail"
owner = "PyTorch"
""")
    options = ("--timeout", f"{20 * SLOWNESS}", "--exclusions", str(excluded))
    status, output, found = board(tmp_path / "results", tree, "--file", "test_things", *options)
    assert found == {
        "test_things TestThings.test_sum_float32": "pass",
        "test_things TestThings.test_sum_int64": "pass",
        "test_things TestThings.test_wrong_on_the_device": "excluded",
        "test_things TestThings.test_for_one_alone": "skipped",
        "test_things TestThings.test_ends": "crash",
        "test_things TestThings.test_hangs": "hang",
        "test_things TestThings.test_leaves_something_behind": "pass",
        "test_things TestThings.test_needs_what_was_not_left": "pass",
    }, output
    assert status == 1
    assert "SIGABRT" in output
    rows = json.loads((tmp_path / "results" / "results.json").read_text())["answers"]
    (hung,) = (row for row in rows if row["status"] == "hang")
    assert hung["seconds"] >= 20 * SLOWNESS
    # What passes for CPU is kept for each file.
    (tree / "test" / "test_others.py").write_text(GENERIC)
    few = ("--match", "test_sum_float32", "--resume", *options)
    for file, first in (("test_others", True), ("test_things", False)):
        _, output, found = board(tmp_path / "results", tree, "--file", file, *few)
        assert ("on CPU first" in output) == first
        assert found[f"{file} TestThings.test_sum_float32"] == "pass"
    (tree / "test" / "test_others.py").unlink()
    assert [path for path in sorted(tree.rglob("*")) if "__pycache__" not in path.parts] == before


@pytest.mark.parametrize(
    ("test", "name"),
    [
        ("TestFFTCPU.test_fft_cpu_float16", "TestFFT.test_fft_float16@cpu"),
        ("TestFFTPRIVATEUSE1.test_fft_host_float16", "TestFFT.test_fft_float16@device"),
        ("OptimizerTests.test_step_cpu", "OptimizerTests.test_step@cpu"),
        ("SweepGPUTest.test_sum_host", "Sweep_Test.test_sum@device"),
    ],
)
def test_a_test_has_the_same_name_for_cpu_and_the_device(test: str, name: str) -> None:
    assert f"{plain(test, 'host')}@{side_of(test, 'host')}" == name


def test_a_folder_without_tests(tmp_path: Path) -> None:
    status, output, found = board(tmp_path / "results", tmp_path)
    assert (status, found) == (2, {})
    assert "--pytorch-tests takes a source tree of PyTorch" in output


@pytest.mark.slow
def test_files_of_inductor(tmp_path: Path) -> None:
    folder = tmp_path / "test" / "inductor"
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "test_torchinductor.py").write_text(TEMPLATE)
    (folder / "test_compiled_optimizers.py").write_text(NAMED)
    files = ("--file", "inductor/test_torchinductor", "--file", "inductor/test_compiled_optimizers")
    status, output, found = board(tmp_path / "results", tmp_path, *files)
    template, named = "inductor/test_torchinductor", "inductor/test_compiled_optimizers"
    assert found == {
        f"{template} Tests.test_sum": "pass",
        f"{template} Tests.test_wrong_on_the_device": "fail",
        f"{template} Tests.test_skipped_on_the_device": "skipped",
        f"{named} OptimizerTests.test_step": "pass",
        f"{named} (device only) OptimizerTests.test_names_no_device": "pass",
        f"{named} (device only) OptimizerTests.test_names_no_device_and_fails": "fail",
    }, output
    assert status == 1
