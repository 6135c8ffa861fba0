"""`where` and `trace` print what is asked for, or a sentence."""

from __future__ import annotations

from tests.support import try_python
from torch_outboard.commands.main import main


def test_the_path_of_a_call_and_the_call(capsys, device):
    assert main(["where", "add.Tensor", "--dtype", "float64", "--call"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1)")
    assert f"on {device}, float64, a dense tensor" in printed
    for text in ("PrivateUse1 ", "The router asks", "Called with arguments made up for it:"):
        assert text in printed


def test_what_is_not_there_is_a_sentence(capsys):
    for arguments, words in (
        (("no_such",), "there is no overload 'aten::no_such'; `operators` lists them"),
        (("relu", "--dtype", "float7"), "'float7' is no dtype; write it as in float32"),
        (("relu", "--device", "99"), "device 99 was asked for"),
    ):
        assert main(["where", *arguments]) == 1
        assert words in capsys.readouterr().err
    for arguments in ((), ("no_such_program.py",)):
        assert main(["trace", *arguments]) == 2
        assert "program" in capsys.readouterr().err


def test_a_program_is_traced_and_its_status_kept(tmp_path):
    (tmp_path / "helper.py").write_text("three = 3\n")
    program = tmp_path / "program.py"
    program.write_text(
        "import sys, torch, torch_outboard\n"
        "from helper import three\n"
        "x = torch.ones(2, device=torch_outboard.device_name())\n"
        "x.neg()\n"
        "print(sys.argv[1:])\n"
        "sys.exit(three)\n"
    )
    code = "import sys; from torch_outboard.commands.main import main; sys.exit(main(sys.argv[1:]))"
    output = tmp_path / "trace.txt"
    result = try_python(code, "trace", "--output", str(output), str(program), "--own", "option")
    assert result.returncode == 3, result.stderr
    assert result.stdout == "['--own', 'option']\n"
    assert "aten::neg" in output.read_text()
