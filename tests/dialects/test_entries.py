"""How launches reach kernels: entries, work items, arguments (entry.h)."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.dialects.compiled import CLANGS, DIALECT, MISSING, load
from tests.support import in_threads

pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))

SOURCE = """
typedef struct {
  long rows, columns;
} Layout;

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void place(__global ulong *out,
                                                                   const Layout layout,
                                                                   const ulong factor) {
  const size_t x = get_global_id(0), y = get_global_id(1), z = get_global_id(2);
  const size_t i = ((z - get_global_offset(2)) * layout.rows + y - get_global_offset(1)) *
                       layout.columns + x - get_global_offset(0);
  out[i] = x + 100 * y + 10000 * z + factor * get_work_dim() + get_local_id(0) +
           1000000 * (get_group_id(0) == x - get_global_offset(0)) * get_local_size(1);
}

kernel void sums(global const float *in, global float *out, local float *scratch, const int n) {
  barrier(CLK_LOCAL_MEM_FENCE);
  __local float more[4];
  for (int i = 0; i < 4; ++i) more[i] = scratch[i] = in[get_global_id(0) * n];
  for (int i = 1; i < n; ++i) more[i % 4] += in[get_global_id(0) * n + i];
  out[get_global_id(0)] = (more[0] + more[1] + more[2] + more[3]) - scratch[0] * 3;
}
"""
ENTRIES = """
OB_ENTRY_BEGIN(place)
place(OB_ARGUMENT(0, ulong *), OB_ARGUMENT(1, const Layout), OB_ARGUMENT(2, const ulong));
OB_ENTRY_END
OB_ENTRY_BEGIN(sums)
sums(OB_ARGUMENT(0, const float *), OB_ARGUMENT(1, float *), OB_ARGUMENT(2, float *),
     OB_ARGUMENT(3, const int));
OB_ENTRY_END
"""


class Range(ctypes.Structure):
    _fields_ = [
        ("first", ctypes.c_uint64 * 3),
        ("last", ctypes.c_uint64 * 3),
        ("global_size", ctypes.c_uint64 * 3),
        ("global_offset", ctypes.c_uint64 * 3),
        ("dimensions", ctypes.c_uint64),
    ]


class Layout(ctypes.Structure):
    _fields_ = [("rows", ctypes.c_long), ("columns", ctypes.c_long)]


@pytest.fixture(scope="module")
def library() -> ctypes.CDLL:
    item = DIALECT / "current_item.c"
    with tempfile.TemporaryDirectory() as folder:
        compiled = Path(folder) / "item.o"
        subprocess.run(
            ["cc", "-O2", "-fPIC", "-DOB_DIALECT_THREADS", "-c", str(item), "-o", str(compiled)],
            check=True,
        )
        flags = ["-march=native", "-O3", "-include", str(DIALECT / "entry.h")]
        return load(SOURCE + ENTRIES, flags, CLANGS[0], [str(compiled)])


# What the kernel `place` writes: 5 x 4 x 3 work items from (10, 20, 30), and its other arguments.
PLACES = [
    x + 100 * y + 10000 * z + 7 * 3 + 1000000
    for z in range(30, 33)
    for y in range(20, 24)
    for x in range(10, 15)
]


def call(
    library: ctypes.CDLL,
    name: str,
    first: Sequence[int],
    last: Sequence[int],
    size: Sequence[int],
    offset: Sequence[int],
    arguments: Sequence[ctypes.Structure | ctypes._SimpleCData[int]],
) -> None:
    pointers = (ctypes.c_void_p * len(arguments))(*(ctypes.addressof(a) for a in arguments))
    values = [(ctypes.c_uint64 * 3)(*v) for v in (first, last, size, offset)]
    part = Range(*values, 3)
    getattr(library, f"ob_entry_{name}")(ctypes.byref(part), pointers)


def test_parts_of_a_launch_know_where_they_are(library: ctypes.CDLL) -> None:
    size, offset = (5, 4, 3), (10, 20, 30)
    out = np.zeros(60, np.uint64)
    arguments = [ctypes.c_void_p(out.ctypes.data), Layout(4, 5), ctypes.c_uint64(7)]
    for z in range(30, 33):
        call(library, "place", (10, 20, z), (15, 24, z + 1), size, offset, arguments)
    assert out.tolist() == PLACES


def test_threads_share_a_launch(library: ctypes.CDLL) -> None:
    """Each has its own work item, local arrays included."""
    n, items, threads = 64, 4000, 4
    given = np.random.default_rng(0).integers(0, 50, n * items).astype(np.float32)
    out = np.zeros(items, np.float32)

    def work(index: int) -> None:
        scratch = np.zeros(4, np.float32)
        pointers = [ctypes.c_void_p(a.ctypes.data) for a in (given, out, scratch)]
        share = items // threads
        for first in range(index * share, (index + 1) * share, 10):
            limits = ((first, 0, 0), (first + 10, 1, 1))
            arguments = [*pointers, ctypes.c_int(n)]
            call(library, "sums", *limits, (items, 1, 1), (0, 0, 0), arguments)

    in_threads(work, threads)
    np.testing.assert_array_equal(out, given.reshape(items, n).sum(1))
