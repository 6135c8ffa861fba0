"""Loading: `import torch` is enough, starts nothing and never fails."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import torch_outboard
from tests.support import run_python, try_python

pytestmark = pytest.mark.by_turns(3)

PACKAGE = Path(torch_outboard.__file__).parent

# Settings of the suite's own configuration that these tests choose themselves.
CLEAN = {"OUTBOARD_DRIVER": None, "OUTBOARD_TORTURE": None, "TORCH_DEVICE_BACKEND_AUTOLOAD": None}
HOST = {**CLEAN, "OUTBOARD_DRIVER": "host"}

# Whatever somebody does first. Autograd on CPU asks all backends for their devices.
USES = {
    "tensor": "torch.empty(2, device=name)",
    "copy": "torch.ones(2).to(name)",
    "method": "getattr(torch.ones(2), name)()",
    "init": "torch.get_device_module(name).init()",
    "accelerator": "torch.accelerator.set_device_index(0)",
    "stream": "torch.Stream(name)",
}


def first_use_errors(**env: str | None) -> dict[str, str]:
    """The messages of the errors of each first use; `import torch` has to work."""
    out = run_python(
        f"""
        import json, torch
        name = torch._C._get_privateuse1_backend_name()
        x = torch.ones(3, requires_grad=True)
        (x * 2).sum().backward()
        messages = {{}}
        for use, code in {USES!r}.items():
            try:
                eval(code)
            except RuntimeError as error:
                messages[use] = str(error)
        torch.manual_seed(0)
        assert not torch.get_device_module(name).is_available()
        assert torch.get_device_module(name).device_count() == 0
        assert (x * 2).sum().item() == 6
        print(json.dumps(messages))
        """,
        **{**CLEAN, **env},
    )
    messages = json.loads(out)
    assert messages.keys() == USES.keys()
    return messages


def first_use_error(**env: str | None) -> str:
    """The message of the error, which has to be the same for all uses."""
    messages = set(first_use_errors(**env).values())
    assert len(messages) == 1, messages
    return messages.pop()


@pytest.fixture
def distribution(tmp_path: Path):
    """Makes an installed distribution: entry points and modules in a folder for PYTHONPATH."""

    def make(entry_points: str, **modules: str) -> str:
        info = tmp_path / "some_driver-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: some-driver\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(entry_points)
        for name, source in modules.items():
            (tmp_path / f"{name}.py").write_text(source)
        return os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])

    return make


# ---- Usual cases


def test_import_torch_is_enough_and_starts_nothing():
    run_python(
        """
        import sys, torch
        heavy = [m for m in ("rich", "torch_outboard.commands", "torch_outboard.tuning",
                             "torch_outboard.ops", "torch_outboard.dispatch",
                             "torch_outboard.device.host_memory",
                             "torch_outboard.device.sharing") if m in sys.modules]
        assert "torch_outboard" in sys.modules and not heavy, heavy
        loaded = [line for line in open("/proc/self/maps") if "libob_" in line]
        assert not loaded, loaded
        assert not torch.host.is_initialized()
        from torch_outboard import _C
        torch.manual_seed(1)
        torch.device("host:1")
        assert not _C.driver_initialized()
        torch.host.device_count()
        assert _C.driver_initialized()
        x = torch.ones(2, device="host")
        assert str(x.device) == "host:0" and x.is_host and torch.host.is_initialized()
        import torch.host.random, torch.host.memory
        """,
        **HOST,
    )


def test_the_default_device_is_ocl():
    """Whether or not this machine has OpenCL."""
    out = run_python(
        """
        import torch, torch_outboard
        from torch_outboard import _C
        print(torch_outboard.device_name(), torch.device("ocl"), torch.host.is_available())
        assert not _C.driver_initialized()
        """,
        **CLEAN,
    )
    assert out.split() == ["ocl", "ocl", "False"]


@pytest.mark.parametrize("autoload", [None, "0"])
def test_package_may_be_imported_by_the_program(autoload: str | None):
    out = run_python(
        """
        import sys
        if sys.argv[1] == "0":
            import torch
            assert torch._C._get_privateuse1_backend_name() == "privateuseone"
        import torch_outboard, torch
        print(torch_outboard.device_name(), torch.ones(2, device='host').sum().item())
        """,
        str(autoload),
        **{**HOST, "TORCH_DEVICE_BACKEND_AUTOLOAD": autoload},
    )
    assert out.split() == ["host", "2.0"]


# ---- Names


SPARE = "[torch_outboard.drivers]\nspare = spare_driver\n"
LIBRARY = PACKAGE / "drivers/host/libob_host.so"


def test_name_is_the_chosen_driver(distribution, tmp_path: Path):
    path = distribution(SPARE, spare_driver="raise SystemExit('imported')\n")
    shutil.copy(LIBRARY, tmp_path / "libob_spare.so")
    out = run_python(
        "import torch; print(torch.ones(2, device='spare').device)",
        **{**CLEAN, "OUTBOARD_DRIVER": "spare", "PYTHONPATH": path},
    )
    assert out.strip() == "spare:0"


def test_module_is_asked_at_first_use(distribution):
    module = f"print('imported')\ndef library_path():\n    return {str(LIBRARY)!r}\n"
    path = distribution(SPARE, spare_driver=module)
    out = run_python(
        """
        import torch
        print("torch")
        print(torch.ones(2, device="spare").device)
        """,
        **{**CLEAN, "OUTBOARD_DRIVER": "spare", "PYTHONPATH": path},
    )
    assert out.split() == ["torch", "imported", "spare:0"]


def test_module_may_hand_over_a_table(distribution):
    module = f"""
import ctypes
def table():
    function = ctypes.CDLL({str(LIBRARY)!r}).ob_driver_table
    function.restype = ctypes.c_void_p
    return function()
"""
    path = distribution(SPARE, spare_driver=module)
    # The first use here is a backward pass on CPU: autograd asks every backend for its devices.
    out = run_python(
        """
        import torch
        x = torch.ones(2, requires_grad=True)
        x.sum().backward()
        y = torch.ones(2, device="spare", requires_grad=True)
        y.sum().backward()
        print(y.grad.device)
        """,
        **{**CLEAN, "OUTBOARD_DRIVER": "spare", "PYTHONPATH": path},
    )
    assert out.strip() == "spare:0"


def test_driver_may_be_a_path(tmp_path: Path):
    library = shutil.copy(LIBRARY, tmp_path / "libob_mine.so")
    out = run_python(
        "import torch; print(torch.ones(2, device='mine').device)",
        **{**CLEAN, "OUTBOARD_DRIVER": str(library)},
    )
    assert out.strip() == "mine:0"


def test_use_driver_before_first_use(tmp_path: Path):
    library = shutil.copy(LIBRARY, tmp_path / "libob_mine.so")
    run_python(
        """
        import sys, torch, torch_outboard
        torch_outboard.use_driver(sys.argv[1])
        assert torch.ones(2, device="host").sum().item() == 2
        assert sys.argv[1] in open("/proc/self/maps").read()
        for wrong, kind in ((sys.argv[1], RuntimeError), ("other", ValueError), (1.5, TypeError),
                            ("/no/such/lib.so", ValueError)):
            try:
                torch_outboard.use_driver(wrong)
            except kind as error:
                print(error)
            else:
                raise SystemExit(f"{wrong} was accepted")
        """,
        str(library),
        **HOST,
    )


# ---- Bad cases: a clear sentence at first use


def test_no_such_driver():
    message = first_use_error(OUTBOARD_DRIVER="warp")
    assert "'warp'" in message
    assert "no driver of that name is installed (there are: host" in message


@pytest.mark.parametrize(
    "name",
    [
        "cuda",
        "no-go",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("Host", "add", "opencl")),
    ],
)
def test_impossible_name(name: str):
    message = first_use_error(OUTBOARD_DRIVER=name)
    assert f"OUTBOARD_DRIVER='{name}' cannot name a device" in message


def compiled(library: Path) -> None:
    library.with_suffix(".c").write_text("int nothing;\n")
    command = ["cc", "-shared", "-fPIC", str(library.with_suffix(".c")), "-o", str(library)]
    subprocess.run(command, check=True)


# How it is made, and what is said of it. Touching the end that is missing would be a bus error.
WRONG_LIBRARIES = {
    "missing": (lambda library: None, "the library {} does not exist"),
    "broken": (
        lambda library: library.write_bytes(b"this is no library"),
        "the library {} cannot be loaded: it is no shared library",
    ),
    "fifo": (os.mkfifo, "the library {} cannot be loaded: it is no regular file"),
    "truncated": (
        lambda library: library.write_bytes(LIBRARY.read_bytes()[: LIBRARY.stat().st_size // 2]),
        "the library {} cannot be loaded: it is a shared library of which",
    ),
    "plain": (compiled, "does not export `ob_driver_table`"),
}


@pytest.mark.timeout(100)
@pytest.mark.parametrize("kind", WRONG_LIBRARIES)
def test_wrong_library(tmp_path: Path, kind: str):
    make, words = WRONG_LIBRARIES[kind]
    library = tmp_path / f"libob_{kind}.so"
    make(library)
    assert words.format(library) in first_use_error(OUTBOARD_DRIVER=str(library))


def test_driver_name_that_pytorch_cannot_parse(tmp_path: Path):
    """PyTorch answers "Invalid device string" before anybody can say more, so `import` warns."""
    library = shutil.copy(LIBRARY, tmp_path / "libob_mychip2.so")
    result = try_python(
        """
        import torch
        try:
            torch.ones(3, device=torch._C._get_privateuse1_backend_name())
        except RuntimeError as error:
            print(error)
        """,
        OUTBOARD_DRIVER=str(library),
    )
    sentence = "OUTBOARD_DRIVER='mychip2' cannot name a device, because PyTorch takes lower-case"
    assert sentence in result.stderr
    assert sentence in result.stdout


def test_driver_module_fails(distribution):
    source = "raise ImportError('libfancy.so.3 is not there')\n"
    path = distribution(SPARE + "other = no_such_module.at_all\n", spare_driver=source)
    for driver, words in (("spare", "libfancy.so.3 is not there"), ("other", "no_such_module")):
        assert words in first_use_error(OUTBOARD_DRIVER=driver, PYTHONPATH=path)


def test_no_devices():
    message = first_use_error(OUTBOARD_DRIVER="host", OUTBOARD_HOST_DEVICES="0")
    assert "found no device" in message
    assert "works without hardware" not in message


@pytest.fixture
def package_without_extension(tmp_path: Path) -> str:
    """A copy of the package whose native part does not load, first on the path."""
    shutil.copytree(PACKAGE, tmp_path / "torch_outboard", ignore=shutil.ignore_patterns("*.so"))
    suffix = next(PACKAGE.glob("_C*.so")).name
    (tmp_path / "torch_outboard" / suffix).write_bytes(b"built for another PyTorch")
    return os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])


def test_extension_does_not_load(package_without_extension: str):
    messages = first_use_errors(PYTHONPATH=package_without_extension)
    sentence = "the native part of torch_outboard does not load"
    for use in ("tensor", "copy", "method", "init"):
        assert sentence in messages[use]
    result = try_python(
        "import torch_outboard; torch_outboard.device_name()",
        **{**CLEAN, "PYTHONPATH": package_without_extension},
    )
    assert result.returncode == 1
    assert sentence in result.stderr


@pytest.fixture
def package_for_another_torch(tmp_path: Path) -> str:
    """A copy of the package that says that it was built for PyTorch 2.7, first on the path."""
    shutil.copytree(PACKAGE, tmp_path / "torch_outboard")
    (tmp_path / "torch_outboard" / "lib" / "torch_version.txt").write_text("2.7\n")
    return os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])


def test_built_for_another_torch(package_for_another_torch: str):
    messages = first_use_errors(PYTHONPATH=package_for_another_torch)
    sentence = (
        "The device 'ocl' cannot be used, because torch_outboard was built for PyTorch 2.7 and "
        f"this is PyTorch {torch.__version__}; install torch==2.7.* or build torch_outboard again "
        "with this one."
    )
    for use in ("tensor", "copy", "method", "init"):
        assert messages[use].partition("\n")[0] == sentence


def test_built_for_another_torch_is_not_loaded(package_for_another_torch: str):
    """Neither by the package nor by any module of it that is imported later."""
    out = run_python(
        """
        import importlib, torch, torch_outboard
        for use in ("torch_outboard.device_name()", "torch_outboard.fallback.report().__enter__()",
                    "torch_outboard.from_cpu(torch.ones(2))",
                    "torch_outboard.ways.way('host').__enter__()",
                    "importlib.import_module('torch_outboard.device.streams')._C.current_stream(0)",
                    "torch_outboard._C.current_stream(0)"):
            try:
                eval(use)
            except Exception as error:
                print(type(error).__name__, str(error).count("was built for PyTorch 2.7"), use)
            else:
                raise SystemExit(f"{use} raised nothing")
        maps = open("/proc/self/maps").read()
        assert "torch_outboard" not in maps, maps
        """,
        **{**CLEAN, "PYTHONPATH": package_for_another_torch},
    )
    for line in out.splitlines():
        assert line.startswith("RuntimeError 1 "), out


def test_doctor_says_that_it_was_built_for_another_torch(package_for_another_torch: str):
    environment = {k: v for k, v in os.environ.items() if k not in CLEAN}
    environment["PYTHONPATH"] = package_for_another_torch
    command = [sys.executable, "-P", "-m", "torch_outboard", "doctor"]
    result = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert result.returncode == 1
    assert "torch_outboard was built for PyTorch 2.7" in result.stdout + result.stderr
    assert "Traceback" not in result.stderr


def test_another_backend_holds_the_slot():
    out = run_python(
        """
        import torch
        torch.utils.rename_privateuse1_backend("rival")
        import torch_outboard
        assert not hasattr(torch, "ocl")
        assert torch_outboard.include_paths()
        for use in (torch_outboard.device_name, lambda: torch_outboard.use_driver("ocl")):
            try:
                use()
            except RuntimeError as error:
                print(error)
        assert "torch_outboard._C" not in __import__("sys").modules
        """,
        **{**CLEAN, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
    )
    assert out.count("another backend, 'rival', has taken PyTorch's one slot") == 2


def test_another_backend_is_installed(distribution):
    """Its own autoloading has to find the slot free, whoever comes first."""
    path = distribution(
        "[torch.backends]\nrival = rival_backend:load\n",
        rival_backend=(
            "import torch\ndef load():\n    torch.utils.rename_privateuse1_backend('rival')\n"
        ),
    )
    out = run_python(
        "import torch; print(torch._C._get_privateuse1_backend_name())",
        **{**CLEAN, "PYTHONPATH": path},
    )
    assert out.strip() == "rival"


# PyTorch is importing nothing here, so autoloading is played step by step.
BESIDE_CUDA = """
    import os, sys, torch
    before = torch.accelerator.current_accelerator()  # in a build for CUDA that is CUDA
    torch.backends.cuda.is_built = lambda: True
    exists = os.path.exists
    os.path.exists = lambda p: p == "/dev/nvidiactl" or exists(p)
    torch.__spec__._initializing = True
    from torch_outboard.loading import autoload
    autoload.autoload()
    torch.__spec__._initializing = False
    if "OUTBOARD_DRIVER" not in os.environ:
        assert torch._C._get_privateuse1_backend_name() == "privateuseone"
        assert torch.accelerator.current_accelerator() == before
        assert not [m for m in sys.modules if m.startswith("torch_outboard")]
        import torch_outboard
    print(torch.accelerator.current_accelerator().type)
"""


@pytest.mark.parametrize(("driver", "found"), [(None, "ocl"), ("host", "host")])
def test_beside_cuda_it_stays_away_until_imported_or_named(driver: str | None, found: str):
    env = {**CLEAN, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "OUTBOARD_DRIVER": driver}
    assert run_python(BESIDE_CUDA, **env).strip() == found


# ---- Command line


def test_doctor_names_the_problem():
    command = [sys.executable, "-m", "torch_outboard", "doctor"]
    environment = {k: v for k, v in os.environ.items() if k not in CLEAN}
    environment["OUTBOARD_DRIVER"] = "warp"
    bad = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
    assert bad.returncode == 1
    assert "no driver of that name is installed" in bad.stdout


def test_paths_exist():
    assert Path(torch_outboard.include_paths()[0], "outboard", "driver.h").exists()
    assert Path(torch_outboard.library_path()).exists()
    assert Path(torch_outboard.cmake_path(), "torch_outboardConfig.cmake").exists()
    assert torch_outboard.__version__
