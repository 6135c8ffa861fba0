"""Sample arguments that fit the schema of an operator, for calls whose results are ignored.

Only the schema of an operator is known, so there are several attempts; a caller takes the first
that the operator accepts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from torch_outboard.dispatch.dispatcher import overload_of

# Shapes of tensors, most common first: matrices, batches of matrices, images, vectors and others.
SHAPES = ((64, 64), (2, 64, 64), (2, 8, 16, 16), (64,), (2, 8, 64), (2, 4, 8, 8, 8))
# Parameters that are indices into a tensor, and parameters that are masks.
_INDICES = frozenset({"index", "indices", "idx", "target"})
_MASKS = frozenset({"mask", "condition"})
# Parameters with a fixed number of dimensions.
_VECTORS = frozenset({"vec", "vec1", "vec2"})
_BATCHES = frozenset({"batch1", "batch2"})


def attempts(
    name: str, dtype: torch.dtype, device: torch.device, strided: bool
) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    """Positional and keyword arguments, one attempt per shape.

    Args:
        name: full name of an overload.
        dtype: dtype of all tensors except indices and masks.
        device: device of all tensors. Overloads with `out=` are not supported.
        strided: whether the first tensor is transposed.
    """
    schema = overload_of(name)._schema
    for shape in SHAPES:
        for extents in (1, 2, 3):  # length of lists of numbers without a fixed length
            sampler = _Sampler(dtype, device, shape, extents, strided)
            positional: list[Any] = []
            keywords: dict[str, Any] = {}
            for argument in schema.arguments:
                if argument.has_default_value():
                    continue
                value = sampler.value(argument)
                if argument.kwarg_only:
                    keywords[argument.name] = value
                else:
                    positional.append(value)
            yield positional, keywords
            if not sampler.used_extents:
                break


class _Sampler:
    def __init__(
        self,
        dtype: torch.dtype,
        device: torch.device,
        shape: tuple[int, ...],
        extents: int,
        strided: bool,
    ) -> None:
        self.dtype, self.device, self.shape = dtype, device, shape
        self.extents, self.strided = extents, strided
        self.used_extents = False

    def value(self, argument: torch.Argument) -> Any:
        kind = str(argument.type)
        if kind.startswith("Optional["):
            return None
        if kind == "Tensor":
            return self._tensor(argument.name)
        if kind == "List[Tensor]":
            return [self._tensor(argument.name) for _ in range(2)]
        if kind == "List[Optional[Tensor]]":
            return [self._tensor("index")]
        if kind in ("int", "number", "float"):
            return self._number(argument.name, kind)
        if kind == "List[int]":
            return self._numbers(argument)
        if kind == "List[number]" or kind == "List[float]":
            return [0.5, 0.5]
        if kind == "List[bool]":
            return [True] * self._length(argument)
        if kind == "bool":
            return False
        return "none" if kind == "str" else None

    def _tensor(self, name: str) -> torch.Tensor:
        if name in _INDICES:
            # Built on the host, so that their creation compiles no kernels.
            return torch.zeros(self.shape, dtype=torch.int64).to(self.device)
        if name in _MASKS:
            return torch.ones(self.shape, dtype=torch.bool).to(self.device)
        shape = self.shape
        if name in _VECTORS:
            shape = shape[-1:]
        elif name in _BATCHES:
            shape = (2, *shape[-2:])
        tensor = torch.ones(shape, dtype=self.dtype).to(self.device)
        if self.strided:
            self.strided = False
            if tensor.dim() > 1:
                return tensor.transpose(-1, -2)
        return tensor

    def _number(self, name: str, kind: str) -> float:
        if name == "dim" or "reduc" in name:
            return 0
        return 1 if kind == "int" or not self.dtype.is_floating_point else 0.5

    def _numbers(self, argument: torch.Argument) -> list[int]:
        if argument.name in ("dim", "dims"):
            return [0]
        if argument.name in ("size", "sizes", "shape"):
            return list(self.shape)
        return [1] * self._length(argument)

    def _length(self, argument: torch.Argument) -> int:
        length = getattr(argument, "N", None)
        self.used_extents = self.used_extents or length is None
        return length or self.extents
