"""The kit's exclusions, each with its reason and owner.

An exclusion that hides no failure any more fails the entry that it names, so this table cannot
outlive its reasons.
"""

from collections.abc import Sequence

from torch_outboard.scoreboard.exclusions import KIT, Exclusion, listed


def runs_by_onednn(dtype: str) -> bool:
    """Whether CPU has oneDNN, and oneDNN this dtype, which not every processor gives it."""
    import torch

    if not torch.backends.mkldnn.is_available():
        return False
    if dtype == "float16":
        return bool(torch.ops.mkldnn._is_mkldnn_fp16_supported())
    return dtype != "bfloat16" or bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


NO_KERNEL_IN_AUTOCAST = (
    "it factorizes what autocast has multiplied in bfloat16, for which PyTorch has no kernel on "
    "any device"
)

UNSAFE_IN_AUTOCAST = "autocast refuses it on devices, as on CUDA, and names what to use instead"

NO_FAKE_SPARSE_ROWS = (
    "PyTorch makes fake tensors in compressed sparse layouts of CPU, CUDA and XPU alone"
)

STATISTICS_BY_DEVICE_TYPE = (
    "in evaluation PyTorch's fake batch norm gives statistics no size where the device is called "
    "'cpu', and one per channel elsewhere; the device returns what CPU does"
)

POWERS_OF_HALF_NANS = (
    "CPU's library gives infinity or 0 for complex powers of infinities with a part that is NaN; "
    "the device's kernel gives NaN"
)

READS_PAST_THE_END = (
    "PyTorch's CPU kernel reads past the column indices where a row has no entry, and what lies "
    "there decides whether the process survives"
)

ACCUMULATES_BY_DEVICE_TYPE = (
    "PyTorch's Python code for chunked losses adds in float32 where the device is called 'cpu' or "
    "'cuda', and in the inputs' own dtype elsewhere, so the results differ by its roundings"
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

CPU_WRITES_GAPS = (
    "PyTorch's CPU kernel (that of `tril` and `triu` below most of them) writes an out tensor with "
    "gaps as if it had none: there is no CPU result to compare with"
)

CPU_CHANGES_VALUES = (
    "PyTorch's CPU writes other values into an out tensor with gaps than into one without: there "
    "is no CPU result to compare with"
)

CPU_LEAVES_GAPS = "oneDNN's kernel, which CPU runs, does not write an out tensor with gaps"

DRAWS_IN_HALF = (
    "it draws by a kernel of the kit, which takes float16 as CUDA's does; CPU's is not there"
)

COUNTS_INTEGERS = "PyTorch counts integers on accelerators, and models rely on it, not on CPU"

META_IS_ROW_MAJOR = (
    "PyTorch's meta function says row-major, by which torch.compile plans memory: with CPU's "
    "strides, channels last, compiled graphs raise, on CPU as well"
)

CPU_IS_ROW_MAJOR = (
    "CPU's kernel (for ldexp the power of a number and a tensor) is row-major; the meta function, "
    "by which torch.compile plans memory, and the device keep the order of the tensor's strides"
)

BY_STRIDES_OF_ZERO = (
    "CPU's and the meta function's transforms order dimensions by strides, which leaves the order "
    "open where those of an expanded gradient are all 0; the device does as the meta function"
)

BY_BACKEND = (
    "CPU keeps channels last of volumes only where oneDNN computes the convolution, which depends "
    "on the sizes, the dtype and the number of threads; the device always keeps it"
)


LAYOUTS = ("layout", "gradient layout")
# All checks that differentiate.
UNSAFE = (
    "backward", "backward dtypes", "gradient layout", "gradcheck", "gradgradcheck",
)  # fmt: skip
LOSS = "nn.functional.linear_cross_entropy"
HALVES = ("float16", "bfloat16")

EXCLUSIONS: tuple[Exclusion, ...] = (
    *listed("nn.functional.conv1d nn.functional.conv_transpose1d", LAYOUTS, META_IS_ROW_MAJOR,
            "transposed", placement="device"),
    *listed("nn.functional.pad.replicate nn.functional.pad.replicate_negative", LAYOUTS,
            META_IS_ROW_MAJOR, "channels_last", placement="device"),
    Exclusion("ldexp", "layout", CPU_IS_ROW_MAJOR, "transposed", placement="device"),
    Exclusion("nn.functional.logsigmoid", "reference inputs", CPU_IS_ROW_MAJOR, "strides are",
              placement="device"),
    Exclusion("angle", "reference inputs", CPU_IS_ROW_MAJOR, "strides are", dtypes=("complex64",),
              placement="device"),
    *listed("fft.fft fft.fft2 fft.fftn fft.hfft fft.hfft2 fft.hfftn fft.ifft2 fft.ifftn fft.irfft "
            "fft.irfft2 fft.irfftn", ("gradient layout",), BY_STRIDES_OF_ZERO, "expanded",
            placement="device"),
    *listed("nn.functional.conv_transpose3d", LAYOUTS, BY_BACKEND, "channels_last",
            placement="device"),
    *listed("pca_lowrank svd_lowrank", ("autocast",), NO_KERNEL_IN_AUTOCAST,
            'NotImplementedError: "geqrf_cpu" not implemented'),
    Exclusion("linalg.pinv.singular", "autocast", NO_KERNEL_IN_AUTOCAST,
              "RuntimeError: linalg.pinv\\(BFloat16"),
    Exclusion("nn.functional.binary_cross_entropy", "autocast", UNSAFE_IN_AUTOCAST,
              "RuntimeError: .* are unsafe to autocast"),
    *listed("sparse.sampled_addmm sparse.mm.reduce", ("fake",), NO_FAKE_SPARSE_ROWS,
            "RuntimeError: .*SparseCsrCPU"),
    *listed("native_batch_norm _native_batch_norm_legit", ("fake",), STATISTICS_BY_DEVICE_TYPE,
            "result 1: fake shape"),
    *listed("pow float_power __rpow__", ("reference inputs",), POWERS_OF_HALF_NANS,
            dtypes=("complex64",), placement="device", owner=KIT),
    Exclusion("histc", "dtypes", COUNTS_INTEGERS, "u?int[0-9]+: does not raise"),
    *listed("nn.functional.rrelu", ("dtypes", "backward dtypes"), DRAWS_IN_HALF,
            "float16: does not raise"),
    *listed("linalg.lu lu_unpack narrow_copy nn.functional.avg_pool3d tril triu", ("out",),
            CPU_WRITES_GAPS, "strided out: CPU writes "),
    *listed("fft.ihfft2 fft.ihfftn", ("out",), CPU_CHANGES_VALUES,
            "strided out: CPU writes other values"),
    Exclusion("nn.functional.gelu", "out", CPU_LEAVES_GAPS, "strided out: CPU writes other values",
              dtypes=("float32", *HALVES), on_this_cpu=runs_by_onednn),
    *listed("sparse.mm.reduce", UNSAFE, READS_PAST_THE_END,
            "", unsafe=True),
    *listed(f"{LOSS}.chunked {LOSS}.chunked_none", ("forward",), ACCUMULATES_BY_DEVICE_TYPE,
            dtypes=HALVES),
    Exclusion(f"{LOSS}.chunked", "backward", ACCUMULATES_BY_DEVICE_TYPE, dtypes=HALVES),
    # In bfloat16 these gradients agree.
    Exclusion(f"{LOSS}.chunked_none", "backward", ACCUMULATES_BY_DEVICE_TYPE, dtypes=("float16",)),
    Exclusion("nn.functional.normalize", "backward", GRADIENT_OF_A_CONSTANT, dtypes=("bfloat16",),
              placement="device"),
    Exclusion("linalg.householder_product", "backward", CANCELS, dtypes=("complex64",),
              placement="device", owner=KIT),
    *listed("_segment_reduce.lengths _segment_reduce.offsets", ("backward",), CPU_OVERFLOWS,
            dtypes=("float16",), placement="device"),
    *listed("special.bessel_j0 special.bessel_y1", ("forward",), CPU_IS_INACCURATE, "values: ",
            largest=8e-7, dtypes=("float64",), placement="device"),
    *listed("special.bessel_j0 special.bessel_y1", ("out",), CPU_IS_INACCURATE,
            "[a-z]+ out: values: ", largest=8e-7, dtypes=("float64",), placement="device"),
)  # fmt: skip


def exclusions_for(
    entry: str, dtype: str, access: str, placement: str = "", more: Sequence[Exclusion] = ()
) -> list[Exclusion]:
    """Those that apply, of the table and of others."""
    return [e for e in (*EXCLUSIONS, *more) if e.applies(entry, dtype, access, placement)]
