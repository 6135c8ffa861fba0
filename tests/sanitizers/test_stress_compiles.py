"""The stress of the runtime follows its headers, though no default test runs `make test-tsan`."""

import subprocess
import sysconfig

import pytest
from torch.utils.cpp_extension import include_paths

from tests.compile_versions import ROOT, project_sources
from tests.sanitizers.thread import STRESS

pytestmark = pytest.mark.slow


def test_stress_compiles():
    source = next(each for each in project_sources() if each.path.startswith("csrc/runtime/"))
    folders = [*source.include, *include_paths(), sysconfig.get_path("include")]
    command = ["c++", *source.flags, *(f"-I{folder}" for folder in folders), "-fsyntax-only"]
    answer = subprocess.run([*command, STRESS], cwd=ROOT, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
