"""`python -m torch_outboard doctor` tries every device."""

import re

import pytest

from tests.support import run_python, try_python
from torch_outboard import _C
from torch_outboard.commands import device_checks

BROKEN = """
    import ctypes, sys
    import torch, torch_outboard
    from torch_outboard import _C
    from torch_outboard.commands import main
    from torch_outboard.drivers import contract, host
    from torch_outboard.drivers.contract import FUNCTIONS, Driver, Status

    original = contract.load(host.library_path())
    table = Driver.from_buffer_copy(original)
    for name in sys.argv[1:]:
        setattr(table, name, FUNCTIONS[name](lambda *arguments: Status.OK))
    _C.use_driver_table("host", ctypes.addressof(table))
    sys.exit(main(["doctor"]))
"""
HOST = {"OUTBOARD_DRIVER": "host", "OUTBOARD_HOST_DEVICES": "1", "OUTBOARD_FAULTS": None}


def outcomes(printed: str) -> dict[tuple[str, str], str]:
    """PASS, FAIL or none by device and check."""
    rows = re.findall(r"^(host:\d)  (\S.*?) {2,}(PASS|FAIL|none) +[\d.]+$", printed, re.MULTILINE)
    return {(device, check): outcome for device, check, outcome in rows}


def test_every_device_is_tried():
    environment = {**HOST, "OUTBOARD_HOST_DEVICES": "2", "OUTBOARD_HOST_MEMROY": "1"}
    printed = run_python(BROKEN, **environment)
    found = outcomes(printed)
    assert {device for device, _ in found} == {"host:0", "host:1"}
    kernel = "build and run a kernel"
    assert {outcome for (_, check), outcome in found.items() if check != kernel} == {"PASS"}
    assert {outcome for (_, check), outcome in found.items() if check == kernel} == {"none"}
    assert len(found) == 10
    for device in ("host:0", "host:1"):
        assert (
            len(re.findall(rf"^{device} +copy to the .* [\d.]+ GB/s$", printed, re.MULTILINE)) == 4
        )
        assert re.search(rf"^{device} +addition .* [\d.]+ us$", printed, re.MULTILINE), printed
        assert re.search(rf"^{device} +float32 matrix product, .* GFLOP/s", printed, re.MULTILINE)
    assert re.search(r"^settings +OUTBOARD_HOST_MEMROY \(did you mean OUTBOARD_HOST_MEMORY\?\)",
                     printed, re.MULTILINE)  # fmt: skip


def test_products_by_the_library_of_a_driver_are_named_so(device, monkeypatch):
    monkeypatch.setattr(_C, "library_functions", lambda: ["matrix_product"])
    monkeypatch.setattr(device_checks, "_best", lambda *arguments: 1.0)
    names = [name for name, _ in device_checks.speeds(device)]
    products = [name for name in names if name.startswith("float32 matrix product")]
    assert products == ["float32 matrix product, the driver's library"]


BOTH, ROWS, WITHIN = "copy to the device and back", "copy rows both ways", "copy within the device"
BROKEN_FUNCTIONS = {
    "copy_host_to_device": BOTH,
    "copy_host_to_device copy_device_to_host": BOTH,
    "copy_host_to_device_2d": ROWS,
    "copy_device_to_host_2d": ROWS,
    "copy_device_to_device": WITHIN,
}


@pytest.mark.by_turns(3)
@pytest.mark.parametrize("functions", BROKEN_FUNCTIONS)
def test_copies_that_do_nothing_fail(functions):
    # The processor copies within shared memory.
    result = try_python(BROKEN, *functions.split(), **HOST, OUTBOARD_HOST_ACCESS="separate")
    assert result.returncode == 1, result.stdout + result.stderr
    failing = BROKEN_FUNCTIONS[functions]
    assert outcomes(result.stdout)["host:0", failing] == "FAIL"
    # Validation finds some at the first allocation.
    wrong = r"([\d,]+ of [\d,]+ bytes are wrong|.*other bytes came back than were sent)"
    assert re.search(rf"host:0 cannot {failing}: {wrong}", result.stdout), result.stdout


def test_a_call_that_fails_is_named():
    code = BROKEN.replace("Status.OK", "Status.ERROR")
    result = try_python(code, "copy_host_to_device", **HOST)
    assert result.returncode == 1
    assert "host:0 cannot copy to the device and back: AcceleratorError" in result.stdout
    assert "driver 'host' returned error from `" in result.stdout
