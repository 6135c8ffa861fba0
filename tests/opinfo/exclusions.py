"""What the operator sweep does not ask of the device, each with its reason.

An exclusion that hides no failure any more fails the entry that it names, so this table cannot
outlive its reasons.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Exclusion:
    """A check of an entry that may fail.

    Args:
        entry: full name in the operator database, `name` or `name.variant`.
        check: one of forward, aliasing, mutation, inplace, out, backward.
        reason: why it is right, or unavoidable, that the check fails.
        dtypes: names of dtypes; empty for all on which the check runs.
        access: "shared", "separate" or "" for both.
        way: "device" where it is about device kernels alone, "host" about the host's, else "".
        unsafe: the check is not run, since PyTorch itself may end the process in it; only for
            "backward".
    """

    entry: str
    check: str
    reason: str
    dtypes: tuple[str, ...] = ()
    access: str = ""
    unsafe: bool = False
    way: str = ""

    def applies(self, entry: str, dtype: str, access: str, way: str = "") -> bool:
        return (
            self.entry == entry
            and (not self.dtypes or dtype in self.dtypes)
            and self.access in ("", access)
            and self.way in ("", "device" if way == "device" else "host")
        )


READS_PAST_THE_END = (
    "PyTorch's CPU kernel reads past the column indices where a row has no entry, and what lies "
    "there decides whether the process survives"
)

ACCUMULATES_BY_DEVICE_TYPE = (
    "PyTorch's Python code for chunked losses adds in float32 where the device is called 'cpu' or "
    "'cuda', and in the inputs' own dtype elsewhere, so the results differ by its roundings"
)

TIES = (
    "which of equal values is chosen, or comes first, is arbitrary on CPU; device kernels keep the "
    "order of the input. The values themselves agree"
)

CPU_IS_INACCURATE = (
    "between 5 and 8 PyTorch's CPU kernel is off by up to 8e-7, and the device's kernel by 1e-14, "
    "compared with mpmath"
)

GRADIENT_OF_A_CONSTANT = (
    "what is normalized along a dimension of size 1 is its sign, whose gradient is zero: CPU and "
    "the device return what the roundings of the terms leave of it"
)

CPU_OVERFLOWS = (
    "CPU's gradient of a product multiplies the slope by the product in float16, which overflows, "
    "before it divides by the element; the device's kernel computes in float32"
)

CANCELS = (
    "terms of the gradient cancel, and the device's error is 2.3 times CPU's, 3e-5 of the largest "
    "element; over 60 random inputs of the same size it is 0.9 times CPU's (geometric mean)"
)

EXCLUSIONS: tuple[Exclusion, ...] = (
    Exclusion("sparse.mm.reduce", "backward", READS_PAST_THE_END, unsafe=True),
    *(
        Exclusion(
            f"nn.functional.linear_cross_entropy.{variant}",
            check,
            ACCUMULATES_BY_DEVICE_TYPE,
            dtypes=("float16", "bfloat16"),
            # By device kernels the gradients of the second one agree in bfloat16.
            way="host" if (variant, check) == ("chunked_none", "backward") else "",
        )
        for variant in ("chunked", "chunked_none")
        for check in ("forward", "backward")
    ),
    Exclusion(
        "nn.functional.linear_cross_entropy.chunked_none",
        "backward",
        ACCUMULATES_BY_DEVICE_TYPE,
        dtypes=("float16",),
        way="device",
    ),
    *(
        Exclusion(entry, check, TIES, dtypes=(dtype,), way="device")
        for dtype, entry, checks in (
            ("bfloat16", "topk", "forward out backward"),
            ("bfloat16", "sort", "forward out backward"),
            ("bfloat16", "argsort", "forward"),
            ("bfloat16", "msort", "backward"),
            ("bfloat16", "mode", "forward out backward"),
            ("float16", "sort", "forward out backward"),
            ("float16", "argsort", "forward"),
            ("float16", "msort", "backward"),
            ("float16", "mode", "forward out backward"),
            ("int64", "topk", "forward out"),
            ("int64", "kthvalue", "forward out"),
            ("int64", "mode", "forward out"),
            ("int32", "topk", "forward out"),
            ("int32", "kthvalue", "forward out"),
            ("int32", "mode", "forward out"),
            ("uint8", "topk", "forward out"),
            ("uint8", "kthvalue", "forward out"),
            ("uint8", "mode", "forward out"),
            ("uint8", "sort", "forward out"),
            ("uint8", "argsort", "forward"),
            ("bool", "mode", "forward out"),
            ("bool", "sort", "forward out"),
            ("bool", "argsort", "forward"),
        )
        for check in checks.split()
    ),
    Exclusion(
        "nn.functional.normalize",
        "backward",
        GRADIENT_OF_A_CONSTANT,
        dtypes=("bfloat16",),
        way="device",
    ),
    Exclusion(
        "linalg.householder_product", "backward", CANCELS, dtypes=("complex64",), way="device"
    ),
    *(
        Exclusion(entry, "backward", CPU_OVERFLOWS, dtypes=("float16",), way="device")
        for entry in ("_segment_reduce.lengths", "_segment_reduce.offsets")
    ),
    *(
        Exclusion(entry, check, CPU_IS_INACCURATE, dtypes=("float64",), way="device")
        for entry in ("special.bessel_j0", "special.bessel_y1")
        for check in ("forward", "out")
    ),
)


def exclusions_for(entry: str, dtype: str, access: str, way: str = "") -> list[Exclusion]:
    return [e for e in EXCLUSIONS if e.applies(entry, dtype, access, way)]
