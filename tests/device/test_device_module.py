"""The device module, `torch.<name>`: names, devices, random numbers."""

from __future__ import annotations

import pydoc
import re
from pathlib import Path

import pytest
import torch
from torch.testing._internal.common_dtype import get_all_dtypes

from tests.device_module_names import names_read
from tests.run import ROOT
from tests.support import run_python
from torch_outboard import _C

# ---- Names


# Names that PyTorch reads from device modules and that this one lacks.
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


@pytest.mark.slow
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
    page = (ROOT / "docs/extending/device.md").read_text()
    table = page.partition("## Names of `torch.cuda` that are missing")[2].partition("\n## ")[0]
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
    assert not [name for name in device_module.__all__ if not hasattr(device_module, name)]
    assert dir(device_module) == sorted(device_module.__all__)
    assert device_module.OutOfMemoryError is torch.OutOfMemoryError
    assert device_module.AcceleratorError is torch.AcceleratorError
    text = pydoc.plain(pydoc.render_doc(device_module))
    assert "mem_get_info(" in text
    for external in ("_lazy_init", "legacy_types"):
        assert external not in text
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = device_module.nothing


# ---- Devices


def test_device_contexts(device, device_module, second):
    for other in (1, f"{device.type}:1", second):
        with device_module.device(other):
            assert device_module.current_device() == 1
            assert torch.empty(1, device=device.type).device == second
            with device_module.device(None):
                assert device_module.current_device() == 1
            with device_module.device(0):
                assert device_module.current_device() == 0
            assert device_module.current_device() == 1
        assert device_module.current_device() == 0
    for context in (device_module.device(second), torch.accelerator.device_index(1)):
        with pytest.raises(KeyError), context:
            raise KeyError
        assert device_module.current_device() == 0
    with device_module.device_of(torch.empty(1, device=second)):
        assert device_module.current_device() == 1
    with device_module.device_of(torch.empty(1)):
        assert device_module.current_device() == 0


def test_properties(device, device_module):
    properties = device_module.get_device_properties(device)
    assert properties.name == device_module.get_device_name(device)
    assert properties.total_memory > 0
    assert properties.greatest_priority <= properties.least_priority
    assert properties.name in repr(properties)
    assert device_module.is_bf16_supported()
    capability = device_module.get_device_capability(device)
    assert capability["host_access"] == properties.host_access
    major, minor = capability
    assert (major, minor) == capability
    assert not capability >= (7, 0)
    assert capability["kernel_dtypes"] == dict(capability.facts)["kernel_dtypes"]
    with pytest.raises(KeyError):
        _ = capability["nothing"]


def test_every_dtype_is_supported_for_storage(device):
    found = torch.accelerator.get_device_capability(device)["supported_dtypes"]
    assert set(get_all_dtypes(include_complex32=True, include_qint=True)) <= found


def test_what_the_driver_knows_of_the_state(device, device_module):
    known = _C.device_state(device.index)
    for name, field in (
        ("utilization", "utilization"),
        ("memory_usage", "memory_utilization"),
        ("temperature", "temperature"),
        ("power_draw", "power"),
        ("clock_rate", "clock"),
    ):
        if field in known:
            assert -100 <= getattr(device_module, name)() <= 1e7
        else:
            with pytest.raises(NotImplementedError, match="and its driver does not report it"):
                getattr(device_module, name)()
    assert device_module.can_device_access_peer(0, 1)


def test_a_driver_that_knows_its_state_and_lacks_other_functions():
    printed = run_python(
        """
        import time
        import torch, torch_outboard
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
        for lacks in ("peer_access", "host_register", "host_unregister", "event_time"):
            setattr(table, lacks, contract.FUNCTIONS[lacks]())
        torch_outboard.use_driver(table)
        names = ("utilization", "memory_usage", "temperature", "power_draw", "clock_rate")
        print(*(getattr(torch.host, name)() for name in names))
        print(*(torch.host.can_device_access_peer(0, i) for i in (0, 1)))
        try:
            torch.host.can_device_access_peer(0, 9)
        except RuntimeError as error:
            print("device index 9 was asked for" in str(error))
        x = torch.arange(4.0)
        print(torch.host.register_host_memory(x), x.is_pinned(), x.pin_memory().is_pinned())
        print(x.to("host", non_blocking=True).tolist())
        # The clock of the host is told by the time since an event of the kit's own.
        _C.testing.event_time()
        tolerance = 10_000_000
        for _ in range(3):
            before = time.monotonic_ns()
            happened = _C.testing.event_time()
            print(before - tolerance <= happened <= time.monotonic_ns() + tolerance)
        """,
        OUTBOARD_DRIVER="host",
        OUTBOARD_HOST_DEVICES="2",
    )
    assert printed.splitlines() == [
        "50 25 61 1500 900",
        "True False",
        "True",
        "False False True",
        "[0.0, 1.0, 2.0, 3.0]",
        *["True"] * 3,
    ]


def test_sync_debug_mode(device_module):
    device_module.set_sync_debug_mode("default")
    device_module.set_sync_debug_mode(0)
    assert device_module.get_sync_debug_mode() == 0
    with pytest.raises(NotImplementedError, match="cannot report"):
        device_module.set_sync_debug_mode("warn")
    with pytest.raises(RuntimeError, match="the mode is"):
        device_module.set_sync_debug_mode("loud")


# ---- Random numbers


def test_seeds(device, device_module):
    device_module.manual_seed(7)
    assert device_module.initial_seed() == 7
    first = torch.rand(100, device=device)
    for seed in (device_module.manual_seed, torch.manual_seed):
        seed(7)
        assert torch.equal(torch.rand(100, device=device), first)
    assert device_module.seed() == device_module.initial_seed()
    assert not torch.equal(torch.rand(100, device=device), first)
    device_module.seed_all()
    device_module.manual_seed_all(-1)
    assert device_module.initial_seed() == 2**64 - 1


def test_generator_state(device, device_module, second):
    state, other = device_module.get_rng_state(), device_module.get_rng_state(second)
    assert state.device.type == "cpu"
    assert state.dtype == torch.uint8
    with torch.random.fork_rng(devices=[0], device_type=device.type):
        first = torch.rand(10, device=device)
        assert not torch.equal(device_module.get_rng_state(), state)
    assert torch.equal(device_module.get_rng_state(), state)
    assert torch.equal(torch.rand(10, device=device), first)
    # Each device has one, that of the current device if none is named.
    assert torch.equal(device_module.get_rng_state(second), other)
    with device_module.device(second):
        torch.rand(10, device=second)
        assert torch.equal(device_module.get_rng_state(), device_module.get_rng_state(second))
        assert not torch.equal(device_module.get_rng_state(), other)
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


BEFORE_THE_FIRST_USE = """
import sys
import torch
from torch.utils.checkpoint import checkpoint, set_device_states

sys.path.append(sys.argv[1])
from tests.forking import in_child
name = torch._C._get_privateuse1_backend_name()
module = getattr(torch, name)

def seed_of_all():
    torch.manual_seed(42)
    return module.is_initialized(), module.initial_seed()

def seed_of_the_device():
    module.manual_seed(8)
    return module.is_initialized(), module.initial_seed()

def checkpoints_on_the_cpu():
    set_device_states([], [], device_type=name)
    same = []
    for reentrant in (True, False):
        x = torch.ones(100, requires_grad=True)
        y = checkpoint(lambda x: torch.dropout(x, 0.5, True), x, use_reentrant=reentrant)
        y.sum().backward()
        same.append(torch.equal(x.grad, y.detach()))
    return same, module.is_initialized(), module._initialized

for do in (seed_of_all, seed_of_the_device, checkpoints_on_the_cpu):
    print(in_child(do))
"""


def test_before_the_first_use():
    """Seeds are kept, and what PyTorch does for CPU alone starts nothing."""
    assert run_python(BEFORE_THE_FIRST_USE, str(ROOT)).splitlines() == [
        "returned (False, 42)",
        "returned (False, 8)",
        "returned ([True, True], False, False)",
    ]
