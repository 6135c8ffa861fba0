"""The suites of the scoreboard: checks of one kind, over one of PyTorch's databases.

A suite's module in this folder has `check(entry, dtype, device, result, limits)`, which adds what
it finds to an `EntryResult`, and `entries(dtype)` unless these are the operators. Nothing here
imports PyTorch's database: the process that runs the workers does without.
"""

from __future__ import annotations

from dataclasses import dataclass, field

DTYPES = (
    "float32", "float64", "float16", "bfloat16", "int64", "int32", "uint8", "bool", "complex64",
)  # fmt: skip
COMPILED_DTYPES = (
    "float32", "float64", "float16", "bfloat16", "int64", "int32", "bool", "complex64",
)  # fmt: skip
COMPILED_DYNAMIC_DTYPES = ("float32", "float16", "int64")


@dataclass(frozen=True)
class Suite:
    """Checks of one kind.

    Args:
        words: what it compares, in a line.
        checks: their names, which no other suite has.
        dtypes: in which entries are checked; ("",) for a suite that chooses them itself.
        module: below `suites`.
        environment: what its workers need.
        limits_memory: whether calls of huge sizes have to raise, and not take the machine's memory.
        turns: whether one sample of each entry can stand for all of them (`--turn`).
    """

    words: str
    checks: tuple[str, ...]
    dtypes: tuple[str, ...] = ("",)
    module: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    limits_memory: bool = True
    turns: bool = False


SUITES: dict[str, Suite] = {
    "operators": Suite(
        "operators of the database, eager: results, aliasing, arguments, `out=`, gradients",
        ("forward", "aliasing", "mutation", "inplace", "out", "backward"),
        DTYPES,
        turns=True,
    ),
    "refusals": Suite(
        "what CPU refuses is refused: wrong arguments, and dtypes without a kernel",
        ("errors", "dtypes", "backward dtypes"),
    ),
    "layouts": Suite(
        "shapes, strides and dtypes for arguments of every layout",
        ("layout", "gradient layout"),
    ),
    "arguments": Suite(
        "unusual arguments of every overload of the operator tables",
        ("numbers", "lists", "tensors", "layouts", "overlaps", "devices", "call"),
        module="arguments.checks",
    ),
    "derivatives": Suite(
        "derivatives of both orders, and by forward mode, against differences of results",
        ("gradcheck", "gradgradcheck", "forward mode"),
        ("float64", "complex128"),
    ),
    "inputs": Suite(
        "reference inputs of the database, conjugated and negated views, mixed dtypes",
        ("reference inputs", "conj view", "neg view", "promotion"),
        ("float32", "int64", "bool", "complex64"),
    ),
    "functions": Suite(
        "the operators under transforms of torch.func",
        ("vmap", "vjp", "jvp", "vmap of vjp"),
        ("float32", "int64"),
    ),
    "contexts": Suite(
        "the operators with fake tensors and in autocast",
        ("fake", "autocast"),
        ("float32", "int64"),
    ),
    "foreach": Suite(
        "operators of lists of tensors",
        ("foreach", "foreach inplace", "foreach backward"),
        ("float32", "float64", "bfloat16", "int64", "bool", "complex64"),
    ),
    "modules": Suite(
        "the modules of torch.nn",
        ("module forward", "module backward", "module state"),
        ("float32", "float64"),
    ),
    "optimizers": Suite(
        "the optimizers of torch.optim",
        ("optimizer loop", "optimizer foreach", "optimizer fused", "optimizer state"),
        ("float32", "float64"),
    ),
    "compiled": Suite(
        "the operators under torch.compile, with static and with dynamic shapes",
        ("compiled", "compiled dynamic"),
        COMPILED_DTYPES,
        environment={"TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"},
        limits_memory=False,
    ),
}
