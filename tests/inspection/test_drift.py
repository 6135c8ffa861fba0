"""Schemas of other versions of PyTorch, and what differences mean for what is registered."""

import re
from pathlib import Path

import pytest
import torch

from tests.support import ROOT
from tools.schema_changes import of_headers, text_of
from torch_outboard.commands import main
from torch_outboard.dispatch import dispatcher
from torch_outboard.inspection.drift import (
    BREAKS,
    CHANGES,
    FITS,
    NAMES,
    UNUSED,
    Registered,
    change_between,
    drift,
    installed_schemas,
    minor_of,
    read_changes,
    registered,
    schemas_of,
)

MINOR = minor_of(torch.__version__)


def test_headers_have_the_schemas_that_the_dispatcher_has():
    minor, found = of_headers(Path(torch.__file__).parent)
    assert minor == MINOR
    installed = installed_schemas()
    assert len(found) > 3000
    assert {name: installed.get(name) for name in found} == found
    with pytest.raises(ValueError, match="has no headers of PyTorch 2's operators"):
        of_headers(ROOT / "tests")


def test_the_list_of_changes_is_right_for_the_installed_version():
    installed = {name: s for name, s in installed_schemas().items() if name.startswith("aten::")}
    known = schemas_of(f"2.{MINOR}")
    assert {name: s for name, s in known.items() if name.startswith("aten::")} == installed
    for name, ranges in read_changes(CHANGES.read_text())[2].items():
        there = [s for (since, until), s in ranges.items() if since <= MINOR <= until]
        assert there == ([installed[name]] if name in installed else []), name


def test_changes_are_read_as_they_were_written():
    versions = {
        11: {"aten::a": "aten::a(int x) -> int", "aten::b": "aten::b() -> ()"},
        12: {"aten::a": "aten::a(int x) -> int", "aten::c": "aten::c() -> int"},
        13: {"aten::a": "aten::a(int y) -> int", "aten::c": "aten::c() -> int"},
    }
    first, last, changes = read_changes(text_of(versions))
    assert (first, last) == (11, 13)
    assert changes == {
        "aten::a": {(11, 12): "aten::a(int x) -> int", (13, 13): "aten::a(int y) -> int"},
        "aten::b": {(11, 11): "aten::b() -> ()"},
        "aten::c": {(12, 13): "aten::c() -> int"},
    }


def test_a_list_is_this_version(tmp_path, capsys):
    file = tmp_path / "here.csv"
    assert main(["operators", "", "--csv"]) == 0
    file.write_text(capsys.readouterr().out)
    assert schemas_of(str(file)) == installed_schemas()
    assert main(["operators", "--against", str(file)]) == 0
    assert capsys.readouterr().out.endswith("\n0 differences: none\n")


def test_what_is_no_source_of_schemas_is_a_sentence(capsys):
    for source, words in (
        ("2.9", "schemas of PyTorch 2.9 were asked for from 2."),
        ("no_such_file", "'no_such_file' is neither a version nor a readable file"),
        (str(ROOT / "setup.py"), "holds no schemas; `operators '' --csv` writes them"),
    ):
        assert main(["operators", "--against", source]) == 1
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
        ("f(Tensor x, int n=1) -> Tensor", "f(Tensor x) -> Tensor", "signature"),
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
    found = drift([Registered(name, "kit", form) for name in here], here, there)
    assert {d.operator[6:]: d.verdict for d in found if d.by} == verdicts
    assert [d.operator for d in found if d.change == "added"] == ["aten::new"]


def test_what_is_registered():
    found = {(kernel.name, kernel.form) for kernel in registered()}
    assert found >= {("aten::mul.Tensor", "typed"), ("aten::gather", "table")}
    # Operators of extensions are not compared, and one without a definition is no obstacle.
    kernels = [Registered("mylib::f", "extension", "boxed")]
    assert drift(kernels, {"mylib::f": "mylib::f() -> int"}, {"prim::a": "prim::a() -> int"}) == []
    with torch.library._scoped_library("nowhere_tests", "IMPL") as library:
        library.impl("nothing", lambda x: x, "PrivateUse1")
        assert "nowhere_tests::nothing" in dispatcher.names_without_schema()
        assert registered()


def test_the_kit_fits_every_supported_version(capsys):
    first, last, _ = read_changes(CHANGES.read_text())
    text = (ROOT / "csrc" / "torch_version.h").read_text()
    assert re.findall(r"OUTBOARD_TORCH_\w+_MINOR (\d+)", text) == [str(first), str(last)]
    for minor in range(first, last + 1):
        assert main(["operators", "--against", f"2.{minor}"]) == 0, capsys.readouterr().out
