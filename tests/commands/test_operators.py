"""`python -m torch_outboard operators` prints what is asked for, in the form that is asked for."""

from __future__ import annotations

import csv
import io
import json

import pytest
import torch

from torch_outboard.commands.main import main

pytestmark = [pytest.mark.by_turns(3), pytest.mark.separate]


def printed(capsys, *arguments: str) -> str:
    assert main(["operators", *arguments]) == 0
    return capsys.readouterr().out


def test_a_table_of_names_that_match(capsys):
    lines = printed(capsys, "aten::relu(_|$)", "--columns", "operator,needs").splitlines()
    assert lines[0].split() == ["operator", "needs"]
    assert [line.split() for line in lines[1:3]] == [
        ["aten::relu", "kernel"],
        ["aten::relu_", "kernel"],
    ]
    assert lines[-1] == "2 overloads"


def test_without_a_pattern_all_of_aten(capsys):
    rows = list(csv.DictReader(io.StringIO(printed(capsys, "--csv", "--columns", "all"))))
    names = [row["operator"] for row in rows]
    assert names == sorted(names)
    known = torch._C._dispatch_get_all_op_names()
    assert set(names) == {name for name in known if name.startswith("aten::")}
    assert rows[0].keys() == {
        "operator", "needs", "composite", "structured", "stub", "runs", "engine", "by", "file",
        "schema",
    }  # fmt: skip


def test_conditions_must_all_match(capsys):
    text = printed(capsys, "--json", "--where", "needs=kernel", "--where", "stub=.*_stub")
    found = json.loads(text)
    assert {"aten::abs.out", "aten::masked_fill_.Scalar"} <= {line["operator"] for line in found}
    assert all(line["needs"] == "kernel" for line in found)
    assert "stub" not in found[0]  # a column that is not shown can be asked about


def test_order_of_lines(capsys):
    text = printed(capsys, "^aten::a", "--csv", "--columns", "needs,operator", "--sort", "needs")
    needs = [row["needs"] for row in csv.DictReader(io.StringIO(text))]
    assert needs == sorted(needs)
    assert len(set(needs)) > 1


def test_counts(capsys):
    lines = printed(capsys, "--count").splitlines()
    counted = {tuple(line.rsplit(maxsplit=1)[0].split(maxsplit=1)) for line in lines[1:]}
    assert ("no", "composite") in counted
    assert ("kernel", "nothing") not in counted


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--columns", "name"), "'name' is no column; there are operator, needs, "),
        (("--sort", "name"), "'name' is no column"),
        (("--where", "needs"), "'needs' is no condition; write it as in needs=kernel"),
        (("--where", "needs=("), "'(' is no regular expression"),
        (("(",), "'(' is no regular expression"),
        (("--library", "no_such_file.so"), "no_such_file.so cannot be loaded: OSError"),
        (("--library", "no_such_module"), "no_such_module cannot be loaded: ModuleNotFoundError"),
    ],
)
def test_options_that_make_no_sense(capsys, arguments, words):
    assert main(["operators", *arguments]) == 1
    assert words in capsys.readouterr().err
