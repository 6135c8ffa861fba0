"""Changes by integrations, on small modules: as asked, and restored to the same objects."""

import os
import sys
import types

import pytest
import torch

from torch_outboard.integrations.library import Changes, CodeDiffers

SOURCE = """
import functools
DEFAULT = "cpu"
TABLE = {"cpu": 1}

def choose(device="auto"):
    return "cpu" if device == "auto" else device

def supports(name):
    return name in ("cuda", "xpu") or name in {"mps", "npu"}

class Helper:
    def __init__(self, device=None):
        self.device = device
"""


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    module = types.ModuleType("a_library")
    exec(SOURCE, vars(module))
    monkeypatch.setitem(sys.modules, "a_library", module)
    return module


@pytest.fixture
def copied(library, monkeypatch) -> types.ModuleType:
    """A module that has done `from a_library import choose as pick`."""
    module = types.ModuleType("b_library")
    module.pick = library.choose
    monkeypatch.setitem(sys.modules, "b_library", module)
    return module


def everything(module: types.ModuleType) -> dict[str, object]:
    """Attributes, and what of them may change in place."""
    found = {name: value for name, value in vars(module).items() if not name.startswith("__")}
    codes = {name: value.__code__ for name, value in found.items() if hasattr(value, "__code__")}
    found["Helper.__init__"] = vars(found["Helper"])["__init__"]
    return found | {f"code of {name}": code for name, code in codes.items()}


def test_everything_is_restored(device, library, copied, monkeypatch):
    monkeypatch.delenv("A_LIBRARY_DEVICE", raising=False)
    before, table = everything(library), dict(library.TABLE)
    pick = [copied.pick]
    changes = Changes()
    changes.replace_cpu(library, "choose", only_for="auto")
    changes.extend_constant(library.supports, ("cuda", "xpu"), device.type)
    changes.extend_constant(library.supports, ("mps",), device.type)
    changes.replace(library.Helper, "__init__", lambda before, self: before(self, "x"))
    changes.insert(library.TABLE, device.type, 2)
    changes.set(library, "DEFAULT", device.type)
    changes.insert(os.environ, "A_LIBRARY_DEVICE", device.type)

    assert library.choose() == device.type == copied.pick(device="auto")
    assert library.choose("cpu") == "cpu"
    assert library.supports(device.type)
    assert library.supports("xpu")
    assert not library.supports("vulkan")
    assert library.Helper().device == "x"
    assert library.DEFAULT == os.environ["A_LIBRARY_DEVICE"] == device.type
    # Later imports of the function get the new one, and are restored, too.
    copied.later = library.choose

    changes.close()
    after = everything(library)
    assert all(after[name] is value for name, value in before.items())
    assert table == library.TABLE
    assert copied.pick is pick[0]
    assert copied.later is pick[0]
    assert "A_LIBRARY_DEVICE" not in os.environ


def test_what_the_user_has_set_stays(device, library, monkeypatch):
    monkeypatch.setenv("A_LIBRARY_DEVICE", "mine")
    library.TABLE[device.type] = "mine"
    changes = Changes()
    changes.insert(os.environ, "A_LIBRARY_DEVICE", device.type)
    changes.insert(library.TABLE, device.type, 2)
    changes.close()
    assert os.environ["A_LIBRARY_DEVICE"] == library.TABLE[device.type] == "mine"


UNEXPECTED = (
    lambda changes, library: changes.replace(library, "gone", lambda before: before),
    lambda changes, library: changes.replace(library, "TABLE", lambda before: before),
    lambda changes, library: changes.replace(library.Helper, "gone", lambda before: before),
    lambda changes, library: changes.extend_constant(library.supports, ("hpu",), "x"),
    lambda changes, library: changes.extend_constant(print, ("cuda",), "x"),
    lambda changes, library: changes.set(library, "gone", "x"),
)


def test_unexpected_code(library):
    before = everything(library)
    for change in UNEXPECTED:
        with pytest.raises(CodeDiffers):
            change(Changes(), library)
        after = everything(library)
        assert all(after[name] is value for name, value in before.items())


def test_devices_instead_of_names(device, library):
    """A function that returns a `torch.device`, or another device than the CPU."""
    library.choose = lambda: torch.device("cpu")
    changes = Changes()
    changes.replace_cpu(library, "choose")
    assert library.choose() == torch.device(device.type)
    changes.close()
    library.choose = lambda: "meta"
    changes.replace_cpu(library, "choose")
    assert library.choose() == "meta"
