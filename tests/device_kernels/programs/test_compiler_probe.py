"""A compiler that refuses everything is noticed at the first use of the device.

Where `auto` begins on the host, it is noticed at the first call that the device would get.
`python -m torch_outboard doctor` builds and runs a kernel on every device that runs code.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.device_kernels.processes import run_program, try_program
from torch_outboard import _C

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
"""
# Handles: memory that the host cannot touch, so `auto` means the device's kernels.
MEMORIES = {"shared": "shared", "handles": "copied"}


def run(body: str, **environment: str) -> str:
    settings = {"OUTBOARD_WAY": "auto", "OUTBOARD_CACHE_DIR": ""}
    settings |= {"OUTBOARD_FALLBACK_COPIED": "allow", **environment}
    return run_program(PRELUDE + body, **settings)


@pytest.fixture
def skip_without(shares_memory: bool) -> Callable[[str], None]:
    """Skips a test where the first OpenCL device has no such memory."""

    def skip(memory: str) -> None:
        if memory == "shared" and not shares_memory:
            pytest.skip("the device has no memory that the host can touch")

    return skip


@pytest.mark.parametrize("memory", MEMORIES)
def test_auto_stays_on_the_host_and_warns_once(memory, skip_without):
    skip_without(memory)
    run(
        f"""
    if {memory == "shared"}:
        assert work() == ({{"shared"}}, [])
        assert refusing_driver.builds == 0
        prefer_device()
    ways_taken, said = work()
    assert ways_taken == {{{MEMORIES[memory]!r}}}, ways_taken
    assert len(said) == 1, said
    assert f"{{device}} (a device)" in said[0]
    assert "error" in said[0] and "doctor" in said[0], said
    assert work() == (ways_taken, [])
    assert refusing_driver.builds == 1
    """,
        OUTBOARD_OCL_MEMORY=memory,
    )


@pytest.mark.parametrize("memory", MEMORIES)
def test_a_forced_way_raises(memory, skip_without):
    skip_without(memory)
    run(
        f"""
    try:
        work()
    except RuntimeError as error:
        assert "by the way 'device'" in str(error) and "doctor" in str(error), error
    else:
        raise AssertionError("nothing was raised")
    with ways.way("host"):
        assert work() == ({{{MEMORIES[memory]!r}}}, [])
    assert refusing_driver.builds == 1
    """,
        OUTBOARD_OCL_MEMORY=memory,
        OUTBOARD_WAY="device",
    )


def test_the_way_host_asks_nothing(skip_without):
    skip_without("shared")
    run(
        """
    assert work() == ({"shared"}, [])
    assert refusing_driver.builds == 0
    # Whoever changes the way is told then.
    prefer_device()
    with ways.way("auto"):
        assert work()[0] == {"shared"}
        assert refusing_driver.builds == 1
    """,
        OUTBOARD_OCL_MEMORY="shared",
        OUTBOARD_WAY="host",
    )


def test_devices_of_one_model_have_one_compiler(skip_without):
    skip_without("shared")  # else the first use tells before
    run(
        """
    assert torch.accelerator.device_count() == 3
    prefer_device()
    assert [len(work(index)[1]) for index in range(3)] == [1, 0, 0]
    assert refusing_driver.builds == 1
    """,
        OUTBOARD_OCL_COPIES="3",
        OUTBOARD_OCL_DEVICES="0",
    )


def test_a_kernel_of_the_users_says_by_itself_that_it_does_not_compile():
    run("""
    with torch_outboard.kernel("aten::relu", expression="a > C(0) ? a : C(0)"):
        try:
            torch.full((3,), 2.0, device=device).relu()
        except RuntimeError as error:
            assert "does not compile" in str(error), error
        else:
            raise AssertionError("nothing was raised")
    """)


def test_a_compiler_that_works_is_asked_once(device):
    assert _C.compiler_failure(device.index) is None
    built, loaded, _ = _C.program_counts()
    assert _C.compiler_failure(device.index) is None
    assert _C.program_counts()[:2] == (built, loaded)


DOCTOR = """
    from torch_outboard.commands.main import main

    if sys.argv[1:]:
        from tests.device_kernels import refusing_driver
        refusing_driver.use()
    sys.exit(main(["doctor"]))
"""


@pytest.mark.parametrize("way", ["auto", "device"])
def test_the_doctor_runs_a_kernel(way):
    printed = run_program(DOCTOR, OUTBOARD_WAY=way)
    assert printed.count("build and run a kernel") == printed.count("  PASS") // 5 > 0
    assert "FAIL" not in printed


@pytest.mark.parametrize("way", ["auto", "device", "host"])
def test_the_doctor_tells_of_a_compiler_that_refuses_everything(way):
    result = try_program(DOCTOR, "refuse", OUTBOARD_WAY=way)
    assert result.returncode == 1, result.stdout + result.stderr
    assert result.stdout.count("  PASS") == 4
    assert result.stdout.count("  FAIL") == 1
    assert "cannot build and run a kernel: a kernel does not compile" in result.stdout
