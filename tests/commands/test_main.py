"""Answers of the commands to invalid arguments and to --help."""

import json
from dataclasses import dataclass

from tests.support import run_python
from torch_outboard.commands import COMMANDS as COMMANDS_THERE
from torch_outboard.commands import PROGRAM

# One process makes several calls; a device that one has started would stay for the next.
COMMANDS = """
    import contextlib, io, json, sys
    import torch, torch_outboard
    from torch_outboard import _C
    from torch_outboard.commands import main

    for arguments in json.loads(sys.argv[1]):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                status = main(arguments)
            except SystemExit as end:
                status = end.code
        started = _C.driver_initialized()
        rich = [m for m in sys.modules if m.startswith("rich")]
        print(json.dumps([status, out.getvalue(), err.getvalue(), started, rich]))
"""


@dataclass(frozen=True)
class Answer:
    status: int
    out: str
    err: str
    started: bool
    rich: list[str]


def answers(*calls: tuple[str, ...], **env: str) -> list[Answer]:
    printed = run_python(COMMANDS, json.dumps(calls), **env)
    return [Answer(*json.loads(line)) for line in printed.splitlines()]


def test_help_and_wrong_arguments_start_no_device():
    found = answers(
        ("cache",),
        *((name, "--help") for name in ("prebuild", "operators", "doctor", "devices")),
        *((name, "--devices", "1") for name in ("prebuild", "operators")),
        *(("prebuil",), ("--devices",)),
        ("prebuild",),
        OUTBOARD_DRIVER="warp",
    )
    assert found[0].rich == []  # the module of another command is not imported
    for answer in found[:5]:
        assert (answer.status, answer.started) == (0, False), answer
    for answer in found[1:5]:
        assert "usage: python -m torch_outboard" in answer.out
    for answer in found[5:-1]:
        assert (answer.status, answer.started) == (2, False), answer
    for answer in found[7:-1]:
        assert "usage: python -m torch_outboard [-h] command" in answer.err
    assert found[-1].status == 1
    assert "no driver of that name is installed" in found[-1].err


def test_a_device_that_is_not_there_is_a_sentence():
    calls = [("operators", "--device", "7"), ("prebuild", "--device", "-1")]
    found = answers(*calls, OUTBOARD_DRIVER="host", OUTBOARD_HOST_DEVICES="2")
    for (*_, index), answer in zip(calls, found, strict=True):
        assert answer.status == 1, answer
        assert f"device {index} was asked for, and 'host' has 2 devices, 0 to 1" in answer.err


def test_no_command_says_what_can_be_done():
    (answer,) = answers((), OUTBOARD_DRIVER="warp")
    lines = answer.out.splitlines()
    assert (answer.status, answer.started, answer.err) == (0, False, "")
    assert len(lines) <= 13
    assert {line.split()[0] for line in lines if line.startswith("  ")} == set(COMMANDS_THERE)
    assert "doctor" in lines[-1]


def test_every_command_has_examples():
    for name, answer in zip(
        COMMANDS_THERE, answers(*((name, "--help") for name in COMMANDS_THERE)), strict=True
    ):
        examples = answer.out.partition("examples:\n")[2].split("\n\n")[0].splitlines()
        assert examples, name
        for example in examples:
            assert f"{PROGRAM} {name}" in example, (name, example)
