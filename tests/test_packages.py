"""Contents and requirements of packages, which `make test-packages` installs."""

import importlib.metadata
import re
import shutil
import subprocess
import sys
import tarfile
from email.message import Message
from email.parser import Parser
from pathlib import Path, PurePosixPath
from types import ModuleType

import pytest
import torch

import torch_outboard
from tests import compile_versions
from tests.version_tree import ROOT, project_files, renew

MADE_BY_SETUPTOOLS = {"PKG-INFO", "setup.cfg"}


@pytest.fixture(scope="module")
def setup() -> ModuleType:
    return compile_versions.load_setup()


def in_clone(root: Path) -> bool:
    return (root / ".git").exists() and shutil.which("git") is not None


@pytest.fixture(scope="module")
def source_distribution(tmp_path_factory: pytest.TempPathFactory) -> tarfile.TarFile:
    """One that was made in a copy of the project."""
    if not in_clone(ROOT):
        pytest.skip("this is no clone: git does not know which files belong to the project")
    folder = tmp_path_factory.mktemp("sdist")
    renew(project_files(ROOT), ROOT, folder / "project")
    # Files that builds leave between the sources.
    for name in ("include/outboard/stale.h", "lib/torch_version.txt", "drivers/host/libob_host.so"):
        path = folder / "project" / "torch_outboard" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("made by a build")
    program = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"
    command = [sys.executable, "-c", program, str(folder)]
    subprocess.run(command, cwd=folder / "project", check=True, capture_output=True)
    (archive,) = folder.glob("*.tar.gz")
    return tarfile.open(archive)


def metadata_of(archive: tarfile.TarFile) -> Message:
    (name,) = [n for n in archive.getnames() if re.fullmatch(r"[^/]+/PKG-INFO", n)]
    file = archive.extractfile(name)
    assert file is not None
    return Parser().parsestr(file.read().decode())


def torch_requirement(requirements: list[str]) -> str:
    (found,) = [line for line in requirements if re.match(r"torch\b(?!-)", line)]
    return found


# ---- The source distribution


@pytest.mark.slow
def test_a_source_distribution_holds_the_whole_project(
    source_distribution: tarfile.TarFile,
) -> None:
    files = [member.name for member in source_distribution.getmembers() if member.isfile()]
    inside = {str(PurePosixPath(*PurePosixPath(name).parts[1:])) for name in files}
    made = {name for name in inside if ".egg-info/" in name} | MADE_BY_SETUPTOOLS
    assert inside - made == set(project_files(ROOT))


@pytest.mark.slow
def test_a_source_distribution_takes_any_supported_torch(
    source_distribution: tarfile.TarFile, setup: ModuleType
) -> None:
    metadata = metadata_of(source_distribution)
    first, last = setup.supported_minors()
    wanted = torch_requirement(metadata.get_all("Requires-Dist", []))
    assert sorted(wanted.removeprefix("torch").split(",")) == [f"<2.{last + 1}", f">=2.{first}"]
    assert metadata["License-Expression"] == "BSD-3-Clause"
    assert metadata.get_all("License-File") == ["LICENSE"]
    assert metadata["Version"] == torch_outboard.__version__


# ---- The wheel


def test_a_wheel_holds_every_module(tmp_path: Path) -> None:
    command = [sys.executable, "setup.py", "-q", "build_py", "--build-lib", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    modules = {name for name in project_files(ROOT) if re.match(r"torch_outboard/.*\.py$", name)}
    assert modules
    assert modules == {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.py")}


# ---- What was built


def test_what_is_built_asks_for_its_torch_and_what_the_file_says(setup: ModuleType) -> None:
    minor = ".".join(torch.__version__.split(".")[:2])
    wanted = importlib.metadata.requires("torch-outboard") or []
    assert torch_requirement(wanted) == f"torch=={minor}.*"
    package = Path(torch_outboard.__file__).parent
    assert (package / "lib" / "torch_version.txt").read_text().strip() == minor
    names = {re.split(r"[^\w-]", line)[0] for line in wanted if "extra ==" not in line}
    assert names == {re.split(r"[^\w-]", line)[0] for line in setup.requirements("torch")}
    assert {"torch", "rich", "platformdirs"} <= names


# ---- What cannot be built


def test_another_torch_is_refused_in_a_sentence(setup: ModuleType) -> None:
    for version in ("2.11.0", "2.13.0+cpu", "2.15.0+cu132"):
        assert setup.torch_problem(version) is None
    for version in ("1.13.1", "2.10.0", "2.16.0a0+git1", "3.12.0"):
        assert setup.torch_problem(version) == (
            f"torch_outboard works with PyTorch 2.11 to 2.15, and {version} is installed: install "
            "one of these and build again."
        )


def test_building_without_torch_says_how_to_build() -> None:
    """As in pip's isolated builds."""
    program = (
        "import runpy, sys; sys.modules['torch'] = None; sys.argv = ['setup.py', '--version']; "
        "runpy.run_path('setup.py', run_name='__main__')"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert result.returncode == 1
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert "install PyTorch 2.11 to 2.15" in line
    assert "`pip install --no-build-isolation`" in line


# ---- Versions that stand in several places


def test_versions_agree(setup: ModuleType) -> None:
    first, last = setup.supported_minors()
    minors = [int(version.split(".")[1]) for version in compile_versions.TORCH_VERSIONS]
    assert minors == list(range(first, last + 1))
    for name in ("README.md", "docs/testing.md"):
        assert f"PyTorch 2.{first} to 2.{last}" in " ".join((ROOT / name).read_text().split())
    default = re.search(r"^TORCH_VERSION \?= 2\.(\d+)\.", (ROOT / "Makefile").read_text(), re.M)
    assert default is not None
    assert first <= int(default.group(1)) <= last
    pythons = compile_versions.PYTHON_VERSIONS
    wanted = f"Python {pythons[0]} to {pythons[-1]}"
    assert wanted in " ".join((ROOT / "README.md").read_text().split())
    project = (ROOT / "pyproject.toml").read_text()
    assert re.findall(r'"Programming Language :: Python :: (3\.\d+)"', project) == list(pythons)
