"""The driver of mychip does what outboard/driver.h says, and a network trains on it."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def run(*arguments: str) -> str:
    """Runs Python with the device and returns what it printed."""
    result = subprocess.run(
        [sys.executable, *arguments],
        env=os.environ | {"OUTBOARD_DRIVER": "mychip"},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout
    return result.stdout


def test_a_tensor():
    code = "import torch; print((torch.ones(2, device='mychip') + 1).cpu())"
    assert "tensor([2., 2.])" in run("-W", "ignore", "-c", code)


def test_the_contract():
    run("-m", "torch_outboard", "check", "mychip")


def test_operators(tmp_path):
    entries = [word for name in ("add", "sum", "addmm", "sort") for word in ("--entry", name)]
    suite = ["--suite", "operators", "--dtype", "float32"]
    options = [*suite, *entries, "--output", str(tmp_path)]
    run("-m", "torch_outboard", "scoreboard", "--driver", "mychip", *options)


def test_training():
    printed = run(str(ROOT / "train.py"))
    assert re.search(r"aten::addmm +float32 +device", printed), printed
