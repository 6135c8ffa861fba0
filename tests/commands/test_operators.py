"""`operators`, `explain` and `trace` print what is asked for, or a sentence."""

import csv
import io

import pytest
import torch

from torch_outboard.commands import main


def printed(capsys, *arguments: str) -> str:
    assert main([*arguments]) == 0
    return capsys.readouterr().out


@pytest.mark.by_turns(2)
def test_operators(capsys):
    lines = printed(capsys, "operators", "aten::relu(_|$)").splitlines()
    assert lines[0].split()[:3] == ["operator", "needs", "composite"]
    assert [line.split()[:2] for line in lines[1:3]] == [
        ["aten::relu", "kernel"],
        ["aten::relu_", "kernel"],
    ]
    assert lines[-1].startswith("2 overloads: ")
    rows = list(csv.DictReader(io.StringIO(printed(capsys, "operators", "--csv"))))
    known = torch._C._dispatch_get_all_op_names()
    assert [row["operator"] for row in rows] == sorted(n for n in known if n.startswith("aten::"))
    conditions = ("--where", "needs=kernel", "--where", "schema=.*, Tensor other.*")
    text = printed(capsys, "operators", "--csv", *conditions)
    found = list(csv.DictReader(io.StringIO(text)))
    assert {"aten::bitwise_and.Tensor_out", "aten::hypot.out"} <= {row["operator"] for row in found}
    assert found == [r for r in rows if r["needs"] == "kernel" and ", Tensor other" in r["schema"]]


def test_explain(capsys, device):
    text = printed(capsys, "explain", "add.Tensor", "--dtype", "float64", "--under", "no_grad")
    assert text.startswith("aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1)")
    for words in (f"on {device}, float64\n", "\nPrivateUse1 ", "Placement: "):
        assert words in text


def test_what_makes_no_sense_is_a_sentence(capsys):
    for arguments, words in (
        (
            ("operators", "--where", "needs"),
            "'needs' is not a condition; write COLUMN=PATTERN with",
        ),
        (("operators", "--where", "needs=("), "'(' is not a regular expression"),
        (("operators", "("), "'(' is not a regular expression"),
        (("operators", "--library", "nothing.so"), "nothing.so cannot be loaded: OSError"),
        (("explain", "relu", "--library", "nothing"), "nothing cannot be loaded: ModuleNotFound"),
        (("explain", "no_such"), "there is no overload 'aten::no_such'; `operators` lists them"),
        (
            ("explain", "relu", "--dtype", "float7"),
            "'float7' is not a dtype; write it as in float32",
        ),
        (("explain", "relu", "--device", "99"), "device 99 was asked for"),
    ):
        assert main([*arguments]) == 1
        assert words in capsys.readouterr().err
