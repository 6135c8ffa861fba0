"""The driver that README.md shows: it compiles without a warning, and is a whole device."""

import subprocess
from pathlib import Path

import torch_outboard
from tests.examples.running import ROOT
from tests.support import run_python

CODE = """
    import torch
    from torch_outboard import fallback

    fallback.set_policy(copied="allow")
    torch.manual_seed(0)
    data, model = torch.randn(8, 4), torch.nn.Linear(4, 2)
    expected = model(data).square().sum()
    expected.backward()
    gradient = model.weight.grad.clone()
    model = model.to("mychip")
    model.zero_grad()
    loss = model(data.to("mychip")).square().sum()
    loss.backward()
    torch.testing.assert_close(loss.cpu(), expected)
    torch.testing.assert_close(model.weight.grad.cpu(), gradient)
    assert torch.full((3,), 1.5, device="mychip").tolist() == [1.5] * 3
    assert torch.arange(5, device="mychip")[1:3].clone().tolist() == [1, 2]
    print(torch.mychip.get_device_name(), torch.mychip.memory_allocated() > 0)
"""


def test_a_page_of_c_is_a_device(tmp_path: Path) -> None:
    source, library = ROOT / "examples/smallest_driver/mychip.c", tmp_path / "libob_mychip.so"
    assert len(source.read_text().splitlines()) <= 60
    command = ["cc", "-std=c11", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror", "-shared"]
    command += ["-fPIC", f"-I{torch_outboard.include_paths()[0]}", source, "-o", library]
    subprocess.run(command, check=True)
    printed = run_python(CODE, OUTBOARD_DRIVER=str(library), OUTBOARD_PLACEMENT=None)
    assert printed.split() == ["my", "chip", "True"]
