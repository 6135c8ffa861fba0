"""Compiled programs on disk, seen from processes that start afresh."""

import concurrent.futures
import os
import stat
from pathlib import Path

import pytest

from tests.device_kernels.processes import run_program, try_program

pytestmark = pytest.mark.by_turns(3)

ADD = """
    import torch, torch_outboard
    from torch_outboard import _C

    x = torch.arange(100.0).to(torch_outboard.device_name())
    for name in sys.argv[1:]:
        getattr(torch, name)(x)
    y = (x + x).cpu()
    assert y.tolist() == [2.0 * i for i in range(100)]
    _C.flush_disk_cache()
    print(*_C.program_counts())
"""
SEVERAL = ("exp", "sin", "cos", "tan", "sqrt")


def counts(folder: Path | str, *names: str, **settings: str) -> tuple[int, ...]:
    """Programs built, loaded and written by a process that adds."""
    printed = run_program(ADD, *names, OUTBOARD_CACHE_DIR=str(folder), **settings)
    return tuple(map(int, printed.split()[-3:]))


def entries(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.bin"))


def test_the_next_process_builds_what_is_new(tmp_path):
    built, loaded, written = counts(tmp_path)
    assert built == written == len(entries(tmp_path)) > 0
    assert loaded == 0
    assert counts(tmp_path, "exp") == (1, built, 1)
    assert counts(tmp_path, "exp") == (0, built + 1, 0)


def test_damaged_entries_are_built_again(tmp_path):
    """So are whole and valid files under the name of another, which would run another kernel."""
    built, _, _ = counts(tmp_path, *SEVERAL)
    files = entries(tmp_path)
    assert len(files) == built > 5
    contents = [file.read_bytes() for file in files]
    middle = len(contents[1]) // 2
    flipped = contents[1][:middle] + bytes([contents[1][middle] ^ 1]) + contents[1][middle + 1 :]
    damaged = [contents[0][:middle], flipped, b"", b"nothing that anybody wrote\n" * 10]
    damaged += [*contents[5:], contents[4]]
    for file, content in zip(files, damaged, strict=True):
        file.write_bytes(content)
    assert counts(tmp_path, *SEVERAL) == (built, 0, built)
    assert counts(tmp_path, *SEVERAL) == (0, built, 0)


def replace_by_fifo(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def replace_by_link(file: Path) -> None:
    file.rename(file.with_suffix(".moved"))
    file.symlink_to(file.with_suffix(".moved"))


def test_entries_of_others_are_built_again(tmp_path):
    changes = [
        (lambda file: file.chmod(0o664), "can be written by others than its owner (mode 0664)"),
        (replace_by_fifo, "is not a regular file"),
        (replace_by_link, "is a symbolic link and no file"),
    ]
    if os.geteuid() == 0:  # who alone can give files away
        given = (lambda file: os.chown(file, 12345, -1), "belongs to user 12345 and not to this")
        changes.append(given)
    built, _, _ = counts(tmp_path, *SEVERAL)
    files = entries(tmp_path)
    for (change, _), file in zip(changes, files, strict=False):
        change(file)
    result = try_program(ADD, *SEVERAL, OUTBOARD_CACHE_DIR=str(tmp_path))
    expected = [len(changes), built - len(changes), len(changes)]
    assert result.stdout.split()[-3:] == list(map(str, expected)), result.stderr
    for _, reason in changes:
        assert reason in result.stderr
    assert all(stat.S_IMODE(file.lstat().st_mode) == 0o600 for file in entries(tmp_path))


@pytest.mark.parametrize("mode", [0o777, pytest.param(0o1770, marks=pytest.mark.slow)])
def test_a_folder_of_others_is_refused_unless_it_is_trusted(tmp_path, mode):
    folder = tmp_path / "programs"
    built, _, _ = counts(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    folder.chmod(mode)
    result = try_program(ADD, OUTBOARD_CACHE_DIR=str(folder))
    assert result.stdout.split()[-3:] == [str(built), "0", "0"]
    assert f"the folder {folder} can be written by others than its owner" in result.stderr
    assert counts(folder, OUTBOARD_CACHE_SHARED="1") == (0, built, 0)


@pytest.mark.slow
def test_what_was_not_used_for_longest_goes_first(tmp_path):
    built, _, _ = counts(tmp_path, "exp")
    used = entries(tmp_path)
    size = sum(file.stat().st_size for file in used)
    # As large as what is used, and last used in the order of their names.
    unused = [tmp_path / f"{number:040x}.bin" for number in range(4)]
    for number, file in enumerate(unused):
        file.write_bytes(bytes(size))
        os.utime(file, (1e9 + number, 1e9 + number))
    abandoned = tmp_path / f"{7:040x}.bin.abcdef"
    abandoned.write_bytes(b"half")
    os.utime(abandoned, (1e9, 1e9))
    other = tmp_path / "notes.txt"
    other.write_bytes(bytes(10 * size))
    for file in used:  # reading makes them young again
        os.utime(file, (1e8, 1e8))
    limit = int(4.6 * size)
    assert counts(tmp_path, "exp", "sin", OUTBOARD_CACHE_LIMIT=str(limit)) == (1, built, 1)
    left = entries(tmp_path)
    assert set(used) < set(left)
    assert [file for file in unused if file in left] == unused[-len(set(left) & set(unused)) :]
    assert sum(file.stat().st_size for file in left) <= limit
    assert not abandoned.exists()
    assert other.exists()


@pytest.mark.slow
def test_several_processes_at_once(tmp_path):
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        results = list(pool.map(lambda _: counts(tmp_path), range(3)))
    assert all(built + loaded > 0 for built, loaded, _ in results)
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == entries(tmp_path)
    assert counts(tmp_path)[0] == 0


def test_nothing_is_cached_without_a_folder(tmp_path):
    (tmp_path / "file").write_text("")
    built, *others = counts(tmp_path / "file" / "folder")
    assert built > 0
    assert others == [0, 0]


@pytest.mark.parametrize("cached_by_pocl", ["0", "1"])
def test_programs_are_written_without_being_asked(tmp_path, cached_by_pocl):
    """A while after the last launch, and at exit; those that PoCL caches only when asked.

    Making a binary takes PoCL longer than compiling a kernel for its first launch.
    """
    add = ADD.replace("_C.flush_disk_cache()", "")
    settings = {"OUTBOARD_CACHE_DIR": str(tmp_path), "POCL_KERNEL_CACHE": cached_by_pocl}
    run_program(add, **settings)
    assert bool(entries(tmp_path)) == (cached_by_pocl == "0")
