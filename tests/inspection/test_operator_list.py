"""What is said of operators: whether a device needs a kernel, and what runs them."""

from __future__ import annotations

import pytest
import torch

import torch_outboard
from tests.support import run_python
from torch_outboard.inspection import dispatcher, native_functions
from torch_outboard.inspection.operator_list import overload, overloads

pytestmark = pytest.mark.by_turns(2)


@pytest.fixture(scope="module")
def listed():
    return {line.operator: line for line in overloads()}


@pytest.mark.parametrize(
    ("name", "needs", "composite", "structured"),
    [
        ("aten::add.Tensor", "out", "nonfunctional", "aten::add.out"),
        ("aten::add.out", "kernel", "", "aten::add.out"),
        ("aten::relu", "kernel", "", ""),
        ("aten::linear", "no", "implicit", ""),
        ("aten::add.Scalar", "no", "explicit", ""),
        ("aten::empty.memory_format", "kernel", "", ""),
        ("aten::_coalesce", "other", "", ""),
    ],
)
def test_what_a_device_must_bring(name, needs, composite, structured):
    line = overload(name)
    assert (line.needs, line.composite, line.structured) == (needs, composite, structured)


def test_every_overload_with_a_schema_is_listed(listed):
    names = torch._C._dispatch_get_all_op_names()
    assert set(listed) == {name for name in names if dispatcher.schema_of(name) is not None}
    # Of other namespaces, tests in the same process define some and take them back.
    own = {name: line.schema for name, line in listed.items() if name.startswith("aten::")}
    assert [name for name, schema in own.items() if not schema.startswith(name + "(")] == []


def test_composite_operators_run_on_a_device_without_a_kernel_and_others_do_not(listed):
    """By what PyTorch itself would do at the key of a device that nobody has registered for."""
    for name, line in listed.items():
        entry = dispatcher.entries(name).get("PrivateUse2")
        runs = entry is not None and not entry.fallthrough
        assert runs == (line.needs in ("no", "out")), name


def test_nothing_that_needs_a_kernel_is_without_one(listed):
    lacking = [
        name
        for name, line in listed.items()
        if name.startswith("aten::") and line.needs != "other" and line.runs == "nothing"
    ]
    assert lacking == []


def test_functional_forms_of_structured_operators_name_their_group(listed):
    assert native_functions.path() is not None
    forms = [line for line in listed.values() if line.needs == "out"]
    assert len(forms) > 300
    for line in forms:
        group = listed[line.structured]
        # From 2.15 on there are some that a vendor's library alone has, and CPU has not.
        on_cpu = torch._C._dispatch_has_kernel_for_dispatch_key(group.operator, "CPU")
        assert group.needs == ("kernel" if on_cpu else "other"), line.operator
        assert group.structured == group.operator


def test_without_a_list_of_operators_there_are_no_groups(monkeypatch):
    monkeypatch.setattr(native_functions, "path", lambda: None)
    native_functions.structured_groups.cache_clear()
    try:
        assert overload("aten::add.Tensor").structured == ""
        assert overload("aten::add.Tensor").needs == "out"
    finally:
        native_functions.structured_groups.cache_clear()


def test_what_runs_an_operator():
    assert (overload("aten::abs.out").stub, overload("aten::linear").stub) == ("abs_stub", "")
    assert overload("aten::view").runs == "own code"
    assert (overload("aten::linear").runs, overload("aten::linear").by) == ("composite", "PyTorch")
    assert overload("aten::cholesky_solve").by == "PyTorch"


def test_kernels_of_users_are_seen_and_gone_when_removed():
    before = overload("aten::erfinv")
    assert before.by == "kit"
    with torch_outboard.kernel("aten::erfinv")(lambda self: self):
        line = overload("aten::erfinv")
        assert (line.runs, line.by) == ("own code", "user")
        assert "test_operator_list.py:" in line.file
    assert overload("aten::erfinv") == before


def test_registrations_with_the_dispatcher_are_an_extensions():
    printed = run_python(
        """
        import torch, torch_outboard
        from torch_outboard.inspection.operator_list import overload

        library = torch.library.Library("probe", "DEF")
        library.define("own(Tensor x) -> Tensor")
        library.define("without(Tensor x) -> Tensor")
        library.impl("own", lambda x: x, "PrivateUse1")
        own, without = overload("probe::own"), overload("probe::without")
        print(own.needs, own.runs, own.by, own.file.rpartition(":")[0])
        print(without.needs, without.runs)
        """
    )
    first, second = printed.splitlines()
    assert first.startswith("other own code extension ")
    assert second == "other nothing"
