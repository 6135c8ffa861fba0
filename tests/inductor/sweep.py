"""Runs the operator database compiled, and writes what is right.

    python -m tests.inductor.sweep --dtype float32 --driver ocl --resume

Each sample is compiled alone, forward and where possible backward, and compared with eager CPU.
Results appear in `.test-results/inductor/<dtype>-<driver>.jsonl`, a line for each entry; a stopped
sweep goes on with --resume. Exit status 1 means that an entry is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import warnings
from collections import Counter
from itertools import islice, product
from typing import Any

from tests.inductor.worker import Worker, answers_of, known, write
from tests.line_process import ROOT
from tests.opinfo.exclusions import exclusions_for

FOLDER = ROOT / ".test-results" / "inductor"
SAMPLES = 3  # of an entry, from its first and last
TIMEOUT = 300  # seconds for an entry

# Entries whose results are not determined by their arguments, or that compile nowhere.
EXCLUDED = {
    "empty": "memory as it was",
    "empty_like": "memory as it was",
    "empty_permuted": "memory as it was",
    "empty_strided": "memory as it was",
    "new_empty": "memory as it was",
    "new_empty_strided": "memory as it was",
    "bernoulli": "draws",
    "cauchy": "draws",
    "exponential": "draws",
    "geometric": "draws",
    "log_normal": "draws",
    "multinomial": "draws",
    "normal": "draws",
    "normal.in_place": "draws",
    "normal.number_mean": "draws",
    "rand_like": "draws",
    "randint": "draws",
    "randint_like": "draws",
    "randn": "draws",
    "randn_like": "draws",
    "uniform": "draws",
    "nn.functional.alpha_dropout": "draws",
    "nn.functional.dropout": "draws",
    "nn.functional.dropout2d": "draws",
    "nn.functional.dropout3d": "draws",
    "nn.functional.feature_alpha_dropout.with_train": "draws",
    "nn.functional.fractional_max_pool2d": "draws",
    "nn.functional.fractional_max_pool3d": "draws",
    "nn.functional.multi_head_attention_forward": "draws",
    "nn.functional.rrelu": "draws",
    "as_strided.partial_views": "moving a sample loses the rest of its storage",
    "native_batch_norm": "decomposed, it has empty statistics on CPU alone",
    "_native_batch_norm_legit": "decomposed, it has empty statistics on CPU alone",
    "tensor_split": "takes a tensor of the host, and samples are moved as a whole",
    "kthvalue": "of equal values any place is right",
    "svd_lowrank": "draws",
    "pca_lowrank": "draws",
}
# The same, but for float32 and float64.
EXCLUDED_IN_OTHER_DTYPES = {
    "topk": "of equal values any place is right",
    "sort": "of equal values any place is right",
    "argsort": "of equal values any place is right",
    "_batch_norm_with_update": "decomposed, its statistics have the input's dtype on CPU alone",
    "native_layer_norm": "decomposed, its statistics have the input's dtype on CPU alone",
}


def excluded(name: str, dtype: str) -> bool:
    return name in EXCLUDED or (
        dtype not in ("float32", "float64") and name in EXCLUDED_IN_OTHER_DTYPES
    )


def entry_name(op: Any) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else str(op.name)


def moved(tree: Any, device: str) -> Any:
    import torch
    from torch.utils._pytree import tree_map

    def move(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value.detach().to(device).requires_grad_(value.requires_grad)
        if isinstance(value, torch.device):
            return torch.device(device)
        return value

    return tree_map(move, tree)


def widened(tree: Any) -> Any:
    """With twice the digits, to judge what rounding makes different."""
    import torch
    from torch.utils._pytree import tree_map

    def widen(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        dtype = torch.promote_types(value.dtype, torch.float64)
        floating = value.dtype.is_floating_point or value.dtype.is_complex
        return value.detach().to(dtype).requires_grad_(value.requires_grad) if floating else value

    return tree_map(widen, moved(tree, "cpu"))


def check_sample(op: Any, sample: Any, device: str, backward: bool, dynamic: bool) -> str:
    """How a compiled sample differs from eager CPU; "" if it does not."""
    import torch
    from torch.utils._pytree import tree_flatten

    from tests.opinfo.comparison import as_exact_as, tensors_in, value_difference

    def run(function: Any, tree: Any) -> list[torch.Tensor]:
        given, args, kwargs = tree
        result = tensors_in(function(given, *args, **kwargs))
        if not backward:
            return result
        heads = [t for t in result if t.requires_grad and not t.is_complex()]
        leaves = [
            t for t in tree_flatten(tree)[0] if isinstance(t, torch.Tensor) and t.requires_grad
        ]
        if not heads or not leaves:
            return result
        loss = sum(t.sum() for t in heads)
        gradients = torch.autograd.grad(loss, leaves, allow_unused=True)
        return [*result, *(g for g in gradients if g is not None)]

    tree = (sample.input, sample.args, sample.kwargs)
    try:
        expected = run(op, moved(tree, "cpu"))
    except Exception:
        return "not runnable"
    torch._dynamo.reset()
    compiled = torch.compile(lambda x, *a, **k: op(x, *a, **k), dynamic=dynamic or None)
    try:
        actual = run(compiled, moved(tree, device))
    except Exception as error:
        lines = [line for line in str(error).splitlines() if line.strip()] or [""]
        return f"{type(error).__name__}: {lines[0][:200]}"
    if len(actual) != len(expected):
        return f"{len(actual)} results instead of {len(expected)}"
    for want, got in zip(expected, actual, strict=True):
        if want.shape != got.shape or want.dtype != got.dtype:
            return f"{got.dtype} of {tuple(got.shape)} instead of {want.dtype}, {tuple(want.shape)}"
        difference = value_difference(want, got)
        if difference is not None and want.dtype in (torch.float16, torch.bfloat16):
            # Compiled kernels round once, at their end.
            close = torch.allclose(
                want.float(), got.detach().cpu().float(), 0.05, 0.05, equal_nan=True
            )
            difference = None if close else difference
        if difference is not None and (want.dtype.is_floating_point or want.dtype.is_complex):
            try:
                exact = run(op, widened(tree))[[t is want for t in expected].index(True)]
                if as_exact_as(want, got, exact):
                    difference = None
            except Exception:
                pass
        if difference is not None:
            return difference
    return ""


def check_entry(
    op: Any, dtype: Any, device: str, dynamic: bool = False, count: int = SAMPLES
) -> dict[str, Any]:
    """Runs the first samples of an entry."""
    backward = dtype.is_floating_point and op.supports_autograd
    name = str(dtype).removeprefix("torch.")
    exclusions = exclusions_for(entry_name(op), name, "", "device")
    samples = list(islice(op.sample_inputs("cpu", dtype, requires_grad=backward), count))
    reasons = [check_sample(op, sample, device, backward, dynamic) for sample in samples]
    # What eager CPU gets wrong, or Inductor's own backend for CPU, is not held against ours.
    for place, reason in enumerate(reasons):
        checks = product(exclusions, ("forward", "backward"))
        hidden = any(exclusion.hides(check, reason) for exclusion, check in checks)
        if hidden or (reason and check_sample(op, samples[place], "cpu", backward, dynamic)):
            reasons[place] = "not runnable"
    ran = [reason for reason in reasons if reason != "not runnable"]
    wrong = [reason for reason in ran if reason]
    status = "wrong" if wrong else ("right" if ran else "not runnable")
    return {"entry": entry_name(op), "status": status, "samples": len(ran), "reasons": wrong[:2]}


def work(dtype_name: str, dynamic: bool, count: int) -> None:
    """Answers names of entries on standard input with lines on standard output."""
    import logging

    import torch
    from torch.testing._internal.common_methods_invocations import op_db

    import torch_outboard

    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    dtype = getattr(torch, dtype_name)
    by_name = {entry_name(op): op for op in op_db if dtype in op.dtypes}
    device = torch_outboard.device_name()
    print(json.dumps(sorted(by_name)), file=answers, flush=True)
    for line in sys.stdin:
        answer = check_entry(by_name[line.strip()], dtype, device, dynamic, count)
        print(json.dumps(answer), file=answers, flush=True)


def worker(options: argparse.Namespace) -> Worker:
    """A process that checks entries."""
    environment = {"TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}
    if options.driver:
        environment["OUTBOARD_DRIVER"] = options.driver
    if options.driver != "host":  # which may compile no kernels
        environment["OUTBOARD_WAY"] = os.environ.get("OUTBOARD_WAY", "device")
    command = ["-m", "tests.inductor.sweep", "--work"]
    command += ["--dtype", options.dtype, "--samples", str(options.samples)]
    command += ["--dynamic"] if options.dynamic else []
    return Worker(command, environment, TIMEOUT)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.inductor.sweep", description=__doc__)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--driver", default="", help="default: as the environment says")
    parser.add_argument("--dynamic", action="store_true", help="with dynamic shapes")
    parser.add_argument("--samples", type=int, default=SAMPLES, help="of an entry, at most")
    parser.add_argument("--jobs", type=int, default=1, help="processes that check entries")
    parser.add_argument("--entry", action="append", help="only this entry; may be repeated")
    parser.add_argument("--resume", action="store_true", help="keep what is known to be right")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.dtype, options.dynamic, options.samples)
        return 0
    way = os.environ.get("OUTBOARD_WAY", "") if options.driver == "host" else ""
    words = [options.dtype, options.driver, way, "dynamic" if options.dynamic else ""]
    path = FOLDER / f"{'-'.join(word for word in words if word)}.jsonl"
    answers = known(path) if options.resume or options.entry else {}
    workers = [worker(options) for _ in range(options.jobs)]
    listed = workers[0].names()
    done = {
        name
        for name, answer in answers.items()
        if options.resume and answer["status"] in ("right", "not runnable")
    }
    names = [
        name
        for name in options.entry or listed
        if name not in done and not excluded(name, options.dtype)
    ]
    for answer in answers_of(workers, names):
        answers[answer["entry"]] = answer
        write(path, answers)
        if answer["status"] not in ("right", "not runnable"):
            print(answer["entry"], answer["status"], *answer["reasons"], sep=": ", flush=True)
    counts = Counter(
        answer["status"] for name, answer in answers.items() if not excluded(name, options.dtype)
    )
    runnable = sum(counts.values()) - counts["not runnable"]
    without = sum(excluded(name, options.dtype) for name in listed)
    print(f"{counts['right']} of {runnable} entries are right; {without} are excluded")
    return 0 if counts["right"] == runnable else 1


if __name__ == "__main__":
    raise SystemExit(main())
