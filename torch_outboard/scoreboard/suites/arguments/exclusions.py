"""Exclusions of the sweep over arguments, each with its reason.

As in `exclusion_table.py`, an exclusion that hides no failure any more fails its overload.
`failure` begins with the argument and its value, as in "alpha = 2j". Calls that an unsafe exclusion
names are not made, since they end the process on CPU.
"""

from collections.abc import Iterator

from torch_outboard.scoreboard.exclusions import KIT, PYTORCH, Exclusion

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

OUTPUTS_GROW = "as other operators the device resizes outputs whose sizes CPU refuses"

CONTRADICTION = "`is_target` says something else than `target`; the device looks at the latter"

INTEGERS_AS_ON_CUDA = "CPU has no kernel for integers; the device has, as CUDA"

LAST_OFFSET = "the last offset is not the number of indices, and CPU counts those behind it"

CPU_READS_GAPS = "PyTorch's CPU kernel reads expanded offsets as if they lay together"

CPU_READS_NO_STRIDE = "PyTorch's CPU kernel reads a stride that is not there, and raises or not"

CPU_READS_BEYOND = "PyTorch's CPU kernel reads behind the end of a tensor that is too short"

CPU_ADDS_INFINITIES = "CPU's library multiplies terms by an infinite alpha before it adds them"

CPU_READS_ITS_OUTPUT = (
    "PyTorch's CPU kernel resizes the output and sets it to 0 before it reads the same tensor"
)

CPU_READS_NO_WEIGHTS = (
    "where the scale does not fit the sizes PyTorch's CPU kernel reads weights that it has not set"
)

CPU_REPEATS_A_ROW = "for an output of one column PyTorch's CPU kernel repeats the first row"

CPU_MULTIPLIES_INFINITY = "CPU multiplies an infinity with 0, where the sum is 0"

NAN_SCORES = "CPU makes 0 of scores that are NaN; the device gives NaN, as the definition says"

# The device's kernels could do otherwise; the others are faults of CPU's.
OF_THE_KIT = frozenset(
    {
        CPU_TAKES_ABSOLUTE_VALUES, FOR_THE_BACKWARD_PASS, NOT_ASKED_FOR, OUTPUTS_GROW,
        CONTRADICTION, INTEGERS_AS_ON_CUDA, LAST_OFFSET,
    }
)  # fmt: skip

ANY_HUGE = "n = 2\\*\\*"


def _listed(
    overloads: str,
    checks: str,
    reason: str,
    failure: str,
    unsafe: bool = False,
    on_host: bool = False,
) -> Iterator[Exclusion]:
    """For each of the overloads and checks.

    Of the device's kernels alone, unless `unsafe`, or `on_host`: without device kernels as well.
    """
    for overload in overloads.split():
        for check in checks.split():
            where = "" if unsafe or on_host else "device"
            name = f"aten::{overload}"
            owner = KIT if reason in OF_THE_KIT else PYTORCH
            yield Exclusion(
                name, check, reason, failure, unsafe=unsafe, placement=where, owner=owner
            )


def _forms(names: str, *endings: str) -> str:
    """Overloads: each name with each ending."""
    return " ".join(name + ending for name in names.split() for ending in endings)


_POLYNOMIALS = (
    "special_chebyshev_polynomial_u special_chebyshev_polynomial_w "
    "special_laguerre_polynomial_l special_legendre_polynomial_p "
    "special_shifted_chebyshev_polynomial_u special_shifted_chebyshev_polynomial_w"
)
_ADAM = "_fused_adam_ _fused_adam_.tensor_lr _fused_adamw_ _fused_adamw_.tensor_lr"
_LIMITS = (
    (_forms("hardshrink_backward softshrink_backward", "", ".grad_input"), "lambd"),
    (_forms("hardtanh_backward", "", ".grad_input"), "(min_val|max_val)"),
    ("logit logit_ logit.out logit_backward logit_backward.grad_input", "eps"),
)

EXCLUSIONS: tuple[Exclusion, ...] = (
    # ---- calls that are not made, since CPU's results are not defined ---------------------------
    *_listed(_forms("special_laguerre_polynomial_l special_legendre_polynomial_p", ".n_scalar",
                    ".n_scalar_out"), "numbers", CPU_TAKES_STEPS, ANY_HUGE, unsafe=True),
    *_listed(_forms(_POLYNOMIALS, ".x_scalar", ".x_scalar_out"), "numbers", CPU_RETURNS_GARBAGE,
             "x = nan", unsafe=True),
    *(
        exclusion
        for overloads, limit in _LIMITS
        for exclusion in _listed(overloads, "numbers", CPU_MIXES_NAN, f"{limit} = nan", unsafe=True)
    ),
    *_listed(_forms("fractional_max_pool3d_backward", "", ".grad_input"), "tensors",
             CPU_CORRUPTS_MEMORY,
             "(indices (of shape|with (dimension|all))|grad_output with dimension 0)", unsafe=True),
    *_listed(_forms("fractional_max_pool3d_backward", "", ".grad_input"), "lists",
             CPU_CORRUPTS_MEMORY, "output_size = \\[\\]", unsafe=True),
    *_listed(_ADAM, "tensors", CPU_CORRUPTS_MEMORY,
             "(max_)?exp_avg(_sq)?s with the last (with 0|of size|one shorter)", unsafe=True),
    *_listed(_forms("_ctc_loss_backward", "", ".Tensor"), "lists tensors layouts",
             CPU_CORRUPTS_MEMORY, "((input|target)_lengths = |log_alpha expanded"
             "|(log_probs|log_alpha|neg_log_likelihood) (of size|one shorter|with ))", unsafe=True),
    *_listed("native_layer_norm_backward native_layer_norm_backward.out", "tensors",
             CPU_CORRUPTS_MEMORY,
             "grad_out (one shorter|of size|with )", unsafe=True),
    *_listed("_transformer_encoder_layer_fwd", "tensors", CPU_CORRUPTS_MEMORY, ".* of dtype ",
             unsafe=True),
    *_listed("_embedding_bag _embedding_bag.out", "layouts", CPU_READS_GAPS, "offsets expanded",
             unsafe=True),
    *_listed("_scaled_dot_product_flash_attention_for_cpu_backward", "tensors", CPU_READS_NO_STRIDE,
             "key with a dimension more", unsafe=True),
    *_listed(_forms("_embedding_bag_per_sample_weights_backward", "", ".out"), "tensors",
             CPU_READS_BEYOND, "(offset2bag|weight) one shorter", unsafe=True),
    *_listed("batch_norm_backward native_batch_norm_backward native_batch_norm_backward.out",
             "tensors", CPU_READS_BEYOND, "grad_out with 0 dimensions", unsafe=True),
    *_listed(_forms("_pdist_backward", "", ".out"), "tensors", CPU_READS_BEYOND,
             "grad with a dimension more", unsafe=True),
    *_listed("addmm addmm_ addmm.out", "numbers", CPU_ADDS_INFINITIES, "alpha = inf", unsafe=True),
    *_listed("_embedding_bag_backward _embedding_bag_dense_backward "
             "_embedding_bag_dense_backward.out", "numbers", CPU_CORRUPTS_MEMORY,
             "num_weights = ", unsafe=True),
    *_listed("max_unpool3d.out", "overlaps", CPU_READS_ITS_OUTPUT,
             "out the same tensor as the read self", unsafe=True),
    *_listed(_forms("_upsample_bilinear2d_aa _upsample_bicubic2d_aa", "", ".out"), "numbers",
             CPU_READS_NO_WEIGHTS, "scales_[hw] = 0\\.5", unsafe=True),
    # ---- what the device does otherwise ---------------------------------------------------------
    *_listed(_forms("polygamma", "", "_", ".out"), "numbers", CPU_CUTS_NUMBERS,
             f"{ANY_HUGE}.*: values"),
    *_listed(_forms("special_shifted_chebyshev_polynomial_v", ".n_scalar", ".n_scalar_out"),
             "numbers", CPU_OVERFLOWS, "n = 2\\*\\*62: values"),
    *_listed(_forms("linalg_vector_norm", "", ".out"), "numbers", CPU_TAKES_ABSOLUTE_VALUES,
             "ord = (nan|2\\*\\*[0-9]+): values"),
    *_listed(_forms("_cdist_backward _pdist_backward", "", ".out"), "numbers",
             CPU_DIVIDES_INFINITIES, "p = 1e\\+300: values"),
    *_listed(_forms("special_zeta.self_scalar", "", "_out"), "numbers", CPU_MULTIPLIES_INFINITY,
             "self = 2\\*\\*62: values"),
    *_listed("_embedding_bag_backward _embedding_bag_dense_backward "
             "_embedding_bag_dense_backward.out", "numbers", CPU_DIVIDES_BY_OTHERS,
             "scale_grad_by_freq = True: values"),
    *_listed("_embedding_bag _embedding_bag.out", "numbers tensors layouts", FOR_THE_BACKWARD_PASS,
             ".*: result [12]: "),
    *_listed("_embedding_bag_forward_only _embedding_bag_forward_only.out", "numbers",
             FOR_THE_BACKWARD_PASS, ".*: result [12]: "),
    *_listed("_embedding_bag _embedding_bag.out", "numbers", LAST_OFFSET,
             "include_last_offset = True: result 0: values"),
    *_listed("unique_dim unique_dim_consecutive", "numbers tensors layouts", NOT_ASKED_FOR,
             ".*: result [12]: shape"),
    *_listed("unique_consecutive", "numbers", NOT_ASKED_FOR, ".*: result [12]: shape"),
    *_listed("grid_sampler_2d_backward grid_sampler_3d_backward", "lists", NOT_ASKED_FOR,
             "output_mask = \\[True, False\\]: result 1: is a NoneType"),
    *_listed("binary_cross_entropy.out binary_cross_entropy_backward.grad_input "
             "native_batch_norm.out _native_batch_norm_legit_no_training.out", "tensors",
             OUTPUTS_GROW,
             "(out|out1|out2|grad_input|save_mean|save_invstd) (of s|with |one shorter)"),
    *_listed(_forms("histc", "", ".out"), "tensors", INTEGERS_AS_ON_CUDA, "self of dtype int64",
             on_host=True),
    *_listed(_forms("multilabel_margin_loss_backward", "", ".grad_input"), "layouts", CONTRADICTION,
             "(is_)?target expanded: values"),
    *_listed("_scaled_dot_product_flash_attention_for_cpu", "numbers", NAN_SCORES, "scale = nan: "),
    *_listed(_forms("_upsample_bilinear2d_aa", "", ".out"), "lists", CPU_REPEATS_A_ROW,
             "output_size = \\[17, 1\\]: values"),
)  # fmt: skip
