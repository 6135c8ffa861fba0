"""Each work-around in PyTorch is still needed: these fail when one can go."""

import inspect

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
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.nn.attention import flex_attention
from torch.utils._sympy.singleton_int import SingletonInt

import torch_outboard
from torch_outboard import _C
from torch_outboard.inductor.passes import pytorch_keeps_order
from torch_outboard.inductor.pytorch_patches import SETTINGS, be_a_gpu
from torch_outboard.inductor.target import target_of

pytestmark = pytest.mark.skipif(
    not _C.runs_code(0), reason="graphs become kernels where the device has a compiler"
)


@pytest.mark.skipif(
    hasattr(DeviceInterface, "is_gpu"), reason="from 2.15 on PyTorch takes several accelerators"
)
def test_another_gpu_stays_the_gpu_of_other_graphs(
    device: torch.device, monkeypatch: pytest.MonkeyPatch
):
    """PyTorch before 2.15 takes one accelerator alone."""
    assert "assert len(avail_gpus) <= 1" in inspect.getsource(utils.get_gpu_type)
    monkeypatch.setattr(torch.mtia, "is_available", lambda: True)
    others = [known for known in utils.GPU_TYPES if known != device.type]
    monkeypatch.setattr(utils, "GPU_TYPES", others)
    utils.get_gpu_type.cache_clear()
    assert not utils.is_gpu(device.type)
    try:
        be_a_gpu()
        assert utils.GPU_TYPES[-1] == device.type
        x = torch.ones(3, 4, device=device, requires_grad=True)
        result = torch.compile(lambda x: (x * 2).relu().sum())(x)
        result.backward()
        assert result.item() == 24
        assert utils.get_gpu_type() == "mtia"
    finally:
        utils.get_gpu_type.cache_clear()


def test_what_is_asked_of_known_devices_alone():
    """Without Triton graphs are refused, small devices are warned of; indices, parts, devices."""
    assert scheduler.has_triton.outboard
    assert not utils.is_big_gpu(torch.device(torch_outboard.device_name()))
    # From 2.15 on in a separate method.
    asks = getattr(OptimizerVariable, "_safe_to_set_capturable", OptimizerVariable._set_capturable)
    splits = InductorChoices.reduction_split_factor.__wrapped__
    for asked, words in (
        (scheduler.Scheduler.create_backend, 'device.type == "mps"'),
        (scheduler.Scheduler.create_backend, "TritonMissing"),
        (utils, "Not enough SMs"),
        (lowering._make_reduction_inner.__wrapped__, "is_triton"),
        (splits, "threads_per_sm"),
        # "mps" is known from 2.13 on.
        (flex_attention._validate_device, 'supported_devices = {"cuda", "cpu", "xpu", "hpu"'),
        (asks, "p.is_cuda or p.is_xpu"),
    ):
        assert words in inspect.getsource(asked), words
    assert "length" not in inspect.getsource(splits)


def test_settings_have_no_value_for_a_device():
    """The usual ones stay as they are for other devices."""
    for name, value in SETTINGS.items():
        assert getattr(config, name) != value, name
    if hasattr(common, "get_compile_option_owner"):  # from 2.15 on
        option = f"{torch_outboard.device_name()}.layout_optimization"
        assert common.get_compile_option_owner(option) is None


def test_strides_of_convolutions_are_not_asked_for(device: torch.device):
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


def test_sizes_of_bags_are_those_of_cuda(device: torch.device):
    operator = torch.ops.aten._embedding_bag.default
    ours = fake_impls.op_implementations_dict[operator]
    indices, offsets = torch.tensor([0, 1, 2], device=device), torch.tensor([0, 2], device=device)
    arguments = (torch.ones(4, 3, device=device), indices, offsets, False, 0, False, None, True)
    real = operator(*arguments)
    with FakeTensorMode() as mode:
        fakes = [mode.from_tensor(x) if isinstance(x, torch.Tensor) else x for x in arguments]
        predicted = ours(mode, operator, *fakes)
        unaided = ours.__wrapped__(mode, operator, *fakes)
    assert [part.shape for part in predicted] == [part.shape for part in real]
    assert [part.shape for part in unaided] != [part.shape for part in real]


def test_parts_of_reductions_are_numbers_for_gpus(device: torch.device):
    """By threads of a multiprocessor, whatever the backend; other devices keep that."""
    patched = InductorChoices.reduction_split_factor
    # A method from 2.14 on.
    static = len(inspect.signature(patched.__wrapped__).parameters) == 4
    choices = () if static else (InductorChoices(),)

    def differs(*arguments: object) -> bool:
        ours, of_gpus = (f(*choices, device, *arguments) for f in (patched, patched.__wrapped__))
        return bool(ours != of_gpus)

    assert differs(10**7, 1, True) == (target_of(device).group == 1)
    assert not differs(4000, 64, False)


def test_what_later_versions_have():
    """Then `KeepOrder` of passes.py and `_StreamLine` of wrapper.py have no use."""
    assert pytorch_keeps_order() == (torch.__version__ >= (2, 13))
    assert hasattr(DeviceOpOverrides, "current_stream") == (torch.__version__ >= (2, 13))
    sizes = ShapeEnv()
    # A ragged size is taken for a number.
    sizes.backed_var_to_val[sympy.Symbol("s0")] = SingletonInt(1, coeff=1)
    if torch.__version__ >= (2, 15):
        assert sizes.deserialize_symexpr("3") == 3
    else:
        with pytest.raises(TypeError, match="to int"):
            sizes.deserialize_symexpr("3")


def test_compiled_steps_are_counted_on_the_device(device: torch.device):
    """Without the patch, formulas of tensors on the device meet counts on the CPU."""
    parameter = torch.ones(3, device=device, requires_grad=True)
    reference = torch.ones(3, requires_grad=True)
    optimizer, expected = torch.optim.AdamW([parameter]), torch.optim.AdamW([reference])
    step = torch.compile(lambda: optimizer.step(), backend="eager")
    for factor in (1.0, -2.0):
        parameter.grad = torch.full_like(parameter, factor)
        reference.grad = torch.full_like(reference, factor)
        step()
        expected.step()
    torch.testing.assert_close(parameter.detach().cpu(), reference.detach())
    assert optimizer.state[parameter]["step"].device == parameter.device
