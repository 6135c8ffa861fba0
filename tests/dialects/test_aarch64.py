"""The dialect on aarch64, emulated: mathematics, entries, what the driver `host` would choose."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import torch_outboard
from tests.dialects.aarch64 import EMULATOR, MISSING, OnAarch64, link, run
from tests.dialects.accuracy import FUNCTIONS, TYPES, Dialect, samples
from tests.dialects.compiled import CLANGS, DIALECT
from tests.dialects.compiled import MISSING as NO_CLANG
from tests.dialects.test_entries import ENTRIES, PLACES, SOURCE

pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))

NAMES = list(FUNCTIONS)
ROOT = Path(__file__).parents[2]


@cache
def emulated() -> OnAarch64:
    return OnAarch64(NAMES)


@cache
def native() -> Dialect:
    return Dialect(NAMES)


@pytest.mark.skipif(NO_CLANG is not None, reason=str(NO_CLANG))
@pytest.mark.parametrize("name", NAMES)
def test_mathematics_gives_the_same_bits(name: str) -> None:
    """As on this machine, whose errors test_mathematics.py measures; NaN is one value."""
    for kind in TYPES:
        for arguments in samples(name, kind, 48):
            there, here = emulated()(name, kind, *arguments), native()(name, kind, *arguments)
            np.testing.assert_array_equal(
                np.where(np.isnan(there), np.nan, there).view(f"u{there.itemsize}"),
                np.where(np.isnan(here), np.nan, here).view(f"u{here.itemsize}"),
                err_msg=f"{name} of {kind}",
            )


PLACE = """
#include "aarch64_calls.h"
typedef unsigned long ulong;
typedef struct { ulong first[3], last[3], size[3], offset[3], dimensions; } range;
void ob_entry_place(const range *, void *const *);
void ob_entry_sums(const range *, void *const *);
static ulong out[60];
static float given[40][8], sums[40], scratch[8];

void _start(void) {
  struct { long rows, columns; } layout = {4, 5};
  ulong factor = 7;
  void *to = out;
  void *arguments[] = {&to, &layout, &factor};
  for (ulong z = 30; z < 33; ++z) {
    const range part = {{10, 20, z}, {15, 24, z + 1}, {5, 4, 3}, {10, 20, 30}, 3};
    ob_entry_place(&part, arguments);
  }
  write_all(out, sizeof out);
  for (int i = 0; i < 40; ++i) {
    for (int j = 0; j < 8; ++j) given[i][j] = (float)(i * j);
  }
  int n = 8;
  void *from = given, *into = sums, *local = scratch;
  void *pointers[] = {&from, &into, &local, &n};
  const range part = {{0, 0, 0}, {40, 1, 1}, {40, 1, 1}, {0, 0, 0}, 1};
  ob_entry_sums(&part, pointers);
  write_all(sums, sizeof sums);
  finish(0);
}
"""


def test_entries_run_the_items_of_a_launch(tmp_path: Path) -> None:
    program = tmp_path / "entries"
    link(PLACE, SOURCE + ENTRIES, program, ["-include", str(DIALECT / "entry.h")])
    written = run(program)
    places = np.frombuffer(written[:480], np.uint64)
    assert places.tolist() == PLACES
    np.testing.assert_array_equal(np.frombuffer(written[480:], np.float32), 28.0 * np.arange(40))


CHOICE = """
#include <stdio.h>
#include "compiler/compiler.h"

int main(void) {
  static native_compiler native;
  compiler_error error = {""};
  const ob_status status = find_native_compiler(&native, &error);
  printf("%d %u %s %s", (int)status, native.vector_width, native.flags, error.text);
  return 0;
}
"""
ZIG = next((clang[0] for clang in CLANGS if Path(clang[0]).name == "zig"), None)


@pytest.mark.skipif(ZIG is None, reason="no cross-compiler with a library of C: install ziglang")
@pytest.mark.skipif(EMULATOR == ["unicorn"], reason="Unicorn starts no processes")
def test_the_driver_chooses_vectors_of_four_floats(tmp_path: Path) -> None:
    """The driver's own search for a compiler, run there; the compiler is this machine's."""
    program, drivers = tmp_path / "choice", Path(torch_outboard.__file__).parent / "drivers"
    (tmp_path / "choice.c").write_text(CHOICE)
    include = [drivers, ROOT / "csrc" / "include"]
    subprocess.run(
        [str(ZIG), "cc", "-target", "aarch64-linux-musl", "-static", "-w"]
        + [f"-I{folder}" for folder in include]
        + [str(tmp_path / "choice.c"), *map(str, sorted((drivers / "compiler").glob("*.c")))]
        + ["-o", str(program)],
        check=True, capture_output=True,
    )  # fmt: skip
    settings = {"OUTBOARD_CLANG": f"'{ZIG}' clang", "OUTBOARD_CLANG_DIALECT": str(DIALECT)}
    said = subprocess.run(
        [*(EMULATOR or []), str(program)],
        env=os.environ | settings, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert said.startswith("0 4 -mcpu=native -O3 -fPIC "), said
