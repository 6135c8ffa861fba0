"""What the sweep over arguments does not ask of the device, each with its reason.

As in `tests/opinfo/exclusions.py`, an exclusion that hides no failure any more fails its overload.
`failure` begins with the argument and its value, as in "alpha = 2j". Calls that an unsafe exclusion
names are not made, since they end the process on CPU.
"""

from __future__ import annotations

from tests.opinfo.exclusions import Exclusion

CPU_TAKES_STEPS = "CPU takes as many steps per element as the degree says, which is for minutes"

CPU_CORRUPTS_MEMORY = "PyTorch's CPU kernel does not check sizes, and writes or reads beyond memory"

CPU_RETURNS_GARBAGE = "PyTorch's CPU loop ends at NaN, and returns a variable that it has not set"

CPU_CUTS_NUMBERS = "PyTorch's CPU kernel cuts the order to 32 bits"

CPU_OVERFLOWS = "2 * n + 1 overflows on CPU"

CPU_MIXES_NAN = (
    "a limit that is NaN means one thing in the vector loop of PyTorch's CPU kernel, and another "
    "for the elements behind it"
)

CPU_TAKES_ABSOLUTE_VALUES = (
    "where the reduced dimensions have one element CPU takes its absolute value for any order; the "
    "device computes powers, which overflow"
)

CPU_DIVIDES_BY_OTHERS = (
    "PyTorch's CPU kernel divides by the frequency of another index than the one whose gradients "
    "it adds up"
)

CPU_DIVIDES_INFINITIES = "in float32 the order is infinite, and CPU's gradient divides infinities"

FOR_THE_BACKWARD_PASS = (
    "results behind the first are for the backward pass; CPU leaves out those that its own does "
    "not read"
)

NOT_ASKED_FOR = "results that were not asked for are empty, as on CUDA, and CPU computes them"

OUTPUTS_GROW = "as other operators the device resizes outputs, of which CPU refuses the sizes"

CONTRADICTION = "`is_target` says something else than `target`; the device looks at the latter"

INTEGERS_AS_ON_CUDA = "CPU has no kernel for integers; the device has, as CUDA"

LAST_OFFSET = "the last offset is not the number of indices, and CPU counts those behind it"

CPU_READS_GAPS = "PyTorch's CPU kernel reads expanded offsets as if they lay together"

CPU_REPEATS_A_ROW = "for an output of one column PyTorch's CPU kernel repeats the first row"

CPU_MULTIPLIES_INFINITY = "CPU multiplies an infinity with 0, where the sum is 0"

NAN_SCORES = "CPU makes 0 of scores that are NaN; the device gives NaN, as the definition says"

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
    *(
        Exclusion(f"aten::{name}", "numbers", CPU_MIXES_NAN, failure=f"{limit} = nan", unsafe=True)
        for names, limit in (
            ("hardshrink_backward hardshrink_backward.grad_input", "lambd"),
            ("softshrink_backward softshrink_backward.grad_input", "lambd"),
            ("hardtanh_backward hardtanh_backward.grad_input", "(min_val|max_val)"),
            ("logit logit_ logit.out logit_backward logit_backward.grad_input", "eps"),
        )
        for name in names.split()
    ),
    *(
        Exclusion(
            f"aten::special_{name}.x_scalar{out}",
            "numbers",
            CPU_RETURNS_GARBAGE,
            failure="x = nan",
            unsafe=True,
        )
        for name in (
            "chebyshev_polynomial_u",
            "chebyshev_polynomial_w",
            "legendre_polynomial_p",
            "shifted_chebyshev_polynomial_u",
            "shifted_chebyshev_polynomial_w",
        )
        for out in ("", "_out")
    ),
    *(
        Exclusion(
            f"aten::special_shifted_chebyshev_polynomial_v.n_scalar{out}",
            "numbers",
            CPU_OVERFLOWS,
            failure="n = 2\\*\\*62: values",
            way="device",
        )
        for out in ("", "_out")
    ),
    *(
        Exclusion(
            f"aten::linalg_vector_norm{out}",
            "numbers",
            CPU_TAKES_ABSOLUTE_VALUES,
            failure="ord = (nan|2\\*\\*[0-9]+): values",
            way="device",
        )
        for out in ("", ".out")
    ),
    *(
        Exclusion(
            f"aten::{name}_backward{out}",
            "numbers",
            CPU_DIVIDES_INFINITIES,
            failure="p = 1e\\+300: values",
            way="device",
        )
        for name in ("_cdist", "_pdist")
        for out in ("", ".out")
    ),
    *(
        Exclusion(
            f"aten::{name}",
            "numbers",
            CPU_DIVIDES_BY_OTHERS,
            failure="scale_grad_by_freq = True: values",
            way="device",
        )
        for name in (
            "_embedding_bag_backward",
            "_embedding_bag_dense_backward",
            "_embedding_bag_dense_backward.out",
        )
    ),
    *(
        Exclusion(
            f"aten::{name}{out}",
            check,
            FOR_THE_BACKWARD_PASS,
            failure=".*: result [12]: ",
            way="device",
        )
        for name, checks in (
            ("_embedding_bag", ("numbers", "tensors", "layouts")),
            ("_embedding_bag_forward_only", ("numbers",)),
        )
        for check in checks
        for out in ("", ".out")
    ),
    *(
        Exclusion(
            f"aten::{name}", check, NOT_ASKED_FOR, failure=".*: result [12]: shape", way="device"
        )
        for name, checks in (
            ("unique_consecutive", ("numbers",)),
            ("unique_dim", ("numbers", "tensors", "layouts")),
            ("unique_dim_consecutive", ("numbers", "tensors", "layouts")),
        )
        for check in checks
    ),
    *(
        Exclusion(
            f"aten::grid_sampler_{dimensions}d_backward",
            "lists",
            NOT_ASKED_FOR,
            failure="output_mask = \\[True, False\\]: result 1: is a NoneType",
            way="device",
        )
        for dimensions in (2, 3)
    ),
    *(
        Exclusion(
            f"aten::{name}",
            "tensors",
            OUTPUTS_GROW,
            failure="(out|out1|out2|grad_input|save_mean|save_invstd) (of s|with |one shorter)",
            way="device",
        )
        for name in (
            "binary_cross_entropy.out",
            "binary_cross_entropy_backward.grad_input",
            "_native_batch_norm_legit_no_training.out",
            "native_batch_norm.out",
        )
    ),
    *(
        Exclusion(
            f"aten::_fused_{name}",
            "tensors",
            CPU_CORRUPTS_MEMORY,
            failure="(max_)?exp_avg(_sq)?s with the last (with 0|of size|one shorter)",
            unsafe=True,
        )
        for name in ("adam_", "adam_.tensor_lr", "adamw_", "adamw_.tensor_lr")
    ),
    *(
        Exclusion(
            f"aten::histc{out}",
            "tensors",
            INTEGERS_AS_ON_CUDA,
            failure="self of dtype int64",
            way="device",
        )
        for out in ("", ".out")
    ),
    *(
        Exclusion(
            f"aten::_embedding_bag{out}",
            check,
            reason,
            failure=failure,
            way="device",
        )
        for check, reason, failure in (
            ("numbers", LAST_OFFSET, "include_last_offset = True: result 0: values"),
            ("layouts", CPU_READS_GAPS, "offsets expanded: "),
        )
        for out in ("", ".out")
    ),
    *(
        Exclusion(
            f"aten::multilabel_margin_loss_backward{out}",
            "layouts",
            CONTRADICTION,
            failure="(is_)?target expanded: values",
            way="device",
        )
        for out in ("", ".grad_input")
    ),
    Exclusion(
        "aten::_scaled_dot_product_flash_attention_for_cpu",
        "numbers",
        NAN_SCORES,
        failure="scale = nan: ",
        way="device",
    ),
    *(
        Exclusion(
            f"aten::_upsample_bilinear2d_aa{out}",
            "lists",
            CPU_REPEATS_A_ROW,
            failure="output_size = \\[17, 1\\]: values",
            way="device",
        )
        for out in ("", ".out")
    ),
    *(
        Exclusion(
            f"aten::_ctc_loss_backward{form}",
            check,
            CPU_CORRUPTS_MEMORY,
            failure=failure,
            unsafe=True,
        )
        for form in ("", ".Tensor")
        for check, failure in (
            ("lists", "(input|target)_lengths = "),
            ("tensors", "(log_probs|log_alpha|neg_log_likelihood) (of size|one shorter|with )"),
            ("layouts", "log_alpha expanded"),
        )
    ),
    Exclusion(
        "aten::native_layer_norm_backward.out",
        "tensors",
        CPU_CORRUPTS_MEMORY,
        failure="grad_out (one shorter|of size|with )",
        unsafe=True,
    ),
    Exclusion(
        "aten::_transformer_encoder_layer_fwd",
        "tensors",
        CPU_CORRUPTS_MEMORY,
        failure=".* of dtype ",
        unsafe=True,
    ),
    *(
        Exclusion(
            f"aten::special_zeta.self_scalar{out}",
            "numbers",
            CPU_MULTIPLIES_INFINITY,
            failure="self = 2\\*\\*62: values",
            way="device",
        )
        for out in ("", "_out")
    ),
)
