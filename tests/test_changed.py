"""The tests that a change requires."""

import subprocess

import pytest

from tests.changed import LAYERS, MARKS, ROOT, asked_by, marked_files, selection
from tests.run import changed_stages

pytestmark = pytest.mark.slow


def test_every_file_asks_for_tests_that_there_are() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    files = [
        path for path in listed.stdout.splitlines() if path.endswith((".py", ".cpp", ".h", ".cl"))
    ]
    assert files
    lost = {path for path in files if not selection([path])}
    assert not lost


@pytest.mark.parametrize(("beginning", "tests"), LAYERS)
def test_layers_and_their_tests_are_there(beginning: str, tests: str) -> None:
    assert (ROOT / beginning).exists()
    for test in tests.split():
        name = test.partition(":")[2]
        assert name == "turn" or (ROOT / "tests" / name).exists()


def test_what_has_no_marked_test_asks_for_none() -> None:
    of_kernels = selection(["csrc/cpu_kernels/operators/pointwise.cpp"])
    assert of_kernels == {"shared": {"cpu_kernels", "turn"}, "separate": {"cpu_kernels"}}
    for mark in MARKS:
        for file in selection([f"csrc/{name}/x.cpp" for name in ("runtime", "transfer")])[mark]:
            assert marked_files(mark, [f"tests/{file}"]), file


def test_a_changed_test_runs_with_all_its_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    path = "tests/test_changed.py"  # which is slow as a whole
    monkeypatch.setattr("tests.changed.changed_paths", lambda base: [path])
    (stage,) = changed_stages()
    assert stage.arguments[-1] == path
    assert "-m" not in stage.arguments[2:]


def test_a_kernel_asks_for_device_kernels_and_the_sweep() -> None:
    found = selection(["torch_outboard/kernels/losses/nll_loss.cl"])
    assert found.pop("ocl") == {"device_kernels", "turn"}
    assert list(found) == ["gpu"]


def test_a_test_asks_for_itself_unless_its_folder_runs() -> None:
    path = "tests/device_kernels/losses/test_losses.py"
    assert asked_by(path) == ["ocl:device_kernels/losses/test_losses.py"]
    both = selection([path, "csrc/device_kernels/defined_kernel.cpp"])
    assert both["ocl"] == {"device_kernels", "turn"}


def test_a_change_of_documents_runs_no_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.changed.changed_paths", lambda base: ["docs/compile.md"])
    (stage,) = changed_stages()
    assert stage.name == "shared"
    assert stage.arguments[-1] == "tests/documents"
    assert not stage.needs_kernels
