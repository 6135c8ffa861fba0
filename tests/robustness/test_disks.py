"""Processes killed while they write, full disks, and damaged files: the next process is right."""

import io
import os
import re
import signal
import subprocess
import sys
import time

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.robustness.training import survives
from tests.support import ROOT, run_python, try_python

ENVIRONMENT = {"OUTBOARD_DRIVER": "ocl", "OUTBOARD_PLACEMENT": "device", "OUTBOARD_FAULTS": None,
               "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}  # fmt: skip
# Many small kernels, so that the cache of programs is written all the time.
BUILDS = """
import os, resource, signal, sys
import torch
from torch_outboard import _C
if len(sys.argv) > 1:  # no file may be larger than this: a disk that is full after so many bytes
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
x = torch.arange(12.0, device="ocl").reshape(3, 4)
print("ready", flush=True)
for function in (torch.sin, torch.cos, torch.exp, torch.tan, torch.erf, torch.tanh):
    found = function(x).cpu()
    torch.testing.assert_close(found, function(x.cpu()), rtol=1e-4, atol=1e-5)
    _C.flush_disk_cache()
print("right")
"""


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.0, 0.3, 0.6, 0.9, 1.2])
def test_a_process_killed_while_it_writes_its_cache(tmp_path, seconds):
    environment = {**os.environ, **{k: v for k, v in ENVIRONMENT.items() if v is not None}}
    environment |= {"OUTBOARD_CACHE_DIR": str(tmp_path)}
    environment.pop("OUTBOARD_FAULTS", None)
    with subprocess.Popen([sys.executable, "-c", BUILDS], env=environment, stdout=subprocess.PIPE,
                          text=True) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(seconds)
        process.send_signal(signal.SIGKILL)
    assert run_python(BUILDS, OUTBOARD_CACHE_DIR=str(tmp_path), **ENVIRONMENT).endswith("right\n")


@pytest.mark.parametrize("most", [pytest.param(0, marks=pytest.mark.slow), 5000])
def test_a_disk_that_is_full(tmp_path, most):
    """PoCL compiles through files: the error says so, and what was half written does no harm."""
    environment = {**ENVIRONMENT, "OUTBOARD_CACHE_DIR": str(tmp_path)}
    result = try_python(BUILDS, str(most), fresh=True, **environment)
    assert result.returncode == 1, result.stdout + result.stderr
    assert re.search(r"PoCL needs \d+ MiB in .*; make room", result.stderr), result.stderr
    assert run_python(BUILDS, **environment).endswith("right\n")


SAVE = """
import os, sys
import torch
device = os.environ["OUTBOARD_DRIVER"]
state = {"weight": torch.arange(1 << 20, device=device), "step": 1}
torch.save(state, sys.argv[1])
print("ready", flush=True)
while True:
    state["step"] += 1
    torch.save(state, sys.argv[1] + ".new")
    os.replace(sys.argv[1] + ".new", sys.argv[1])
"""


@pytest.mark.parametrize("seconds", [0.05])
def test_a_process_killed_while_it_saves(device, tmp_path, seconds):
    path = tmp_path / "checkpoint.pt"
    environment = {**os.environ, "OUTBOARD_DRIVER": device.type}
    with subprocess.Popen([sys.executable, "-c", SAVE, str(path)], env=environment,
                          stdout=subprocess.PIPE, text=True) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(seconds)
        process.send_signal(signal.SIGKILL)
    state = torch.load(path)
    assert state["weight"].device.type == device.type
    assert torch.equal(state["weight"].cpu(), torch.arange(1 << 20))


QUICK = settings(max_examples=60, deadline=None,
                 suppress_health_check=[HealthCheck.function_scoped_fixture])  # fmt: skip


@QUICK
@given(data=st.data())
def test_damaged_checkpoints_raise_or_load(device, data):
    """Never a crash; a file that still loads has a tensor of the size it claims."""
    file = io.BytesIO()
    torch.save({"x": torch.arange(100.0, device=device)}, file)
    content = bytearray(file.getvalue())
    for _ in range(data.draw(st.integers(1, 8))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    content = content[: data.draw(st.integers(0, len(content)))] or content
    try:
        loaded = torch.load(io.BytesIO(bytes(content)), map_location=device)
    except Exception:  # zip, pickle and PyTorch raise many kinds
        return
    for value in loaded.values() if isinstance(loaded, dict) else ():
        if isinstance(value, torch.Tensor):
            assert survives(lambda value=value: value.cpu().sum()) == ""
