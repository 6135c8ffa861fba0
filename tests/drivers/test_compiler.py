"""Programs whose compiler is missing, fails, hangs or writes nonsense: scripts in the place of a
clang, through the driver `host`."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from driver_support import DIALECT, DriverUnderTest, open_driver

from torch_outboard.drivers.client import DriverError
from torch_outboard.drivers.contract import Status

SOURCE = "__kernel void f(__global int* x) { x[0] = 1; }"

Fake = Callable[..., str]

# Preprocesses by copying; what it does to compile and to link is the test's.
SCRIPT = """\
#!/bin/sh
for word in "$@"; do
  case "$last" in -o) output="$word";; -E) source="$word";; esac
  last="$word"
done
case "$*" in
  *--version*) {version} ;;
  *" -E "*) {preprocess} ;;
  *" -c "*) {compile} ;;
  *) {link} ;;
esac
"""


@pytest.fixture
def fake(tmp_path: Path) -> Fake:
    """Writes a compiler and returns its path; the arguments are what it does in each step."""

    def write(**steps: str) -> str:
        path = tmp_path / "folder of compilers" / "clang"
        path.parent.mkdir(exist_ok=True)
        usual = {
            "version": 'echo "clang version 22.1.8"',
            "preprocess": 'cp "$source" "$output"',
            "compile": 'echo object > "$output"',
            "link": 'echo nonsense > "$output"',
        }
        path.write_text(SCRIPT.format(**(usual | steps)))
        path.chmod(0o755)
        return str(path)

    return write


def open_with(folder: Path, compiler: str, **environment: str) -> DriverUnderTest:
    return open_driver(folder, OUTBOARD_CLANG=compiler, **environment)


def failure(driver: DriverUnderTest) -> DriverError:
    """Of building a program; nothing is left of it in the temporary folder, nor a process."""
    before = children()
    with pytest.raises(DriverError) as raised:
        driver.program_build(0, SOURCE)
    assert children() <= before
    return raised.value


def children() -> set[int]:
    """Processes that this one started and has not waited for; other tests leave some as well."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            # Number, name in brackets (which may hold anything), state, parent.
            status = path.read_text(errors="replace").rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):  # ended meanwhile
            continue
        if int(status[1]) == os.getpid():
            found.add(int(path.parent.name))
    return found


def test_children_are_seen() -> None:
    """Running, and ended but not waited for: `failure` looks for both."""
    running = subprocess.Popen(["sleep", "60"])
    ended = subprocess.Popen(["true"])
    try:
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        assert {running.pid, ended.pid} <= children()
    finally:
        running.kill()
        running.wait()
        ended.wait()
    assert not {running.pid, ended.pid} & children()


def assert_no_code(driver: DriverUnderTest, *words: str) -> None:
    """The driver is there and says in a sentence why it has no kernels."""
    assert driver.device_properties(0).max_work_group_size == 0
    error = failure(driver)
    assert error.status == Status.UNSUPPORTED
    assert all(word in str(error) for word in words), str(error)


def test_no_compiler(tmp_path: Path) -> None:
    assert_no_code(
        open_with(tmp_path, "/nowhere/clang"), "`/nowhere/clang --version`", "No such file"
    )


def test_no_compiler_is_wanted(tmp_path: Path) -> None:
    assert_no_code(open_with(tmp_path, "none"), "OUTBOARD_CLANG=none")


def test_no_compiler_anywhere(tmp_path: Path) -> None:
    """In a process without packages, and with an empty PATH."""
    code = f"""
        import ctypes
        library = ctypes.CDLL({str(open_library(tmp_path))!r})
        library.ob_host_describe.restype = ctypes.c_char_p
        print(library.ob_host_describe().decode())
    """
    environment = {"PATH": "", "OUTBOARD_CLANG_DIALECT": str(DIALECT)}
    if "LD_PRELOAD" in os.environ:  # of a sanitizer, without which its libraries do not load
        environment["LD_PRELOAD"] = os.environ["LD_PRELOAD"]
    command = [sys.executable, "-S", "-c", textwrap.dedent(code)]
    found = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert "no kernels: There is no clang: install the package ziglang" in found.stdout


def open_library(folder: Path) -> Path:
    import shutil

    from torch_outboard.drivers import host

    return Path(shutil.copy(host.library_path(), folder))


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("gcc (Debian 12.2.0) 12.2.0", ("which is no clang", "gcc (Debian 12.2.0)")),
        ("clang version 9.0.1", ("is of version 9", "clang 14 or newer")),
        ("", ("which is no clang",)),
    ],
)
def test_wrong_version(tmp_path: Path, fake: Fake, answer: str, words: tuple[str, ...]) -> None:
    assert_no_code(open_with(tmp_path, fake(version=f'echo "{answer}"')), *words, "OUTBOARD_CLANG")


def test_version_does_not_come(tmp_path: Path, fake: Fake) -> None:
    driver = open_with(tmp_path, fake(version="sleep 100"), OUTBOARD_CLANG_SECONDS="1")
    assert_no_code(driver, "did not end within 1 seconds", "clang' --version")


def test_compiler_fails(tmp_path: Path, fake: Fake) -> None:
    steps = 'echo warning; echo "x.cl:7:1: error: expected luck"; echo more; exit 3'
    driver = open_with(tmp_path, fake(compile=steps))
    assert driver.device_properties(0).max_work_group_size == 1
    error = failure(driver)
    assert error.status == Status.BUILD_FAILED
    first, *log = str(error).splitlines()
    assert "failed with exit status 3" in first
    assert first.endswith("x.cl:7:1: error: expected luck")
    assert log == ["warning", "x.cl:7:1: error: expected luck", "more"]


def test_compiler_is_ended_by_a_signal(tmp_path: Path, fake: Fake) -> None:
    error = failure(open_with(tmp_path, fake(compile="kill -SEGV $$")))
    assert error.status == Status.ERROR
    assert "was ended by signal 11 (Segmentation fault)" in str(error)


def test_compiler_hangs(tmp_path: Path, fake: Fake) -> None:
    """What it has started ends with it."""
    note = tmp_path / "process"
    steps = f"sleep 1000 & echo $! > '{note}'; wait"
    driver = open_with(tmp_path, fake(compile=steps), OUTBOARD_CLANG_SECONDS="1")
    error = failure(driver)
    assert error.status == Status.ERROR
    assert "did not end within 1 seconds and was ended" in str(error)
    process = Path("/proc", note.read_text().strip())
    deadline = time.monotonic() + 10
    while process.exists() and "Z" not in (process / "stat").read_text().split()[2]:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_output_without_end(tmp_path: Path, fake: Fake) -> None:
    """What the compiler prints is read and dropped, and what holds it open is not waited for."""
    steps = "head -c 3000000 /dev/zero | tr '\\0' x; sleep 3 & exit 1"
    begin = time.monotonic()
    error = failure(open_with(tmp_path, fake(compile=steps)))
    assert "failed with exit status 1" in str(error)
    assert len(str(error)) < 10000
    assert time.monotonic() - begin < 2.5


@pytest.mark.parametrize(
    ("link", "words"),
    [
        ("echo nonsense > $output", "is no ELF file"),
        ("true", "is no ELF file"),
        ("printf '\\177ELF' > $output; head -c 3000 /dev/zero >> $output", "cannot be loaded"),
    ],
)
def test_nonsense_is_written(tmp_path: Path, fake: Fake, link: str, words: str) -> None:
    error = failure(open_with(tmp_path, fake(link=link)))
    assert error.status == Status.ERROR
    assert words in str(error)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("int f(int x) { return x; }", "defines no kernel"),
        ("__kernel void f(int (*g)(int)) {}", "parameters of the kernel f"),
        ("__kernel void f(int x", "defines no kernel"),
        ("__kernel", "cannot be read"),
    ],
)
def test_kernels_that_cannot_be_read(tmp_path: Path, fake: Fake, text: str, words: str) -> None:
    driver = open_with(tmp_path, fake())
    with pytest.raises(DriverError, match=words) as error:
        driver.program_build(0, text)
    assert error.value.status == Status.BUILD_FAILED


def test_temporary_folder_does_not_exist(
    tmp_path: Path, fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = open_with(tmp_path, fake())
    monkeypatch.setenv("TMPDIR", "/nowhere")
    error = failure(driver)
    assert error.status == Status.ERROR
    assert "none can be created in /nowhere: No such file or directory" in str(error)


@pytest.mark.slow  # a process that imports PyTorch
def test_temporary_folder_is_full(tmp_path: Path, fake: Fake) -> None:
    """As seen by a process that may not write."""
    code = """
        import resource, sys
        from pathlib import Path
        sys.path.insert(0, sys.argv[2])
        from driver_support import open_driver
        driver = open_driver(Path(sys.argv[3]), OUTBOARD_CLANG=sys.argv[1])
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        try:
            driver.program_build(0, "__kernel void f(int x) {}")
        except RuntimeError as error:
            print(error)
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    arguments = [fake(), str(Path(__file__).parent), str(tmp_path)]
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary), "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    found = subprocess.run(command + arguments, env=environment, capture_output=True, text=True)
    assert "source.cl cannot be written: File too large" in found.stdout, found.stderr
    assert list(temporary.iterdir()) == []


def test_nothing_is_inherited(tmp_path: Path, fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Descriptors of the process stay its own, and the temporary folder goes with all in it."""
    temporary = tmp_path / "temporary files"
    temporary.mkdir()
    open_file = os.dup2(os.open(tmp_path, os.O_RDONLY), 77, inheritable=True)
    steps = 'touch "$TMPDIR/left"; echo "error: $TMPDIR" $(ls /proc/$$/fd); exit 1'
    try:
        monkeypatch.setenv("TMPDIR", str(temporary))
        error = failure(open_with(tmp_path, fake(compile=steps)))
    finally:
        os.close(open_file)
    line = str(error).splitlines()[-1]
    assert f"error: {temporary}/outboard-" in line
    assert "1" in line.split()
    assert "77" not in line.split()
    assert list(temporary.iterdir()) == []


@pytest.mark.slow  # a process that imports PyTorch
def test_children_that_nobody_waits_for(tmp_path: Path, fake: Fake) -> None:
    """An application that ignores SIGCHLD gets no status; what the compiler prints tells."""
    code = """
        import signal, sys
        from pathlib import Path
        sys.path.insert(0, sys.argv[2])
        from driver_support import open_driver
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        driver = open_driver(Path(sys.argv[3]), OUTBOARD_CLANG=sys.argv[1])
        try:
            driver.program_build(0, "__kernel void f(int x) {}")
        except RuntimeError as error:
            print(error)
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    command += [fake(compile="echo 'x: error: no'; exit 1"), str(Path(__file__).parent)]
    environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    found = subprocess.run(
        [*command, str(tmp_path)], env=environment, capture_output=True, text=True
    )
    assert "x: error: no" in found.stdout, found.stderr
