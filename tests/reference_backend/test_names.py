"""Legacy types of tensors, `torch.<name>.FloatTensor` and the like."""

import pytest
import torch

pytestmark = pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")

LEGACY = {
    torch.bool: "Bool", torch.float64: "Double", torch.float32: "Float", torch.float16: "Half",
    torch.bfloat16: "BFloat16", torch.int32: "Int", torch.int64: "Long", torch.int8: "Char",
    torch.int16: "Short", torch.uint8: "Byte",
}  # fmt: skip


@pytest.mark.parametrize("dtype", LEGACY, ids=str)
def test_legacy_types(device, device_module, dtype):
    kind = getattr(device_module, f"{LEGACY[dtype]}Tensor")
    assert (kind.__name__, kind.dtype) == (f"{LEGACY[dtype]}Tensor", dtype)
    assert repr(kind) == f"<class 'torch.{device.type}.{LEGACY[dtype]}Tensor'>"
    moved = torch.tensor([0, 1]).type(kind)
    assert (moved.device, moved.dtype, moved.tolist()) == (device, dtype, [0, 1])
    assert isinstance(moved, kind)
    assert moved.type() == f"torch.{device.type}.{LEGACY[dtype]}Tensor"
    assert moved.storage().type() == f"torch.{device.type}.{LEGACY[dtype]}Storage"
    assert not isinstance(moved.cpu(), kind)
    assert not isinstance(moved.to(torch.complex64), kind)
    assert kind().shape == (0,)
    assert kind(2, 3).shape == kind(torch.Size([2, 3])).shape == (2, 3)
    assert kind([0, 1]).tolist() == [0, 1]
    for source in (moved, moved.storage(), moved.untyped_storage()):
        shared = kind(source)
        assert isinstance(shared, kind)
        assert shared.data_ptr() == moved.data_ptr()
        assert torch.equal(shared, moved)
    with pytest.raises(TypeError, match="of its own type"):
        kind(moved.cpu())
    with pytest.raises(TypeError, match="of its own type"):
        kind(moved.cpu().storage())
    with pytest.raises(RuntimeError, match="makes tensors of"):
        kind(2, device="cpu")
