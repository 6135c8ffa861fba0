"""Operands of library calls in memory of a device, and the error that their results may have."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from torch_outboard.check.outcome import Failed
from torch_outboard.check.session import Session
from torch_outboard.drivers import contract
from torch_outboard.drivers.contract import DType, Status

TYPES = {
    DType.UINT8: torch.uint8,
    DType.INT8: torch.int8,
    DType.INT16: torch.int16,
    DType.INT32: torch.int32,
    DType.INT64: torch.int64,
    DType.FLOAT16: torch.float16,
    DType.BFLOAT16: torch.bfloat16,
    DType.FLOAT32: torch.float32,
    DType.FLOAT64: torch.float64,
    DType.COMPLEX64: torch.complex64,
    DType.COMPLEX128: torch.complex128,
}
_SHORT_FLOATS = (torch.float16, torch.bfloat16)


def dtypes_of(driver: Session) -> list[torch.dtype]:
    """Dtypes of the device that library calls are checked with."""
    bits = driver.device_properties(0).dtypes
    return [dtype for bit, dtype in TYPES.items() if bits & bit]


def bit_of(dtype: torch.dtype) -> int:
    """The OB_DTYPE_* bit of a dtype."""
    return int(next(bit for bit, each in TYPES.items() if each == dtype))


def accumulation_of(dtype: torch.dtype) -> int:
    """The dtype of sums that the kit asks for."""
    return int(DType.FLOAT32) if dtype in _SHORT_FLOATS else bit_of(dtype)


def exact(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which references are computed."""
    if dtype.is_complex:
        return torch.complex128
    return torch.float64 if dtype.is_floating_point else torch.int64


def numbers(dtype: torch.dtype, *sizes: int, seed: int = 0) -> torch.Tensor:
    """Random numbers of a dtype: normal ones, or integers up to 4."""
    generator = torch.Generator().manual_seed(seed + 31 * sum(sizes))
    if dtype.is_floating_point or dtype.is_complex:
        wide = torch.complex64 if dtype.is_complex else torch.float32
        return torch.randn(sizes, generator=generator, dtype=wide).to(dtype)
    low = 0 if dtype == torch.uint8 else -4
    return torch.randint(low, 5, sizes, generator=generator).to(dtype)


def bytes_of(storage: torch.Tensor) -> bytes:
    """The bytes of a contiguous tensor."""
    flat = storage.detach().contiguous().view(-1)
    buffer = ctypes.create_string_buffer(max(flat.numel() * flat.element_size(), 1))
    ctypes.memmove(buffer, flat.data_ptr(), flat.numel() * flat.element_size())
    return buffer.raw[: flat.numel() * flat.element_size()]


def _storage(view: torch.Tensor) -> torch.Tensor:
    """All elements of the memory that a view lies in."""
    whole = view.untyped_storage()
    return torch.empty(0, dtype=view.dtype).set_(whole)


@dataclass
class Operand:
    """A view of host memory, and a copy of all that memory on the device."""

    view: torch.Tensor
    address: int
    described: Any  # ob_tensor

    @staticmethod
    def of(driver: Session, queue: int, view: torch.Tensor) -> Operand:
        """Copies the memory behind a view to the device."""
        data = bytes_of(_storage(view))
        address = driver.make_memory(len(data), driver.device_of(queue))
        driver.write(queue, address, data)
        start = address + view.storage_offset() * view.element_size()
        described = contract.described(
            contract.Tensor, data=start, dtype=bit_of(view.dtype), dimensions=view.dim()
        )
        described.sizes[: view.dim()] = view.shape
        strides = (s if n > 1 else 0 for s, n in zip(view.stride(), view.shape, strict=True))
        described.strides[: view.dim()] = list(strides)
        return Operand(view, address, described)

    @property
    def pointer(self) -> Any:
        return ctypes.pointer(self.described)

    def read(self, driver: Session, queue: int) -> torch.Tensor:
        """The memory of the device as a view like the operand's."""
        whole = _storage(self.view)
        data = driver.read(queue, self.address, whole.numel() * whole.element_size())
        found = torch.frombuffer(bytearray(data), dtype=self.view.dtype)
        return found.as_strided(self.view.shape, self.view.stride(), self.view.storage_offset())


def filled(dtype: torch.dtype, like: torch.Tensor) -> torch.Tensor:
    """An output with that layout whose memory holds NaN, or a number that no result is."""
    whole = torch.empty_like(_storage(like), dtype=dtype)
    whole.fill_(torch.nan if dtype.is_floating_point or dtype.is_complex else 113)
    return whole.as_strided(like.shape, like.stride(), like.storage_offset())


def call(driver: Session, queue: int, name: str, make: Callable[..., Any]) -> bool:
    """Calls a library function as the kit does: asks for the workspace, then computes.

    Returns:
        Whether the driver took the call; if not, nothing may have been written.
    """
    wanted = ctypes.c_uint64()
    asked = make(workspace_query=ctypes.pointer(wanted))
    status = driver.status(name, queue, ctypes.byref(asked))
    if status == Status.UNSUPPORTED:
        return False
    if status != Status.OK:
        raise Failed("OK or UNSUPPORTED for the query", f"{status.name}: {driver.last_error()}")
    device, size = driver.device_of(queue), wanted.value
    workspace = driver.make_memory(size, device) if size else 0
    given = make(workspace=workspace, workspace_bytes=size)
    status = driver.status(name, queue, ctypes.byref(given))
    if status not in (Status.OK, Status.UNSUPPORTED):
        raise Failed("OK or UNSUPPORTED", f"{status.name}: {driver.last_error()}")
    return bool(status == Status.OK)


def expect_near(
    found: torch.Tensor, wanted: torch.Tensor, size: torch.Tensor, depth: int, case: str
) -> None:
    """Expects results within the error that sums of `depth` products may have.

    Args:
        found: what came from the device.
        wanted: the same, computed in `exact`.
        size: the same sums of absolute values.
        depth: the number of products of a sum.
        case: words for the message.
    """
    dtype = found.dtype
    if not (dtype.is_floating_point or dtype.is_complex):
        wrong = found != wanted.to(dtype)
    else:
        sums = torch.float32 if dtype in _SHORT_FLOATS else dtype
        error = size * ((depth + 8) * torch.finfo(sums).eps) + wanted.abs() * (
            2 * torch.finfo(dtype).eps
        )
        error += torch.finfo(dtype).smallest_normal
        far = (found.to(exact(dtype)) - wanted).abs() > error
        wrong = far | torch.isnan(found.abs() if dtype.is_complex else found)
    if not wrong.any():
        return
    index = tuple(int(i) for i in wrong.nonzero()[0])
    count = f"{int(wrong.sum())} of {wrong.numel()} elements differ, the first at {list(index)}"
    raise Failed(f"{case}: {_number(wanted[index])}", f"{_number(found[index])}; {count}")


def _number(value: torch.Tensor) -> str:
    item = value.item()
    return f"{item:.7g}" if isinstance(item, float) else str(item)
