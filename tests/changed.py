"""The tests of `make test-changed`: those of the layers that a change is in.

`make test` runs the tests of the layers above as well.
"""

import subprocess
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Folders and files of tests by configuration; "turn" is the sweep of that name.
Selection = dict[str, set[str]]

DEVICE_KERNELS = (
    "ocl:device_kernels ocl:turn gpu:device_kernels/images gpu:device_kernels/indexing "
    "gpu:device_kernels/reductions"
)
# Prefix of a path, and its tests as configuration:test. The first match holds.
LAYERS: tuple[tuple[str, str], ...] = (
    ("csrc/runtime/", "shared:runtime shared:drivers shared:transfer separate:runtime "
     "faults:runtime ocl:device_kernels/programs"),
    ("csrc/tensors/", "shared:tensors shared:device separate:tensors shared:transfer"),
    ("csrc/transfer/",
     "shared:transfer separate:transfer faults:transfer ocl:device_kernels/programs"),
    ("csrc/dispatch/", "shared:dispatch separate:dispatch shared:turn "
     "ocl:device_kernels/test_placement.py"),
    ("csrc/cpu_kernels/", "shared:cpu_kernels separate:cpu_kernels shared:turn"),
    ("csrc/device_kernels/", DEVICE_KERNELS),
    ("csrc/random/", "shared:random shared:device ocl:device_kernels/creation"),
    ("csrc/autograd/", "shared:autograd shared:device shared:programs"),
    ("csrc/distributed/", "shared:distributed separate:distributed faults:distributed"),
    ("csrc/profiler/", "shared:profiler ocl:profiler"),
    ("csrc/python/", "shared:device shared:dispatch shared:runtime "
     "ocl:inductor/test_captured_graphs.py"),
    ("csrc/include/", "shared:drivers shared:runtime"),
    ("torch_outboard/check/", "shared:check shared:drivers/test_checks.py"),
    ("torch_outboard/drivers/", "shared:drivers shared:runtime separate:transfer "
     "ocl:device_kernels/test_every_family.py"),
    ("torch_outboard/kernels/", DEVICE_KERNELS),
    ("torch_outboard/ops/functions/", f"{DEVICE_KERNELS} ocl:inductor"),
    ("torch_outboard/ops/sources/", f"{DEVICE_KERNELS} ocl:inductor"),
    ("torch_outboard/ops/", DEVICE_KERNELS),
    ("torch_outboard/inductor/", "ocl:inductor"),
    ("torch_outboard/dialects/", "shared:dialects"),
    ("torch_outboard/device/", "shared:device separate:device shared:runtime"),
    ("docs/", "shared:documents"),
    ("README.md", "shared:documents"),
    ("examples/", "shared:examples shared:documents"),
    ("benchmarks/", "shared:documents"),
    ("requirements/", "shared:test_packages.py"),
)  # fmt: skip
# Configurations whose tests have the mark.
MARKS = ("separate", "faults")
# Tests of a device that compiles kernels.
NEED_A_COMPILER = ("tests/device_kernels", "tests/inductor")


def changed_paths(base: str) -> list[str]:
    """Files that differ from a commit, those that git does not know included.

    Raises:
        subprocess.CalledProcessError: if git knows no such commit.
    """
    commands = (["git", "diff", "--name-only", base],
                ["git", "ls-files", "--others", "--exclude-standard"])  # fmt: skip
    outputs = [subprocess.run(c, cwd=ROOT, check=True, capture_output=True) for c in commands]
    return sorted({line for output in outputs for line in output.stdout.decode().splitlines()})


def asked_by(path: str) -> list[str]:
    """Tests of a changed file, as configuration:test."""
    if path.startswith("tests/"):
        name = path.removeprefix("tests/")
        top = name.partition("/")[0]
        if not (ROOT / path).exists():
            name = top if "/" in name else ""
        elif not Path(name).name.startswith("test_"):
            name = str(Path(name).parent) if "/" in name else "device"
        configuration = "ocl" if f"tests/{top}" in NEED_A_COMPILER else "shared"
        return [f"{configuration}:{name}"] if name else []
    for beginning, tests in LAYERS:
        if path.startswith(beginning):
            return tests.split()
    folder = Path(path).parts[1] if path.count("/") > 1 else ""
    if path.startswith("torch_outboard/") and (ROOT / "tests" / folder).is_dir():
        return [f"shared:{folder}", f"separate:{folder}"]
    return ["shared:loading", "shared:device", "shared:tensors"]


def marked_files(mark: str, below: Sequence[str] = ("tests",)) -> list[str]:
    """Files of tests with a mark, in or at these paths, that need no device which compiles."""
    left_out = {ROOT / folder for folder in NEED_A_COMPILER}
    files: set[Path] = set()
    for path in below:
        root = ROOT / path
        files |= {root} if root.is_file() else set(root.rglob("test_*.py"))
    return [
        str(file.relative_to(ROOT))
        for file in sorted(files)
        if f"mark.{mark}" in file.read_text() and not left_out & set(file.parents)
    ]


def selection(paths: Sequence[str]) -> Selection:
    """Tests by configuration; none below a folder that is there itself."""
    found: Selection = {}
    for path in paths:
        for word in asked_by(path):
            configuration, _, test = word.partition(":")
            there = test == "turn" or (ROOT / "tests" / test).exists()
            if configuration in MARKS:
                there = bool(marked_files(configuration, [f"tests/{test}"]))
            if there:
                found.setdefault(configuration, set()).add(test)
    for tests in found.values():
        for test in list(tests):
            if any(str(parent) in tests for parent in Path(test).parents):
                tests.discard(test)
    return found
