"""Commands that documents show exist, with their options."""

import importlib.util
import itertools
import re
import shlex
import subprocess
import sys
from functools import cache

import pytest

from tests.documents.blocks import ALL, ROOT, Block
from torch_outboard.settings import KNOWN

COMMANDS = [b for b in ALL if b.language == "sh" and b.relation == ""]
MISSPELT = ("OUTBOARD_PLACMENT",)  # a document shows what is said of it
MODULES = ("torch_outboard", "tests.", "benchmarks.", "tools.")


@cache
def targets() -> set[str]:
    return set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M))


@cache
def help_of(module: str, command: str) -> str:
    line = [sys.executable, "-m", module, *([command] if command else []), "--help"]
    answer = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, f"{module} {command}: {answer.stderr[-300:]}"
    return answer.stdout


def lines(block: Block) -> list[str]:
    text = block.text.replace("\\\n", " ")
    return [line for line in text.split("\n") if line.strip() and not line.startswith("#")]


@pytest.mark.slow
@pytest.mark.parametrize("block", COMMANDS, ids=lambda block: block.name)
def test_commands(block: Block) -> None:
    for line in lines(block):
        for name in re.findall(r"\bOUTBOARD_[A-Z_]+(?==)", line):
            assert name in (*KNOWN, *MISSPELT) or "MYCHIP" in name, name
        words = shlex.split(line, comments=True)
        while words and re.fullmatch(r"[A-Z_]+=.*", words[0], re.S):
            words.pop(0)
        if words[:1] == ["make"]:
            for target in (word for word in words[1:] if "=" not in word):
                assert target in targets(), f"make {target}"
        if words[:2] == ["python", "-m"] and words[2].startswith(MODULES):
            module = words[2]
            assert importlib.util.find_spec(module) is not None, module
            command = ""
            if module == "torch_outboard" and len(words) > 3 and not words[3].startswith("-"):
                command = words[3]
            # Behind the name of a program stand that program's.
            ours = itertools.takewhile(lambda word: not word.endswith(".py"), words[3:])
            for option in (word for word in ours if word.startswith("--")):
                if option != "--help":
                    assert option.split("=")[0] in help_of(module, command), f"{module} {option}"
            if command:
                assert help_of(module, command)
