"""Bad days: drivers that fail, lack functions or memory, and processes that end in disorder."""

from __future__ import annotations

import gc
import textwrap
from pathlib import Path

import pytest
import torch

from tests.support import in_threads, run_python, try_python

ROOT = str(Path(__file__).resolve().parent.parent)

# ---- Every call fails once

INJECT = '''
import gc
import itertools
import sys

import torch
from torch_outboard.drivers import torture

exhaustive = sys.argv[1] == "exhaustive"
device, other = torch.device("host", 0), torch.device("host", 1)
torch.manual_seed(0)
inputs, targets = torch.randn(16, 8), torch.randn(16, 2)
WEIGHTS = [torch.randn(8, 8), torch.randn(8), torch.randn(2, 8), torch.randn(2)]


def model_on(where):
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    with torch.no_grad():
        for parameter, value in zip(model.parameters(), WEIGHTS):
            parameter.copy_(value)
    return model.to(where)


def train(model, x, y):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss = torch.nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    return [parameter.detach() for parameter in model.parameters()] + [loss.detach()]


def step():
    """A training step with pinned memory, a stream, timing, and a copy to the other device."""
    start, end = (torch.Event("host", enable_timing=True) for _ in range(2))
    start.record()
    stream = torch.host.Stream()
    stream.wait_event(start)
    with torch.host.stream(stream):
        x, y = (t.pin_memory().to(device, non_blocking=True) for t in (inputs, targets))
    torch.host.current_stream().wait_stream(stream)
    results = train(model_on(device), x, y)
    x.record_stream(stream)
    away = results[0].to(other)
    end.record()
    torch.host.mem_get_info()
    torch.host.synchronize()
    assert stream.query() and end.query()
    start.elapsed_time(end)
    del x, y
    torch.host.empty_cache()
    torch.accelerator.empty_host_cache()
    results = [t.cpu() for t in [*results, away]]
    torch.host.synchronize()
    return results


def drop():
    """Lets go of all that is cached, and of failures that wait for a synchronization."""
    for use in (gc.collect, torch.host.empty_cache, torch.accelerator.empty_host_cache,
                torch.host.synchronize, torch.host.empty_cache):
        try:
            use()
        except RuntimeError:
            pass
    torch.host.synchronize()
    # Queues stay for ever, as streams do.
    return {kind: count for kind, count in torture.live().items() if kind != "queues"}


expected = train(model_on("cpu"), inputs, targets)
expected.append(expected[0])
bystander = torch.arange(5000.0).to(device)
torch.testing.assert_close(step(), expected)
baseline = drop()
attempts = finished = raised = 0
reached = set()
names = sorted(torture.calls(), key=lambda name: name != "queue_create")
for name in names:
    if name in ("initialize", "finalize", "device_count", "device_properties"):
        continue
    few = [1, 2, 3, 5, 9, 17, 40]
    for nth in itertools.count(1) if exhaustive else few:
        status = ("error", "device_lost", "out_of_memory")[nth % 3]
        torture.reset()
        torture.fail(name, nth, status)
        outcome = "finished"
        try:
            results = step()
            torch.testing.assert_close(results, expected)
        except (RuntimeError, ValueError) as error:
            outcome = f"{type(error).__name__}: {error}"
            assert "INTERNAL ASSERT" not in outcome, (name, nth, outcome)
            assert f"`{name}`" in outcome or "out of memory" in outcome, (name, nth, outcome)
            raised += 1
        injected = torture.injected()
        torture.reset()
        results = None
        if injected == 0:
            assert outcome == "finished", (name, nth, outcome)
            break
        reached.add(name)
        attempts += 1
        finished += outcome == "finished"
        live = drop()
        assert live == baseline, (name, nth, outcome, live, baseline, torture.leaks())
        assert torch.equal(bystander.cpu(), torch.arange(5000.0)), (name, nth)
        torch.testing.assert_close(step(), expected, msg=lambda m: f"{name} {nth}: {m}")
        assert drop() == baseline, (name, nth, "after a step without faults")
assert torture.misuses() == 0, torture.misuses()
print(attempts, finished, raised, *sorted(reached))
'''


@pytest.mark.skipif(
    not hasattr(torch.accelerator, "empty_host_cache"),
    reason="PyTorch gives cached pinned memory back from 2.12 on",
)
@pytest.mark.by_turns(2)  # half a minute each
@pytest.mark.parametrize("access", ["shared", "separate"])
@pytest.mark.parametrize("extent", ["few", pytest.param("exhaustive", marks=pytest.mark.slow)])
def test_a_training_step_survives_any_failing_call(access, extent):
    printed = run_python(
        INJECT,
        extent,
        timeout=280,
        OUTBOARD_TORTURE="count",
        OUTBOARD_HOST_ACCESS=access,
        OUTBOARD_FALLBACK_COPIED="allow",
        PYTHONFAULTHANDLER="1",
    )
    attempts, finished, raised, *reached = printed.split()
    assert int(attempts) >= 30
    assert int(finished) + int(raised) == int(attempts)
    assert int(raised) > int(attempts) // 3
    expected = {"allocate", "deallocate", "event_create", "event_record", "event_wait"}
    expected |= {"host_allocate", "host_deallocate", "copy_host_to_device", "queue_create"}
    assert expected <= set(reached)


FAILS_EARLY = """
import torch
for _ in range(2):
    try:
        print(torch.ones(3, device="host").sum().item())
    except RuntimeError as error:
        print(str(error).splitlines()[0])
print(torch.ones(3).sum().item(), torch.host.device_count())
"""


@pytest.mark.parametrize(
    ("settings", "first", "second"),
    [
        ("fail=initialize:1", "device 'host' is not available: `initialize` answered error", None),
        ("fail=everything", '"fail=everything" is no torture setting', None),
        # The next use asks again.
        ("fail=device_count:1", "to `device_count`", "3.0"),
        ("fail=device_properties:1", "to `device_properties`", "3.0"),
    ],
)
def test_driver_that_fails_early(settings, first, second):
    lines = run_python(FAILS_EARLY, OUTBOARD_TORTURE=settings).splitlines()
    assert first in lines[0]
    assert lines[1:] == [second or lines[0], f"3.0 {2 if second else 0}"]


# ---- Bad tables

TABLES = """
import ctypes
import torch
import torch_outboard
from tests.forking import in_child
from torch_outboard.drivers import contract, host

good = contract.load(host.library_path())

def table(**changes):
    made = contract.Driver()
    ctypes.memmove(ctypes.byref(made), ctypes.byref(good), ctypes.sizeof(made))
    for name, value in changes.items():
        setattr(made, name, value)
    return made

def function(name, answer):
    return contract.FUNCTIONS[name](answer)

def count_of(number):
    def device_count(context, count):
        count[0] = number
        return 0
    return function("device_count", device_count)

def use(driver):
    def run():
        torch_outboard.use_driver(driver)
        return torch.ones(3, device="host").sum().item(), torch.host.device_count()
    return run

no_function = contract.FUNCTIONS["fill"]()
VERSIONS = (
    "was written for version {} of the driver contract and this torch_outboard speaks version 2; "
    "install versions of both that match"
)
cases = {
    "good": (table(), "returned (3.0, 2)"),
    "older version": (table(major=1), VERSIONS.format(1)),
    "newer version": (table(major=contract.VERSION_MAJOR + 1), VERSIONS.format(3)),
    "another minor version": (table(minor=contract.VERSION_MINOR + 7), "returned (3.0, 2)"),
    "no size": (table(struct_size=0), "fewer than its own header"),
    "short": (table(struct_size=64), "the driver's table lacks `"),
    "longer than ours": (
        table(struct_size=ctypes.sizeof(contract.Driver) * 2), "returned (3.0, 2)"
    ),
    "no fill": (table(fill=no_function), "the driver's table lacks `fill`"),
    "no last_error": (
        table(last_error=contract.Driver().last_error), "the driver's table lacks `last_error`"
    ),
    "initialize fails": (
        table(initialize=function("initialize", lambda context: 6)),
        "`initialize` answered device lost",
    ),
    "no devices": (table(device_count=count_of(0)), "found no device"),
    "negative count": (table(device_count=count_of(-3)), "reports -3 devices"),
    "count fails": (
        table(device_count=function("device_count", lambda context, count: 7)), "to `device_count`"
    ),
    "one device": (table(device_count=count_of(1)), "returned (3.0, 1)"),
    "context": (
        table(
            context=1,
            device_count=function(
                "device_count", lambda context, count: count.__setitem__(0, context) or 0
            ),
        ),
        "returned (3.0, 1)",
    ),
    "null": (0, "ValueError: "),
    "no table": (3.5, "TypeError: a driver is given as"),
    "no file": ("/nowhere/driver.so", "ValueError: driver '/nowhere/driver.so' cannot be used"),
    "another name": ("warp", "ValueError: driver 'warp' cannot be used"),
}
for name, (driver, expected) in cases.items():
    outcome = in_child(use(driver))
    if expected not in outcome:
        print(name, "->", outcome)
print(len(cases))
"""


def test_tables_that_are_wrong():
    assert run_python(TABLES, PYTHONPATH=ROOT) == "19\n"


# ---- Memory

MEMORY = """
import gc
import torch

device = torch.device("host")
kept = [torch.ones(1 << 20, device=device) for _ in range(8)]
x = torch.arange(1000.0).to(device)
for size in (1 << 26, 1 << 40, 1 << 50):
    try:
        torch.empty(size, device=device)
    except torch.OutOfMemoryError as error:
        print(str(error).splitlines()[0])
filler = []
try:
    while True:
        filler.append(torch.empty(1 << 20, device=device))
except torch.OutOfMemoryError:
    print("filled", len(filler) > 4)
try:
    kept[0] + kept[1]
    kept[0] @ torch.empty(1 << 20, 64, device=device)
except torch.OutOfMemoryError:
    print("operators raise it, too")
assert torch.equal(x.cpu(), torch.arange(1000.0))
del filler
gc.collect()
big = torch.empty(1 << 22, device=device)
big.fill_(3)
print((big[:5] + kept[0][:5]).tolist())
print(torch.host.memory_stats()["num_ooms"] >= 4)
"""


@pytest.mark.parametrize(
    "settings",
    [
        {"OUTBOARD_HOST_ACCESS": "separate", "OUTBOARD_TORTURE": f"limit={1 << 26}"},
        {"OUTBOARD_HOST_ACCESS": "separate", "OUTBOARD_HOST_MEMORY": f"{1 << 26}"},
        {"OUTBOARD_HOST_ACCESS": "shared", "OUTBOARD_HOST_MEMORY": f"{1 << 26}"},
    ],
)
def test_out_of_memory(settings):
    lines = run_python(MEMORY, OUTBOARD_FALLBACK_COPIED="allow", **settings).splitlines()
    for line in lines[:3]:
        assert "host:0 is out of memory" in line
        assert "were asked for" in line
    assert lines[3:] == [
        "filled True",
        "operators raise it, too",
        "[4.0, 4.0, 4.0, 4.0, 4.0]",
        "True",
    ]


@pytest.mark.separate
@pytest.mark.torture
def test_tensors_freed_in_other_threads(device, device_module):
    gc.collect()
    before = device_module.memory_allocated()
    for _ in range(20):
        tensors = [torch.full((1000,), float(i)).to(device) for i in range(20)]
        lists = [[tensors.pop() for _ in range(5)] for _ in range(4)]
        in_threads(lambda i, lists=lists: lists[i].clear(), 4)
        assert torch.full((1000,), 7.0).to(device).sum().item() == 7000
    gc.collect()
    assert device_module.memory_allocated() == before


# ---- Autograd


@pytest.mark.separate
@pytest.mark.torture
def test_exception_in_a_backward_function(device):
    class OwnError(Exception):
        pass

    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            return x * 2

        @staticmethod
        def backward(context, grad):
            raise OwnError(str(grad.device))

    x = torch.ones(3, device=device, requires_grad=True)
    for _ in range(3):
        with pytest.raises(OwnError, match="host:0"):
            (Fails.apply(x * 1) * 3).sum().backward()
    assert x.grad is None
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3, 3, 3]


# ---- The end of the process

ENDINGS = {
    "tensors": """
        x = torch.ones(1 << 20, device="host", requires_grad=True)
        y = (x * 2).sum()
        y.backward()
        view, other = x[3:], torch.ones(3, device="host:1")
    """,
    "streams and events": """
        streams = [torch.host.Stream(i % 2) for i in range(40)]
        events = [stream.record_event() for stream in streams]
        torch.host.set_stream(streams[3])
        x = torch.ones(3, device="host")
        x.record_stream(streams[0])
        generator = torch.Generator("host")
    """,
    "pending work": """
        source = torch.ones(1 << 22).pin_memory()
        x = source.to("host", non_blocking=True)
        for _ in range(20):
            x.copy_(source, non_blocking=True)
            source.copy_(x, non_blocking=True)
        event = torch.host.current_stream().record_event()
    """,
    "threads that wait": """
        import threading, time
        def work():
            x = torch.ones(1000, device="host", requires_grad=True)
            with torch.host.stream(torch.host.Stream()):
                y = (x * x).sum()
                pinned = torch.ones(500).pin_memory()
                y = pinned.to("host", non_blocking=True)
                ready.release()
                time.sleep(1000)
        ready = threading.Semaphore(0)
        for _ in range(3):
            threading.Thread(target=work, daemon=True).start()
        for _ in range(3):
            ready.acquire()
    """,
    "a thread that ends last": """
        import threading, time
        def work():
            time.sleep(0.5)
            assert (torch.ones(3, device="host") + 1).sum().item() == 6
        threading.Thread(target=work).start()
        torch.ones(3, device="host")
    """,
    "thread-local streams": """
        import threading
        def work():
            torch.host.set_stream(torch.host.Stream(1))
            local.x = torch.ones(3, device="host")
        local = threading.local()
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
    """,
    "a cycle": """
        class Holder: pass
        holder = Holder()
        holder.self, holder.x = holder, torch.ones(1 << 20, device="host")
        holder.pinned = torch.ones(3).pin_memory()
        torch.kept_until_the_end = holder
    """,
    "nothing used": "",
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_exit_is_quiet(ending):
    result = try_python(
        "import torch\n" + textwrap.dedent(ENDINGS[ending]),
        OUTBOARD_FALLBACK_COPIED="allow",
        OUTBOARD_TORTURE="delay_us=2000" if ending == "pending work" else "",
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_use_after_the_end():
    """Exit handlers that run after the driver's end get an error for what needs the driver."""
    result = try_python(
        """
        import atexit

        kept = {}

        def last():
            import torch
            for name, use in {
                "new": lambda: torch.empty(1 << 24, device="host"),
                "operator": lambda: kept["x"] + kept["x"],
                "copy": lambda: torch.ones(1 << 20).to("host"),
                "pin": lambda: torch.ones(12345).pin_memory(),
                "stream": lambda: torch.host.Stream(),
                "synchronize": lambda: torch.host.synchronize(),
            }.items():
                try:
                    use()
                    print(name, "returned")
                except RuntimeError as error:
                    print(name, "process is exiting" in str(error))
            kept.clear()

        atexit.register(last)
        import torch
        kept["x"] = torch.ones(1 << 22, device="host")
        kept["stream"] = torch.host.Stream()
        """,
        fresh=True,  # exit handlers run in the reverse order of imports
    )
    assert (result.returncode, result.stderr) == (0, "")
    outcomes = dict(line.split(" ", 1) for line in result.stdout.splitlines())
    assert len(outcomes) == 6
    assert outcomes["synchronize"] == outcomes["new"] == "True"
    assert "False" not in outcomes.values()


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ('fail("finalize")', "at exit, `finalize` failed"),
        ("lose(0)", "at exit: driver 'host' answered device lost"),
    ],
)
def test_failures_at_exit_are_told_in_a_line(fault, told):
    code = f"""
        import torch
        from torch_outboard.drivers import torture
        torch.ones(3, device="host")
        torture.{fault}
    """
    result = try_python(code, OUTBOARD_TORTURE="count")
    assert result.returncode == 0
    (line,) = result.stderr.splitlines()
    assert told in line
