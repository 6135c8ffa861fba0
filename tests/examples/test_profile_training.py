"""The example of a profile ends well and shows what the device did."""

import json
import pickle

import pytest

from tests.examples.running import ROOT, run
from torch_outboard import placement

pytestmark = [pytest.mark.by_turns(6), pytest.mark.separate]


def test_example(device, shares_memory, tmp_path):
    printed = run(ROOT / "examples" / "profile_training.py", None, "--folder", str(tmp_path))
    if placement.get_placement(device) == "device":
        assert "(aten::convolution_backward)" in printed
    if not shares_memory:
        assert "Memcpy DtoH" in printed
    assert f"{device} worked" in printed
    assert "MiB of memory in a step" in printed
    trace = json.loads((tmp_path / "trace.json").read_text())
    assert any(event["name"].startswith("ProfilerStep") for event in trace["traceEvents"])
    snapshot = pickle.loads((tmp_path / "memory.pickle").read_bytes())
    assert snapshot["device_traces"][device.index]
