"""The compiler is told of the device when it is imported, and not before."""

import atexit
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

import torch_outboard
from tests.support import run_python
from torch_outboard.inductor import registration


@pytest.mark.by_turns(2)
def test_importing_pytorch_imports_no_compiler(tmp_path: Path):
    """The compiler is told when it is imported, and uses no cache folder that others can write."""
    tmp_path.chmod(0o777)
    folder = run_python(
        """
        import sys
        import torch, torch_outboard
        torch_outboard.device_name()
        assert "torch._inductor.compile_fx" not in sys.modules
        assert "torch._dynamo.device_interface" not in sys.modules
        assert "torch_outboard.inductor.kernel" not in sys.modules
        import torch._inductor.compile_fx
        from torch._inductor.runtime.cache_dir_utils import cache_dir
        print(cache_dir())
        """,
        TORCHINDUCTOR_CACHE_DIR=str(tmp_path),
    )
    assert folder.strip() != str(tmp_path)


@pytest.mark.parametrize("named", [True, False])
def test_cache_folders(named: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """One that others can write to is not used, unless the user says that they may."""
    import getpass

    at_exit: list[Callable[[], object]] = []
    monkeypatch.setattr(atexit, "register", lambda f, *args: at_exit.append(lambda: f(*args)))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = tmp_path / (
        "inductor" if named else f"torchinductor_{getpass.getuser().replace('/', '_')}"
    )

    def used() -> str:
        # As it was before, also where another folder was named instead.
        monkeypatch.delenv(registration.CACHE_VARIABLE, raising=False)
        if named:
            monkeypatch.setenv(registration.CACHE_VARIABLE, str(folder))
        registration.avoid_folder_of_others()
        return os.environ.get(registration.CACHE_VARIABLE, str(folder))

    assert used() == str(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o777)
    with pytest.warns(
        UserWarning, match=f"compiled graphs are not cached.* {folder} can be written"
    ):
        private = used()
    assert private != str(folder)
    assert Path(private).parent == tmp_path
    assert Path(private).stat().st_mode & 0o777 == 0o700
    at_exit.pop()()
    assert not Path(private).exists()
    monkeypatch.setenv("OUTBOARD_CACHE_SHARED", "1")
    assert used() == str(folder)


def test_the_packages_own_python_is_not_traced():
    from torch._dynamo import trace_rules

    from torch_outboard.ops import tables

    assert trace_rules.check_file(tables.__file__).skipped


def test_the_compiler_knows_the_device():
    from torch._dynamo.device_interface import get_interface_for_device
    from torch._inductor import compile_fx  # noqa: F401
    from torch._inductor.codegen import common

    name = torch_outboard.device_name()
    assert get_interface_for_device(name).Worker.get_device_properties(0).multi_processor_count >= 1
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
