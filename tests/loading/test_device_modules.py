"""The device module is imported when a program first reads one of its names."""

import pytest

from tests.support import in_threads, run_python
from torch_outboard.loading.activation import DeferredModule

STATE = "read below"


def test_import_torch_leaves_the_device_module_out() -> None:
    run_python(
        """
        import sys
        import torch
        import torch_outboard

        deferred = "torch_outboard.device.device_module"
        name = torch_outboard.device_name()
        module = getattr(torch, name)
        assert deferred not in sys.modules
        assert not hasattr(module, "__path__")
        assert deferred not in sys.modules
        assert module.device_count() > 0
        assert deferred in sys.modules
        assert type(module) is type(sys)
        # Modules below it can be imported.
        scope = {}
        exec(f"from torch.{name}.memory import memory_allocated as found", scope)
        exec(f"import torch.{name}.random as module", scope)
        assert scope["found"] is module.memory_allocated
        assert scope["module"] is module.random
        """,
        fresh=True,
    )


def test_names_are_those_of_the_module() -> None:
    import tests.loading.test_device_modules as itself

    module = DeferredModule(itself.__name__)
    module.STATE = "set before"  # type: ignore[attr-defined]
    assert dir(module) == dir(itself)
    assert module.DeferredModule is DeferredModule
    assert module.STATE == "set before"
    assert module.__doc__ == itself.__doc__
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = module.nothing


def test_threads_may_read_at_once() -> None:
    for _ in range(50):
        module = DeferredModule("tests.loading.test_device_modules")
        found = in_threads(lambda _, module=module: module.DeferredModule, 4)
        assert found == [DeferredModule] * 4
