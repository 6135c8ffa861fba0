"""The stress of the runtime follows its headers, though no default test runs `make test-tsan`."""

from __future__ import annotations

import subprocess

import pytest

from tests.sanitizers.native_build import ROOT, THREAD, compiler, extensions, torch_flags
from tests.sanitizers.thread import STRESS

pytestmark = pytest.mark.slow


def test_stress_compiles():
    found, _ = extensions()
    flags = torch_flags(found["libtorch_outboard"], THREAD)
    command = [*compiler("c++"), *flags, "-fsyntax-only", STRESS]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
