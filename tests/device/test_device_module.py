"""The device module, `torch.<name>`: names, devices, random numbers, fork."""

from __future__ import annotations

import pydoc
import re
import threading
from pathlib import Path

import pytest
import torch

from tests.device_module_names import names_read
from tests.run import ROOT
from tests.support import run_python
from torch_outboard import _C

# ---- Devices


def test_module_is_complete(device_module):
    missing = [name for name in device_module.__all__ if not hasattr(device_module, name)]
    assert not missing


# What PyTorch reads from device modules and this one leaves out.
LEFT_OUT = {
    "_utils": "a second way to find an index in checkpoints; PyTorch parses the tag without it",
    "set_rng_ctx": "asked of HPU alone",
    "unset_rng_ctx": "asked of HPU alone",
    "sparse": "legacy classes such as torch.cuda.sparse.FloatTensor; PyTorch does without them",
}

# torch.compile's own names for a backend, which not all versions of PyTorch read in this way, and
# do without where they are not there.
LEFT_OUT_WHERE_READ = {
    "_inductor_backend_init",
    "CppWrapperCodegen",
    "PythonWrapperCodegen",
    "Scheduling",
    "WrapperFxCodegen",
}


@pytest.mark.by_turns(3)
def test_what_pytorch_reads_is_there(device_module):
    read = names_read(Path(torch.__file__).parent)
    # The search finds what is known to be read.
    assert {"_initialized", "_is_in_bad_fork", "manual_seed_all", "get_amp_supported_dtype"} <= {
        *read
    }
    missing = {name for name in read if not hasattr(device_module, name)} - LEFT_OUT_WHERE_READ
    new = {name: sorted(read[name]) for name in missing - LEFT_OUT.keys()}
    assert not new, f"PyTorch reads what the device module does not have: {new}"
    assert missing == LEFT_OUT.keys(), "a name that is left out is there, or not read any more"


def left_out_of_cuda() -> set[str]:
    """The names in the table of the page on the device module."""
    page = (ROOT / "docs/extending/device_module.md").read_text()
    table = page.partition("## What `torch.cuda` has beyond these names")[2].partition("\n## ")[0]
    rows = [line.split("|") for line in table.splitlines() if line.startswith("| `")]
    assert all(len(row) == 4 and row[2].strip() for row in rows), "a name has no reason"
    return {name for row in rows for name in re.findall("`([^`]+)`", row[1])}


# In dir(torch.cuda), and of other modules.
IMPORTED_BY_CUDA = {
    "Callable", "Device", "NewType", "Optional", "TYPE_CHECKING", "cast", "classproperty",
    "importlib", "lru_cache", "os", "platform", "threading", "torch", "traceback", "warnings",
}  # fmt: skip


@pytest.mark.skipif(
    not torch.__version__.startswith("2.13."), reason="the table is about PyTorch 2.13"
)
def test_every_name_of_cuda_is_there_or_has_a_reason(device_module):
    public = {name for name in dir(torch.cuda) if not name.startswith("_")} - IMPORTED_BY_CUDA
    missing = {name for name in public if not hasattr(device_module, name)}
    assert missing == left_out_of_cuda()


def test_names_are_the_modules_own(device_module):
    assert dir(device_module) == sorted(device_module.__all__)
    assert device_module.OutOfMemoryError is torch.OutOfMemoryError
    assert device_module.AcceleratorError is torch.AcceleratorError
    for own in ("_C", "state", "Any", "legacy_tensors"):
        assert own not in dir(device_module)
    text = pydoc.plain(pydoc.render_doc(device_module))
    assert "mem_get_info(" in text
    for foreign in ("_lazy_init", "legacy_tensors", "_FOR_PYTORCH"):
        assert foreign not in text
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = device_module.nothing


def test_current_device(device, device_module, second):
    assert device_module.current_device() == 0
    device_module.set_device(second)
    try:
        assert device_module.current_device() == 1
        assert torch.empty(1, device=device.type).device == second
        device_module.set_device(-1)
        assert device_module.current_device() == 1
    finally:
        device_module.set_device(0)


def test_device_context(device, device_module, second):
    for other in (1, f"{device.type}:1", second):
        with device_module.device(other):
            assert device_module.current_device() == 1
            with device_module.device(None):
                assert device_module.current_device() == 1
            with device_module.device(0):
                assert device_module.current_device() == 0
            assert device_module.current_device() == 1
        assert device_module.current_device() == 0
    with pytest.raises(KeyError), device_module.device(second):
        raise KeyError
    assert device_module.current_device() == 0


def test_device_of(device, device_module, second):
    with device_module.device_of(torch.empty(1, device=second)):
        assert device_module.current_device() == 1
    with device_module.device_of(torch.empty(1)):
        assert device_module.current_device() == 0


def test_current_device_is_per_thread(device_module, second):
    seen = []
    with device_module.device(second):
        thread = threading.Thread(target=lambda: seen.append(device_module.current_device()))
        thread.start()
        thread.join()
    assert seen == [0]


def test_what_is_no_device(device_module):
    for use in (device_module.get_device_properties, device_module.current_stream):
        with pytest.raises(RuntimeError, match="device index 99 was asked for"):
            use(99)
    with pytest.raises(ValueError, match="'cpu' was given where"):
        device_module.synchronize("cpu")
    with pytest.raises(TypeError, match="not as float"):
        device_module.set_device(1.5)


def test_properties(device, device_module):
    properties = device_module.get_device_properties(device)
    assert properties.name == device_module.get_device_name(device)
    assert properties.total_memory > 0
    assert properties.host_access in ("none", "coherent")
    assert properties.greatest_priority <= properties.least_priority
    assert properties.name in repr(properties)
    capability = device_module.get_device_capability(device)
    assert capability["host_access"] == properties.host_access
    assert device_module.is_bf16_supported()


def test_capability_compares_like_a_pair(device_module):
    capability = device_module.get_device_capability()
    major, minor = capability
    assert (major, minor) == capability
    assert not capability >= (7, 0)
    assert capability["kernel_dtypes"] == dict(capability.facts)["kernel_dtypes"]
    with pytest.raises(KeyError):
        _ = capability["nothing"]


@pytest.mark.parametrize(
    "name", ["utilization", "memory_usage", "temperature", "power_draw", "clock_rate"]
)
def test_what_the_driver_knows_of_the_state(device, device_module, name):
    field = {"memory_usage": "memory_utilization", "power_draw": "power", "clock_rate": "clock"}
    if field.get(name, name) in _C.device_state(device.index or 0):
        assert -100 <= getattr(device_module, name)() <= 1e7
        return
    with pytest.raises(NotImplementedError, match="and its driver does not report it"):
        getattr(device_module, name)()


@pytest.mark.parametrize("lacks", [False, True])
def test_state_and_peer_access_are_asked_of_the_driver(lacks):
    printed = run_python(
        """
        import ctypes, sys, torch
        from torch_outboard import _C
        from torch_outboard.drivers import contract, host
        table = contract.Driver.from_buffer_copy(contract.load(host.library_path()))
        def device_state(context, device, state):
            s = state.contents
            s.known = sum(contract.DeviceStateField)
            s.utilization, s.memory_utilization = 50, 25
            s.temperature, s.power, s.clock = 61, 1.5, 900
            return 0
        table.device_state = contract.FUNCTIONS["device_state"](device_state)
        if sys.argv[1] == "True":
            table.peer_access = contract.FUNCTIONS["peer_access"]()
        _C.use_driver_table("host", ctypes.addressof(table))
        names = ("utilization", "memory_usage", "temperature", "power_draw", "clock_rate")
        print(*(getattr(torch.host, name)() for name in names))
        print(*(torch.host.can_device_access_peer(0, i) for i in (0, 1)))
        try:
            torch.host.can_device_access_peer(0, 9)
        except RuntimeError as error:
            print(error)
        """,
        str(lacks),
        OUTBOARD_DRIVER="host",
        OUTBOARD_HOST_DEVICES="2",
    )
    figures, peers, wrong = printed.splitlines()
    assert figures == "50 25 61 1500 900"
    assert peers == f"True {not lacks}"
    assert "device index 9 was asked for" in wrong


def test_sync_debug_mode(device_module):
    device_module.set_sync_debug_mode("default")
    device_module.set_sync_debug_mode(0)
    assert device_module.get_sync_debug_mode() == 0
    with pytest.raises(NotImplementedError, match="cannot report"):
        device_module.set_sync_debug_mode("warn")
    with pytest.raises(RuntimeError, match="the mode is"):
        device_module.set_sync_debug_mode("loud")


def test_legacy_storage_types(device, device_module):
    x = torch.arange(3.0, device=device)
    torch.storage._reset_warn_typed_storage_removal()
    with pytest.warns(UserWarning, match="TypedStorage is deprecated"):
        kind = x.storage_type()
    assert kind is device_module.FloatStorage
    assert isinstance(x.storage(), device_module.FloatStorage)
    assert not isinstance(x.cpu().storage(), device_module.FloatStorage)
    assert isinstance(x.long().storage(), device_module.LongStorage)
    assert x.storage().type() == f"torch.{device.type}.FloatStorage"


@pytest.mark.parametrize("kind", [torch.nn.LazyConv1d, torch.nn.LazyConvTranspose1d])
def test_lazy_modules_that_were_moved(device, kind):
    module = kind(2, 2).to(device, torch.float64)
    weight = module.weight
    x = torch.randn(1, 2, 4, device=device, dtype=torch.float64, requires_grad=True)
    module(x)
    assert module.weight is weight
    assert weight.shape == (2, 2, 2)
    parameters = tuple(module.parameters())
    assert torch.autograd.gradgradcheck(lambda x, *_: module(x), (x, *parameters))


# ---- Random numbers


def test_seeds(device, device_module):
    device_module.manual_seed(7)
    assert device_module.initial_seed() == 7
    first = torch.rand(100, device=device)
    device_module.manual_seed(7)
    torch.testing.assert_close(torch.rand(100, device=device), first, rtol=0, atol=0)
    torch.manual_seed(7)
    torch.testing.assert_close(torch.rand(100, device=device), first, rtol=0, atol=0)
    assert device_module.seed() == device_module.initial_seed()
    assert not torch.equal(torch.rand(100, device=device), first)
    device_module.seed_all()
    device_module.manual_seed_all(-1)
    assert device_module.initial_seed() == 2**64 - 1


def test_generator_state(device, device_module):
    device_module.manual_seed(3)
    state = device_module.get_rng_state()
    assert state.device.type == "cpu"
    assert state.dtype == torch.uint8
    first = torch.rand(10, device=device)
    device_module.set_rng_state(state)
    torch.testing.assert_close(torch.rand(10, device=device), first, rtol=0, atol=0)
    states = device_module.get_rng_state_all()
    assert len(states) == device_module.device_count()
    device_module.set_rng_state_all(states)
    with pytest.raises(RuntimeError, match="bytes"):
        device_module.set_rng_state(torch.zeros(5, dtype=torch.uint8))
    with pytest.raises(TypeError, match="uint8"):
        device_module.set_rng_state(torch.zeros(16))


def test_default_generators(device, device_module):
    generators = device_module.default_generators
    assert len(generators) == device_module.device_count()
    generators[0].manual_seed(12)
    assert device_module.initial_seed() == 12
    assert generators[-1].device.index == len(generators) - 1
    assert [g.device.index for g in generators[:]] == list(range(len(generators)))
    torch.rand(5, device=device)
    offset = generators[0].get_offset()
    assert offset == device_module._get_rng_state_offset() > 0
    expected = torch.rand(5, device=device)
    device_module._set_rng_state_offset(offset, device)
    torch.testing.assert_close(torch.rand(5, device=device), expected, rtol=0, atol=0)
    with pytest.raises(IndexError):
        generators[len(generators)]
    for index in range(device_module.device_count()):
        generator = torch.Generator(device=f"{device.type}:{index}").manual_seed(42)
        assert (generator.device.index, generator.initial_seed()) == (index, 42)


def test_fork_rng(device, device_module):
    torch.manual_seed(5)
    before = device_module.get_rng_state()
    with torch.random.fork_rng(devices=[0], device_type=device.type):
        torch.rand(10, device=device)
        assert not torch.equal(device_module.get_rng_state(), before)
    assert torch.equal(device_module.get_rng_state(), before)


def test_generators_are_per_device(device, device_module, second):
    torch.manual_seed(11)
    before = device_module.get_rng_state(second)
    torch.rand(10, device=device)
    assert torch.equal(device_module.get_rng_state(second), before)


def test_seed_before_first_use_is_kept(device):
    out = run_python(
        f"""
        import torch
        torch.manual_seed(42)
        assert not torch.{device.type}.is_initialized()
        print(torch.{device.type}.initial_seed())
        torch.{device.type}.manual_seed(43)
        print(torch.{device.type}.initial_seed())
        """
    )
    assert out.split() == ["42", "43"]


def test_device_seed_before_first_use_wins(device):
    out = run_python(
        f"""
        import torch
        torch.{device.type}.manual_seed(8)
        assert not torch.{device.type}.is_initialized()
        print(torch.{device.type}.initial_seed())
        """
    )
    assert out.strip() == "8"


# ---- Fork


def test_forked_child_gets_an_error(device):
    out = run_python(
        f"""
        import os, torch, torch_outboard, torch.{device.type} as module
        x = torch.ones(4, device="{device.type}")
        read, write = os.pipe()
        if os.fork() == 0:
            # tests/runtime/test_fork.py tries the others.
            uses = dict(
                seed=lambda: module.manual_seed_all(1),
                adopt=lambda: torch_outboard.from_cpu(torch.ones(2)),
                choice=lambda: torch_outboard.use_driver("{device.type}"),
            )
            lines = []
            for name, use in uses.items():
                try:
                    use()
                    lines.append(f"{{name}}: no error")
                except RuntimeError as error:
                    if "forked child" not in str(error):
                        lines.append(f"{{name}}: {{error}}")
            torch.manual_seed(1)
            module.empty_cache()
            del x
            lines.append(f"{{module._is_in_bad_fork()}} {{module.device_count()}}")
            os.write(write, chr(10).join(lines).encode())
            os._exit(0)
        assert os.wait()[1] == 0
        print(os.read(read, 10000).decode())
        assert (x + 1).sum().item() == 8
        """
    )
    assert out.strip() == "True 0"


def test_checkpointing_on_the_cpu_does_not_start_the_device(device):
    out = run_python(
        f"""
        import torch
        from torch.utils.checkpoint import checkpoint, set_device_states
        from torch_outboard import _C
        set_device_states([], [], device_type="{device.type}")
        for reentrant in (True, False):
            x = torch.ones(100, requires_grad=True)
            y = checkpoint(lambda x: torch.dropout(x, 0.5, True), x, use_reentrant=reentrant)
            y.sum().backward()
            print(torch.equal(x.grad, y.detach()), torch.{device.type}.is_initialized())
        print(getattr(torch.{device.type}, "_initialized"))
        """
    )
    assert out.split() == ["True", "False"] * 2 + ["False"]
