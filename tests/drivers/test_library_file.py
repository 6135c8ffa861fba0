"""Errors for files that dlopen would wait for, or that would end the process."""

import os
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from torch_outboard.drivers import host

INCLUDE = Path(__file__).parents[2] / "csrc" / "include"

PRINT = """
#include <outboard/library_file.h>
#include <stdio.h>
int main(int count, char** paths) {
  for (int i = 1; i < count; i++) {
    const char* problem = ob_library_problem(paths[i]);
    puts(problem == NULL ? "fine" : problem);
  }
  return 0;
}
"""

MISSING_END = "is a shared library without its end"


@pytest.fixture(scope="session")
def problem_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path | str], str]:
    folder = tmp_path_factory.mktemp("print")
    for compiler, standard, name in (("cc", "c11", "print.c"), ("c++", "c++17", "print.cpp")):
        source, program = folder / name, folder / "print"
        source.write_text(PRINT)
        command = [compiler, f"-std={standard}", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror"]
        subprocess.run([*command, f"-I{INCLUDE}", source, "-o", program], check=True)

    def ask(path: Path | str) -> str:
        return subprocess.check_output([program, path], text=True, timeout=10).strip()

    return ask


def test_whole_libraries_are_fine(problem_of) -> None:
    assert problem_of(host.library_path()) == "fine"
    assert problem_of("libOpenCL.so.1") == "fine"  # a name that dlopen searches for


def test_every_truncated_library_is_refused(problem_of, tmp_path: Path) -> None:
    whole = Path(host.library_path()).read_bytes()
    library = tmp_path / "short.so"
    for size in (0, 63, 64, 100, 4096, len(whole) // 2, len(whole) - 1):
        library.write_bytes(whole[:size])
        expected = MISSING_END if size >= 64 else "is no shared library"
        assert problem_of(library) == expected, size


# Offsets of a 64-bit ELF header.
@pytest.mark.skipif(struct.calcsize("P") != 8, reason="the offsets are those of 64-bit ELF files")
def test_what_is_no_library_for_this_process(problem_of, tmp_path: Path) -> None:
    library, whole = tmp_path / "strange.so", Path(host.library_path()).read_bytes()
    for offset, form, value, expected in (
        (18, "<H", 0xFFFE, "was compiled for another processor than that of this"),
        (4, "B", 1, "was compiled for another processor than that of this"),
        (16, "<H", 1, "is no shared library but another kind of ELF file"),
        (32, "<Q", 1 << 63, MISSING_END),
        (40, "<Q", 2**64 - 1, MISSING_END),
        (54, "<H", 7, "is a shared library with damaged headers"),
    ):
        changed = bytearray(whole)
        struct.pack_into(form, changed, offset, value)
        library.write_bytes(changed)
        assert problem_of(library).startswith(expected), offset
    library.write_text("INPUT(libOpenCL.so.1)\n" * 10)
    assert problem_of(library) == "is no shared library"


def test_what_is_no_file(problem_of, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.so")
    assert problem_of(tmp_path / "fifo.so") == "is not a regular file"
    assert problem_of(tmp_path) == "is a folder and no shared library"
    assert problem_of(tmp_path / "fifo.so" / "x.so") == "does not exist"
