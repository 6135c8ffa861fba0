"""Patches of PyTorch's compiler where it has no registry; each with its reason and its end.

The import of the compiler installs them. Every patch has a test that fails when PyTorch no longer
needs the patch (tests/inductor/test_pytorch_patches.py).
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from torch_outboard.state import state


def _changed(original: Any, change: Callable[..., Any]) -> Any:
    """A function that calls `change(original, ...)`; changed functions stay as they are."""
    if hasattr(original, "outboard"):
        return original

    @functools.wraps(original)
    def changed(*arguments: Any, **rest: Any) -> Any:
        return change(original, *arguments, **rest)

    changed.outboard = True
    return changed


def _replace(owner: Any, name: str, change: Callable[..., Any]) -> None:
    """Replaces a function of PyTorch, once."""
    changed = _changed(getattr(owner, name), change)
    static = isinstance(vars(owner)[name], staticmethod)
    setattr(owner, name, staticmethod(changed) if static else changed)


def be_a_gpu() -> None:
    """Makes Inductor treat the device as an accelerator.

    Reason: Inductor's list of accelerators has fixed names. For devices that it lacks, an operation
    of a CPU scalar and a device tensor becomes a CPU kernel, and device indices get lost.
    Where: torch/_inductor/utils.py, `GPU_TYPES`.
    Upstream: RFC 189137.
    Can go: from 2.15 on, which asks `DeviceInterface.is_gpu`.
    """
    from torch._inductor import utils

    if state.name not in utils.GPU_TYPES:
        others = [name for name in utils.GPU_TYPES if getattr(torch, name).is_available()]
        utils.GPU_TYPES.append(state.name)
        _call_the_gpu(*(others or [state.name])[:1])


def _call_the_gpu(name: str) -> str:
    """Makes `name` Inductor's one accelerator; returns the name of the previous one.

    Reason: Inductor asserts that there is only one accelerator, and the machine may have a built-in
    one too. `get_gpu_type` caches its first answer, so it is called while the list has one name.
    Where: torch/_inductor/utils.py, `get_gpu_type`, imported by name in many places.
    Upstream: RFC 189137.
    Can go: from 2.15 on, which uses the current accelerator if there are several.
    """
    from torch._inductor import utils

    before = utils.get_gpu_type() if utils.get_gpu_type.cache_info().currsize else name
    known = list(utils.GPU_TYPES)
    utils.GPU_TYPES[:] = [name]
    utils.get_gpu_type.cache_clear()
    try:
        utils.get_gpu_type()
    finally:
        utils.GPU_TYPES[:] = known
    return before


@contextlib.contextmanager
def being_the_gpu() -> Iterator[None]:
    """Within, the device is Inductor's accelerator, whichever others the machine has."""
    before = _call_the_gpu(state.name)
    try:
        yield
    finally:
        _call_the_gpu(before)


def need_no_triton() -> None:
    """Lets graphs of the device through without Triton.

    Reason: Inductor raises TritonMissing for any accelerator except "mps" without Triton.
    Where: torch/_inductor/scheduler.py, `Scheduler.create_backend`.
    Upstream: RFC 189137.
    Can go: when PyTorch asks the backend whether it needs Triton.
    """
    from torch._inductor import scheduler

    def has_triton(original: Any, **options: Any) -> bool:
        from torch._inductor.virtualized import V

        device = V.graph.device_type if isinstance(V.graph.device_type, str) else ""
        return original(**options) or device == state.name or state.name in V.graph.device_types

    _replace(scheduler, "has_triton", has_triton)


# Settings of Inductor that cannot be set per device.
SETTINGS: dict[str, Any] = {
    # Kernels of the kit support any layout; a change of layouts copies memory.
    "layout_optimization": False,
    "comprehensive_padding": False,
    # Both assume Triton's blocks.
    "triton.mix_order_reduction": False,
    "triton.coalesce_tiling_analysis": False,
    # Operators that passes.py does not rewrite draw as in eager mode.
    "fallback_random": True,
}


# Settings that need Triton. Some callers set them for all devices; `standalone_compile` sets the
# last one.
OF_TRITON = ("benchmark_fusion", "benchmark_combo_kernel", "triton.autotune_at_compile_time")


def want_no_templates_of_triton() -> None:
    """Refuses Triton's templates for the device without a warning.

    Reason: Inductor warns that devices with few processors are too small for "max_autotune_gemm".
    Where: torch/_inductor/utils.py, `is_big_gpu`.
    Can go: when PyTorch checks the backend's features first.
    """
    from torch._inductor import utils

    def is_big_gpu(original: Any, index_or_device: Any = 0) -> bool:
        kind = getattr(index_or_device, "type", utils.get_gpu_type())
        return kind != state.name and original(index_or_device)

    _replace(utils, "is_big_gpu", is_big_gpu)


def set_options_of_graphs() -> None:
    """Compiles graphs that have tensors of the device with separate settings.

    Reason: settings hold for all devices of a process.
    Where: torch/_inductor/compile_fx.py, `compile_fx`.
    Can go: when settings can be set per device; 2.15 has options per device, but only for settings
    that a backend defines.
    """
    from torch._dynamo.backends.debugging import aot_eager
    from torch._inductor import compile_fx as module
    from torch._inductor import config
    from torch._inductor.virtualized import V

    from torch_outboard import _C
    from torch_outboard.inductor import host_code
    from torch_outboard.inductor.dynamic_sizes import telling_dynamic_strides
    from torch_outboard.inductor.lowerings import expressions, operators
    from torch_outboard.inductor.lowerings.attention import replace_attention
    from torch_outboard.inductor.passes import HostValues, UseOwnNumbers, Words
    from torch_outboard.inductor.target import placement_of_graphs
    from torch_outboard.inductor.wrapper import keep_python

    def compile_fx(
        original: Any, model_: Any, example_inputs_: Any, *arguments: Any, **rest: Any
    ) -> Any:
        found = host_code.devices_of(model_, example_inputs_)
        devices = {device.index or 0 for device in found}
        if not devices:
            return original(model_, example_inputs_, *arguments, **rest)
        with being_the_gpu():
            return compile_for(original, devices, model_, example_inputs_, *arguments, **rest)

    def compile_for(
        original: Any,
        devices: set[int],
        model_: Any,
        example_inputs_: Any,
        *arguments: Any,
        config_patches: dict[str, Any] | None = None,
        **rest: Any,
    ) -> Any:
        patches, settings = dict(config_patches or {}), SETTINGS
        first, for_host = UseOwnNumbers(Words, replace_attention), None
        if V.aot_compilation:
            host_code.check_memory(devices)
            for_host = host_code.compile_package
        elif (placements := set(map(placement_of_graphs, devices))) == {"host"}:
            for_host = host_code.compile_graph
        elif placements != {"device"}:
            return aot_eager(model_, example_inputs_)
        if for_host is not None:
            settings, first = host_code.SETTINGS, UseOwnNumbers(HostValues)
        else:
            for device in devices:
                _C.note_compiled_graph(device)
            operators.define_lowerings()
            expressions.define_lowerings()
            keep_python(patches)
            if patches.get("triton.cudagraphs", config.triton.cudagraphs):
                _capture_graphs(patches)
            needless = [x for x in OF_TRITON if patches.get(x, getattr(config, x))]
            patches |= dict.fromkeys(needless, False)
        for name, value in settings.items():
            if getattr(config, name) != value:
                patches.setdefault(name, value)
        if config.joint_custom_pre_pass is None:
            patches.setdefault("joint_custom_pre_pass", first)
        _keep_order_of_draws(patches)
        step = rest.get("inner_compile", module.compile_fx_inner)
        # compile_fx calls itself with the settings in place; the nested call has the wrapped step.
        if not hasattr(step, "outboard"):
            if for_host is not None:
                step = host_code.for_host(for_host, step)
            # The step may run later, for a backward pass.
            step = being_the_gpu()(telling_dynamic_strides(step))
            step.outboard = True
        rest |= {"inner_compile": step, "config_patches": patches or None}
        return original(model_, example_inputs_, *arguments, **rest)

    _replace(module, "compile_fx", compile_fx)


def _capture_graphs(patches: dict[str, Any]) -> None:
    """Sets the policy that captures graphs of `mode="reduce-overhead"`."""
    from torch._inductor import config

    if not hasattr(config, "cudagraph_policy"):
        warnings.warn(
            f"PyTorch {torch.__version__} cannot be told to capture compiled graphs; use 2.12 or "
            "newer",
            stacklevel=2,
        )
    elif config.cudagraph_policy is None:
        from torch_outboard.inductor.captured_graphs import CaptureGraphs

        patches.setdefault("cudagraph_policy", CaptureGraphs())


def _keep_order_of_draws(patches: dict[str, Any]) -> None:
    """Sets the pass KeepOrder before PyTorch 2.13, which has such a pass."""
    from torch._inductor import config

    from torch_outboard.inductor.passes import KeepOrder, pytorch_keeps_order

    if not pytorch_keeps_order() and config.post_grad_custom_post_pass is None:
        patches.setdefault("post_grad_custom_post_pass", KeepOrder())


def know_sizes_of_bags() -> None:
    """Predicts the sizes of the results of embedding bags.

    Reason: PyTorch predicts those of CUDA's kernel. The device's are CPU's: bag_size has no entry
    for the last offset, and max_indices has elements in all modes. Compiled code checks sizes.
    Where: torch/_subclasses/fake_impls.py, `embedding_bag`.
    Can go: when PyTorch calls the meta function of a backend.
    """
    from torch._subclasses import fake_impls

    aten = torch.ops.aten
    known = fake_impls.op_implementations_dict
    original = known[aten._embedding_bag.default]
    for packet in (aten._embedding_bag, aten._embedding_bag_forward_only):
        known[packet.default] = _changed(original, _embedding_bag)


def _embedding_bag(original: Any, fake_mode: Any, func: Any, *arguments: Any, **rest: Any) -> Any:
    given = _named(func, arguments, rest)
    if given["weight"].device.type != state.name:
        # PyTorch has no prediction for the other operator.
        known = func is torch.ops.aten._embedding_bag.default
        return original(fake_mode, func, *arguments, **rest) if known else NotImplemented
    bags, of_indices, sizes, maxima = original(fake_mode, func, *arguments, **rest)
    with fake_mode:
        sizes = sizes.new_empty(bags.shape[:1])
        if given.get("mode", 0) != _MAXIMUM:
            maxima = maxima.new_empty(bags.shape[:1])
    return bags, of_indices, sizes, maxima


_MAXIMUM = 2  # the mode "max" of embedding bags


def _named(func: Any, arguments: Sequence[Any], rest: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call by name."""
    names = [argument.name for argument in func._schema.arguments]
    return {**dict(zip(names, arguments, strict=False)), **rest}


def know_layouts_of_convolutions() -> None:
    """Predicts the strides of convolutions as the device's kernels choose them.

    Reason: PyTorch predicts contiguous results for out-of-tree devices. Our results have the layout
    of the input, or else of the weight, like CPU's. Compiled code checks strides.
    Where: torch/_subclasses/fake_impls.py, `conv`.
    Can go: when PyTorch calls the meta function of a backend.
    """
    from torch._subclasses import fake_impls

    aten = torch.ops.aten
    known = fake_impls.op_implementations_dict
    for operator in (aten.convolution, aten._convolution, aten.convolution_backward):
        # Before 2.13 PyTorch predicts no strides for `_convolution`.
        if operator.default in known:
            known[operator.default] = _changed(known[operator.default], _convolution)


def _convolution(original: Any, fake_mode: Any, func: Any, *arguments: Any, **rest: Any) -> Any:
    result = original(fake_mode, func, *arguments, **rest)
    given = _named(func, arguments, rest)
    x, weight = given["input"], given["weight"]
    if x.device.type != state.name or x.dim() not in (4, 5):
        return result
    layout = torch.channels_last if x.dim() == 4 else torch.channels_last_3d

    def follows(tensor: torch.Tensor) -> bool:
        return torch._prims_common.suggest_memory_format(tensor) == layout

    if not follows(x) and not follows(weight):
        return result
    with fake_mode:
        if isinstance(result, tuple):
            return tuple(
                part if part is None or part.dim() != x.dim()
                else part.contiguous(memory_format=layout)
                for part in result
            )  # fmt: skip
        return result.contiguous(memory_format=layout)


def count_indices_in_logical_order() -> None:
    """Makes argmax and argmin over all dimensions return eager mode's index, whatever the strides.

    Reason: Inductor may reorder loops over a reduction later. It carries the index along with the
    value only for Triton and CPU, which it knows by name.
    Where: torch/_inductor/lowering.py, `_make_reduction_inner`.
    Can go: when the carried index is a feature of a backend.
    """
    from torch._inductor import ir, lowering

    def make_reduction_inner(original: Any, x: Any, *arguments: Any, **rest: Any) -> Any:
        described = original(x, *arguments, **rest)
        sizes, kind = described["reduction_ranges"], rest.get("reduction_type")
        ours = ir.get_device_type(x) == state.name and kind in ("argmax", "argmin")
        if ours and len(sizes) > 1:
            described["inner_fn"] = _with_index(described["inner_fn"], sizes)
        return described

    _replace(lowering, "_make_reduction_inner", make_reduction_inner)


def _with_index(inner: Any, sizes: Any) -> Any:
    """Values of a reduction, each with its index in row-major order."""
    from torch._inductor.virtualized import ops

    def loader(index: Any, reduced: Any) -> Any:
        value = inner(index, reduced)
        linear = reduced[0]
        for size, part in zip(sizes[1:], reduced[1:], strict=True):
            linear = linear * size + part
        return value if isinstance(value, tuple) else (value, ops.index_expr(linear, torch.int64))

    return loader


def split_for_processors() -> None:
    """Splits reductions along memory into numbers of parts that suit processors.

    Reason: Inductor chooses numbers of parts for GPUs, for all backends. A process can set one
    subclass of the class that chooses, which is left to users.
    Where: torch/_inductor/choices.py, `InductorChoices.reduction_split_factor`.
    Can go: when a backend can register its choices.
    """
    from torch._inductor.choices import InductorChoices

    from torch_outboard.inductor.kernel.loops import parts_of_reduction
    from torch_outboard.inductor.target import target_of

    signature = inspect.signature(InductorChoices.reduction_split_factor)

    # From PyTorch 2.14 on it is a method, whose first argument is the object.
    def reduction_split_factor(original: Any, *arguments: Any, **rest: Any) -> Any:
        given = signature.bind(*arguments, **rest).arguments
        device = given["device"]
        if device.type == state.name and given["inner_reduction"]:
            target = target_of(device)
            if target.group == 1:
                return parts_of_reduction(
                    given["reduction_numel_hint"], given["numel_hint"], target.processors
                )
        return original(*arguments, **rest)

    _replace(InductorChoices, "reduction_split_factor", reduction_split_factor)


def take_flex_attention() -> None:
    """Lets tensors of the device into flex_attention.

    Reason: flex_attention refuses devices that it does not know by name.
    Where: torch/nn/attention/flex_attention.py, `_validate_device`.
    Upstream: a note there says that the check goes once other devices are supported.
    Can go: when the check is gone.
    """
    from torch.nn.attention import flex_attention as module

    def with_device(constant: Any) -> Any:
        known = isinstance(constant, frozenset) and "cuda" in constant
        return constant | {state.name} if known else constant

    # A function of this package would break graphs: Dynamo does not trace it.
    code = module._validate_device.__code__
    constants = tuple(with_device(constant) for constant in code.co_consts)
    module._validate_device.__code__ = code.replace(co_consts=constants)


def count_steps_on_the_device() -> None:
    """Sets `capturable` of optimizers whose first step is compiled, as for CUDA.

    Reason: Dynamo traces a step as if it were set, but sets it for two devices only, known by name.
    For others, step counts stay on the CPU, and PyTorch refuses lists of tensors on both devices.
    Where: torch/_dynamo/variables/optimizer.py, `OptimizerVariable._set_capturable`; from 2.15 on
    `_safe_to_set_capturable`, which is called while the step is prepared.
    Can go: when Dynamo calls `_get_capturable_supported_devices` of torch/optim/optimizer.py.
    """
    from torch._dynamo.variables.optimizer import OptimizerVariable

    def counts_on_the_device(self: OptimizerVariable, group: dict[str, Any]) -> bool:
        return group.get("capturable") is False and all(
            parameter.device.type == state.name and parameter not in self.value.state
            for parameter in group["params"]
        )

    def safe_to_set_capturable(
        original: Any, self: OptimizerVariable, group: dict[str, Any]
    ) -> bool:
        return original(self, group) or counts_on_the_device(self, group)

    def set_capturable(original: Any, self: OptimizerVariable, tx: Any) -> None:
        for group in self.value.param_groups:
            if counts_on_the_device(self, group):
                group["capturable"] = True
        original(self, tx)

    if hasattr(OptimizerVariable, "_safe_to_set_capturable"):
        _replace(OptimizerVariable, "_safe_to_set_capturable", safe_to_set_capturable)
    else:
        _replace(OptimizerVariable, "_set_capturable", set_capturable)


def install() -> None:
    """Installs all patches of Inductor."""
    want_no_templates_of_triton()
    count_indices_in_logical_order()
    split_for_processors()
    be_a_gpu()
    need_no_triton()
    set_options_of_graphs()
    know_layouts_of_convolutions()
    know_sizes_of_bags()
