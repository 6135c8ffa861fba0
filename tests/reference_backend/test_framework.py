"""PyTorch's framework of tests for devices, and its database of operators."""

from __future__ import annotations

import pytest
import torch
from torch.testing._internal import common_device_type, common_methods_invocations
from torch.testing._internal.common_device_type import (
    instantiate_device_type_tests,
    onlyCPU,
    onlyCUDA,
    onlyNativeDeviceTypes,
    onlyPRIVATEUSE1,
    ops,
    skipCPUIf,
    skipPRIVATEUSE1If,
)
from torch.testing._internal.common_utils import TestCase, first_sample

NAME = torch._C._get_privateuse1_backend_name()
OPERATORS = [
    entry
    for entry in common_methods_invocations.op_db
    if entry.name in {"add", "mul", "empty", "zeros", "ones"}
]


class TestDecorators(TestCase):
    @onlyCPU
    def test_cpu(self, device):
        assert device == "cpu"

    @onlyCUDA
    def test_cuda(self, device):
        assert "cuda" in device

    @skipCPUIf(True, "to see it skipped")
    def test_elsewhere(self, device):
        assert torch.device(device).type == NAME

    @onlyNativeDeviceTypes
    def test_native(self, device):
        assert torch.testing.make_tensor(2, device=device, dtype=torch.float32).numel() == 2

    @onlyPRIVATEUSE1
    def test_privateuse1(self, device):
        assert torch.device(device).type == NAME

    @skipPRIVATEUSE1If(True, "to see it skipped")
    def test_left_out(self, device):
        assert torch.device(device).type != NAME


class TestOperators(TestCase):
    @ops(OPERATORS, allowed_dtypes=(torch.float32, torch.float16))
    def test_results_are_on_the_device(self, device, dtype, op):
        sample = first_sample(self, op.sample_inputs(device, dtype))
        assert op(sample.input, *sample.args, **sample.kwargs).device.type == NAME


instantiate_device_type_tests(TestDecorators, globals())
instantiate_device_type_tests(TestOperators, globals(), only_for=(NAME,))


def class_of(scope, name):
    """The class that the framework made of another one for this device."""
    names = {f"{name}{NAME.upper()}", f"{name}PRIVATEUSE1"} & scope.keys()
    assert len(names) == 1
    return scope[names.pop()]


def test_classes_of_the_device_are_made():
    bases = common_device_type.get_device_type_test_bases()
    assert bases[-1].device_type in (NAME, "privateuse1")
    for name in ("TestDecorators", "TestOperators"):
        assert class_of(globals(), name).__name__.startswith(name)


@pytest.mark.skipif(
    not hasattr(common_device_type.PrivateUse1TestBase, "bypass_device_restrictions"),
    reason="this PyTorch does not let other devices run tests of CUDA",
)
def test_tests_of_cuda_can_be_opted_into():
    ran = []

    class TestBypass(TestCase):
        def setUp(self):
            self.bypass_device_restrictions = True
            super().setUp()

        @onlyCUDA
        def test_cuda(self, device):
            ran.append(torch.device(device).type)

    scope = {"__name__": __name__, "TestBypass": TestBypass}
    instantiate_device_type_tests(TestBypass, scope, only_for=(NAME,))
    made = class_of(scope, "TestBypass")
    names = [name for name in dir(made) if name.startswith("test_cuda")]
    made.setUpClass()
    made(*names).debug()
    assert ran == [NAME]
