"""The compiler is told of the device when it is imported, and not before."""

from __future__ import annotations

import pytest

import torch_outboard
from tests.support import run_python


def test_importing_pytorch_imports_no_compiler():
    run_python(
        """
        import sys
        import torch, torch_outboard
        torch_outboard.device_name()
        assert "torch._inductor.compile_fx" not in sys.modules
        assert "torch._dynamo.device_interface" not in sys.modules
        assert "torch_outboard.inductor.kernel" not in sys.modules
        """
    )


def test_the_packages_own_python_is_not_traced():
    from torch._dynamo import trace_rules

    from torch_outboard.ops import tables

    assert trace_rules.check_file(tables.__file__).skipped


def test_the_compiler_knows_the_device():
    from torch._dynamo.device_interface import get_interface_for_device
    from torch._inductor import compile_fx  # noqa: F401
    from torch._inductor.codegen import common

    name = torch_outboard.device_name()
    interface = get_interface_for_device(name)
    assert interface.is_available()
    assert interface.Worker.get_device_properties(0).multi_processor_count >= 1
    assert common.get_scheduling_for_device(name) is not None
    assert "DeviceGuard(0)" in common.get_device_op_overrides(name).device_guard(0)


@pytest.mark.slow
def test_a_pytorch_that_has_changed_is_told_of():
    run_python(
        """
        import sys, warnings
        import torch, torch_outboard
        sys.modules["torch_outboard.inductor.scheduling"] = None  # as if PyTorch lacked something
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            import torch._inductor.compile_fx
        (message,) = [str(w.message) for w in caught if "has no backend" in str(w.message)]
        assert "use PyTorch 2.13" in message
        x = torch.ones(3, device=torch_outboard.device_name())
        assert torch.compile(lambda x: x + 1, backend="aot_eager")(x).sum().item() == 6
        """
    )
