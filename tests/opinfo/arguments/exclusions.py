"""What the sweep over arguments does not ask of the device, each with its reason.

As in `tests/opinfo/exclusions.py`, an exclusion that hides no failure any more fails its overload.
`failure` begins with the argument and its value, as in "alpha = 2j". Calls that an unsafe exclusion
names are not made, since they end the process on CPU.
"""

from __future__ import annotations

from tests.opinfo.exclusions import CPU_WRITES_GAPS, Exclusion

CPU_TAKES_STEPS = "CPU takes as many steps per element as the degree says, which is for minutes"

CPU_CORRUPTS_MEMORY = "PyTorch's CPU kernel does not check sizes, and writes or reads beyond memory"

CPU_RETURNS_GARBAGE = "PyTorch's CPU loop ends at NaN, and returns a variable that it has not set"

CPU_CUTS_NUMBERS = "PyTorch's CPU kernel cuts the order to 32 bits"

TAKES_MORE = "PyTorch's CPU kernel takes contiguous tensors alone; the device's takes all"

ANY_HUGE = "n = 2\\*\\*"

EXCLUSIONS: tuple[Exclusion, ...] = (
    *(
        Exclusion(
            f"aten::special_{name}.n_scalar{out}",
            "numbers",
            CPU_TAKES_STEPS,
            failure=ANY_HUGE,
            unsafe=True,
        )
        for name in ("laguerre_polynomial_l", "legendre_polynomial_p")
        for out in ("", "_out")
    ),
    *(
        Exclusion(
            f"aten::special_laguerre_polynomial_l.x_scalar{out}",
            "numbers",
            CPU_RETURNS_GARBAGE,
            failure="x = nan: values",
        )
        for out in ("", "_out")
    ),
    *(
        Exclusion(name, "numbers", CPU_CUTS_NUMBERS, failure=f"{ANY_HUGE}.*: values", way="device")
        for name in ("aten::polygamma", "aten::polygamma_", "aten::polygamma.out")
    ),
    Exclusion(
        "aten::multi_margin_loss_backward",
        "tensors",
        CPU_CORRUPTS_MEMORY,
        failure="grad_output ",
        unsafe=True,
    ),
    *(
        Exclusion(
            f"aten::fractional_max_pool3d_backward{form}",
            check,
            CPU_CORRUPTS_MEMORY,
            failure=failure,
            unsafe=True,
        )
        for form in ("", ".grad_input")
        for check, failure in (
            ("tensors", "indices (of shape|with (dimension|all))"),
            ("tensors", "grad_output with dimension 0"),
            ("lists", "output_size = \\[\\]"),
        )
    ),
    Exclusion(
        "aten::fractional_max_pool3d.output",
        "overlaps",
        CPU_CORRUPTS_MEMORY,
        failure="(output|indices) ",
        unsafe=True,
    ),
    Exclusion(
        "aten::fractional_max_pool3d_backward.grad_input",
        "layouts",
        CPU_WRITES_GAPS,
        failure="grad_input with dimensions in reverse order: values",
    ),
    *(
        Exclusion(
            f"aten::rrelu_with_noise{form}",
            "overlaps",
            CPU_CORRUPTS_MEMORY,
            failure="noise expanded",
            unsafe=True,
        )
        for form in ("", "_", ".out")
    ),
    *(
        Exclusion(name, "layouts", TAKES_MORE, failure="self .*_pdist_forward requires contiguous")
        for name in ("aten::_pdist_forward", "aten::_pdist_forward.out")
    ),
)
