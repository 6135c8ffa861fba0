"""The command `cache`: it shows and clears what is cached on disk."""

import fcntl
import os
import re
from pathlib import Path

import pytest

from torch_outboard.commands import main

ENTRY = "0123456789abcdef0123456789abcdef01234567.bin"


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Calls the command; what it printed, or said on the standard error where it fails."""

    def call(folder: Path | str, *arguments: str, code: int = 0, **env: str) -> str:
        with monkeypatch.context() as settings:
            settings.delenv("POCL_CACHE_DIR", raising=False)
            for name, value in {"OUTBOARD_CACHE_DIR": str(folder), **env}.items():
                settings.setenv(name, value)
            status = main(["cache", *arguments])
        printed = capsys.readouterr()
        assert status == code, printed
        return printed.err if code else printed.out

    return call


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "programs"
    folder.mkdir(mode=0o700)
    (folder / ENTRY).write_bytes(bytes(3000))
    (folder / f"{ENTRY}.12-0-ab.tmp").write_bytes(bytes(72))
    (folder / "notes.txt").write_bytes(bytes(9))
    return folder


@pytest.fixture
def pocl(folder: Path) -> Path:
    (folder / "pocl" / "AB" / "HASH").mkdir(parents=True, mode=0o700)
    (folder / "pocl" / "AB" / "HASH" / "program.bc").write_bytes(bytes(2048))
    return folder / "pocl"


def test_shows_what_there_is(cache, folder, pocl, tmp_path):
    out = cache(folder, OUTBOARD_CACHE_LIMIT="5000000")
    assert f"folder    {folder}\n" in out
    assert "kernels   2 files, 3.0 KiB\n" in out
    assert "limit     4.8 MiB (OUTBOARD_CACHE_LIMIT)\n" in out
    assert "pocl      1 file, 2.0 KiB\n" in out
    pocl.rename(tmp_path / "kcache")
    out = cache(folder, "--clear", POCL_CACHE_DIR=str(tmp_path / "kcache"))
    assert f"pocl      1 file, 2.0 KiB in {tmp_path / 'kcache'}\n" in out
    assert "POCL_CACHE_DIR names it" in out
    assert (tmp_path / "kcache" / "AB").exists()


def test_clears_what_pocl_caches_unless_it_is_in_use(cache, folder, pocl):
    user = os.open(pocl, os.O_RDONLY)
    fcntl.flock(user, fcntl.LOCK_SH)
    error = cache(folder, "--clear", code=1)
    assert f"{pocl} is in use by a process" in error
    assert (pocl / "AB").exists()
    os.close(user)
    out = cache(folder, "--clear")
    assert "pocl      1 file, 2.0 KiB removed" in out
    assert not any(pocl.iterdir())


def test_clears_what_is_asked_for(cache, folder):
    assert "kernels   2 files, 3.0 KiB removed" in cache(folder, "--clear")
    assert [file.name for file in folder.iterdir()] == ["notes.txt"]


def test_a_folder_of_others_is_not_touched(cache, folder):
    folder.chmod(0o775)
    error = cache(folder, "--clear", code=1)
    assert re.search(rf"{folder} can be written by others .*mode 0775.*chmod go-w", error)
    assert (folder / ENTRY).exists()
    assert "trusted" in cache(folder, OUTBOARD_CACHE_SHARED="1")


def test_nothing_to_show(cache, tmp_path):
    assert "kernels are not cached on disk: OUTBOARD_CACHE_DIR is empty" in cache("")
    assert "(does not exist yet)" in cache(tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_wrong_settings(cache, tmp_path):
    for variable, value in (("OUTBOARD_CACHE_LIMIT", "1G"), ("OUTBOARD_CACHE_SHARED", "yes")):
        assert f"{variable}='{value}'" in cache(tmp_path, code=1, **{variable: value})
