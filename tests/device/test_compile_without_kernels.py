"""torch.compile where graphs cannot become kernels of the device: tests/inductor has the rest."""

import pytest

from tests.support import run_python


@pytest.mark.by_turns(2)
def test_graphs_run_operator_by_operator_with_one_warning():
    """Where the host shares memory, they become C++ code: tests/inductor/test_host_code.py."""
    printed = run_python(
        """
        import warnings
        import torch
        import torch_outboard

        device = torch_outboard.device_name()
        x = torch.randn(5, 7, device=device, requires_grad=True)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for function in (lambda x: (x * 2).sin(), lambda x: x.softmax(-1) + 1):
                result = torch.compile(function)(x)
                torch.testing.assert_close(result.cpu(), function(x).cpu())
                result.sum().backward()
        print(sum("operator by operator" in str(warning.message) for warning in caught))
        """,
        OUTBOARD_PLACEMENT="host",
        OUTBOARD_HOST_ACCESS="separate",
    )
    assert printed.split() == ["1"]
