"""Which operators have which policy, and policies of one's own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

pytestmark = pytest.mark.separate

# Operators of a library that belongs to CUDA; the last one is in builds for CUDA alone.
CUDA_ALONE = {"aten::cudnn_convolution", "aten::cudnn_convolution_transpose"}
if torch.version.cuda is not None:
    CUDA_ALONE.add("aten::_cudnn_rnn")


def operators_with_policy(key: str) -> set[str]:
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    return {name for name in torch._C._dispatch_get_all_op_names() if has_kernel(name, key)}


def test_operators_with_a_policy_are_those_of_cuda(device):
    with torch.autocast(device.type):
        pass
    ours = {name for name in operators_with_policy("AutocastPrivateUse1") if name[:6] == "aten::"}
    assert ours ^ operators_with_policy("AutocastCUDA") == CUDA_ALONE


# ---- Policies of one's own


@pytest.fixture(scope="module")
def library() -> Iterator[torch.library.Library]:
    library = torch.library.Library("policy_tests", "FRAGMENT")
    for name in ("mix", "lowered", "precise", "promoted", "changed"):
        library.define(f"{name}(Tensor x, Tensor? y, Tensor[] z, float scale=1.0) -> Tensor")

        def kernel(x, y, z, scale=1.0):
            dtypes = {t.dtype for t in [x, *([] if y is None else [y]), *z]}
            assert len(dtypes) == 1, dtypes
            total = sum([*([] if y is None else [y]), *z], start=x)
            return total if scale == 1 else total * scale

        library.impl(name, kernel, "CompositeImplicitAutograd")
    library.define("add_into(Tensor(a!) x, Tensor y) -> ()")
    yield library
    library._destroy()


@pytest.fixture
def register_policy(device_module):
    return device_module.amp.register_policy


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    ("name", "policy"),
    [("lowered", "lower_precision_fp"), ("precise", "fp32"), ("promoted", "promote")],
)
def test_an_operators_own_policy(device, library, register_policy, name, policy, dtype):
    register_policy(f"policy_tests::{name}", policy)
    op = getattr(torch.ops.policy_tests, name)
    low, single = (torch.ones(3, device=device, dtype=d) for d in (dtype, torch.float32))
    double = torch.ones(3, device=device, dtype=torch.float64)
    expected = {
        "lower_precision_fp": (dtype, dtype, dtype),
        "fp32": (torch.float32,) * 3,
        "promote": (dtype, torch.float32, torch.float32),
    }[policy]
    with torch.autocast(device.type, dtype=dtype):
        results = (op(low, None, []), op(low, single, [low]), op(low, None, [single], 2.0))
        assert tuple(result.dtype for result in results) == expected
        assert results[2].tolist() == [4.0] * 3
        # What is no float32 or narrower stays, and so do other devices.
        assert op(double, None, []).dtype == torch.float64
        assert op(torch.ones(3, dtype=torch.int64, device=device), None, []).dtype == torch.int64
        with torch.autocast(device.type, enabled=False):
            assert op(low, None, []).dtype == dtype
        assert op(torch.ones(3), None, []).dtype == torch.float32
    assert op(single, None, []).dtype == torch.float32


def test_a_later_policy_replaces_the_first(device, library, register_policy):
    op = torch.ops.policy_tests.changed
    x = torch.ones(3, device=device)
    for policy, dtype in (("lower_precision_fp", torch.float16), ("fp32", torch.float32)) * 2:
        register_policy(op.default, policy)
        with torch.autocast(device.type, dtype=torch.float16):
            assert op(x.half(), None, []).dtype == dtype


def test_gradients_pass_the_casts_and_weights_are_cast_once(device, library, register_policy):
    register_policy("policy_tests::mix", "lower_precision_fp")
    weight = torch.ones(3, device=device, requires_grad=True)
    x = torch.ones(3, device=device)
    with torch.autocast(device.type, dtype=torch.bfloat16):
        first = torch.ops.policy_tests.mix(x, weight, [])
        product = torch.mm(weight.view(1, 3), x.view(3, 1))
        second = torch.ops.policy_tests.mix(x, weight, [])
    (first.sum() + second.float().sum() + product.float().sum()).backward()
    assert weight.grad.dtype == torch.float32
    assert weight.grad.tolist() == [3.0] * 3


def test_what_can_have_no_policy(library, register_policy):
    with pytest.raises(ValueError, match="there is no autocast policy 'half'"):
        register_policy("policy_tests::mix", "half")
    for name in ("policy_tests::nothing", "nonsense", "::", ""):
        with pytest.raises(ValueError, match="does not exist; define it first"):
            register_policy(name, "fp32")
    with pytest.raises(ValueError, match="writes to its arguments"):
        register_policy("policy_tests::add_into", "fp32")
    with pytest.raises(ValueError, match="has an autocast policy already"):
        register_policy("aten::mm", "fp32")


@pytest.mark.skipif(
    torch.__version__ < (2, 13), reason="register_autocast knows CPU and CUDA alone before 2.13"
)
def test_pytorchs_own_registration(device, library):
    """torch.library.register_autocast, for one fixed dtype."""

    @torch.library.custom_op("policy_tests::fixed", mutates_args=())
    def fixed(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    fixed.register_autocast(device.type, torch.bfloat16)
    x = torch.ones(3, device=device)
    with torch.autocast(device.type, dtype=torch.float16):
        assert fixed(x).dtype == torch.bfloat16
    assert fixed(x).dtype == torch.float32
