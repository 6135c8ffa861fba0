"""Each work-around in PyTorch is still needed: these fail when one can go."""

from __future__ import annotations

import inspect
from unittest import mock

import pytest
import sympy
import torch
import torch._inductor.compile_fx  # registers the backend
from torch._dynamo.device_interface import DeviceInterface
from torch._dynamo.variables.optimizer import OptimizerVariable
from torch._inductor import config, lowering, scheduler, utils
from torch._inductor.choices import InductorChoices
from torch._inductor.codegen import common
from torch._inductor.codegen.common import DeviceOpOverrides
from torch._subclasses import fake_impls
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._sympy.singleton_int import SingletonInt

import torch_outboard
from tests.support import run_python
from torch_outboard import _C
from torch_outboard.inductor.kernel import body
from torch_outboard.inductor.passes.order_of_draws import pytorch_keeps_it
from torch_outboard.inductor.pytorch_patches import SETTINGS
from torch_outboard.inductor.target import target_of

pytestmark = pytest.mark.skipif(
    not _C.runs_code(0), reason="graphs become kernels where the device has a compiler"
)


def test_without_being_a_gpu_results_get_lost(device: torch.device):
    """An operation of a host scalar and a tensor of the device is a CPU kernel."""
    name = torch_outboard.device_name()
    if hasattr(DeviceInterface, "is_gpu"):  # from 2.15 on
        assert name in utils._gpu_types()
    else:
        assert not hasattr(utils, "_gpu_types")
    others = [known for known in utils.GPU_TYPES if known != name]
    assert len(others) < len(utils.GPU_TYPES)
    x, scalar = torch.ones(5, device=device), torch.tensor(2.0)
    with mock.patch.object(utils, "GPU_TYPES", others):
        assert not utils.is_gpu(name)
    assert torch.compile(lambda s, x: s + x)(scalar, x).device.type == name


BESIDE_ANOTHER_GPU = """
import torch, torch_outboard
torch.mtia.is_available = lambda: True
compute = torch.compile(lambda x, y: (x * y + x).relu().softmax(1).sum(0))
x, y = torch.randn(2, 30, 40).unbind()
moved = x.to(torch_outboard.device_name()).requires_grad_()
result = compute(moved, y.to(moved.device))
result.sum().backward()
torch.testing.assert_close(result.detach().cpu(), (x * y + x).relu().softmax(1).sum(0))
from torch._inductor import utils
print(utils.get_gpu_type())
"""


def test_another_gpu_stays_the_gpu_of_other_graphs():
    """PyTorch before 2.15 takes one accelerator alone."""
    one_alone = "assert len(avail_gpus) <= 1" in inspect.getsource(utils.get_gpu_type)
    assert one_alone == (not hasattr(DeviceInterface, "is_gpu"))
    if one_alone:
        assert run_python(BESIDE_ANOTHER_GPU).split() == ["mtia"]


def test_without_triton_pytorch_refuses_graphs():
    """Who is an accelerator and not known by name needs Triton."""
    assert scheduler.has_triton.outboard
    source = inspect.getsource(scheduler.Scheduler.create_backend)
    assert "TritonMissing" in source
    assert 'device.type == "mps"' in source


def test_small_devices_are_warned_of(device: torch.device):
    assert not utils.is_big_gpu(device)
    assert "Not enough SMs" in inspect.getsource(utils)


def test_settings_have_no_value_for_a_device():
    """The usual ones stay as they are for other devices."""
    for name, value in SETTINGS.items():
        assert getattr(config, name) != value, name
    if hasattr(common, "get_compile_option_owner"):  # from 2.15 on
        option = f"{torch_outboard.device_name()}.layout_optimization"
        assert common.get_compile_option_owner(option) is None


def test_strides_of_convolutions_are_not_asked_for(device: torch.device):
    from torch._subclasses.fake_tensor import FakeTensorMode

    operator = torch.ops.aten.convolution.default
    ours = fake_impls.op_implementations_dict[operator]
    arguments = (None, (1, 1), (0, 0), (1, 1), False, (0, 0), 1)
    x = torch.randn(2, 3, 8, 8, device=device).contiguous(memory_format=torch.channels_last)
    weight = torch.randn(4, 3, 3, 3, device=device)
    real = operator(x, weight, *arguments)
    with FakeTensorMode() as mode:
        fake_x, fake_weight = mode.from_tensor(x), mode.from_tensor(weight)
        predicted = ours(mode, operator, fake_x, fake_weight, *arguments)
        unaided = ours.__wrapped__(mode, operator, fake_x, fake_weight, *arguments)
    assert predicted.stride() == real.stride()
    assert unaided.stride() != real.stride()


def test_places_are_left_to_known_backends():
    source = inspect.getsource(lowering._make_reduction_inner.__wrapped__)
    assert "is_triton" in source


def test_parts_of_reductions_are_numbers_for_gpus(device: torch.device):
    """By threads of a multiprocessor, whatever the backend; other devices keep that."""
    patched = InductorChoices.reduction_split_factor
    original = patched.__wrapped__
    source = inspect.getsource(original)
    assert "threads_per_sm" in source
    assert "length" not in source
    # A method from 2.14 on.
    choices = () if len(inspect.signature(original).parameters) == 4 else (InductorChoices(),)
    ours, of_gpus = (f(*choices, device, 10**7, 1, True) for f in (patched, original))
    assert (ours != of_gpus) == (target_of(device).group == 1)
    assert patched(*choices, device, 4000, 64, False) == original(*choices, device, 4000, 64, False)


def test_flex_attention_refuses_devices_by_name(device: torch.device):
    from torch.nn.attention import flex_attention

    x = torch.ones(1, device=device)
    flex_attention._validate_device(x, x, x)
    # "mps" is known from 2.13 on.
    assert 'supported_devices = {"cuda", "cpu", "xpu", "hpu"' in inspect.getsource(
        flex_attention._validate_device
    )
    with pytest.raises(ValueError, match="only supported on"):
        flex_attention._validate_device(*[torch.ones(1, device="meta")] * 3)


def test_draws_are_kept_in_order_from_213_on():
    """Then inductor/passes/order_of_draws.py does nothing."""
    assert pytorch_keeps_it() == (torch.__version__ >= (2, 13))


def test_streams_are_named_by_the_device_from_213_on():
    """Then `_StreamLine` of inductor/wrapper.py has no use."""
    assert hasattr(DeviceOpOverrides, "current_stream") == (torch.__version__ >= (2, 13))


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_compiled_steps_are_counted_on_the_device(backend: str, device: torch.device):
    """Without the patch, formulas of tensors on the device meet counts on the CPU."""
    parameter = torch.ones(3, device=device, requires_grad=True)
    reference = torch.ones(3, requires_grad=True)
    optimizer, expected = torch.optim.AdamW([parameter]), torch.optim.AdamW([reference])
    step = torch.compile(lambda: optimizer.step(), backend=backend)
    for factor in (1.0, 3.0, -2.0):
        parameter.grad = torch.full_like(parameter, factor)
        reference.grad = torch.full_like(reference, factor)
        step()
        expected.step()
    torch.testing.assert_close(parameter.detach().cpu(), reference.detach())
    assert optimizer.state[parameter]["step"].device == parameter.device
    # From 2.15 on in a method of its own.
    name = "_safe_to_set_capturable"
    asks = getattr(OptimizerVariable, name, OptimizerVariable._set_capturable)
    assert "p.is_cuda or p.is_xpu" in inspect.getsource(asks)


def test_ragged_sizes_are_taken_for_numbers():
    sizes = ShapeEnv()
    sizes.backed_var_to_val[sympy.Symbol("s0")] = SingletonInt(1, coeff=1)
    if torch.__version__ >= (2, 15):
        assert sizes.deserialize_symexpr("3") == 3
    else:
        with pytest.raises(TypeError, match="to int"):
            sizes.deserialize_symexpr("3")


def test_guards_of_ragged_batches_fail(device: torch.device, monkeypatch: pytest.MonkeyPatch):
    """Kernels of as many elements as there are rows; the second batch opens their number."""
    monkeypatch.setattr(body, "without_guards_of_ragged_sizes", lambda features: features)
    means = torch.compile(lambda x: x.mean(dim=1))

    def run() -> None:
        for count in (2, 3):
            rows = [torch.randn(place + 2, 8) for place in range(count)]
            means(torch.nested.nested_tensor(rows, layout=torch.jagged, device=device))

    if torch.__version__ >= (2, 15):
        run()
    else:
        with pytest.raises(Exception, match="list index out of range"):
            run()
