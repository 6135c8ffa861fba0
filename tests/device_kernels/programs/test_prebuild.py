"""`python -m torch_outboard prebuild`: programs are on disk before they are needed."""

import re
from pathlib import Path

import pytest

from tests.device_kernels.processes import run_program, try_program
from torch_outboard.commands import main

pytestmark = pytest.mark.by_turns(4)

PREBUILD = """
    from torch_outboard.commands import main
    sys.exit(main(["prebuild", *sys.argv[1:]]))
"""
USE = """
    import torch, torch_outboard
    from torch_outboard import _C

    x = torch.rand(64, 64, device=torch_outboard.device_name())
    x.sum(), x.sum(1), x.amax(0)
    torch.get_device_module(x.device).synchronize()
    print(*_C.program_counts()[:2])
"""


def counts(printed: str) -> tuple[int, int]:
    """Programs that were compiled, and that were there."""
    found = re.findall(r"(\d+) programs compiled, (\d+) already cached", printed.replace("\n", " "))
    assert len(found) == 1, printed
    return int(found[0][0]), int(found[0][1])


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {
        "OUTBOARD_CACHE_DIR": str(tmp_path / "programs"),
        "OUTBOARD_FALLBACK_COPIED": "allow",
    }


def test_operators_are_there_for_the_next_process(environment):
    """Those reductions that it uses, in the dtype that it uses."""
    operators = [f"--operator=aten::{name}" for name in ("sum", "sum.dim_IntList", "amax")]
    built, loaded = counts(run_program(PREBUILD, *operators, **environment))
    assert built >= 2
    assert loaded == 0
    used_built, used_loaded = map(int, run_program(USE, **environment).split())
    assert used_loaded >= 1
    # The programs compiled now are those of rand and fill, which are no reductions.
    cold_built, _ = map(int, run_program(USE, **{**environment, "OUTBOARD_CACHE_DIR": ""}).split())
    assert used_built + used_loaded == cold_built
    assert used_built < cold_built


@pytest.mark.slow
def test_what_a_program_compiles_is_recorded(environment, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\nprint('arguments', sys.argv[1:])\n"
        + "\n".join(line[4:] for line in USE.splitlines())
        + "\nsys.exit(3)\n"
    )
    result = try_program(PREBUILD, "--record", str(script), "--fast", **environment)
    assert result.returncode == 3, result.stderr
    assert "arguments ['--fast']" in result.stdout
    built, loaded = counts(result.stdout)
    assert (built > 0, loaded) == (True, 0)
    # And the one by which the kit sees that the compiler works.
    assert run_program(USE, **environment).split() == ["0", str(built + 1)]


def test_a_program_on_the_host_compiles_nothing(environment, tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import torch, torch_outboard\n"
                      "torch.ones(3, device=torch_outboard.device_name()).sin()\n")  # fmt: skip
    printed = run_program(PREBUILD, "--placement", "host", "--record", str(script), **environment)
    assert counts(printed) == (0, 0)
    assert "; --placement device selects device kernels" in " ".join(printed.split())


def test_what_makes_no_sense_is_a_sentence(tmp_path, monkeypatch, capsys):
    for arguments, folder, message in (
        (["--family", "sorcery"], str(tmp_path), "no family sorcery; there are "),
        (["--operator", "aten::dance"], str(tmp_path), "no operator aten::dance; there are "),
        (["--dtype", "float31"], str(tmp_path), "'float31' is not a dtype"),
        ([], "", "kernels would not be cached: OUTBOARD_CACHE_DIR is empty"),
    ):
        monkeypatch.setenv("OUTBOARD_CACHE_DIR", folder)
        assert main(["prebuild", *arguments]) == 1
        assert message in capsys.readouterr().out.replace("\n", " ")


MODEL = """
    import torch, torch_outboard
    from torch import nn
    from torch_outboard import _C

    device = torch_outboard.device_name()
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.GELU())
"""
MADE = """
    before = {name: value.clone() for name, value in model.state_dict().items()}
    x = torch.rand(4, 8)
    state = torch.get_rng_state()
    print(*torch_outboard.prebuild(model, x))
    assert torch.equal(torch.get_rng_state(), state)
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]), name
    assert all(parameter.grad is None for parameter in model.parameters())
    assert next(model.parameters()).device.type == "cpu"
"""
USED = """
    model.to(device)(torch.rand(4, 8).to(device)).sum().backward()
    torch.get_device_module(device).synchronize()
    print(*_C.program_counts()[:2])
"""


def test_a_model_is_there_for_the_next_process(environment):
    """Forward and backward, by one call that leaves the model as it is."""
    built, loaded = map(int, run_program(MODEL + MADE, **environment).split())
    assert built >= 5
    assert loaded == 0
    used_built, used_loaded = map(int, run_program(MODEL + USED, **environment).split())
    assert used_loaded >= built
    # The compiler's first program, which tells that it works.
    assert used_built <= 1
