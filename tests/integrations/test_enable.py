"""The libraries that are changed, and when, on a package made for it.

With the libraries themselves: tests/libraries.
"""

import importlib
import sys
import warnings
from pathlib import Path

import pytest

from torch_outboard import integrations
from torch_outboard.integrations.libraries import LIBRARIES
from torch_outboard.integrations.library import Feature, Library

NAME = "a_made_library"


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A package of two modules, one a copy of the other's function, and its integration."""
    package = tmp_path / NAME
    package.mkdir()
    (package / "__init__.py").write_text("from .devices import choose\n")
    (package / "devices.py").write_text("def choose():\n    return 'cpu'\n")
    (package / "lists.py").write_text("def supports(name):\n    return name in ('cuda', 'xpu')\n")
    monkeypatch.syspath_prepend(tmp_path)
    choose = Feature(
        "the default device",
        f"{NAME}.devices",
        lambda module, changes: changes.replace_cpu(module, "choose"),
    )
    lists = Feature(
        "the list",
        f"{NAME}.lists",
        lambda module, changes: changes.extend_constant(module.supports, ("cuda",), "it"),
    )
    made = Library(NAME, "1.0", (choose, lists))
    monkeypatch.setitem(LIBRARIES, NAME, made)
    yield made
    integrations.disable(NAME)
    for name in [name for name in sys.modules if name.partition(".")[0] == NAME]:
        del sys.modules[name]


def states(report: integrations.Report) -> dict[str, str]:
    return {row.name: row.state for row in report}


def test_enabled_when_imported(device, library):
    assert states(integrations.enable(NAME)) == {NAME: "enabled when imported"}
    assert NAME not in sys.modules
    module = importlib.import_module(NAME)
    assert module.choose() == device.type
    assert states(integrations.report())[NAME] == "enabled when imported"
    lists = importlib.import_module(f"{NAME}.lists")
    assert lists.supports("it")
    assert states(integrations.report())[NAME] == "enabled"
    assert states(integrations.disable(NAME)) == {NAME: "unchanged"}
    assert module.choose() == "cpu"
    assert not lists.supports("it")


def test_enabled_after_the_import(device, library):
    module = importlib.import_module(NAME)
    lists = importlib.import_module(f"{NAME}.lists")
    assert states(integrations.enable(NAME)) == {NAME: "enabled"}
    changed = [module.choose]
    integrations.enable(NAME)
    assert module.choose is changed[0]
    assert lists.supports("it")


def test_disabled_before_the_import(device, library):
    integrations.enable(NAME)
    integrations.disable(NAME)
    assert importlib.import_module(NAME).choose() == "cpu"


CHANGED = "def supports(name):\n    return name == 'cuda'\n"


@pytest.mark.parametrize(
    ("text", "imported"), [("", True), (CHANGED, True), (CHANGED, False), (None, False)]
)
def test_code_that_differs(device, library, tmp_path, text, imported):
    """One warning that names it, nothing changed there, and the other features as without it."""
    path = tmp_path / NAME / "lists.py"
    path.unlink() if text is None else path.write_text(text)
    importlib.invalidate_caches()

    def use():
        module = importlib.import_module(NAME)
        if text is not None:
            importlib.import_module(f"{NAME}.lists")
        return module

    if imported:
        use()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        integrations.enable(NAME)
        module = use()
        integrations.enable(NAME)
    assert [f"the list of {NAME} stays without the device" in str(w.message) for w in seen] == [
        True
    ]
    assert states(integrations.report())[NAME] == "code differs"
    assert module.choose() == device.type
    if text:
        assert not sys.modules[f"{NAME}.lists"].supports("it")


def test_no_half_changes(device, library, monkeypatch):
    """Of a feature, whose second change fails, the first is undone."""

    def twice(module, changes):
        changes.replace_cpu(module, "choose")
        raise KeyError("something else")

    monkeypatch.setattr(library.features[0], "change", twice)
    integrations.enable(NAME)
    with pytest.warns(UserWarning, match="something else"):
        module = importlib.import_module(NAME)
    assert module.choose() == "cpu"


def test_an_import_that_fails_is_tried_again(device, library, tmp_path):
    integrations.enable(NAME)
    path = tmp_path / NAME / "devices.py"
    text = path.read_text()
    path.write_text("raise RuntimeError('broken')")
    with pytest.raises(RuntimeError, match="broken"):
        importlib.import_module(NAME)
    path.write_text(text)
    importlib.invalidate_caches()
    assert importlib.import_module(NAME).choose() == device.type


def test_libraries_that_are_not_installed(device, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report = integrations.enable()
    assert {row.state for row in report} == {"not installed"}
    assert {row.name for row in report} == set(LIBRARIES)
    assert not integrations.report()
    # transformers asks accelerate for its device.
    enabled = integrations.enable("transformers")
    assert [row.name for row in enabled] == ["accelerate", "transformers"]
    header, line, *_ = (line.split() for line in str(enabled).splitlines())
    assert header == ["library", "version", "tried", "with", "state"]
    assert line[0] == "accelerate"
    assert line[-2:] == ["not", "installed"]


def test_unknown_names(device):
    for call in (integrations.enable, integrations.disable):
        with pytest.raises(ValueError, match="no integration of 'nothing'; there are 'accelerate'"):
            call("nothing")


def test_every_file_names_what_exists():
    for name, library in LIBRARIES.items():
        assert name == library.name
        assert library.tried
        assert library.features
        assert set(library.needs) < set(LIBRARIES)
