"""PyTorch on the driver: tensors, and thirty steps of training against CPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping

from torch_outboard.check.catalog import check
from torch_outboard.check.outcome import Failed, NotTestable
from torch_outboard.check.session import Session, expect

SAYS = "Whoever fills it in (in C or in anything that can produce C function pointers) gets a " \
    "complete PyTorch device."  # fmt: skip
STEPS = 30
# Emulated devices train some of these steps in this time, and show it with the first ones.
SECONDS, LEAST = 90, 3
TOLERANCE = 2e-3  # of the loss, which thirty steps of rounding move by far less
ADVICE = (
    "Run `python -m torch_outboard doctor` with OUTBOARD_VALIDATE=1, then the failed operator "
    "alone; `torch_outboard.fallback.report()` shows which kernels ran."
)


def _train(driver: Session, placement: str) -> None:
    """Trains in a process that has PyTorch's device, and compares the losses."""
    if not driver.wanted:
        raise NotTestable("the driver was opened without a name that PyTorch could use")
    settings = {
        "OUTBOARD_DRIVER": driver.wanted,
        "OUTBOARD_PLACEMENT": placement,
        "OMP_NUM_THREADS": "1",
    }
    if os.environ.get("OUTBOARD_FAULTS"):  # as this process has them
        settings["OUTBOARD_VALIDATE"] = "1"
    command = [sys.executable, "-m", "torch_outboard.check.training_steps"]
    command += [str(STEPS), str(SECONDS)]
    environment = {**os.environ, **settings}
    environment.pop("TORCH_DEVICE_BACKEND_AUTOLOAD", None)
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    _compare(done, settings)


def _compare(done: subprocess.CompletedProcess[str], settings: Mapping[str, str]) -> None:
    called = " ".join(f"{name}={value}" for name, value in settings.items())
    if done.returncode != 0:
        words = done.stderr.strip().splitlines() or ["no output"]
        got = f"exit status {done.returncode}: {words[-1][:300]}"
        raise Failed(f"{STEPS} steps of training with {called}", got, function="(training)")
    losses = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    for step, loss in enumerate(losses):
        cpu, device = loss["cpu"], loss["device"]
        near = abs(cpu - device) <= TOLERANCE * max(1.0, abs(cpu))
        case = f"loss {cpu:.6f} in step {step}, as on CPU"
        expect(near, case, f"{device:.6f}", function="(training)")
    if len(losses) < LEAST:
        raise NotTestable(f"the device trains {len(losses)} of {STEPS} steps in {SECONDS} seconds")


@check(says=SAYS, advice=ADVICE, seconds=180)
def steps(driver: Session) -> None:
    """A small network trains as on CPU, by operators where the kit places them."""
    _train(driver, "auto")


@check(says=SAYS, advice=ADVICE, seconds=300, direct_only=True)
def steps_by_device_kernels(driver: Session) -> None:
    """The same by the kit's kernels, compiled by the driver."""
    driver.need_kernels()
    _train(driver, "device")
