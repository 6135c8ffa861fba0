"""A compiler that refuses everything is noticed at the first use of the device.

Where `auto` is the host, it is noticed when the placement becomes `device`.
`python -m torch_outboard doctor` builds and runs a kernel on every device that runs code.
"""

import pytest

from tests.device_kernels.processes import run_program, try_program
from torch_outboard import _C
from torch_outboard.commands import main

PRELUDE = """
    import warnings
    import torch, torch_outboard
    from tests.device_kernels import refusing_driver
    from torch_outboard import fallback, placement

    refusing_driver.use()
    device = torch.device(torch_outboard.device_name(), 0)

    def work(index=0):
        with warnings.catch_warnings(record=True) as found, fallback.report() as report:
            warnings.simplefilter("always")
            x = torch.full((3,), 2.0, device=f"{device.type}:{index}")
            assert (x.exp() + x[::2].contiguous().sum()).cpu().isfinite().all()
        operators = ("aten::exp", "aten::add.Tensor")
        placements = {row.placement for row in report.rows if row.op in operators}
        return placements, [str(w.message) for w in found if "compiler of" in str(w.message)]

    def raised(call):
        try:
            call()
        except RuntimeError as error:
            return str(error)
        raise AssertionError("nothing was raised")

    def check_that_device_raises():
        with placement.use("device"):
            for call in (work, placement.runs_on_device):
                error = raised(call)
                assert "by the placement 'device'" in error and "doctor" in error, error
"""
# The probe is not of these: a kernel of the user's says by itself that it does not compile.
SHARED = """
    with torch_outboard.kernel("aten::relu", expression="a > C(0) ? a : C(0)"):
        assert "does not compile" in raised(torch.full((3,), 2.0, device=device).relu)
    before = refusing_driver.builds
    with placement.use("host"):
        assert work() == ({"host"}, [])
    assert work() == ({"host"}, [])
    assert refusing_driver.builds == before
    check_that_device_raises()
    # Devices of one model have one compiler.
    assert torch.accelerator.device_count() == 3
    assert [work(index) for index in range(3)] == [({"host"}, [])] * 3
    assert refusing_driver.builds == before + 1
"""
# Memory that the host cannot touch, so that `auto` is the device.
HANDLES = """
    placements, said = work()
    assert placements == {"copied"}, placements
    assert not placement.runs_on_device()
    assert len(said) == 1, said
    assert f"{device} (a device)" in said[0]
    assert "error" in said[0] and "doctor" in said[0], said
    assert [work(index) for index in range(3)] == [({"copied"}, [])] * 3
    check_that_device_raises()
    with placement.use("host"):
        assert work() == ({"copied"}, [])
    assert refusing_driver.builds == 1
"""


@pytest.mark.parametrize(("memory", "body"), [("shared", SHARED), ("handles", HANDLES)])
def test_auto_runs_on_the_host_and_warns_once_where_it_would_not(memory, body, shares_memory):
    if memory == "shared" and not shares_memory:
        pytest.skip("the device has no memory that the host can touch")
    run_program(
        PRELUDE + body,
        OUTBOARD_PLACEMENT="auto",
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


@pytest.mark.parametrize("placement", ["device", "auto", "host"])
def test_the_doctor_tells_of_a_compiler_that_refuses_everything(placement):
    code = """
        from tests.device_kernels import refusing_driver
        from torch_outboard.commands import main

        refusing_driver.use()
        sys.exit(main(["doctor"]))
    """
    result = try_program(code, OUTBOARD_PLACEMENT=placement)
    assert result.returncode == 1, result.stdout + result.stderr
    assert result.stdout.count("  PASS") == 4
    assert result.stdout.count("  FAIL") == 1
    assert "cannot build and run a kernel: a kernel does not compile" in result.stdout
