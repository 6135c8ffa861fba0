"""Schemas of other versions of PyTorch, and what differences mean for what is registered."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from torch_outboard.commands.main import main
from torch_outboard.inspection import dispatcher, schemas
from torch_outboard.inspection.schema_drift import (
    BREAKS,
    FITS,
    NAMES,
    UNUSED,
    Registered,
    change_between,
    drift,
    registered,
)

ROOT = Path(__file__).resolve().parent.parent.parent
HEADERS = Path(torch.__file__).parent
OWN = ".".join(str(torch.__version__).split(".")[:2])


def test_headers_have_the_schemas_that_the_dispatcher_has():
    version, found = schemas.schemas_of(str(HEADERS))
    assert version == str(torch.__version__).partition("+")[0]
    installed = schemas.installed()
    assert len(found) > 3000
    assert {name: installed.get(name) for name in found} == found


def test_the_list_of_changes_is_right_for_the_installed_version():
    installed = {name: s for name, s in schemas.installed().items() if name.startswith("aten::")}
    known = schemas.of_version(OWN)
    assert {name: s for name, s in known.items() if name.startswith("aten::")} == installed
    _, _, changes = schemas.read_changes(schemas.CHANGES.read_text())
    here = schemas.minor_of(OWN)
    for name, ranges in changes.items():
        there = [s for (since, until), s in ranges.items() if since <= here <= until]
        assert there == ([installed[name]] if name in installed else []), name


def test_changes_are_read_as_they_were_written():
    versions = {
        11: {"aten::a": "aten::a(int x) -> int", "aten::b": "aten::b() -> ()"},
        12: {"aten::a": "aten::a(int x) -> int", "aten::c": "aten::c() -> int"},
        13: {"aten::a": "aten::a(int y) -> int", "aten::c": "aten::c() -> int"},
    }
    first, last, changes = schemas.read_changes(schemas.write_changes(versions))
    assert (first, last) == (11, 13)
    assert changes == {
        "aten::a": {(11, 12): "aten::a(int x) -> int", (13, 13): "aten::a(int y) -> int"},
        "aten::b": {(11, 11): "aten::b() -> ()"},
        "aten::c": {(12, 13): "aten::c() -> int"},
    }


def test_a_saved_file_is_this_version(tmp_path, capsys):
    file = tmp_path / "schemas.json"
    assert main(["schemas", "--save", str(file)]) == 0
    assert schemas.schemas_of(str(file)) == (str(torch.__version__), schemas.installed())
    assert main(["schemas", "--against", str(file), "--all"]) == 0
    assert "0 would never be called" in capsys.readouterr().out


def test_what_is_no_source_of_schemas_is_a_sentence(capsys):
    for source, words in (
        ("2.9", "are known, and 2.9 was asked for"),
        ("no_such_file", "there is no version and no file 'no_such_file'"),
        (str(ROOT / "setup.py"), "holds no schemas; write it with `schemas --save`"),
        (str(ROOT / "tests"), "is no folder of PyTorch"),
    ):
        with pytest.raises(schemas.UnknownVersion, match=re.escape(words)):
            schemas.schemas_of(source)
    assert main(["schemas", "--against", source]) == 1
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        ("f(Tensor x) -> Tensor", "f(Tensor x) -> Tensor", ""),
        ("", "f(Tensor x) -> Tensor", "added"),
        ("f(Tensor x) -> Tensor", "", "removed"),
        ("f(Tensor x) -> Tensor", "f(Tensor y) -> Tensor", "renamed"),
        ("f(Tensor x, int n=1) -> Tensor", "f(Tensor x, int n=2) -> Tensor", "renamed"),
        ("f(Tensor x) -> Tensor", "f(Tensor x, int n=1) -> Tensor", "extended"),
        ("f(Tensor x) -> Tensor", "f(Tensor x, int n) -> Tensor", "signature"),
        ("f(Tensor x) -> Tensor", "f(Tensor? x) -> Tensor", "signature"),
        ("f(Tensor x) -> Tensor", "f(Tensor x) -> (Tensor, Tensor)", "signature"),
        ("f(Tensor x) -> Tensor", "f(Gone x) -> Tensor", "signature"),
    ],
)
def test_what_became_of_a_schema(before, after, change):
    spaced = (f"aten::{text}" if text else "" for text in (before, after))
    assert change_between(*spaced) == change


@pytest.mark.parametrize(
    ("form", "verdicts"),
    [
        ("typed", {"r": UNUSED, "n": FITS, "e": BREAKS, "s": BREAKS}),
        ("boxed", {"r": UNUSED, "n": FITS, "e": FITS, "s": BREAKS}),
        ("table", {"r": UNUSED, "n": NAMES, "e": FITS, "s": BREAKS}),
        ("router", {"r": FITS, "n": FITS, "e": FITS, "s": FITS}),
    ],
)
def test_what_that_means_for_a_kernel(form, verdicts):
    here = {f"aten::{name}": f"aten::{name}(Tensor x) -> Tensor" for name in "rnes"}
    there = {
        "aten::n": "aten::n(Tensor y) -> Tensor",
        "aten::e": "aten::e(Tensor x, int n=1) -> Tensor",
        "aten::s": "aten::s(int x) -> Tensor",
        "aten::new": "aten::new() -> int",
    }
    kernels = [Registered(name, "kit", form) for name in here]
    found = drift(kernels, here, there)
    assert {d.name[6:]: d.verdict for d in found if d.by} == verdicts
    assert [d.name for d in found if d.change == "added"] == ["aten::new"]


def test_what_is_registered():
    found = {(kernel.name, kernel.form) for kernel in registered()}
    assert found >= {
        ("aten::mul.Tensor", "typed"),
        ("aten::gather", "router"),
        ("aten::gather", "table"),
    }
    # Operators of extensions are not compared, and one without a definition is no obstacle.
    kernels = [Registered("mylib::f", "extension", "boxed")]
    assert drift(kernels, {"mylib::f": "mylib::f() -> int"}, {"prim::a": "prim::a() -> int"}) == []
    with torch.library._scoped_library("nowhere_tests", "IMPL") as library:
        library.impl("nothing", lambda x: x, "PrivateUse1")
        assert "nowhere_tests::nothing" in dispatcher.names_without_schema()
        assert registered()


def test_the_kit_fits_every_supported_version(capsys):
    first, last, _ = schemas.read_changes(schemas.CHANGES.read_text())
    text = (ROOT / "csrc" / "torch_version.h").read_text()
    assert re.findall(r"OUTBOARD_TORCH_\w+_MINOR (\d+)", text) == [str(first), str(last)]
    for minor in range(first, last + 1):
        assert main(["schemas", "--against", f"2.{minor}"]) == 0, capsys.readouterr().out
