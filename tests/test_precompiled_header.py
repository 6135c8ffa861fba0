"""The build reads PyTorch's headers once where the compiler can cache them."""

import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.compile_versions import load_setup


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Flags of `precompiled_header_flags` for a compiler without cache."""
    monkeypatch.setattr(shutil, "which", lambda name: None)
    compiler = SimpleNamespace(compiler_so=["c++", "-fPIC"], include_dirs=[])
    return SimpleNamespace(build_temp=str(tmp_path / "objects"), compiler=compiler)


@pytest.fixture
def extension() -> SimpleNamespace:
    return SimpleNamespace(
        name="package._C", include_dirs=[], extra_compile_args=["-std=c++20", "-O2"]
    )


def test_sources_read_the_compiled_header(build, extension, tmp_path):
    version = subprocess.run(["c++", "--version"], capture_output=True, text=True, check=True)
    if "Free Software Foundation" not in version.stdout:
        pytest.skip("c++ is not GCC here")
    header = tmp_path / "common.h"
    header.write_text("inline int common() { return 7; }\n")
    flags_of = load_setup().precompiled_header_flags
    flags = flags_of(build, extension, header)
    source = tmp_path / "source.cpp"
    source.write_text("int main() { return common() - 7; }\n")
    # -H marks headers in the compiler's own form with an exclamation mark.
    command = ["c++", "-fPIC", "-std=c++20", "-O2", "-DTORCH_API_INCLUDE_EXTENSION_H"]
    command += ["-DTORCH_EXTENSION_NAME=_C", *flags, "-H", str(source), "-o", str(tmp_path / "a")]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert answer.stderr.startswith("! ")
    subprocess.run([str(tmp_path / "a")], check=True)
    compiled = next(Path(build.build_temp).rglob("*.gch"))
    made = compiled.stat().st_mtime_ns
    assert flags_of(build, extension, header) == flags
    assert compiled.stat().st_mtime_ns == made
    header.write_text("inline int common() { return 8; }\n")
    assert flags_of(build, extension, header) == flags
    assert compiled.stat().st_mtime_ns != made


def test_no_header_where_it_cannot_be(build, extension, tmp_path, monkeypatch):
    flags_of = load_setup().precompiled_header_flags
    header = tmp_path / "common.h"
    header.write_text("this is no C++\n")
    assert flags_of(build, extension, header) == []
    header.write_text("")
    compiler = tmp_path / "other-c++"
    compiler.write_text("#!/bin/sh\necho another compiler\n")
    compiler.chmod(0o755)
    with monkeypatch.context() as other:
        other.setenv("CXX", str(compiler))
        assert flags_of(build, extension, header) == []
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")  # a compiler cache
    assert flags_of(build, extension, header) == []
