"""The example of a profile ends well and shows what the device did."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from torch_outboard import placement

pytestmark = [pytest.mark.by_turns(6), pytest.mark.separate]

EXAMPLE = Path(__file__).parents[2] / "examples" / "profile_training.py"


def test_example(device, shares_memory, tmp_path):
    command = [sys.executable, str(EXAMPLE), "--folder", str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    if placement.get_placement(device) == "device":
        assert "(aten::convolution_backward)" in result.stdout
    if not shares_memory:
        assert "Memcpy DtoH" in result.stdout
    assert f"{device} worked" in result.stdout
    assert "MiB of memory in a step" in result.stdout
    trace = json.loads((tmp_path / "trace.json").read_text())
    assert any(event["name"].startswith("ProfilerStep") for event in trace["traceEvents"])
    snapshot = pickle.loads((tmp_path / "memory.pickle").read_bytes())
    assert snapshot["device_traces"][device.index]
