"""What the commands answer to arguments that make no sense, and to --help."""

from __future__ import annotations

import pytest

from tests.support import try_python

pytestmark = pytest.mark.by_turns(3)

COMMAND = """
    import sys
    import torch, torch_outboard
    from torch_outboard import _C
    from torch_outboard.commands.main import main

    try:
        status = main(sys.argv[1:])
    except SystemExit as end:
        status = end.code
    print("started" if _C.driver_initialized() else "not started")
    sys.exit(status)
"""


@pytest.mark.parametrize("command", ["tune", "prebuild", "doctor", "devices"])
def test_help_starts_no_device(command):
    result = try_python(COMMAND, command, "--help")
    assert result.returncode == 0, result.stderr
    assert "usage: python -m torch_outboard" in result.stdout
    assert "not started" in result.stdout


@pytest.mark.parametrize("command", ["tune", "prebuild"])
def test_options_are_shown_where_there_is_no_driver(command):
    result = try_python(COMMAND, command, "--help", OUTBOARD_DRIVER="warp")
    assert result.returncode == 0, result.stderr
    assert "--family" in result.stdout


@pytest.mark.parametrize("command", ["tune", "prebuild"])
@pytest.mark.parametrize(
    "index", ["7", *(pytest.param(index, marks=pytest.mark.slow) for index in ("-1", "1000"))]
)
def test_a_device_that_is_not_there_is_a_sentence(command, index):
    result = try_python(
        COMMAND, command, "--device", index, OUTBOARD_DRIVER="host", OUTBOARD_HOST_DEVICES="2"
    )
    assert result.returncode == 1
    assert "Traceback" not in result.stderr
    assert f"device {index} was asked for, and 'host' has 2 devices, 0 to 1" in result.stderr


@pytest.mark.parametrize("command", ["tune", "prebuild"])
def test_an_option_that_is_not_there_starts_nothing(command):
    result = try_python(COMMAND, command, "--devices", "1")
    assert result.returncode == 2
    assert "not started" in result.stdout
    assert "Traceback" not in result.stderr


def test_a_driver_that_is_not_there_is_a_sentence():
    result = try_python(COMMAND, "tune", OUTBOARD_DRIVER="warp")
    assert result.returncode == 1
    assert "no driver of that name is installed" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("arguments", [(), ("tun",), ("--devices",)])
def test_a_command_that_is_not_there_names_those_that_are(arguments):
    result = try_python(COMMAND, *arguments)
    assert result.returncode == 2
    assert "not started" in result.stdout
    assert "usage: python -m torch_outboard [-h] command" in result.stderr


def test_the_module_of_another_command_is_not_imported():
    code = COMMAND + '    print([m for m in sys.modules if m.startswith("rich")])\n'
    code = code.replace("    sys.exit(status)\n", "")
    result = try_python(code, "cache", "--help")
    assert result.stdout.splitlines()[-1] == "[]"
