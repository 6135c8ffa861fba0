"""Tensors of evenly spaced numbers, in outputs that are given."""

import warnings

import torch

from tests.device_kernels.on_device import SUPPORT, compare


def test_an_output_of_another_size_is_resized_with_a_warning(device: torch.device) -> None:
    def numbers(out: torch.Tensor) -> tuple[torch.Tensor, list[str]]:
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            torch.arange(1, 8, out=out)
        return out, ["resized" in str(warning.message) for warning in found]

    for count in (0, 7):
        compare(device, numbers, torch.zeros(count))
    compare(device, numbers, torch.zeros(3), support=SUPPORT | {"aten::arange.start_out"})
