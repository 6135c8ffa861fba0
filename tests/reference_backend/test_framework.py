"""PyTorch's framework of tests for devices."""

import pytest
import torch
from torch.testing._internal import common_device_type
from torch.testing._internal.common_device_type import (
    instantiate_device_type_tests,
    onlyCUDA,
    onlyNativeDeviceTypes,
    onlyPRIVATEUSE1,
    skipCPUIf,
    skipPRIVATEUSE1If,
)
from torch.testing._internal.common_utils import TestCase

NAME = torch._C._get_privateuse1_backend_name()


class TestDecorators(TestCase):
    @skipCPUIf(True, "to see it skipped")
    @onlyNativeDeviceTypes
    def test_native(self, device):
        assert torch.testing.make_tensor(2, device=device, dtype=torch.float32).numel() == 2

    @onlyPRIVATEUSE1
    def test_privateuse1(self, device):
        assert torch.device(device).type == NAME

    @skipPRIVATEUSE1If(True, "to see it skipped")
    def test_left_out(self, device):
        assert torch.device(device).type != NAME


instantiate_device_type_tests(TestDecorators, globals())


def class_of(scope, name):
    """The class that the framework made of another one for this device."""
    names = {f"{name}{NAME.upper()}", f"{name}PRIVATEUSE1"} & scope.keys()
    assert len(names) == 1
    return scope[names.pop()]


def test_a_class_of_the_device_is_made():
    bases = common_device_type.get_device_type_test_bases()
    assert bases[-1].device_type in (NAME, "privateuse1")
    assert class_of(globals(), "TestDecorators").__name__.startswith("TestDecorators")


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
