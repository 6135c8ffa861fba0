"""PoCL's cache of compiled kernels: no library of others is loaded, and a full disk is told."""

import fcntl
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from driver_support import needs_pocl
from program_support import answer_of, kernel_process, ocl_process

pytestmark = [pytest.mark.by_turns(4), *needs_pocl()]

CONSTRUCTOR = """
#include <fcntl.h>
#include <stdlib.h>
__attribute__((constructor)) static void run(void) { open(getenv("MARK"), O_CREAT, 0600); }
"""


def run(code: str = "", **settings: str | None) -> dict[str, object]:
    """The output of a process that runs a kernel, after `code`."""
    return answer_of(kernel_process(code=code, **settings))


@pytest.fixture(scope="module")
def poisoned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache of PoCL in which each library is one that leaves a mark."""
    if shutil.which("cc") is None:
        pytest.skip("there is no compiler for the library of the attack")
    folder = tmp_path_factory.mktemp("poisoned")
    source, library = folder / "external.c", folder / "external.so"
    source.write_text(CONSTRUCTOR)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    assert run(POCL_CACHE_DIR=str(folder / "kcache"))["values"] == [3.0] * 4
    libraries = list((folder / "kcache").glob("*/*/f/*/f.so"))
    assert libraries
    for file in libraries:
        shutil.copy(library, file)
    return folder / "kcache"


def open_to_all(folder: Path) -> None:
    """Lets everybody write to a folder and to all in it."""
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o777)


def test_the_attack_works_on_whoever_trusts_the_folder(poisoned: Path, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    kernel_process(POCL_CACHE_DIR=str(poisoned), MARK=str(mark))
    assert mark.exists()


@pytest.mark.parametrize("cache_dir", [None, ""])
def test_an_external_library_in_the_users_cache_folder_is_not_loaded(
    poisoned: Path, tmp_path: Path, cache_dir: str | None
) -> None:
    external = tmp_path / "cache" / "pocl" / "kcache"
    shutil.copytree(poisoned, external)
    open_to_all(external)
    answer = run(
        XDG_CACHE_HOME=str(tmp_path / "cache"),
        OUTBOARD_CACHE_DIR=cache_dir,
        MARK=str(tmp_path / "mark"),
    )
    assert answer["values"] == [3.0] * 4
    assert not (tmp_path / "mark").exists()
    assert answer["named"] is None  # what this process set is none of its children's business
    if cache_dir is None:
        folder = tmp_path / "cache" / "torch_outboard" / "programs"
        assert list((folder / "pocl").glob("*/*/f/*/f.so"))
        assert folder.stat().st_mode & 0o777 == (folder / "pocl").stat().st_mode & 0o777 == 0o700


def refusals(tmp_path: Path) -> dict[str, str]:
    """Folders that PoCL must not use, each with a part of the sentence about it."""

    def folder(name: str, mode: int = 0o700) -> Path:
        path = tmp_path / name
        path.mkdir(parents=True)
        path.chmod(mode)
        return path

    cases = {
        folder("all", 0o777): "all can be written by others than its owner (mode 0777)",
        folder("group", 0o770): "group can be written by others than its owner (mode 0770)",
        folder("sticky", 0o1777): "(mode 1777)",
    }
    cases[folder("below/own")] = "below can be written by others"
    (tmp_path / "below").chmod(0o770)
    inside = folder("inside")
    (inside / "AB").mkdir()
    (inside / "AB").chmod(0o777)
    cases[inside] = "inside/AB can be written by others"
    linked = folder("linked")
    (linked / "AB").symlink_to(inside)
    cases[linked] = "linked/AB is a symbolic link"
    (tmp_path / "link").symlink_to(tmp_path / "all")
    cases[tmp_path / "link"] = "all can be written by others"
    (tmp_path / "file").touch()
    cases[tmp_path / "file"] = "file is no folder"
    if os.geteuid() == 0:
        owned, of_other = folder("owned"), folder("entry")
        os.chown(owned, 12345, -1)
        cases[owned] = "owned belongs to user 12345 and not to this one, 0"
        (of_other / "CD").mkdir()
        os.chown(of_other / "CD", 12345, -1)
        cases[of_other] = "entry/CD belongs to user 12345"
    return {str(path): words for path, words in cases.items()}


TRY_ALL = """
import json, os, sys
from torch_outboard.drivers import contract, ocl
from torch_outboard.drivers.client import Client, DriverError
said = {}
for path in sys.argv[1:]:
    os.environ["POCL_CACHE_DIR"] = path
    try:
        Client(contract.load(ocl.library_path()))
    except DriverError as error:
        said[path] = str(error)
    assert os.environ["POCL_CACHE_DIR"] == path
print(json.dumps(said))
"""


def test_folders_that_others_can_write_to_are_refused(tmp_path: Path) -> None:
    cases = refusals(tmp_path)
    done = ocl_process(TRY_ALL, *cases)
    said = json.loads(done.stdout)
    for path, words in cases.items():
        assert f"POCL_CACHE_DIR={path} cannot be used, because PoCL loads libraries" in said[path]
        assert words in said[path]


def test_a_folder_of_the_kit_that_others_can_write_to_is_not_used(tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    programs.chmod(0o777)
    answer = run(OUTBOARD_CACHE_DIR=str(programs))
    assert answer["values"] == [3.0] * 4
    assert "PoCL's cache is the temporary folder " in str(answer["report"])
    assert "programs can be written by others" in str(answer["report"])
    assert not any(programs.iterdir())
    trusting = run(OUTBOARD_CACHE_DIR=str(programs), OUTBOARD_CACHE_SHARED="1")
    assert "temporary" not in str(trusting["report"])
    assert list(programs.glob("pocl/*/*/f/*/f.so"))


FORK = """
(folder,) = os.scandir(os.environ["TMPDIR"])
answer["mode"] = folder.stat().st_mode & 0o777
run(driver, "x[0] = 1;")
child = os.fork()
if child == 0:
    sys.exit(0)  # with all that Python and C do at exit
os.waitpid(child, 0)
answer["after the child"] = os.path.isdir(folder.path)
"""


def test_a_temporary_folder_goes_with_the_process_that_made_it(tmp_path: Path) -> None:
    answer = run(FORK, OUTBOARD_CACHE_DIR="", TMPDIR=str(tmp_path))
    assert answer["values"] == [3.0] * 4
    assert answer["mode"] == 0o700
    assert answer["after the child"]
    assert not any(tmp_path.iterdir())
    # Also without an orderly end.
    code = "run(driver, 'x[0] = 1;'); sys.exit(0)"
    assert kernel_process(code=code, OUTBOARD_CACHE_DIR="", TMPDIR=str(tmp_path)).returncode == 0
    assert not any(tmp_path.iterdir())


# ---- Room

LITTLE_ROOM = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
"""


def test_no_room_is_an_error_of_the_build(tmp_path: Path) -> None:
    answer = run(LITTLE_ROOM, OUTBOARD_CACHE_DIR=str(tmp_path / "programs"))
    assert "PoCL needs 16 MiB in " in str(answer["error"])
    assert "files of this process may have 1048576 bytes" in str(answer["error"])


def test_a_full_disk_is_not_used(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m,mode=700", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("a file system can be mounted by root alone")
    try:
        answer = run(OUTBOARD_CACHE_DIR=str(disk))
        assert answer["values"] == [3.0] * 4
        assert "PoCL needs 16 MiB in " in str(answer["report"])
        assert "KiB are free there" in str(answer["report"])
        # One that the user names is his to choose.
        named = run(POCL_CACHE_DIR=str(disk))
        assert "PoCL needs 16 MiB in " in str(named["error"])
    finally:
        subprocess.run(["umount", str(disk)], check=True)


# ---- Limit


@pytest.fixture
def entries(tmp_path: Path) -> list[Path]:
    """Ten entries of 100 KB in the kit's folder, the oldest first."""
    found = []
    for number in range(10):
        entry = tmp_path / "programs" / "pocl" / f"A{number % 3}" / f"HASH{number}"
        (entry / "f").mkdir(parents=True)
        (entry / "f" / "f.so").write_bytes(bytes(100_000))
        (entry / "last_accessed").touch()
        for file in (entry / "f" / "f.so", entry / "last_accessed"):
            os.utime(file, (number, number))
        found.append(entry)
    for folder in (tmp_path / "programs", *(tmp_path / "programs").rglob("*")):
        if folder.is_dir():
            folder.chmod(0o700)
    (tmp_path / "programs" / "pocl" / "tempfile_abc").touch(mode=0o600)
    return found


INITIALIZE = """
from torch_outboard.drivers import contract, ocl
from torch_outboard.drivers.client import Client
Client(contract.load(ocl.library_path()))
"""


def left_with(limit: str, entries: list[Path]) -> list[bool]:
    """Entries left by a process with this limit."""
    settings = {"OUTBOARD_CACHE_DIR": str(entries[0].parents[2]), "OUTBOARD_CACHE_LIMIT": limit}
    done = ocl_process(INITIALIZE, **settings)
    assert done.returncode == 0, done.stderr
    return [entry.exists() for entry in entries]


def test_the_oldest_entries_go_unless_another_process_may_use_them(entries: list[Path]) -> None:
    folder = entries[0].parents[1]
    user = os.open(folder, os.O_RDONLY)
    fcntl.flock(user, fcntl.LOCK_SH)
    assert left_with("500000", entries) == [True] * 10
    os.close(user)
    # A tenth below the limit.
    assert left_with("500000", entries) == [False] * 6 + [True] * 4
    assert not (folder / "tempfile_abc").exists()


def test_without_a_limit_all_stay(entries: list[Path]) -> None:
    assert left_with("0", entries) == [True] * 10
