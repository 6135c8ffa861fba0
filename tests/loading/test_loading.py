"""Loading: `import torch` is enough, starts nothing and never fails."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
import torch

import torch_outboard
from tests.support import ROOT, run_python, try_python

pytestmark = pytest.mark.by_turns(3)

PACKAGE = Path(torch_outboard.__file__).parent
LIBRARY = PACKAGE / "drivers/host/libob_host.so"

# Settings of the suite's own configuration that these tests choose themselves.
CLEAN = {"OUTBOARD_DRIVER": None, "OUTBOARD_FAULTS": None, "TORCH_DEVICE_BACKEND_AUTOLOAD": None}
HOST = {**CLEAN, "OUTBOARD_DRIVER": "host"}

# Every first use, each in its turn; `said` are the messages of the errors. Autograd on
# CPU asks all backends for their devices.
FIRST_USES = """
import torch
name = torch._C._get_privateuse1_backend_name()
x = torch.ones(3, requires_grad=True)
(x * 2).sum().backward()
said = []
for use in (
    lambda: torch.empty(2, device=name),
    lambda: torch.ones(2).to(name),
    lambda: getattr(torch.ones(2), name)(),
    lambda: torch.get_device_module(name).init(),
    lambda: torch.accelerator.set_device_index(0),
    lambda: torch.Stream(name),
):
    try:
        use()
    except RuntimeError as error:
        said.append(str(error))
torch.manual_seed(0)
assert not torch.get_device_module(name).is_available()
assert torch.get_device_module(name).device_count() == 0
assert (x * 2).sum().item() == 6
assert len(said) == 6, said
"""


def first_use_error(**env: str | None) -> str:
    """The message of the error, which has to be the same for all uses."""
    printed = run_python(FIRST_USES + "import json; print(json.dumps(said))", **{**CLEAN, **env})
    messages = set(json.loads(printed))
    assert len(messages) == 1, messages
    return messages.pop()


def test_import_torch_is_enough_and_starts_nothing():
    run_python(
        """
        import sys, torch
        heavy = [m for m in ("rich", "torch_outboard.commands",
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
        assert torch.accelerator.memory_stats(0) == {}
        torch.accelerator.empty_cache()
        assert _C.testing.device_of_address(torch.empty(10).data_ptr()) == -1
        assert not torch.empty(10).is_pinned()
        assert not _C.driver_initialized()
        torch.host.device_count()
        assert _C.driver_initialized()
        x = torch.ones(2, device="host")
        assert str(x.device) == "host:0" and x.is_host and torch.host.is_initialized()
        import torch.host.random, torch.host.memory
        """,
        **HOST,
    )


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


@pytest.mark.parametrize(
    ("driver", "words"),
    [
        ("warp", "no driver of that name is installed (there are: host"),
        ("cuda", "OUTBOARD_DRIVER='cuda' cannot name a device"),
        ("no-go", "OUTBOARD_DRIVER='no-go' cannot name a device"),
    ],
)
def test_impossible_name(driver: str, words: str):
    assert words in first_use_error(OUTBOARD_DRIVER=driver)


def compiled(library: Path) -> None:
    library.with_suffix(".c").write_text("int nothing;\n")
    command = ["cc", "-shared", "-fPIC", str(library.with_suffix(".c")), "-o", str(library)]
    subprocess.run(command, check=True)


# How it is made, and what is said of it. Touching the end that is missing would be a bus error.
WRONG_LIBRARIES = {
    "missing": (lambda library: None, "the library {} does not exist"),
    "truncated": (
        lambda library: library.write_bytes(LIBRARY.read_bytes()[: LIBRARY.stat().st_size // 2]),
        "the library {} cannot be loaded: it is a shared library without",
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


def test_no_devices():
    message = first_use_error(OUTBOARD_DRIVER="host", OUTBOARD_HOST_DEVICES="0")
    assert "found no device" in message
    assert "works without hardware" not in message


# ---- Who loads what: children of one process that has imported PyTorch alone

CHILDREN = """
import json, sys
sys.path.append(sys.argv[1])
import torch
from tests.forking import in_child

assert torch._C._get_privateuse1_backend_name() == "privateuseone"
for case, (folder, driver, code) in json.loads(sys.argv[2]).items():

    def run():
        import os, sys

        if folder:
            sys.path.insert(0, folder)
        if driver:
            os.environ["OUTBOARD_DRIVER"] = driver
        scope = {}
        exec(code, scope)
        return json.dumps(scope["said"])

    print(json.dumps([case, in_child(run)]))
"""
AUTOLOADED = """
import sys, torch
torch._import_device_backends()
"""
BY_THE_PROGRAM = """
import torch_outboard, torch
said = torch.ones(2, device="host").sum().item()
"""
RIVAL_HOLDS_THE_SLOT = """
import torch
torch.utils.rename_privateuse1_backend("rival")
import torch_outboard
assert not hasattr(torch, "ocl")
assert torch_outboard.include_paths()
said = []
for use in (torch_outboard.device_name, lambda: torch_outboard.use_driver("ocl")):
    try:
        use()
    except RuntimeError as error:
        said.append("another backend, 'rival', has taken PyTorch's one slot" in str(error))
assert "torch_outboard._C" not in __import__("sys").modules
"""
RIVAL_IS_INSTALLED = AUTOLOADED + "said = torch._C._get_privateuse1_backend_name()"
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
said = torch.accelerator.current_accelerator().type
"""


# The first use is a backward pass on CPU: autograd asks every backend for its devices.
ON_ITS_DEVICE = (
    AUTOLOADED
    + """
before = "a_driver" in sys.modules
name = torch._C._get_privateuse1_backend_name()
x = torch.ones(2, requires_grad=True)
x.sum().backward()
y = torch.ones(2, device=name, requires_grad=True)
y.sum().backward()
said = [before, "a_driver" in sys.modules, str(y.grad.device)]
"""
)
# Errors for another driver's device; PyTorch's parser has separate messages.
OTHER_DEVICE = (
    AUTOLOADED
    + """
used = torch._C._get_privateuse1_backend_name()
(other,) = {"host", "ocl"} - {used}
module = getattr(torch, other)
assert not module.is_available() and not module.is_initialized()
assert module.device_count() == 0
assert not hasattr(module, "synchronize")
assert torch.accelerator.current_accelerator().type == used
said = []
for ask in (lambda: module.memory_allocated(), lambda: module.init(), lambda: torch.device(other)):
    try:
        ask()
    except (AttributeError, RuntimeError) as error:
        said.append(str(error))
"""
)
DEVICE_NAME = """
try:
    __import__("torch_outboard").device_name()
except RuntimeError as error:
    said.append(str(error))
"""
# Nothing native is loaded, neither by the package nor by any module of it that is imported later.
NOT_LOADED = """
import importlib, torch_outboard
for use in ("torch_outboard.device_name()", "torch_outboard.fallback.report().__enter__()",
            "torch_outboard.from_cpu(torch.ones(2))",
            "torch_outboard.placement.use('host').__enter__()",
            "importlib.import_module('torch_outboard.device.streams')._C.current_stream(0)",
            "torch_outboard._C.current_stream(0)"):
    try:
        eval(use)
    except RuntimeError as error:
        said.append(str(error))
    else:
        raise SystemExit(f"{use} raised nothing")
maps = open("/proc/self/maps").read()
assert "torch_outboard" not in maps, maps
"""
DOCTOR = """
import io, runpy, sys
from contextlib import redirect_stdout
sys.argv = ["torch_outboard", "doctor"]
printed = io.StringIO()
try:
    with redirect_stdout(printed):
        runpy.run_module("torch_outboard", run_name="__main__")
except SystemExit as end:
    assert end.code == 1, end.code
said.append(printed.getvalue())
"""

TABLE = f"""
import ctypes
def table():
    function = ctypes.CDLL({str(LIBRARY)!r}).ob_driver_table
    function.restype = ctypes.c_void_p
    return function()
"""
# Modules of drivers: one whose library lies beside it is not imported.
DRIVERS = {
    "beside": "raise SystemExit('imported')",
    "library": f"def library_path():\n    return {str(LIBRARY)!r}",
    "table": TABLE,
    "broken": "raise ImportError('libfancy.so.3 is not there')",
}


def distribution(folder: Path, entry_points: str, module: str, source: str) -> str:
    """An installed distribution: entry points and a module in a folder for `sys.path`."""
    info = folder / "some_driver-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: some-driver\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entry_points)
    (folder / f"{module}.py").write_text(source)
    return str(folder)


def test_who_loads_what(tmp_path: Path):
    folders = {}
    for kind, source in DRIVERS.items():
        entry = "[torch_outboard.drivers]\nspare = a_driver\n"
        folders[kind] = distribution(tmp_path / kind, entry, "a_driver", source + "\n")
    shutil.copy(LIBRARY, tmp_path / "beside" / "libob_spare.so")
    load = "import torch\ndef load():\n    torch.utils.rename_privateuse1_backend('rival')\n"
    rival = distribution(
        tmp_path / "rival", "[torch.backends]\nrival = rival:load\n", "rival", load
    )
    cases = {
        "the program imports it": ("", "host", BY_THE_PROGRAM),
        "a rival holds the slot": ("", "", RIVAL_HOLDS_THE_SLOT),
        "a rival is installed": (rival, "", RIVAL_IS_INSTALLED),
        "beside CUDA": ("", "", BESIDE_CUDA),
        "beside CUDA, but named": ("", "host", BESIDE_CUDA),
        "a path": ("", str(tmp_path / "beside" / "libob_spare.so"), ON_ITS_DEVICE),
        "a library beside the module": (folders["beside"], "spare", ON_ITS_DEVICE),
        "a module that says where": (folders["library"], "spare", ON_ITS_DEVICE),
        "a module with a table": (folders["table"], "spare", ON_ITS_DEVICE),
        "a module that fails": (folders["broken"], "spare", AUTOLOADED + FIRST_USES),
        "host and not ocl": ("", "host", OTHER_DEVICE),
        "ocl and not host": ("", "ocl", OTHER_DEVICE),
        "a doctor for a driver that is not there": ("", "warp", AUTOLOADED + "said = []" + DOCTOR),
    }
    said = in_children(cases)
    words = said.pop("a module that fails")
    assert all("libfancy.so.3 is not there" in message for message in words), words
    (diagnosis,) = said.pop("a doctor for a driver that is not there")
    assert "no driver of that name is installed" in diagnosis
    for used, other in (("host", "ocl"), ("ocl", "host")):
        *sentences, of_the_parser = said.pop(f"{used} and not {other}")
        assert "at start of device string" in of_the_parser
        assert sentences[0].startswith(f"torch.{other} has no 'memory_allocated'")
        assert len(sentences) == 2
        for sentence in sentences:
            assert f"the device of this process is '{used}' and not '{other}'" in sentence
            assert f"device='{used}'" in sentence
            assert f"OUTBOARD_DRIVER={other}" in sentence
    assert said == {
        "the program imports it": 2.0,
        "a rival holds the slot": [True, True],
        "a rival is installed": "rival",
        "beside CUDA": "ocl",
        "beside CUDA, but named": "host",
        "a path": [False, False, "spare:0"],
        "a library beside the module": [False, False, "spare:0"],
        "a module that says where": [False, True, "spare:0"],
        "a module with a table": [False, True, "spare:0"],
    }


def in_children(cases: dict[str, tuple[str, str, str]]) -> dict[str, object]:
    """The output of each: a folder that comes first on the path, the driver's name, the program."""
    settings = {**CLEAN, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    printed = run_python(CHILDREN, str(ROOT), json.dumps(cases), **settings)
    outcomes = dict(json.loads(line) for line in printed.splitlines())
    wrong = {case: o for case, o in outcomes.items() if not o.startswith("returned ")}
    assert not wrong
    assert outcomes.keys() == cases.keys()
    return {case: json.loads(o.removeprefix("returned ")) for case, o in outcomes.items()}


def test_native_part_that_does_not_fit(tmp_path: Path):
    """Copies of the package: one that does not load, and one that was built for PyTorch 2.7."""
    broken, other = tmp_path / "broken", tmp_path / "other"
    ignored = shutil.ignore_patterns("*.so", "__pycache__")
    shutil.copytree(PACKAGE, broken / "torch_outboard", ignore=ignored)
    suffix = next(PACKAGE.glob("_C*.so")).name
    (broken / "torch_outboard" / suffix).write_bytes(b"built for another PyTorch")
    shutil.copytree(PACKAGE, other / "torch_outboard")
    (other / "torch_outboard" / "lib" / "torch_version.txt").write_text("2.7\n")
    said = in_children({
        "broken": (str(broken), "", AUTOLOADED + FIRST_USES + DEVICE_NAME),
        "other": (str(other), "", AUTOLOADED + FIRST_USES + NOT_LOADED + DOCTOR),
    })  # fmt: skip
    for message in (*said["broken"][:4], said["broken"][-1]):
        assert "the native part of torch_outboard does not load" in message
    sentence = (
        "The device 'ocl' cannot be used, because torch_outboard was built for PyTorch 2.7 and "
        f"this is PyTorch {torch.__version__}; install torch==2.7.* or build torch_outboard again "
        "with this one."
    )
    assert [message.partition("\n")[0] for message in said["other"][:4]] == [sentence] * 4
    assert len(said["other"]) == 6 + 6 + 1
    for message in said["other"][6:]:
        assert "torch_outboard was built for PyTorch 2.7" in message


def test_paths_exist():
    assert Path(torch_outboard.include_paths()[0], "outboard", "driver.h").exists()
    assert Path(torch_outboard.library_path()).exists()
    assert Path(torch_outboard.cmake_path(), "torch_outboardConfig.cmake").exists()
    assert torch_outboard.__version__
