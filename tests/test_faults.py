"""Bad days: drivers that fail, lack functions or memory, and processes that end in disorder."""

import gc
import textwrap

import pytest
import torch

from tests.support import in_threads, run_python, try_python

# ---- Every call fails once

INJECT = '''
import faulthandler
import gc
import itertools

import torch
from torch_outboard.drivers import faults

faulthandler.enable()
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
    loss = torch.nn.functional.mse_loss(model(x), y)
    loss.backward()
    with torch.no_grad():  # an optimizer would import Dynamo, for seconds
        for parameter in model.parameters():
            parameter -= 0.1 * parameter.grad
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
    return {kind: count for kind, count in faults.live().items() if kind != "queues"}


expected = train(model_on("cpu"), inputs, targets)
expected.append(expected[0])
bystander = torch.arange(5000.0).to(device)
torch.testing.assert_close(step(), expected)
baseline = drop()
gc.freeze()  # collections look at what comes after this
attempts = finished = raised = 0
reached = set()
names = sorted(faults.calls(), key=lambda name: name != "queue_create")
for name in names:
    if name in ("initialize", "finalize", "device_count", "device_properties"):
        continue
    for nth in itertools.count(1):
        status = ("error", "device_lost", "out_of_memory")[nth % 3]
        faults.reset()
        faults.fail(name, nth, status)
        outcome = "finished"
        try:
            results = step()
            torch.testing.assert_close(results, expected)
        except (RuntimeError, ValueError) as error:
            outcome = f"{type(error).__name__}: {error}"
            assert "INTERNAL ASSERT" not in outcome, (name, nth, outcome)
            assert f"`{name}`" in outcome or "out of memory" in outcome, (name, nth, outcome)
            raised += 1
        injected = faults.injected()
        faults.reset()
        results = None
        if injected == 0:
            assert outcome == "finished", (name, nth, outcome)
            break
        reached.add(name)
        attempts += 1
        finished += outcome == "finished"
        live = drop()
        assert live == baseline, (name, nth, outcome, live, baseline, faults.leaks())
        assert torch.equal(bystander.cpu(), torch.arange(5000.0)), (name, nth)
        torch.testing.assert_close(step(), expected, msg=lambda m: f"{name} {nth}: {m}")
        assert drop() == baseline, (name, nth, "after a step without faults")
assert faults.misuses() == 0, faults.misuses()
print(attempts, finished, raised, *sorted(reached))
'''


@pytest.mark.skipif(
    not hasattr(torch.accelerator, "empty_host_cache"),
    reason="PyTorch gives cached pinned memory back from 2.12 on",
)
@pytest.mark.parametrize("access", ["shared", "separate"])
def test_a_training_step_survives_any_failing_call(access):
    printed = run_python(
        INJECT,
        timeout=280,
        OUTBOARD_FAULTS="count",
        OUTBOARD_HOST_ACCESS=access,
        OUTBOARD_FALLBACK_COPIED="allow",
    )
    attempts, finished, raised, *reached = printed.split()
    assert int(attempts) >= 30
    assert int(finished) + int(raised) == int(attempts)
    assert int(raised) > int(attempts) // 3
    expected = {"allocate", "deallocate", "event_create", "event_record", "event_wait"}
    expected |= {"host_allocate", "host_deallocate", "copy_host_to_device", "queue_create"}
    assert expected <= set(reached)


# ---- Threads


@pytest.mark.faults
def test_tensors_freed_in_other_threads(device, device_module):
    gc.collect()
    before = device_module.memory_allocated()
    for _ in range(8):
        tensors = [torch.full((1000,), float(i)).to(device) for i in range(20)]
        lists = [[tensors.pop() for _ in range(5)] for _ in range(4)]
        in_threads(lambda i, lists=lists: lists[i].clear(), 4)
        assert torch.full((1000,), 7.0).to(device).sum().item() == 7000
    gc.collect()
    assert device_module.memory_allocated() == before


# ---- The end of the process

ENDINGS = {
    "objects of all kinds": """
        import threading
        x = torch.ones(1 << 20, device="host", requires_grad=True)
        y = (x * 2).sum()
        y.backward()
        view, other = x[3:], torch.ones(3, device="host:1")

        streams = [torch.host.Stream(i % 2) for i in range(40)]
        events = [stream.record_event() for stream in streams]
        torch.host.set_stream(streams[3])
        x.record_stream(streams[0])
        generator = torch.Generator("host")

        def work():
            torch.host.set_stream(torch.host.Stream(1))
            local.x = torch.ones(3, device="host")
        local = threading.local()
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()

        class Holder: pass
        holder = Holder()
        holder.self, holder.x = holder, torch.ones(1 << 20, device="host")
        holder.pinned = torch.ones(3).pin_memory()
        torch.kept_until_the_end = holder
    """,
    "pending work": """
        source = torch.ones(1 << 22).pin_memory()
        x = source.to("host", non_blocking=True)
        for _ in range(20):
            x.copy_(source, non_blocking=True)
            source.copy_(x, non_blocking=True)
        event = torch.host.current_stream().record_event()
    """,
    "threads that wait, and one that ends last": """
        import threading, time
        def work():
            x = torch.ones(1000, device="host", requires_grad=True)
            with torch.host.stream(torch.host.Stream()):
                y = (x * x).sum()
                pinned = torch.ones(500).pin_memory()
                y = pinned.to("host", non_blocking=True)
                ready.release()
                time.sleep(1000)
        def last():
            time.sleep(0.3)
            assert (torch.ones(3, device="host") + 1).sum().item() == 6
        ready = threading.Semaphore(0)
        for _ in range(3):
            threading.Thread(target=work, daemon=True).start()
        for _ in range(3):
            ready.acquire()
        threading.Thread(target=last).start()
    """,
    "nothing used": "",
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_exit_is_quiet(ending):
    result = try_python(
        "import torch\n" + textwrap.dedent(ENDINGS[ending]),
        OUTBOARD_FALLBACK_COPIED="allow",
        OUTBOARD_FAULTS="delay_us=2000" if ending == "pending work" else "",
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
        ("lose(0)", "at exit: driver 'host' returned device lost"),
    ],
)
def test_failures_at_exit_are_told_in_a_line(fault, told):
    code = f"""
        import torch
        from torch_outboard.drivers import faults
        torch.ones(3, device="host")
        faults.{fault}
    """
    result = try_python(code, OUTBOARD_FAULTS="count")
    assert result.returncode == 0
    (line,) = result.stderr.splitlines()
    assert told in line
