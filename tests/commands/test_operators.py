"""`python -m torch_outboard operators` prints what is asked for, in the form that is asked for."""

from __future__ import annotations

import csv
import functools
import io
import json

import pytest
import torch

from torch_outboard.commands import operators
from torch_outboard.commands.main import main


def printed(capsys, *arguments: str) -> str:
    assert main(["operators", *arguments]) == 0
    return capsys.readouterr().out


@pytest.mark.by_turns(2)
def test_what_is_printed(capsys, monkeypatch):
    # Each call takes seconds to list all overloads.
    monkeypatch.setattr(operators, "overloads", functools.cache(operators.overloads))
    lines = printed(capsys, "aten::relu(_|$)", "--columns", "operator,needs").splitlines()
    assert lines[0].split() == ["operator", "needs"]
    assert [line.split() for line in lines[1:3]] == [
        ["aten::relu", "kernel"],
        ["aten::relu_", "kernel"],
    ]
    assert lines[-1] == "2 overloads"

    rows = list(csv.DictReader(io.StringIO(printed(capsys, "--csv", "--columns", "all"))))
    names = [row["operator"] for row in rows]
    known = torch._C._dispatch_get_all_op_names()
    assert names == sorted(name for name in known if name.startswith("aten::"))
    assert rows[0].keys() == {
        "operator", "needs", "composite", "structured", "stub", "runs", "engine", "by", "file",
        "schema",
    }  # fmt: skip

    text = printed(capsys, "--json", "--where", "needs=kernel", "--where", "stub=.*_stub")
    found = json.loads(text)
    assert {"aten::abs.out", "aten::masked_fill_.Scalar"} <= {line["operator"] for line in found}
    assert all(line["needs"] == "kernel" for line in found)
    assert "stub" not in found[0]  # a column that is not shown can be asked about

    text = printed(capsys, "^aten::a", "--csv", "--columns", "needs,operator", "--sort", "needs")
    needs = [row["needs"] for row in csv.DictReader(io.StringIO(text))]
    assert needs == sorted(needs)
    assert len(set(needs)) > 1

    lines = printed(capsys, "--count").splitlines()
    counted = {tuple(line.rsplit(maxsplit=1)[0].split(maxsplit=1)) for line in lines[1:]}
    assert ("no", "composite") in counted
    assert ("kernel", "nothing") not in counted


def test_options_that_make_no_sense(capsys):
    for arguments, words in (
        (("--columns", "name"), "'name' is no column; there are operator, needs, "),
        (("--sort", "name"), "'name' is no column"),
        (("--where", "needs"), "'needs' is no condition; write it as in needs=kernel"),
        (("--where", "needs=("), "'(' is no regular expression"),
        (("(",), "'(' is no regular expression"),
        (("--library", "no_such_file.so"), "no_such_file.so cannot be loaded: OSError"),
        (("--library", "no_such_module"), "no_such_module cannot be loaded: ModuleNotFoundError"),
    ):
        assert main(["operators", *arguments]) == 1
        assert words in capsys.readouterr().err
