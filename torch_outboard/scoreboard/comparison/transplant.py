"""Moves sample inputs between devices without changing how their tensors share memory.

`tensor.to(device)` makes a dense copy. A sample with strides of its own, with two arguments in one
storage or with a conjugated view would become a simpler one, so storages are moved as a
whole and the tensors are put over them again.
"""

from typing import Any

import torch
from torch.utils._pytree import tree_map


class Transplant:
    """Copies trees of values to a device; tensors that share memory share it again afterwards.

    Args:
        device: where to. "cpu" makes an independent copy, which the caller may change.
        requires_grad: whether floating-point and complex leaves that require grad do so again.
        dtypes: tensors and dtypes that are replaced; tensors then share no memory.
    """

    def __init__(
        self,
        device: torch.device,
        requires_grad: bool = False,
        dtypes: dict[torch.dtype, torch.dtype] | None = None,
    ) -> None:
        self.device = device
        self.requires_grad = requires_grad
        self.dtypes = dtypes or {}
        self.tensors: list[torch.Tensor] = []  # what was made, in order
        self._storages: dict[int, torch.UntypedStorage] = {}
        self._made: dict[int, torch.Tensor] = {}
        self._originals: list[torch.Tensor] = []  # keeps the ids above valid

    def __call__(self, tree: Any) -> Any:
        return tree_map(self._leaf, tree)

    def _leaf(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if (isinstance(value, str) and value == "cpu") or (
            isinstance(value, torch.device) and value.type == "cpu"
        ):
            return self.device
        if isinstance(value, torch.dtype):
            return self.dtypes.get(value, value)
        if isinstance(value, torch.Generator):
            return torch.Generator(self.device).manual_seed(value.initial_seed())
        return value

    def _tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) in self._made:
            return self._made[id(tensor)]
        plain = tensor.detach()
        if plain.is_meta or plain._is_zerotensor():
            return tensor  # it has no memory to move
        # Bits are put on again at the end; the storage is the same with and without them.
        conjugated, negated = plain.is_conj(), plain.is_neg()
        plain = plain.conj() if conjugated else plain
        plain = torch._neg_view(plain) if negated else plain
        if plain.dtype in self.dtypes:
            moved = plain.to(self.device, self.dtypes[plain.dtype], copy=True)
        elif type(tensor) in (torch.Tensor, torch.nn.Parameter) and plain.layout == torch.strided:
            moved = torch.empty(0, dtype=plain.dtype, device=self.device)
            storage = self._storage(plain.untyped_storage())
            moved.set_(storage, plain.storage_offset(), plain.size(), plain.stride())
        else:
            moved = plain.to(self.device, copy=True)
        moved = torch._neg_view(moved) if negated else moved
        moved = moved.conj() if conjugated else moved
        if self.requires_grad and tensor.requires_grad:
            moved = moved.detach().requires_grad_()
        self.tensors.append(moved)
        self._originals.append(tensor)
        self._made[id(tensor)] = moved
        return moved

    def _storage(self, storage: torch.UntypedStorage) -> torch.UntypedStorage:
        key = storage._cdata
        if key not in self._storages:
            flat = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
            self._storages[key] = flat.to(self.device, copy=True).untyped_storage()
        return self._storages[key]
