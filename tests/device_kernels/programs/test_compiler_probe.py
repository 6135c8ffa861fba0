"""A compiler that refuses everything is noticed at the first use of the device.

Where `auto` begins on the host, it is noticed at the first call that the device would get.
`python -m torch_outboard doctor` builds and runs a kernel on every device that runs code.
"""

from __future__ import annotations

import pytest

from tests.device_kernels.processes import run_program, try_program
from torch_outboard import _C
from torch_outboard.commands.main import main

PRELUDE = """
    import warnings
    import torch, torch_outboard
    from tests.device_kernels import refusing_driver
    from torch_outboard import _C, fallback, ways

    refusing_driver.use()
    device = torch.device(torch_outboard.device_name(), 0)

    def work(index=0):
        with warnings.catch_warnings(record=True) as found, fallback.report() as report:
            warnings.simplefilter("always")
            x = torch.full((3,), 2.0, device=f"{device.type}:{index}")
            assert (x.exp() + x[::2].contiguous().sum()).cpu().isfinite().all()
        ways_taken = {row.way for row in report.rows if row.op in ("aten::exp", "aten::add.Tensor")}
        return ways_taken, [str(w.message) for w in found if "compiler of" in str(w.message)]

    def prefer_device():
        # As if the host took ten milliseconds longer for each call.
        for index in range(torch.accelerator.device_count()):
            torch.ones(1, device=f"{device.type}:{index}") + 1
            table = _C.way_savings(index)
            _C.set_way_savings(index, {name: [-10**7] * len(row) for name, row in table.items()})

    def raised(call):
        try:
            call()
        except RuntimeError as error:
            return str(error)
        raise AssertionError("nothing was raised")

    def check_that_a_forced_way_raises():
        with ways.way("device"):
            error = raised(work)
        assert "by the way 'device'" in error and "doctor" in error, error

    def check_that_one_warning_came(said):
        assert len(said) == 1, said
        assert f"{device} (a device)" in said[0]
        assert "error" in said[0] and "doctor" in said[0], said
"""
# The probe is not of these: a kernel of the user's says by itself that it does not compile.
SHARED = """
    with torch_outboard.kernel("aten::relu", expression="a > C(0) ? a : C(0)"):
        assert "does not compile" in raised(torch.full((3,), 2.0, device=device).relu)
    before = refusing_driver.builds
    with ways.way("host"):
        assert work() == ({"shared"}, [])
    assert work() == ({"shared"}, [])
    assert refusing_driver.builds == before
    prefer_device()
    ways_taken, said = work()
    assert ways_taken == {"shared"}, ways_taken
    check_that_one_warning_came(said)
    assert work() == (ways_taken, [])
    assert refusing_driver.builds == before + 1
    # Devices of one model have one compiler.
    assert torch.accelerator.device_count() == 3
    assert [work(index) for index in (1, 2)] == [({"shared"}, [])] * 2
    check_that_a_forced_way_raises()
    assert refusing_driver.builds == before + 1
"""
# Memory that the host cannot touch, so that `auto` means the device's kernels.
HANDLES = """
    ways_taken, said = work()
    assert ways_taken == {"copied"}, ways_taken
    check_that_one_warning_came(said)
    assert work() == (ways_taken, [])
    check_that_a_forced_way_raises()
    with ways.way("host"):
        assert work() == ({"copied"}, [])
    assert refusing_driver.builds == 1
"""


@pytest.mark.parametrize(("memory", "body"), [("shared", SHARED), ("handles", HANDLES)])
def test_auto_stays_on_the_host_and_warns_once(memory, body, shares_memory):
    if memory == "shared" and not shares_memory:
        pytest.skip("the device has no memory that the host can touch")
    run_program(
        PRELUDE + body,
        OUTBOARD_WAY="auto",
        OUTBOARD_CACHE_DIR="",
        OUTBOARD_FALLBACK_COPIED="allow",
        OUTBOARD_OCL_MEMORY=memory,
        OUTBOARD_OCL_COPIES="3",
        OUTBOARD_OCL_DEVICES="0",
    )


@pytest.mark.filterwarnings("ignore:The argument 'device' of Tensor")
def test_the_doctor_runs_a_kernel(capsys, device):
    assert _C.compiler_failure(device.index) is None
    assert main(["doctor"]) == 0
    printed = capsys.readouterr().out
    assert printed.count("build and run a kernel") == printed.count("  PASS") // 5 > 0
    assert "FAIL" not in printed


@pytest.mark.parametrize("way", ["device", "auto", "host"])
def test_the_doctor_tells_of_a_compiler_that_refuses_everything(way):
    code = """
        from tests.device_kernels import refusing_driver
        from torch_outboard.commands.main import main

        refusing_driver.use()
        sys.exit(main(["doctor"]))
    """
    result = try_program(code, OUTBOARD_WAY=way)
    assert result.returncode == 1, result.stdout + result.stderr
    assert result.stdout.count("  PASS") == 4
    assert result.stdout.count("  FAIL") == 1
    assert "cannot build and run a kernel: a kernel does not compile" in result.stdout
