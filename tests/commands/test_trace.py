"""`python -m torch_outboard trace` shows what a program ran, where, and its waits."""

import json
import re

from tests.support import try_python
from torch_outboard.commands import main

COMMAND = "import sys; from torch_outboard.commands import main; sys.exit(main(sys.argv[1:]))"
PROGRAM = """
import sys, torch, torch_outboard
from helper import three
x = torch.ones(1 << 20, device=torch_outboard.device_name())
y = x.neg()
total = y.sum().item()  # waits
torch.get_device_module(x.device).synchronize()
torch.special.entr(x.double()).cpu()
print(sys.argv[1:])
sys.exit(three)
"""


def traced(folder, *options, **environment):
    """The result of `trace` of the program above, in a process of its own."""
    (folder / "helper.py").write_text("three = 3\n")
    program = folder / "program.py"
    program.write_text(PROGRAM)
    result = try_python(COMMAND, "trace", *options, str(program), "--own", "option", **environment)
    assert result.returncode == 3, result.stderr
    assert "['--own', 'option']\n" in result.stdout
    return result.stdout


def test_a_mistake_is_a_sentence(capsys, tmp_path):
    program = tmp_path / "program.py"
    program.write_text("")
    for arguments, words in (
        ((), "trace needs a program"),
        (("no_such_program.py",), "there is no program 'no_such_program.py'"),
        (("--calls", "--page", "page.html", str(program)), "--page shows the summary"),
        (("--output", f"{tmp_path}/no/trace.txt", str(program)), "there is no folder"),
    ):
        assert main(["trace", *arguments]) == 2
        assert words in capsys.readouterr().err


def test_the_summary_has_operators_copies_and_waits(tmp_path):
    printed = traced(tmp_path, OUTBOARD_FAULTS="delay_us=20000", OUTBOARD_DRIVER="host",
                     OUTBOARD_HOST_ACCESS="separate", OUTBOARD_FALLBACK_COPIED="allow",
                     OUTBOARD_CLANG="none")  # fmt: skip
    assert re.search(r"^aten::neg +float32 +copied +1 ", printed, re.MULTILINE), printed
    # 8 MiB of float64 come to the host, once for the operator and once for the program.
    assert re.search(
        r"^aten::_copy_from +float64 +device +1 +[\d.,]+ +8.0 MiB", printed, re.MULTILINE
    )
    waits = re.findall(r"^(\S+) +\S*program.py:(\d+) +(\d+) +([\d.,]+)$", printed, re.MULTILINE)
    lines = {cause: int(line) for cause, line, _, _ in waits}
    waiting = PROGRAM.splitlines().index("total = y.sum().item()  # waits") + 1
    assert lines["item"] == waiting, printed
    assert "Kernels most worth writing" in printed
    assert re.search(r"^aten::special_entr +float64 +1 ", printed, re.MULTILINE)


def test_compiled_programs_are_counted(tmp_path):
    printed = traced(tmp_path, OUTBOARD_DRIVER="ocl", OUTBOARD_PLACEMENT="device",
                     OUTBOARD_CACHE_DIR=str(tmp_path / "cache"), OUTBOARD_FAULTS=None)  # fmt: skip
    row = re.search(r"^aten::neg +float32 +device +1 +\S+ +(\d+) +([\d.,]+)", printed, re.MULTILINE)
    assert row is not None, printed
    assert int(row[1]) >= 1
    assert re.search(r"; [1-9]\d* programs compiled in \d", printed)


def test_files_hold_tables_page_and_profile(tmp_path):
    output, page, chrome = (tmp_path / name for name in ("trace.txt", "page.html", "chrome.json"))
    files = ("--output", str(output), "--page", str(page), "--chrome", str(chrome))
    printed = traced(tmp_path, *files)
    assert printed.splitlines()[-1] == "['--own', 'option']"
    for file in (output, page):
        assert "aten::neg" in file.read_text()
    assert page.read_text().startswith("<!doctype html>")
    events = json.loads(chrome.read_text())["traceEvents"]
    assert any(event.get("name") == "aten::neg" for event in events)


def test_calls_have_keys_and_nested_calls(tmp_path):
    printed = traced(tmp_path, "--calls")
    assert re.search(r"^aten::neg +(\S+ > )*PrivateUse1", printed, re.MULTILINE), printed


def test_a_program_that_fails_is_traced_up_to_there(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import torch, torch_outboard\n"
        "torch.ones(2, device=torch_outboard.device_name()).neg()\n"
        "raise KeyError('the end')\n"
    )
    result = try_python(COMMAND, "trace", str(program))
    assert result.returncode == 1
    assert "KeyError: 'the end'" in result.stderr
    assert "aten::neg" in result.stdout
