"""Times of compiled functions on a device against Inductor's code for CPU.

    python -m benchmarks.compiled [--device ocl] [--rounds 21] [--save NAME] [names or groups...]

Groups are fused, chain, sorts, steps, "dynamic shapes" and optimizers. By default compiled graphs
run by device kernels, as do eager operators between them (OUTBOARD_PLACEMENT=device), and are
compared with Inductor's code for CPU; `--how eager` is eager mode on the device, `--how auto`
compiled with the default placement of eager operators. `--reference` is compiled or eager on CPU,
or "device eager", or "device separate", in which an optimizer has kernels for each tensor. `calls`
measures a call of a compiled graph of one small kernel, and `first` the first call of a compiled
training step, without and with its caches. `--save` stores both as NAME_calls.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from statistics import median

import torch
import torch.nn.functional as F

from benchmarks import training_steps
from benchmarks.compiled_models import MODELS
from benchmarks.paired import RESULTS, Ratio, Work, compare, environment, save, save_values

Function = Callable[..., object]

# Steps of training follow each other.
STEP_SECONDS = 0.3
_HOW = "BENCHMARK_HOW"


def _cases() -> dict[str, tuple[Function, tuple[torch.Tensor, ...]]]:
    torch.manual_seed(0)
    r = torch.randn
    return {
        "layer norm": (
            lambda x, w, b: F.layer_norm(x, (768,), w, b), (r(2048, 768), r(768), r(768)),
        ),
        "RMS norm": (
            lambda x, w: x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * w,
            (r(2048, 768), r(768)),
        ),
        "softmax and mask": (
            lambda x, m: (x * 0.125 + m).softmax(-1), (r(16, 256, 256), r(256, 256)),
        ),
        "GELU and bias": (lambda x, b: F.gelu(x + b), (r(1024, 3072), r(3072))),
        "rotary embedding": (
            lambda q, c, s: q * c + torch.cat((-q[..., 32:], q[..., :32]), -1) * s,
            (r(4, 8, 256, 64), r(256, 64), r(256, 64)),
        ),
        "cross entropy": (F.cross_entropy, (r(512, 5000), torch.randint(0, 5000, (512,)))),
        "group norm and SiLU": (
            lambda x, w, b: F.silu(F.group_norm(x, 8, w, b)), (r(4, 64, 32, 32), r(64), r(64)),
        ),
        "argmax": (lambda x: x.argmax(-1), (r(1024, 2000),)),
        "cumsum": (lambda x: x.cumsum(-1), (r(1024, 2000),)),
        "chain and sum": (lambda x, y, z: (x * y + z).relu().sum(), tuple(r(3, 10**7))),
        "sum of columns": (lambda x: x.sum(0), (r(4000, 1000),)),
        "one small kernel": (lambda x: x + 1, (r(4),)),
        "dropout": (lambda x: F.dropout(x, 0.1), (r(1024, 3072),)),
        "sort of 2048 x 64": (lambda x: x.sort(-1), (r(2048, 64),)),
        "sort of 1024 x 500": (lambda x: x.sort(-1), (r(1024, 500),)),
        "sort of 64 columns": (lambda x: x.sort(0), (r(64, 2048),)),
        "sort of int64": (lambda x: x.sort(-1), (torch.randint(0, 10**6, (2048, 64)),)),
        "nucleus of 256": (  # the tokens whose probabilities sum to 0.9
            lambda x: ((s := x.softmax(-1).sort(-1, descending=True))[0].cumsum(-1) < 0.9) * s[1],
            (r(1024, 256),),
        ),
    }  # fmt: skip


def _compiled() -> bool:
    """Whether this process is a side of a pair that compiles; forgets what it compiled before."""
    torch.compiler.reset()
    return os.environ.get(_HOW) != "eager"


def _work(name: str) -> Work:
    def make(device: str) -> Callable[[], object]:
        function, arguments = _cases()[name]
        given = tuple(argument.to(device) for argument in arguments)
        if _compiled():
            function = torch.compile(function)
        function(*given)
        return lambda: function(*given)

    return make


def _optimizer(kind: str, make_model: Callable[[], torch.nn.Module]) -> Work:
    """A step of an optimizer on the parameters of a model."""

    def make(device: str) -> Callable[[], object]:
        torch.manual_seed(0)
        parameters = list(make_model().to(device).parameters())
        for parameter in parameters:
            parameter.grad = torch.randn_like(parameter)
        foreach = False if os.environ.get(_HOW) == "separate" else None
        optimizer = getattr(torch.optim, kind)(parameters, lr=1e-4, foreach=foreach)
        step = torch.compile(optimizer.step) if _compiled() else optimizer.step
        step()
        return step

    return make


def _cut(x: torch.Tensor, length: int) -> torch.Tensor:
    """Inputs cut to a length; targets of whole sequences stay."""
    return x[:, :length].contiguous() if x.dim() > 1 else x


def _step(name: str, lengths: tuple[int, ...] = ()) -> Work:
    """A whole step of training; forward and backward are compiled, and the optimizer by itself.

    With lengths, there is a step for each, with inputs cut to it and dynamic shapes.
    """

    def make(device: str) -> Callable[[], object]:
        model, inputs, loss = MODELS[name]()
        net, whole = model.to(device), [x.to(device) for x in inputs]
        batches = [[_cut(x, length) for x in whole] for length in lengths] or [whole]
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4)
        forward, update = net, optimizer.step
        if _compiled():
            forward = torch.compile(net, dynamic=True if lengths else None)
            update = torch.compile(optimizer.step)

        def step() -> None:
            for given in batches:
                optimizer.zero_grad(set_to_none=True)
                loss(forward(*given[:-1]), given[-1]).backward()
                update()

        step()
        return step

    return make


# Lengths of inputs, one after the other.
DYNAMIC_SHAPES = {"small GPT": (128, 96, 64, 112, 80), "tiny BERT": (64, 48, 32, 56, 40)}
GROUPS = {
    "fused": [*list(_cases())[:9], "Adam step"],
    "chain": ["chain and sum", "sum of columns"],
    "sorts": [name for name in _cases() if name.startswith(("sort", "nucleus"))],
    "steps": list(MODELS),
    "dynamic shapes": [f"{name}, dynamic shapes" for name in DYNAMIC_SHAPES],
    "optimizers": ["AdamW step, small GPT", "AdamW step, ResNet-18"],
}
WORKS: dict[str, Work] = {name: _work(name) for name in _cases()}
WORKS |= {name: _step(name) for name in MODELS}
WORKS |= {
    f"{name}, dynamic shapes": _step(name, lengths) for name, lengths in DYNAMIC_SHAPES.items()
}
WORKS |= {
    "Adam step": _optimizer("Adam", training_steps.Gpt),
    "AdamW step, small GPT": _optimizer("AdamW", training_steps.Gpt),
    "AdamW step, ResNet-18": _optimizer("AdamW", training_steps.ResNet18),
}


def paired(names: list[str], device: str, how: str, reference: str, rounds: int) -> list[Ratio]:
    """`how` on the device ("device", "auto" or "eager") against `reference`; see the module."""
    module = "benchmarks.compiled"
    settings = {
        "OUTBOARD_DRIVER": device,
        "OUTBOARD_PLACEMENT": "auto" if how == "auto" else "device",
        "OUTBOARD_FALLBACK_COPIED": "allow",
        "POCL_MAX_PTHREAD_COUNT": str(len(os.sched_getaffinity(0))),
        _HOW: how,
    }
    # With an index, so that the name differs.
    other = f"{device}:0" if reference.startswith("device ") else "cpu"
    of_reference = {**settings, _HOW: reference.removeprefix("device ")}
    if other == "cpu":
        # Otherwise its threads sometimes share one processor, and spin.
        of_reference["OMP_PROC_BIND"] = "true"
    results = compare(
        names, device=device, reference=other, rounds=rounds, module=module,
        environment=settings, reference_environment=of_reference,
        round_seconds=STEP_SECONDS if set(names) <= {*MODELS, *GROUPS["dynamic shapes"]} else None,
    )  # fmt: skip
    ending = f"{device} {how} / {reference if other != 'cpu' else f'CPU {reference}'}"
    return [replace(result, name=f"{result.name}, {ending}") for result in results]


_CALLS = """
import json, time, torch
runs, times = {{}}, {{}}
for where in ({device!r}, "cpu"):
    x, function = torch.ones(4, device=where), torch.compile(lambda x: x + 1)
    function(x)
    runs[where] = lambda function=function, x=x: function(x)
    end = time.perf_counter() + (where != "cpu")
    while time.perf_counter() < end:
        function(x)
for _ in range(15):
    for where, run in runs.items():
        start = time.perf_counter()
        for _ in range(2000):
            run()
        taken = (time.perf_counter() - start) / 2000 * 1e6
        torch.get_device_module({device!r}).synchronize()
        times[where] = min(times.get(where, taken), taken)
print(json.dumps(times))
"""
_FIRST = """
import time, benchmarks.compiled as compiled, torch
torch.ones(1, device={device!r}) + 1
start = time.perf_counter()
compiled.WORKS["small GPT"]({device!r})
torch.get_device_module({device!r}).synchronize()
print(time.perf_counter() - start)
"""


def _apart(code: str, device: str, settings: dict[str, str]) -> float | dict[str, float]:
    """The last output of code in a separate process: the driver is fixed at its start."""
    answer = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        env={**os.environ, "OUTBOARD_DRIVER": device, **settings},
        check=True,
        capture_output=True,
        text=True,
    )
    return json.loads(answer.stdout.splitlines()[-1])


def call_cost(device: str, how: str) -> dict[str, float]:
    """Microseconds of a call of a compiled graph of one small kernel, least of several, in turn."""
    code = _CALLS.format(device=device)
    return _apart(code, device, {"OUTBOARD_PLACEMENT": how})


def first_calls(device: str, how: str) -> dict[str, float]:
    """Seconds of the first step of the compiled transformer: without caches, then with them."""
    with tempfile.TemporaryDirectory() as folder:
        settings = {
            "OUTBOARD_CACHE_DIR": f"{folder}/kernels",
            "OUTBOARD_PLACEMENT": how,
            "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor",
            "POCL_CACHE_DIR": f"{folder}/pocl",
        }
        code = _FIRST.format(device=device)
        return {name: _apart(code, device, settings) for name in ("cold", "warm")}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help=f"of: {', '.join((*GROUPS, *WORKS))}")
    parser.add_argument("--device", default=os.environ.get("OUTBOARD_DRIVER", "ocl"))
    parser.add_argument("--how", default="device", choices=("device", "auto", "eager"))
    parser.add_argument(
        "--reference",
        default="compiled",
        choices=("compiled", "eager", "device eager", "device separate"),
    )
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--save", default="", help="a name in benchmarks/results")
    options = parser.parse_args()
    names = options.names or list(GROUPS)
    if unknown := set(names) - set(WORKS) - set(GROUPS) - {"calls", "first"}:
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    saved: list[Ratio] = []
    for name in names:
        if name in ("calls", "first"):
            measure = call_cost if name == "calls" else first_calls
            measured = measure(options.device, options.how)
            print(f"{name}, {options.device}: {json.dumps(measured)}")
            if options.save:
                case = f"{name}, {options.device} {options.how}"
                print("written to", save_values(f"{options.save}_calls", case, measured))
            continue
        results = paired(
            GROUPS.get(name, [name]), options.device, options.how, options.reference, options.rounds
        )
        if len(results) > 1:
            print(f"{name}: median {median(r.ratio for r in results):.3f}")
        saved += results
    if options.save and saved:
        path = RESULTS / f"{options.save}.json"
        earlier = json.loads(path.read_text())["results"] if path.exists() else []
        new = {result.name for result in saved}
        saved = [replace(result, commit=str(environment()["commit"])) for result in saved]
        kept = [Ratio(**row) for row in earlier if row["name"] not in new]
        print("written to", save(options.save, [*kept, *saved]))


if __name__ == "__main__":
    main()
