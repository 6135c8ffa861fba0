"""The list of operators: the need for a kernel, and the code that runs them."""

import re
from pathlib import Path

import pytest
import torch
import torchgen

import torch_outboard
from tests.support import run_python
from torch_outboard.dispatch import dispatcher
from torch_outboard.inspection.operator_list import overloads

pytestmark = pytest.mark.by_turns(2)


@pytest.fixture(scope="module")
def listed():
    return {line.operator: line for line in overloads()}


def line(name):
    (found,) = overloads(f"^{name}$")
    return found


def test_what_a_device_must_bring(listed):
    for name, needs, composite, structured in (
        ("aten::add.Tensor", "out", "nonfunctional", "aten::add.out"),
        ("aten::add.out", "kernel", "", "aten::add.out"),
        ("aten::relu", "kernel", "", ""),
        ("aten::linear", "no", "implicit", ""),
        ("aten::add.Scalar", "no", "explicit", ""),
        ("aten::empty.memory_format", "kernel", "", ""),
        ("aten::_coalesce", "other", "", ""),
    ):
        found = listed[name]
        assert (found.needs, found.composite, found.structured) == (needs, composite, structured)


def test_every_overload_with_a_schema_is_listed(listed):
    names = torch._C._dispatch_get_all_op_names()
    assert set(listed) == {name for name in names if dispatcher.schema_of(name) is not None}
    # Of other namespaces, tests in the same process define and remove some.
    own = {name: line.schema for name, line in listed.items() if name.startswith("aten::")}
    assert [name for name, schema in own.items() if not schema.startswith(name + "(")] == []


def test_composite_operators_run_on_a_device_without_a_kernel_and_others_do_not(listed):
    """By what PyTorch itself would do at the key of a device without registrations."""
    for name, line in listed.items():
        entry = dispatcher.entries(name).get("PrivateUse2")
        runs = entry is not None and not entry.fallthrough
        assert runs == (line.needs in ("no", "out")), name


def test_nothing_that_needs_a_kernel_is_without_one(listed):
    own = {name: line for name, line in listed.items() if name.startswith("aten::")}
    assert [n for n, o in own.items() if o.needs != "other" and o.runs == "nothing"] == []


def test_structured_operators_are_those_of_pytorchs_own_list(listed):
    file = Path(torchgen.__file__).parent / "packaged" / "ATen" / "native" / "native_functions.yaml"
    groups = {}
    for text in re.split(r"^- func: ", file.read_text(), flags=re.M)[1:]:
        if match := re.search(r"^  structured_delegate: ([\w.]+)", text, re.M):
            groups["aten::" + text.partition("(")[0]] = f"aten::{match[1]}"
    # Of some, even the out= form is composite.
    expected = {name: out for name, out in groups.items() if not listed[out].composite}
    assert len(expected) > 300
    assert {n: o.structured for n, o in listed.items() if o.needs == "out"} == expected
    assert {out: listed[out].structured for out in expected.values()} == {
        out: out for out in expected.values()
    }


def test_what_runs_an_operator(listed):
    assert listed["aten::view"].runs == "own code"
    for name in ("aten::linear", "aten::cholesky_solve"):
        assert (listed[name].runs, listed[name].by) == ("composite", "PyTorch")


def test_kernels_of_users_are_seen_and_gone_when_removed():
    before = line("aten::erfinv")
    with torch_outboard.kernel("aten::erfinv")(lambda self: self):
        found = line("aten::erfinv")
        assert (found.runs, found.by) == ("own code", "user")
        assert "test_operator_list.py:" in found.file
    assert line("aten::erfinv") == before


def test_registrations_with_the_dispatcher_are_an_extensions():
    printed = run_python(
        """
        import torch, torch_outboard
        from torch_outboard.inspection.operator_list import overloads

        library = torch.library.Library("probe", "DEF")
        library.define("own(Tensor x) -> Tensor")
        library.define("without(Tensor x) -> Tensor")
        library.impl("own", lambda x: x, "PrivateUse1")
        own, without = overloads("^probe::")
        print(own.needs, own.runs, own.by, own.file.rpartition(":")[0])
        print(without.needs, without.runs)
        """
    )
    first, second = printed.splitlines()
    assert first.startswith("other own code extension ")
    assert second == "other nothing"
