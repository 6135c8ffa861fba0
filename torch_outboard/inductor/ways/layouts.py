"""How results of a graph are laid out in memory, which is the same whichever way it goes.

Code of other graphs, such as that of the gradients, was compiled for the layout by the first way.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch._inductor.output_code import OutputCode


class LaidOut(OutputCode):
    """A graph whose results are laid out in memory as those of another one.

    Args:
        run: the graph, all calls of which have the same sizes.
        layouts: as of `layouts_of`.
    """

    def __init__(self, run: Any, layouts: Sequence[Any]) -> None:
        self._boxed_call = True
        self.run = run
        self.layouts = layouts
        self.fits = False

    def __call__(self, inputs: Any) -> Any:
        results = self.run(inputs)
        if self.fits:
            return results
        laid_out = as_laid_out(results, self.layouts)
        # Sizes are the same with each call, and so are the strides that code gives its results.
        self.fits = all(map(operator.is_, results, laid_out))
        return laid_out


def layouts_of(results: Sequence[Any]) -> list[Any]:
    """Strides of results that are tensors; None of others."""
    return [result.stride() if _is_strided(result) else None for result in results]


def as_laid_out(results: Sequence[Any], layouts: Sequence[Any]) -> list[Any]:
    """Results, or copies of those that are laid out in another way."""
    results = list(results)
    for place, (result, wanted) in enumerate(zip(results, layouts, strict=True)):
        if wanted is not None and _is_strided(result) and not _has_strides(result, wanted):
            like = torch.empty_strided(
                result.size(), wanted, dtype=result.dtype, device=result.device
            )
            results[place] = like.copy_(result)
    return results


def _is_strided(result: Any) -> bool:
    return isinstance(result, torch.Tensor) and result.layout == torch.strided


def _has_strides(result: torch.Tensor, wanted: Sequence[int]) -> bool:
    """Whether all are as wanted, but for dimensions without neighbours."""
    every = zip(result.size(), result.stride(), wanted, strict=True)
    return all(size <= 1 or stride == other for size, stride, other in every)
