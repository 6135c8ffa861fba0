"""The example of a driver in a separate package: it installs, keeps the contract and trains."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import torch_outboard
from tests.examples.running import ROOT, run
from tests.support import environment_without, run_python

pytestmark = pytest.mark.by_turns(6)

EXAMPLE = ROOT / "examples" / "driver_package"


@pytest.fixture(scope="module")
def mychip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = tmp_path_factory.mktemp("mychip") / "libob_mychip.so"
    command = ["cc", "-std=c11", "-O2", "-Wall", "-Werror", "-shared", "-fPIC"]
    command += [
        f"-I{torch_outboard.include_paths()[0]}",
        EXAMPLE / "src" / "mychip_torch" / "mychip.c",
    ]
    subprocess.run([*command, "-o", library], check=True)
    return library


def test_it_installs_and_trains() -> None:
    printed = run(EXAMPLE / "run.py", "shared")
    assert re.search(r"aten::addmm +float32 +device", printed), printed


@pytest.mark.slow
def test_it_keeps_the_contract(mychip: Path) -> None:
    command = [sys.executable, "-m", "torch_outboard", "check", mychip]
    environment = environment_without("OUTBOARD_")
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout


PRODUCTS = """
    import torch
    import torch_outboard
    from torch_outboard import fallback

    fallback.set_policy(copied="allow")
    torch.manual_seed(0)
    device = torch.device(torch_outboard.device_name())
    a, b, c, v = (torch.randn(*sizes) for sizes in ((3, 5, 7), (3, 7, 4), (5, 4), (4,)))
    calls = {
        "bmm": lambda a, b, c, v: a @ b,
        "mm": lambda a, b, c, v: a[0] @ b[0],
        "addmm": lambda a, b, c, v: torch.addmm(c, a[0], b[0], beta=0.5, alpha=2),
        "added vector": lambda a, b, c, v: torch.addmm(v, a[0], b[0]),
        "in place": lambda a, b, c, v: c.clone().addmm_(a[0], b[0], beta=0.5),
        "transposed": lambda a, b, c, v: a[0].t() @ c,
        "one column": lambda a, b, c, v: a[0] @ b[0][:, :1],
        "of a slice": lambda a, b, c, v: a[0][:, ::2] @ b[0][::2],
        "NaN that is not read": lambda a, b, c, v: torch.addmm(c * torch.nan, a[0], b[0], beta=0),
        "float64": lambda a, b, c, v: a[0].double() @ b[0].double(),
    }
    for name, call in calls.items():
        with fallback.report() as report:
            got = call(*(x.to(device) for x in (a, b, c, v)))
        torch.testing.assert_close(got.cpu(), call(a, b, c, v), msg=lambda m: f"{name}: {m}")
        placements = {row.placement for row in report.rows if row.op.rstrip("_").endswith("mm")}
        print(name, *sorted(placements))
    free, total = torch.mychip.mem_get_info()
    assert 0 < free < total == 2**30, (free, total)
    try:
        torch.empty(2**31, device=device)
    except torch.OutOfMemoryError as error:
        assert "1024.00 MiB in one piece" in str(error), error
"""


def test_its_library_multiplies_what_it_can(mychip: Path) -> None:
    def placements(**settings: str) -> dict[str, str]:
        lines = run_python(
            PRODUCTS, OUTBOARD_DRIVER=str(mychip), OUTBOARD_PLACEMENT=None, **settings
        ).splitlines()
        return {name: placed for name, _, placed in (line.rpartition(" ") for line in lines)}

    by_library = placements()
    assert {name for name, placed in by_library.items() if placed == "device"} == {
        "bmm", "mm", "addmm", "added vector", "in place", "transposed", "one column",
        "NaN that is not read",
    }  # fmt: skip
    assert set(placements(OUTBOARD_MYCHIP_PRODUCTS="host").values()) == {"copied"}
