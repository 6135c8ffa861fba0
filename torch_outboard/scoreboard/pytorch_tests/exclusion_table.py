"""PyTorch's own tests that may fail on a device, each with its reason and owner.

An entry is the name of a test; without the dtypes at its end it stands for all of them.
"""

from torch_outboard.scoreboard.exclusions import Exclusion, listed
from torch_outboard.scoreboard.run import TEST

STOPS_EARLY_ON_CUDA = (
    "the test indexes a tensor of the device by one of the CPU, in a part that it leaves out where "
    "the device is called 'cuda'"
)

DEPENDS_ON_THE_SEED = (
    "the test compares sums in bfloat16 with a tolerance that CPU misses as well for a quarter of "
    "all seeds"
)

MISSED_BY_CPU = "CPU misses the test's tolerance as well, with other seeds"

IN_HALF_PRECISION = (
    "CPU leaves out NaN and sums in half precision, in an order that depends on the strides; the "
    "test compares two orders, and depends on the seed"
)

# Reasons of tests that pass with other random numbers: their exclusions may hide nothing.
OF_SOME_SEEDS = (DEPENDS_ON_THE_SEED, MISSED_BY_CPU, IN_HALF_PRECISION)

FOR_CPU_ALONE = "PyTorch has the method for CPU tensors alone; the test leaves out CUDA"

KNOWS_CPU_AND_CUDA = "the test treats a device that is not called 'cuda' as the CPU"

EXPECTS_CUDAS_LIMITS = "the test expects CUDA's limits of every device that is not the CPU"

LEAVES_OUT_CPU = "CPU fails as well, and the test or its decorators leave out CPU only"

OUTPUT_IN_A_FILE = (
    "the test compares with a file of the tree that has the output for each of PyTorch's devices"
)

RAISED_LATER = (
    "device kernels find wrong indices, and the next wait raises, as on CUDA; the test leaves out "
    "CUDA"
)

NAN_AMONG_SORTED = (
    "CPU sorts with a comparison that takes NaN for equal to all, so the order depends on where it "
    "stands; on the device NaN comes last"
)

ROUNDS_A_QUOTIENT = "the test asks for equal bits, and a complex quotient has another rounding"

ROUNDED_ONCE = (
    "NumPy and CPU round products to float16 before they add them; a device kernel rounds the sum"
)

DIVIDED_BY_PARTS = (
    "CPU divides by the complex number of elements, so an infinite part makes the other NaN; on "
    "the device both parts are divided"
)

TWO_ERRORS = "two arguments are wrong, and the device names the other one first"

REFERENCE_OF_COPYSIGN = (
    "PyTorch's reference in Python takes no 0-d tensor of the CPU beside one of a device"
)

OTHER_CONVOLUTION = (
    "the test expects the convolutions that PyTorch has for CPU and CUDA; those of a backend "
    "outside of PyTorch are called 'overrideable'"
)

EXCLUSIONS: tuple[Exclusion, ...] = (
    *listed("TestSortAndSelect.test_stable_sort_against_numpy", (TEST,), STOPS_EARLY_ON_CUDA,
            "RuntimeError: Expected all tensors to be on the same device"),
    *listed(" ".join(
                "TestEmbeddingNNDeviceType.test_EmbeddingBag_per_sample_weights_and_new_offsets_"
                f"{index}_{offset}_bfloat16"
                for index in ("int32", "int64") for offset in ("int32", "int64")
            ), (TEST,), DEPENDS_ON_THE_SEED, "AssertionError: Tensor-likes are not close"),
    *listed("TestReductions.test_noncontiguous_all_nansum_float16 "
            "TestReductions.test_noncontiguous_expanded_nanmean_bfloat16", (TEST,),
            IN_HALF_PRECISION, "AssertionError: Scalars are not close"),
    *listed("TestLinalg.test_linalg_lu_solve_float32 TestLinalg.test_pinverse_float32 "
            "TestSparseAny.test_reductions_sum_SparseCOO_bfloat16 "
            "TestSparseAny.test_reductions_sum_SparseCOO_float16 "
            "TestBinaryUfuncs.test_logaddexp_complex128 "
            "TestBinaryUfuncs.test_reference_numerics__refs_sub_complex32 "
            "TestBinaryUfuncs.test_reference_numerics_sub_complex32", (TEST,), MISSED_BY_CPU,
            "AssertionError: (Tensor-likes|Scalars) are not close"),
    *listed("TestSparseAny.test_binary_operation_mul_SparseCOO_bool "
            "TestSparseAny.test_binary_operation_mul_SparseCSR_bool "
            "TestSparseAny.test_view_as_complex_float16 TestSparseAny.test_view_as_real_complex32 "
            "TestBinaryUfuncs.test_complex_scalar_pow_tensor_float16 "
            "TestBinaryUfuncs.test_pow_float16",
            (TEST,), LEAVES_OUT_CPU, "NotImplementedError: .* not implemented for"),
    *listed("TestSparse.test_empty_like", (TEST,), KNOWS_CPU_AND_CUDA,
            "AssertionError: .* does not match"),
    *listed("TestSparse.test_print_coalesced TestSparse.test_print_uncoalesced", (TEST,),
            OUTPUT_IN_A_FILE, "RuntimeError: I got this output"),
    *listed("TestTorchDeviceType.test_broadcast_fn_map TestTorchDeviceType.test_broadcast_fn_map2",
            (TEST,), FOR_CPU_ALONE, "TypeError: map2?_ is only implemented on CPU tensors"),
    *listed("TestTorchDeviceType.test_grad_scaler_deprecated_warning", (TEST,),
            KNOWS_CPU_AND_CUDA, "AssertionError: .* does not match"),
    *listed("TestTorchDeviceType.test_grad_scaling_state_dict "
            "TestNNDeviceType.test_transformerencoderlayer_float32", (TEST,),
            KNOWS_CPU_AND_CUDA, "AssertionError: False is not true"),
    *listed("TestTorchDeviceType.test_tensor_storage_type", (TEST,),
            KNOWS_CPU_AND_CUDA, "AssertionError: Type comparison failed"),
    *listed(" ".join(
                f"TestLinalg.test_svd_{dtype}"
                for dtype in ("float32", "float64", "complex64", "complex128")
            ), (TEST,), KNOWS_CPU_AND_CUDA, "KeyError: "),
    *listed("TestLinalg.test_linalg_lstsq_input_checks", (TEST,), EXPECTS_CUDAS_LIMITS,
            "AssertionError: .* is not supported on CUDA"),
    *listed("TestBinaryUfuncs.test_fmod_remainder_by_zero_integral", (TEST,),
            EXPECTS_CUDAS_LIMITS, "RuntimeError: ZeroDivisionError"),
    *listed("TestBinaryUfuncs.test_type_promotion__refs_copysign", (TEST,), REFERENCE_OF_COPYSIGN,
            "RuntimeError: Expected divisor"),
    *listed(" ".join(
                "TestNNDeviceType.test_upsamplingBiMode2d_nonsupported_dtypes_antialias_"
                f"{antialias}_num_channels_{channels}_mode_{mode}_uint8"
                for antialias in (True, False) for channels in (3, 5)
                for mode in ("bilinear", "bicubic")
            ), (TEST,), EXPECTS_CUDAS_LIMITS, "AssertionError: RuntimeError not raised"),
    *listed("TestConvolutionNNDeviceType.test_conv_backend_slow1d "
            "TestConvolutionNNDeviceType.test_conv_backend_slow2d "
            "TestConvolutionNNDeviceType.test_conv_backend_slow3d_dilated", (TEST,),
            OTHER_CONVOLUTION, "AssertionError: Object comparison failed"),
    *listed("NumpyTests.test_trivial_fancy_out_of_bounds", (TEST,), RAISED_LATER,
            "AssertionError: IndexError not raised", placement="device"),
    *listed("TestEmbeddingNNDeviceType.test_embedding_bag_out_of_bounds_idx", (TEST,),
            RAISED_LATER, "AssertionError: RuntimeError not raised", placement="device"),
    *listed("TestSortAndSelect.test_unique_dim", (TEST,), NAN_AMONG_SORTED,
            "AssertionError: Tensor-likes are not close", placement="device"),
    *listed("TestScatterGather.test_scatter_reduce_mean_complex64 "
            "TestScatterGather.test_scatter_reduce_mean_complex128", (TEST,), ROUNDS_A_QUOTIENT,
            "AssertionError: Tensor-likes are not equal", placement="device"),
    *listed("TestLinalg.test_addr_float_and_complex_float16", (TEST,), ROUNDED_ONCE,
            "AssertionError: Tensor-likes are not close", largest=0.002, placement="device"),
    *listed("TestReductions.test_ref_extremal_values_mean_complex64", (TEST,), DIVIDED_BY_PARTS,
            "AssertionError: Scalars are not close", placement="device"),
    *listed(" ".join(
                f"TestForeach.test_binary_op_list_error_cases__foreach_div_{dtype}"
                for dtype in ("bool", "uint8", "int8", "int16", "int32", "int64")
            ), (TEST,), TWO_ERRORS, "AssertionError: .*The size of tensor a", placement="device"),
)  # fmt: skip
