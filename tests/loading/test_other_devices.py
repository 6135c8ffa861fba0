"""What a program reads that wants a driver which is not the one in use."""

from __future__ import annotations

import pytest

from tests.support import run_python


@pytest.mark.parametrize(("used", "other"), [("host", "ocl"), ("ocl", "host")])
def test_the_driver_in_use_is_named(used, other):
    printed = run_python(
        """
        import sys, torch

        used, other = sys.argv[1:]
        module = getattr(torch, other)
        assert not module.is_available() and not module.is_initialized()
        assert module.device_count() == 0
        for ask in (lambda: module.memory_allocated(), lambda: module.init()):
            try:
                ask()
            except (AttributeError, RuntimeError) as error:
                print(error)
        assert not hasattr(module, "synchronize")
        # The parser of PyTorch has words of its own.
        try:
            torch.device(other)
        except RuntimeError as error:
            assert "at start of device string" in str(error)
        else:
            raise AssertionError("there are two devices")
        assert torch.accelerator.current_accelerator().type == used
        """,
        used,
        other,
        OUTBOARD_DRIVER=used,
    )
    lines = printed.splitlines()
    assert len(lines) == 2
    for line in lines:
        assert f"the device of this process is '{used}' and not '{other}'" in line
        assert f"device='{used}'" in line
        assert f"OUTBOARD_DRIVER={other}" in line
    assert lines[0].startswith(f"torch.{other} has no 'memory_allocated'")
