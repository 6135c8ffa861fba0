"""Device kernels raise CPU's errors."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.device_kernels.on_device import difference


def ones(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.ones(sizes, dtype=dtype)


DOUBLE, BOOL, LONG = torch.float64, torch.bool, torch.int64

# Errors that neither sizes nor type promotion cause, and the sweep over arguments does not try:
# functions and their arguments.
REFUSED: dict[str, tuple[Any, ...]] = {
    "complex of two dtypes": (torch.complex, ones(3), ones(3, dtype=DOUBLE)),
    "polar of two dtypes": (torch.polar, ones(3), ones(3, dtype=DOUBLE)),
    "cross of two dtypes": (torch.linalg.cross, ones(3), ones(3, dtype=DOUBLE)),
    "a mask of numbers": (torch.masked_fill, ones(3), ones(3), 2),
    "a selection by numbers": (torch.masked_select, ones(3), ones(3, dtype=torch.uint8)),
    "a source of another dtype": (
        torch.masked_scatter, ones(3), ones(3, dtype=BOOL), ones(3, dtype=DOUBLE),
    ),
    "several values to fill with": (torch.masked_fill, ones(3), ones(3, dtype=BOOL), ones(3)),
    "indices of int32": (torch.Tensor.put_, ones(3), ones(1, dtype=torch.int32), ones(1)),
    "a step of the wrong sign": (
        lambda x: torch.arange(0, 0.5, -1, device=x.device, dtype=x.dtype), ones(1),
    ),
    "a slope that tells no sign": (
        torch.ops.aten.leaky_relu_backward, ones(3), ones(3), -0.5, True,
    ),
    "a negative exponential of a result": (
        torch.ops.aten.elu_backward, ones(3), -1.0, 1.0, 1.0, True, ones(3),
    ),
    "a fill beyond integers": (torch.index_fill, ones(3, dtype=LONG), 0, torch.tensor([0]), 1e30),
    "a bool to subtract from a list": (lambda x: torch._foreach_sub([x, x], [1.0, True]), ones(3)),
    "an index into nothing": (lambda x: x[:, [0, 1]], ones(10, 0)),
    "padding without channels": (torch.nn.ReflectionPad2d(2), ones(3, 0, 10, 10)),
    "a histogram to infinity": (torch.histc, torch.tensor([1.0, torch.inf])),
    "what is written into nothing": (
        lambda x, i, value: x.index_put_((i,), value), ones(0), torch.tensor([0]), ones(1),
    ),
}  # fmt: skip


def assert_none(differences: dict[str, str | None]) -> None:
    assert not {case: found for case, found in differences.items() if found}


def test_refused(device: torch.device) -> None:
    assert_none({case: difference(device, *of, refused=True) for case, of in REFUSED.items()})


# Tensors written in place overlap those read; `i` is an index tensor of every index.
OVERLAPPING_IN_PLACE: dict[str, Callable[[torch.Tensor], Any]] = {
    "index_fill_": lambda i: i.index_fill_(0, i, 0),
    "index_copy_": lambda i: i.index_copy_(0, i, i),
    "index_copy_ of a source": lambda i: i.index_copy_(0, i.clone(), i),
    "index_add_": lambda i: i.index_add_(0, i.clone(), i),
    "index_reduce_": lambda i: i.index_reduce_(0, i.clone(), i, "amax"),
    "index_put_": lambda i: i.index_put_((i,), i.clone()),
    "index_put_ of values": lambda i: i.index_put_((i.clone(),), i),
    "scatter_ of a number": lambda i: i.scatter_(0, i, 0),
    "scatter_": lambda i: i.scatter_(0, i.clone(), i),
    "scatter_add_": lambda i: i.scatter_add_(0, i, i.clone()),
    "scatter_reduce_": lambda i: i.scatter_reduce_(0, i, i.clone(), "amin"),
    "put_": lambda i: i.put_(i, i.clone()),
    "masked_scatter_": lambda i: i.masked_scatter_(i > 1, i),
    "masked_fill_": lambda i: i.expand(2, 3).masked_fill_(i > 1, 7),
    "elements of the result": lambda i: i[:1].expand(3).scatter_(0, i.clone(), 1),
    "cumsum_": lambda i: i[:1].expand(3).cumsum_(0),
    "tril_": lambda i: i[:1].expand(3, 3).tril_(),
    "add_ to a part": lambda i: i[1:].add_(i[:-1]),
}


def test_results_that_overlap_arguments(device: torch.device) -> None:
    x = torch.tensor([2, 1, 0])
    assert_none({case: difference(device, f, x) for case, f in OVERLAPPING_IN_PLACE.items()})


# Functions of a tensor, an index tensor without elements, and as many values.
EMPTY_INDEX: dict[str, Callable[..., torch.Tensor]] = {
    "index_add": lambda x, i, none: x.index_add(-1, i, none),
    "index_copy": lambda x, i, none: x.index_copy(-1, i, none),
    "index_fill": lambda x, i, none: x.index_fill(-1, i, 2),
    "index_select": lambda x, i, none: x.index_select(-1, i),
    "put": lambda x, i, none: x.put(i, none.reshape(-1)[:0]),
    "take": lambda x, i, none: x.take(i),
    "index_put": lambda x, i, none: x.index_put((i,), none.reshape(-1)[:0]),
    "index_reduce mean": lambda x, i, none: x.index_reduce(-1, i, none, "mean"),
    "index_reduce amax": lambda x, i, none: x.index_reduce(-1, i, none, "amax"),
}


@pytest.mark.filterwarnings("ignore:index_reduce")
def test_empty_indices(device: torch.device) -> None:
    found = {}
    for case, function in EMPTY_INDEX.items():
        for sizes in ((3,), (3, 4), (2, 3, 0), (0,)):
            operands = ones(*sizes), torch.empty(0, dtype=LONG), ones(*sizes[:-1], 0)
            found[f"{case} of {sizes}"] = difference(device, function, *operands)
    assert_none(found)


def test_masks_of_uint8_warn(device: torch.device) -> None:
    mask = torch.tensor([1, 0, 1], dtype=torch.uint8, device=device)
    x = torch.ones(3, 3, device=device)
    with pytest.warns(UserWarning, match="uint8 is now deprecated"):
        selected = x[mask]
    with pytest.warns(UserWarning, match="uint8 is now deprecated"):
        x.index_put_((mask,), selected, accumulate=True)
