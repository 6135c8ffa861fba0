"""Wrong indices, kernels that do not compile, broken caches, two who compile the same at once."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from unittest import mock

import pytest
import torch

from tests.support import SLOWNESS, run_python, try_python
from torch_outboard import _C

pytestmark = pytest.mark.by_turns(2)

needs_kernels = pytest.mark.skipif(
    not _C.runs_code(0), reason="graphs become kernels where the device has a compiler"
)


@needs_kernels
def test_a_wrong_index_is_raised_by_the_next_wait(device: torch.device):
    compiled = torch.compile(lambda x, i: x[i] * 2)
    x = torch.randn(5, device=device)
    compiled(x, torch.tensor([1, 9], device=device))
    with pytest.raises(IndexError, match="index out of range in a compiled graph"):
        torch.accelerator.synchronize()
    got = compiled(x, torch.tensor([1, 2], device=device))
    torch.testing.assert_close(got, x[[1, 2]] * 2)


@needs_kernels
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_integers_divided_by_zero_are_raised_by_the_next_wait(device: torch.device, dtype):
    """In vectors, in their rest, in sums, and not where padding has nothing to divide."""

    def function(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        padded = torch.nn.functional.pad(x // y, (3, 3))
        return padded, torch.cat([x % y, y]), (x[None] // y[:, None]).sum(1), x // 3

    compiled = torch.compile(function)
    x, y = torch.arange(1, 38, dtype=dtype), torch.arange(37, 0, -1, dtype=dtype)
    for index in (0, 36):
        wrong = y.clone()
        wrong[index] = 0
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            compiled(x.to(device), wrong.to(device))[0].cpu()
        for got, want in zip(compiled(x.to(device), y.to(device)), function(x, y), strict=True):
            torch.testing.assert_close(got.cpu(), want)


@needs_kernels
def test_an_assertion_that_fails_is_raised_by_the_next_wait(device: torch.device):
    """With its own words, and as the error that it is in eager mode."""

    def function(x: torch.Tensor) -> torch.Tensor:
        torch._assert_async((x > 0).all(), "not above 0")
        y = x.sin()
        torch._assert_async((y.sum() < 100), "too much")
        return y * 2

    compiled = torch.compile(function)
    good, negative, long = torch.ones(3), -torch.ones(3), torch.ones(300)
    for x, message in ((negative, "not above 0"), (long, "too much")):
        with pytest.raises(RuntimeError, match=f"{message}, which ran on") as raised:
            compiled(x.to(device)).cpu()
        assert not isinstance(raised.value, IndexError)
        torch.testing.assert_close(compiled(good.to(device)).cpu(), function(good))


@needs_kernels
def test_a_kernel_that_does_not_compile_is_named(device: torch.device):
    from torch_outboard.inductor.overrides import OpenCLOverrides

    def layer(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        return y.sin() + 1

    def broken(value: object) -> str:
        return f"no_such_function({value})"

    x = torch.ones(3, device=device)
    with mock.patch.object(OpenCLOverrides, "sin", staticmethod(broken)):
        with pytest.raises(RuntimeError, match="no_such_function") as raised:
            torch.compile(layer)(x)
        message = str(raised.value)
        assert "kernel_0 of the compiled graph computes" in message
        assert "sin (" in message
        assert "return y.sin() + 1" in message
        torch.compiler.reset()
        with torch._dynamo.config.patch(suppress_errors=True):
            torch.testing.assert_close(torch.compile(layer)(x), layer(x))


def test_memory_for_generated_code(device: torch.device):
    """Its code is right; a wrong one must not end the process."""
    made = _C.empty_strided(device.index, (2, 3), (1, 2), torch.float64)
    assert (made.shape, made.stride()) == ((2, 3), (1, 2))
    assert (made.dtype, made.device) == (torch.float64, device)
    for given, error, words in (
        ((0, (2,), (1,)), TypeError, "a device's index, sizes, strides and a dtype"),
        ((0, [2], (1,), torch.float32), TypeError, "tuples of ints"),
        ((0, ("a",), (1,), torch.float32), TypeError, "cannot be interpreted as an integer"),
        ((-1, (2,), (1,), torch.float32), RuntimeError, "device index -1"),
        ((1 << 70, (2,), (1,), torch.float32), ValueError, "Overflow"),
        ((0, (-2,), (1,), torch.float32), RuntimeError, "negative dimension"),
        ((0, (2,), (1, 2), torch.float32), RuntimeError, "must match dimensionality"),
        ((0, (1 << 62,), (1,), torch.float32), RuntimeError, "overflow"),
    ):
        with pytest.raises(error, match=words):
            _C.empty_strided(*given)


LOST = """
    import sys, torch, torch_outboard
    from torch_outboard.drivers import faults
    x = torch.ones(4, 5, device=torch_outboard.device_name())
    compiled = torch.compile(lambda x: x.sin() + 1, mode=sys.argv[1])
    for _ in range(3):
        compiled(x)
    torch.accelerator.synchronize()
    faults.lose(0)
    for _ in range(2):
        try:
            compiled(x)
            torch.accelerator.synchronize()
        except torch.AcceleratorError as error:
            print(str(error).splitlines()[0])
"""


@pytest.mark.parametrize(
    "mode", ["default", pytest.param("reduce-overhead", marks=pytest.mark.slow)]
)
def test_a_device_that_is_lost(mode: str):
    """Each step says so, also one that is replayed, and so does the end of the process."""
    result = try_python(LOST, mode, OUTBOARD_FAULTS="count")
    assert result.returncode == 0
    lines = result.stdout.splitlines()
    assert len(lines) == 2
    assert "frame #" not in result.stderr
    for line in (*lines, *(line for line in result.stderr.splitlines() if "at exit" in line)):
        assert "returned device lost from `" in line
        assert "; the device is lost until " in line


# Prints how many programs were compiled.
COMPILING = """
    import torch, torch_outboard
    from torch_outboard import _C
    x = torch.arange(50.0, device=torch_outboard.device_name())
    x.cpu()
    before = _C.program_counts()[0]
    y = torch.compile(lambda x: (x.sin() * 3).softmax(0))(x)
    torch.testing.assert_close(y.cpu(), (x.cpu().sin() * 3).softmax(0))
    _C.flush_disk_cache()
    print(_C.program_counts()[0] - before)
"""


@pytest.mark.slow
def test_caches_that_are_shared_or_broken(tmp_path: Path):
    """Two processes compile the same at once; broken entries are compiled anew."""
    folders = {
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor"),
        "OUTBOARD_CACHE_DIR": str(tmp_path / "programs"),
    }
    processes = [
        subprocess.Popen(
            [sys.executable, "-P", "-c", textwrap.dedent(COMPILING)],
            env={**os.environ, **folders},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for process in processes:
        _, errors = process.communicate(timeout=240 * SLOWNESS)
        assert process.returncode == 0, errors
    assert run_python(COMPILING, **folders).split() == ["0"]
    files = [path for path in tmp_path.rglob("*") if path.is_file() and path.stat().st_size > 0]
    assert files
    for path in files:
        if path.suffix not in (".lock", ".so", ".py"):  # PyTorch imports its code as it is
            content = path.read_bytes()
            path.write_bytes(content[: len(content) // 2])
    # On a processor a program asks the compiler what vectors it takes, before that of the graph.
    of_target = 1 if _C.device_properties(0).kind == "cpu" else 0
    compiled = 1 + of_target if _C.runs_code(0) else 0
    assert run_python(COMPILING, **folders).split() == [str(compiled)]
