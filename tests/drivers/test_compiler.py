"""Programs whose compiler is missing, fails, hangs or writes nonsense: scripts in the place of a
clang, through the driver `host`."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from driver_support import DIALECT, DriverUnderTest, describe_alone, fails_with, open_driver

from tests.support import run_python
from torch_outboard.drivers import host
from torch_outboard.drivers.client import DriverError
from torch_outboard.drivers.contract import Status

SOURCE = "__kernel void f(__global int* x) { x[0] = 1; }"

Open = Callable[..., DriverUnderTest]

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


def write_compiler(folder: Path, **steps: str) -> str:
    """The path of a compiler; the arguments are what it does in each step."""
    path = folder / "folder of compilers" / "clang"
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


@pytest.fixture
def open_with(tmp_path: Path) -> Open:
    """Opens the driver with a compiler that does this in its steps, within these seconds."""

    def open_it(seconds: str = "60", **steps: str) -> DriverUnderTest:
        compiler = write_compiler(tmp_path, **steps)
        return open_driver(tmp_path, OUTBOARD_CLANG=compiler, OUTBOARD_CLANG_SECONDS=seconds)

    return open_it


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
    """`failure` looks for those that run, and those that ended and were not waited for."""
    running, ended = subprocess.Popen(["sleep", "60"]), subprocess.Popen(["true"])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    seen = children()
    running.kill()
    running.wait()
    ended.wait()
    assert {running.pid, ended.pid} <= seen


def assert_no_code(driver: DriverUnderTest, *words: str) -> None:
    """The driver is there and says in a sentence why it has no kernels."""
    assert driver.device_properties(0).max_work_group_size == 0
    error = failure(driver)
    assert error.status == Status.UNSUPPORTED
    assert all(word in str(error) for word in words), str(error)


def test_no_compiler(tmp_path: Path) -> None:
    driver = open_driver(tmp_path, OUTBOARD_CLANG="/nowhere/clang")
    assert_no_code(driver, "`/nowhere/clang --version`", "No such file")


def test_no_compiler_anywhere(tmp_path: Path) -> None:
    """In a process without packages, and with an empty PATH."""
    library = shutil.copy(host.library_path(), tmp_path)
    environment = {"PATH": "", "OUTBOARD_CLANG_DIALECT": str(DIALECT)}
    if "LD_PRELOAD" in os.environ:  # of a sanitizer, without which its libraries do not load
        environment["LD_PRELOAD"] = os.environ["LD_PRELOAD"]
    found = describe_alone(library, "ob_host_describe", environment)
    assert "no kernels: There is no clang: install the package ziglang" in found


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("gcc (Debian 12.2.0) 12.2.0", ("which is not a clang", "gcc (Debian 12.2.0)")),
        ("clang version 9.0.1", ("is of version 9", "clang 14 or newer")),
    ],
)
def test_wrong_version(open_with: Open, answer: str, words: tuple[str, ...]) -> None:
    assert_no_code(open_with(version=f'echo "{answer}"'), *words, "OUTBOARD_CLANG")


def test_compiler_fails(open_with: Open) -> None:
    steps = 'echo warning; echo "x.cl:7:1: error: expected luck"; echo more; exit 3'
    driver = open_with(compile=steps)
    assert driver.device_properties(0).max_work_group_size == 1
    error = failure(driver)
    assert error.status == Status.BUILD_FAILED
    first, *log = str(error).splitlines()
    assert "failed with exit status 3" in first
    assert first.endswith("x.cl:7:1: error: expected luck")
    assert log == ["warning", "x.cl:7:1: error: expected luck", "more"]


def test_compiler_hangs(tmp_path: Path, open_with: Open) -> None:
    """Processes that it started end with it."""
    note = tmp_path / "process"
    error = failure(open_with("1", compile=f"sleep 1000 & echo $! > '{note}'; wait"))
    assert error.status == Status.ERROR
    assert "did not end within 1 seconds and was ended" in str(error)
    process = Path("/proc", note.read_text().strip())
    deadline = time.monotonic() + 10
    while process.exists() and "Z" not in (process / "stat").read_text().split()[2]:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_output_without_end(open_with: Open) -> None:
    """The compiler's output is read and dropped; no process that holds its pipe is waited for."""
    driver = open_with(compile="head -c 3000000 /dev/zero | tr '\\0' x; sleep 3 & exit 1")
    begin = time.monotonic()
    error = failure(driver)
    assert "failed with exit status 1" in str(error)
    assert len(str(error)) < 10000
    assert time.monotonic() - begin < 2.5


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ({"compile": "kill -SEGV $$"}, "was ended by signal 11 (Segmentation fault)"),
        ({"link": "true"}, "is not an ELF file"),
        (
            {"link": "printf '\\177ELF' > $output; head -c 3000 /dev/zero >> $output"},
            "cannot be loaded",
        ),
    ],
)
def test_nothing_comes_of_it(open_with: Open, steps: dict[str, str], words: str) -> None:
    error = failure(open_with(**steps))
    assert error.status == Status.ERROR
    assert words in str(error)


def test_kernels_that_cannot_be_read(open_with: Open) -> None:
    driver = open_with()
    for source, words in (
        ("int f(int x) { return x; }", "defines no kernel"),
        ("__kernel void f(int (*g)(int)) {}", "parameters of the kernel f"),
        ("__kernel", "cannot be read"),
    ):
        with fails_with(Status.BUILD_FAILED, words):
            driver.program_build(0, source)


def test_nothing_is_inherited(
    tmp_path: Path, open_with: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Descriptors of the process stay its own, and the temporary folder goes with all in it."""
    temporary = tmp_path / "temporary files"
    temporary.mkdir()
    open_file = os.dup2(os.open(tmp_path, os.O_RDONLY), 77, inheritable=True)
    steps = 'touch "$TMPDIR/left"; echo "error: $TMPDIR" $(ls /proc/$$/fd); exit 1'
    try:
        monkeypatch.setenv("TMPDIR", str(temporary))
        error = failure(open_with(compile=steps))
    finally:
        os.close(open_file)
    line = str(error).splitlines()[-1]
    assert f"error: {temporary}/outboard-" in line
    assert "1" in line.split()
    assert "77" not in line.split()
    assert list(temporary.iterdir()) == []


PROCESS = """
import os, resource, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from driver_support import open_driver
folder = Path(sys.argv[3])
driver = open_driver(folder, OUTBOARD_CLANG=sys.argv[1])
os.environ["TMPDIR"] = str(folder / "temporary")

def failure():
    try:
        driver.program_build(0, "__kernel void f(int x) {}")
    except RuntimeError as error:
        return str(error)

limits = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
full = failure()
resource.setrlimit(resource.RLIMIT_FSIZE, limits)
assert "source.cl cannot be written: File too large" in full, full
# There is no status then; what the compiler prints tells.
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
unwaited = failure()
assert "x: error: no" in unwaited, unwaited
"""


def test_states_of_a_process(tmp_path: Path) -> None:
    """A disk that is full, as seen by a process that may not write, and children without a wait."""
    compiler = write_compiler(tmp_path, compile="echo 'x: error: no'; exit 1")
    (tmp_path / "temporary").mkdir()
    run_python(PROCESS, compiler, str(Path(__file__).parent), str(tmp_path))
    assert list((tmp_path / "temporary").iterdir()) == []
