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

EXCLUSIONS: tuple[Exclusion, ...] = (
    *listed("TestSortAndSelect.test_stable_sort_against_numpy", (TEST,), STOPS_EARLY_ON_CUDA,
            "RuntimeError: Expected all tensors to be on the same device"),
    *listed(" ".join(
                "TestEmbeddingNNDeviceType.test_EmbeddingBag_per_sample_weights_and_new_offsets_"
                f"{index}_{offset}_bfloat16"
                for index in ("int32", "int64") for offset in ("int32", "int64")
            ), (TEST,), DEPENDS_ON_THE_SEED, "AssertionError: Tensor-likes are not close"),
)  # fmt: skip
