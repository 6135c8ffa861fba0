"""The runner of the stages: what `make test` answers."""

import os
import subprocess
from pathlib import Path

import pytest

from tests import run
from tests.run import ROOT, Stage
from tests.support import run_pytest

pytestmark = pytest.mark.slow

PASSING = "print('==== 3 passed, 1 skipped in 0.10s ====')"
FAILING = "print('==== 1 failed, 2 passed in 0.10s ===='); raise SystemExit(1)"


def stage(name: str, code: str, **options: object) -> Stage:
    return Stage(name, ("-c", code), **options)


@pytest.fixture
def suite(monkeypatch, tmp_path):
    """Makes the suite `default` of these stages."""
    monkeypatch.setattr(run, "RESULTS", tmp_path / "results")

    def use(*stages: Stage) -> None:
        monkeypatch.setitem(run.SUITES, "default", lambda: list(stages))

    return use


def test_a_stage_gets_none_of_the_settings_of_its_caller(monkeypatch, capfd):
    monkeypatch.setenv("OUTBOARD_PLACEMENT", "host")
    monkeypatch.setenv("OUTBOARD_FAULTS", "fail=copy_host_to_device")
    monkeypatch.setenv("OUTBOARD_DRIVER", "warp")
    code = "import os; print(sorted(n for n in os.environ if n.startswith('OUTBOARD_')))"
    code += "; print(os.environ['OUTBOARD_DRIVER'], os.environ['PATH'])"
    outcome = run.run(stage("any", code, driver="host"))
    assert (outcome.code, outcome.closing) == (0, "")
    printed = capfd.readouterr().out
    assert printed.split("\n")[:2] == [
        "['OUTBOARD_CLANG', 'OUTBOARD_DRIVER']",
        f"host {os.environ['PATH']}",
    ]


def test_the_summary_names_the_tests_that_failed(suite, capfd):
    """Also where the end of the output is all that is kept."""
    lines = [f"FAILED tests/test_run.py::test_{number} - " + "x" * 1000 for number in range(14)]
    lines += ["ERROR tests/test_demo.py", "FAILED", "==== 14 failed, 1 error in 0.10s ===="]
    failing = f"print({chr(10).join(lines)!r}); raise SystemExit(1)"
    suite(stage("one", failing), stage("two", PASSING))
    assert run.main(["default"]) == 1
    summary = capfd.readouterr().out.split("==> summary\n")[1].splitlines()
    assert len(summary) == run.FAILURES_SHOWN + 4
    shown = [line.split(" - ")[0] for line in summary[: run.FAILURES_SHOWN]]
    names = [f"one: FAILED tests/test_run.py::test_{number}" for number in range(12)]
    assert shown == names
    assert all(len(line) < run.FAILURE_WIDTH + 10 for line in summary)
    assert summary[run.FAILURES_SHOWN] == "and 3 more tests"


@pytest.mark.parametrize(("from_run", "alone"), [(2, "1 passed"), (3, "1 failed")])
def test_tests_that_failed_run_again_alone(from_run: int, alone: str, suite, tmp_path, capfd):
    """The summary says what came of it, and the stage has failed either way."""
    test = tmp_path / "test_later.py"
    test.write_text(
        "from pathlib import Path\n"
        "def test_first():\n"
        f"    seen = Path({str(tmp_path / 'seen')!r})\n"
        "    seen.write_text(seen.read_text() + 'x' if seen.exists() else 'x')\n"
        f"    assert len(seen.read_text()) >= {from_run}\n"
        "def test_second(): pass\n"
    )
    again = ("-m", "pytest", "-q", "-p", "no:cacheprovider", f"--rootdir={tmp_path}")
    suite(Stage("one", (*again, "-rf", str(test)), again=again))
    assert run.main(["default"]) == 1
    summary = capfd.readouterr().out.split("==> summary\n")[1].splitlines()
    assert "test_first" in summary[0]
    assert f"; alone: {alone}" in summary[0]
    assert "1 failed, 1 passed" in summary[1]
    assert summary[-1] == "1 passed in all stages, 1 of 1 stages failed"


def test_a_stage_beside_others_runs_while_they_do_and_prints_in_its_turn(suite, tmp_path, capfd):
    file = tmp_path / "begun"
    wait = f"import os, time\nwhile not os.path.exists({str(file)!r}): time.sleep(0.01)\n{PASSING}"
    begin = f"import os; print(os.nice(0)); open({str(file)!r}, 'w'); {FAILING}"
    suite(stage("one", wait), stage("two", begin, beside=True), stage("three", PASSING))
    assert run.main(["default"]) == 1
    printed = capfd.readouterr().out
    priority = min(os.nice(0) + run.LOW_PRIORITY, 19)
    assert f"==> 2/3 two\n{priority}\n==== 1 failed" in printed
    *_, one, two, three, closing = printed.splitlines()
    found = [line.split()[:2] for line in (one, two, three)]
    assert found == [["one", "passed"], ["two", "FAILED"], ["three", "passed"]]
    assert closing == "8 passed in all stages, 1 of 3 stages failed"


def test_a_stage_that_selects_no_test_fails(suite):
    none = f"raise SystemExit({run.NO_TESTS_COLLECTED})"
    for may_be_empty in (False, True):
        suite(stage("none", none, may_be_empty=may_be_empty))
        assert run.main(["default"]) == (0 if may_be_empty else 1)


def test_a_stage_without_the_kernels_that_it_needs_fails(suite, capfd):
    """The driver `host` compiles none."""
    suite(stage("kernels", PASSING, driver="host", needs_kernels=True))
    assert run.main(["default"]) == 1
    printed = capfd.readouterr().out
    assert "the driver runs no code on host:0" in printed
    assert "not run: no device kernels" in printed
    assert "passed, " not in printed


@pytest.mark.parametrize("name", ["ocl", "gpu", "scoreboard-ocl"])
def test_stages_of_device_kernels_need_them(name):
    stages = {each.name: each for each in run.full_stages()}
    assert stages[name].needs_kernels
    assert not stages["shared"].needs_kernels


def test_a_compiler_that_refuses_everything_is_no_device_kernels():
    from torch_outboard.drivers import ocl

    if "3.0-rc2" not in ocl.describe():
        pytest.skip("the first OpenCL device is not the packaged PoCL's")
    ours = Stage("ocl", (), driver="ocl", needs_kernels=True)
    environment = run.environment_of(ours)
    assert run.missing(ours, environment) == ""
    refusing = {**environment, "OUTBOARD_OCL_PROCESSOR": "generic"}
    assert "unknown target CPU 'generic'" in run.missing(ours, refusing)


def test_the_tests_of_device_kernels_fail_without_a_device_that_compiles(tmp_path):
    """Also where pytest is called by hand."""
    from torch_outboard.drivers import ocl

    if "pocl" not in ocl.describe().lower():
        pytest.skip("the OpenCL of this machine is not PoCL")
    test = "tests/device_kernels/test_placement.py::test_a_placement_for_a_block"
    without = ("OUTBOARD_",)
    result = run_pytest("--configuration", "ocl", test, without=without, PATH=str(tmp_path))
    assert result.returncode == 1, result.stdout
    assert "1 error" in result.stdout


@pytest.mark.parametrize("failing", ["", "lint", "demo", "test", "lint demo"])
def test_continuous_integration_runs_all_and_any_fails_it(tmp_path, failing):
    make = tmp_path / "make"
    make.write_text('#!/bin/bash\necho "$1"\n[[ " $FAILING " != *" $1 "* ]]\n')
    make.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "FAILING": failing}
    command = ["bash", str(ROOT / ".ci" / "run")]
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert result.stdout.split() == ["lint", "demo", "test"]
    assert result.returncode == (1 if failing else 0)
    assert [line for line in result.stderr.splitlines() if line.startswith("FAILED")] == [
        f"FAILED: make {target}" for target in failing.split()
    ]


def test_whatever_tests_depend_on_changes_the_fingerprint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "ROOT", tmp_path)
    (tmp_path / ".gitignore").write_text("*.so\n*.log\n")
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    for command in (("init", "-q"), ("add", "-A"), (*identity, "commit", "-qm", "first")):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    (tmp_path / "torch_outboard" / "lib").mkdir(parents=True)
    seen = [run.fingerprint()]
    for name, text in (
        (".gitignore", "*.so\n*.log\n*.o\n"),  # known to git
        ("new.py", "1"),  # not known yet
        ("new.py", "2"),
        ("torch_outboard/lib/built.so", "1"),  # ignored
        ("torch_outboard/lib/built.so", "2"),
    ):
        (tmp_path / name).write_text(text)
        seen.append(run.fingerprint())
    assert len(set(seen)) == len(seen)
    (tmp_path / "a.log").write_text("ignored")
    assert run.fingerprint() == seen[-1]
