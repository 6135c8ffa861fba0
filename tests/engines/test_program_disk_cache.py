"""Compiled programs on disk, seen from processes that start afresh."""

from __future__ import annotations

import concurrent.futures
from pathlib import Path

import pytest

from tests.support import run_python

ADD = """
    import sys, torch, torch_outboard
    from torch_outboard import _C

    x = torch.arange(100.0).to(torch_outboard.device_name())
    for name in sys.argv[1:]:
        getattr(torch, name)(x)
    y = (x + x).cpu()
    assert y.tolist() == [2.0 * i for i in range(100)]
    _C.flush_disk_cache()
    print(*_C.program_counts())
"""


def counts(folder: Path | str, *names: str) -> tuple[int, int, int]:
    """Programs built, loaded and written by a process that adds."""
    printed = run_python(ADD, *names, OUTBOARD_CACHE_DIR=str(folder), OUTBOARD_WAY="device")
    built, loaded, written = map(int, printed.split()[-3:])
    return built, loaded, written


def entries(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.bin"))


def test_the_second_process_builds_nothing(tmp_path):
    built, loaded, written = counts(tmp_path)
    assert built == written == len(entries(tmp_path)) > 0
    assert loaded == 0
    assert counts(tmp_path) == (0, built, 0)


def test_a_new_kernel_of_a_known_program_is_added(tmp_path):
    built, _, _ = counts(tmp_path)
    more, loaded, written = counts(tmp_path, "exp")
    assert (loaded, more, written) == (built, 1, 1)
    assert len(entries(tmp_path)) == built + 1


@pytest.mark.parametrize(
    "damage", ["cut", "flip", pytest.param("empty", marks=pytest.mark.slow), "text"]
)
def test_a_damaged_entry_is_built_again(tmp_path, damage):
    built, _, _ = counts(tmp_path)
    for entry in entries(tmp_path):
        data = entry.read_bytes()
        middle = len(data) // 2
        entry.write_bytes(
            {
                "cut": data[:middle],
                "flip": data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :],
                "empty": b"",
                "text": b"nothing that anybody wrote\n" * 10,
            }[damage]
        )
    assert counts(tmp_path) == (built, 0, built)
    assert counts(tmp_path) == (0, built, 0)


def test_several_processes_at_once(tmp_path):
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        results = list(pool.map(lambda _: counts(tmp_path), range(3)))
    assert all(built + loaded > 0 for built, loaded, _ in results)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == entries(tmp_path)
    assert counts(tmp_path)[0] == 0


def test_an_empty_name_keeps_nothing(tmp_path):
    built, loaded, written = counts("")
    assert built > 0
    assert (loaded, written) == (0, 0)


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    built, loaded, written = counts(tmp_path / "file" / "folder")
    assert built > 0
    assert (loaded, written) == (0, 0)


def test_programs_are_written_without_being_asked(tmp_path):
    """A while after the last launch, and at exit."""
    run_python(ADD.replace("_C.flush_disk_cache()", ""), OUTBOARD_CACHE_DIR=str(tmp_path))
    assert entries(tmp_path)
