"""Every module that PyTorch's own tests construct, as they do: results, moving, memory formats."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.testing._internal.common_modules import ModuleInfo, ModuleInput, module_db
from torch.utils._pytree import tree_leaves, tree_map

MODULES = {info.name: info for info in module_db}
# In training and in evaluation.
ALWAYS_RANDOM = {"nn.FractionalMaxPool2d", "nn.FractionalMaxPool3d"}
FORMATS = {4: torch.channels_last, 5: torch.channels_last_3d}


def samples(info: ModuleInfo, *, requires_grad: bool) -> Iterator[tuple[ModuleInput, bool]]:
    """Arguments on CPU, of training and of evaluation where they differ; always the same."""
    for training in (True, False) if info.train_and_eval_differ else (True,):
        torch.manual_seed(11)
        for sample in info.module_inputs_func(
            info,
            device="cpu",
            dtype=torch.float32,
            requires_grad=requires_grad,
            training=training,
        ):
            yield sample, training


def to_device(tree: Any, device: torch.device) -> Any:
    """Copies of the tensors of `tree` on `device`, as leaves that require gradients as they do."""

    def move(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return value.detach().clone().to(device).requires_grad_(value.requires_grad)

    return tree_map(move, tree)


def constructed(info: ModuleInfo, sample: ModuleInput, training: bool) -> torch.nn.Module:
    torch.manual_seed(3)
    arguments = sample.constructor_input
    # Modules keep tensors that they are given, such as the weights of a loss.
    module = info.module_cls(*copy.deepcopy(arguments.args), **copy.deepcopy(arguments.kwargs))
    module.train(training)
    leave_nothing_out(module)
    if info.is_lazy:
        # The first call draws the parameters, and each device draws other numbers.
        with torch.no_grad():
            module(*sample.forward_input.args, **sample.forward_input.kwargs)
    return module


def results(module: torch.nn.Module, arguments: tuple[Any, Any], device: torch.device) -> list:
    """Outputs, gradients of arguments and parameters, and buffers after one pass, all on CPU."""
    args, kwargs = to_device(arguments, device)
    torch.manual_seed(5)
    outputs = [leaf for leaf in tree_leaves(module(*args, **kwargs)) if torch.is_tensor(leaf)]
    differentiable = [output for output in outputs if output.requires_grad]
    if differentiable:
        weights = [torch.linspace(0.5, 1.5, output.numel()) for output in differentiable]
        torch.autograd.backward(
            differentiable,
            [
                weight.view(output.shape).to(device, output.dtype)
                for weight, output in zip(weights, differentiable, strict=True)
            ],
        )
    leaves = [leaf for leaf in tree_leaves((args, kwargs)) if torch.is_tensor(leaf)]
    for value in (*outputs, *module.parameters(), *module.buffers()):
        assert value.device == device
    return tree_map(
        lambda value: value.detach().cpu() if torch.is_tensor(value) else value,
        [
            outputs,
            [leaf.grad for leaf in leaves],
            dict(module.named_buffers()),
            {name: parameter.grad for name, parameter in module.named_parameters()},
        ],
    )


def draws(module: torch.nn.Module) -> bool:
    """Whether the module itself draws random numbers, which are others than CPU's."""
    kind = type(module).__name__
    return "FractionalMaxPool" in kind or (
        module.training and ("Dropout" in kind or isinstance(module, torch.nn.RReLU))
    )


def leave_nothing_out(module: torch.nn.Module) -> None:
    """Sets the probabilities of the dropout inside of a module to zero."""
    for part in module.modules():
        if isinstance(getattr(part, "dropout", None), float):
            part.dropout = 0.0
        if "Dropout" in type(part).__name__ and part is not module:
            part.p = 0.0


@pytest.mark.by_turns(5)
@pytest.mark.parametrize("name", sorted(MODULES))
def test_results_are_those_of_cpu(device, name):
    info = MODULES[name]
    compared = 0
    for sample, training in samples(info, requires_grad=True):
        if sample.forward_input is None:
            continue
        arguments = (sample.forward_input.args, sample.forward_input.kwargs)
        reference = constructed(info, sample, training)
        if draws(reference):
            continue
        moved = constructed(info, sample, training).to(device)
        expected = results(reference, arguments, torch.device("cpu"))
        got = results(moved, arguments, device)
        torch.testing.assert_close(got, expected, rtol=2e-4, atol=2e-5, equal_nan=True)
        compared += 1
    assert compared or name in ALWAYS_RANDOM


@contextlib.contextmanager
def conversion(swap: bool, overwrite: bool) -> Iterator[None]:
    """How `Module.to` gives parameters their new data."""
    before = (
        torch.__future__.get_swap_module_params_on_conversion(),
        torch.__future__.get_overwrite_module_params_on_conversion(),
    )
    try:
        torch.__future__.set_swap_module_params_on_conversion(swap)
        torch.__future__.set_overwrite_module_params_on_conversion(overwrite)
        yield
    finally:
        torch.__future__.set_swap_module_params_on_conversion(before[0])
        torch.__future__.set_overwrite_module_params_on_conversion(before[1])


@pytest.mark.by_turns(15)
@pytest.mark.parametrize("how", ["data", "swap", "overwrite"])
@pytest.mark.parametrize("name", sorted(name for name in MODULES if not MODULES[name].is_lazy))
def test_moving(device, name, how):
    """There and back with gradients, by another dtype; parameters stay the same objects."""
    info = MODULES[name]
    with conversion(how == "swap", how == "overwrite"):
        for sample, training in samples(info, requires_grad=False):
            module = constructed(info, sample, training)
            before = copy.deepcopy(module.state_dict())
            parameters = dict(module.named_parameters())
            for parameter in parameters.values():
                parameter.grad = torch.randn_like(parameter)
            gradients = {key: value.grad.clone() for key, value in parameters.items()}
            for place, dtype in ((device, None), (device, torch.float64), (device, torch.float32)):
                module.to(place, dtype)
                for value in (*module.parameters(), *module.buffers()):
                    assert value.device == place
                for value in module.parameters():
                    assert value.grad.device == place
                    if dtype is not None and value.is_floating_point():
                        assert value.dtype == value.grad.dtype == dtype
            if how != "overwrite":
                for key, value in module.named_parameters():
                    assert value is parameters[key], key
            module.cpu()
            for key, value in module.state_dict().items():
                # What was in float64 comes back in float32.
                torch.testing.assert_close(value, before[key].to(value.dtype), rtol=0, atol=0)
            torch.testing.assert_close(
                {key: value.grad for key, value in module.named_parameters()},
                gradients,
                rtol=0,
                atol=0,
            )


def formatted(tree: Any, rank: int, memory_format: torch.memory_format) -> Any:
    """`tree` with the tensors of `rank` dimensions in `memory_format`."""

    def change(value: Any) -> Any:
        if torch.is_tensor(value) and value.dim() == rank:
            return value.to(memory_format=memory_format)
        return value

    return tree_map(change, tree)


def strides(value: Any) -> Any:
    return value.stride() if torch.is_tensor(value) else None


@pytest.mark.by_turns(4)
@pytest.mark.parametrize(
    "name",
    sorted(
        name
        for name, info in MODULES.items()
        if info.module_memformat_affects_out and not name.endswith("1d")
    ),
)
def test_memory_formats(device, name):
    """Outputs have CPU's strides, whether the arguments or the weights are channels-last."""
    info = MODULES[name]
    compared = 0
    for sample, training in samples(info, requires_grad=False):
        forward = sample.forward_input
        if forward is None:
            continue
        leaves = tree_leaves((forward.args, forward.kwargs))
        ranks = {leaf.dim() for leaf in leaves if torch.is_tensor(leaf)}
        # Without the dimension of batches the weights have one dimension more than the input.
        for rank in ranks & {4 if name.endswith("2d") else 5}:
            for of_arguments in (torch.contiguous_format, FORMATS[rank]):
                for of_weights in (torch.contiguous_format, FORMATS[rank]):
                    shown = []
                    for place in (torch.device("cpu"), device):
                        module = constructed(info, sample, training).to(place)
                        module.to(memory_format=of_weights)
                        arguments = to_device((forward.args, forward.kwargs), place)
                        args, kwargs = formatted(arguments, rank, of_arguments)
                        shown.append(tree_map(strides, tree_leaves(module(*args, **kwargs))))
                    assert shown[1] == shown[0], (sample, of_arguments, of_weights)
                    compared += 1
    assert compared
