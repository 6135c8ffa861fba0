"""Changes of Inductor where it has no registry; each with its reason and the condition to go.

Installed when the compiler is imported. Every entry has a test that fails when PyTorch no longer
needs it (tests/inductor/test_pytorch_patches.py).
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

from torch_outboard.state import state


def _replace(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
    """Puts what `make` makes of a function of PyTorch in its place, once."""
    original = getattr(owner, name)
    if not hasattr(original, "outboard"):
        changed = functools.wraps(original)(make(original))
        changed.outboard = True
        setattr(owner, name, changed)


def be_a_gpu() -> None:
    """Makes Inductor treat the device as an accelerator.

    Reason: lists of accelerators are fixed names. Without it, an operation of a CPU scalar and a
    tensor of the device becomes a CPU kernel, and indices of devices get lost.
    Where: torch/_inductor/utils.py, `GPU_TYPES`.
    Upstream: RFC 189137.
    Can go: from 2.15 on, where `DeviceInterface.is_gpu` says it.
    """
    from torch._inductor import utils

    if state.name not in utils.GPU_TYPES:
        others = [name for name in utils.GPU_TYPES if getattr(torch, name).is_available()]
        utils.GPU_TYPES.append(state.name)
        _call_the_gpu(*(others or [state.name])[:1])


def _call_the_gpu(name: str) -> str:
    """Makes this what Inductor takes for the one accelerator there is; returns what that was.

    Reason: it asserts that there is one alone, and PyTorch's own may be there as well. Its function
    keeps its first answer, so it is asked while the list has this one name.
    Where: torch/_inductor/utils.py, `get_gpu_type`, imported by name in many places.
    Upstream: RFC 189137.
    Can go: from 2.15 on, which asks for the current accelerator where there are several.
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
    """Within, Inductor takes the device for the accelerator, whatever else this machine has."""
    before = _call_the_gpu(state.name)
    try:
        yield
    finally:
        _call_the_gpu(before)


def _step_of_the_gpu(step: Any) -> Any:
    """A step that compiles graphs of the device, which may be later than their model."""

    @functools.wraps(step)
    def compile_step(*arguments: Any, **options: Any) -> Any:
        with being_the_gpu():
            return step(*arguments, **options)

    return compile_step


def need_no_triton() -> None:
    """Lets graphs of the device through without Triton.

    Reason: whoever is an accelerator and not "mps" is refused with TritonMissing.
    Where: torch/_inductor/scheduler.py, `Scheduler.create_backend`.
    Upstream: RFC 189137.
    Can go: when the backend is asked what it needs.
    """
    from torch._inductor import scheduler

    def make(original: Any) -> Any:
        def has_triton(**options: Any) -> bool:
            from torch._inductor.virtualized import V

            device = V.graph.device_type if isinstance(V.graph.device_type, str) else ""
            return original(**options) or device == state.name or state.name in V.graph.device_types

        return has_triton

    _replace(scheduler, "has_triton", make)


# Settings of Inductor that have no value of their own for a device.
SETTINGS: dict[str, Any] = {
    # Kernels of the kit take any layout; a change of layouts moves memory.
    "layout_optimization": False,
    "comprehensive_padding": False,
    # Both plan for Triton's blocks.
    "triton.mix_order_reduction": False,
    "triton.coalesce_tiling_analysis": False,
    # Operators that random_numbers.py does not rewrite draw as in eager mode.
    "fallback_random": True,
}


# What Triton alone can do, which some ask for all devices: `standalone_compile` the last.
OF_TRITON = ("benchmark_fusion", "benchmark_combo_kernel", "triton.autotune_at_compile_time")


def want_no_templates_of_triton() -> None:
    """Says without a warning that Triton's templates are not for the device.

    Reason: each device with few processors is told that it is too small for "max_autotune_gemm".
    Where: torch/_inductor/utils.py, `is_big_gpu`.
    Can go: when the backend's features are asked first.
    """
    from torch._inductor import utils

    def make(original: Any) -> Any:
        def is_big_gpu(index_or_device: Any = 0) -> bool:
            kind = getattr(index_or_device, "type", utils.get_gpu_type())
            return kind != state.name and original(index_or_device)

        return is_big_gpu

    _replace(utils, "is_big_gpu", make)


def set_options_of_graphs() -> None:
    """Compiles graphs that have tensors of the device with settings of their own.

    Reason: settings hold for all devices of a process.
    Where: torch/_inductor/compile_fx.py, `compile_fx`.
    Can go: when they can be told from others by device; 2.15 has options for a device, but only of
    settings that a backend brings.
    """
    from torch._dynamo.backends.debugging import aot_eager
    from torch._inductor import compile_fx as module
    from torch._inductor import config
    from torch._inductor.virtualized import V

    from torch_outboard import _C
    from torch_outboard.inductor import ahead_of_time, host_code
    from torch_outboard.inductor.lowerings import expressions, operators
    from torch_outboard.inductor.lowerings.attention import InlineAttention
    from torch_outboard.inductor.passes.common import InOrder
    from torch_outboard.inductor.passes.known_indices import repeat_by_views
    from torch_outboard.inductor.passes.random_numbers import UseOwnNumbers, Words
    from torch_outboard.inductor.target import placement_of_graphs
    from torch_outboard.inductor.wrapper import keep_python

    original = module.compile_fx
    if hasattr(original, "__wrapped__"):
        return

    @functools.wraps(original)
    def compile_fx(model_: Any, example_inputs_: Any, *arguments: Any, **rest: Any) -> Any:
        devices = _devices(model_, example_inputs_)
        if not devices:
            return original(model_, example_inputs_, *arguments, **rest)
        with being_the_gpu():
            return compile_for(devices, model_, example_inputs_, *arguments, **rest)

    def compile_for(
        devices: set[int],
        model_: Any,
        example_inputs_: Any,
        *arguments: Any,
        config_patches: dict[str, Any] | None = None,
        **rest: Any,
    ) -> Any:
        patches = dict(config_patches or {})
        if V.aot_compilation:
            ahead_of_time.check_memory(devices)
            rest = _for_host(module, ahead_of_time.compiling_packages, patches, rest)
            return original(model_, example_inputs_, *arguments, **rest)
        placements = set(map(placement_of_graphs, devices))
        if placements == {"host"}:
            rest = _for_host(module, host_code.compiling_for_host, patches, rest)
            return original(model_, example_inputs_, *arguments, **rest)
        if placements != {"device"}:
            return aot_eager(model_, example_inputs_)
        for device in devices:
            _C.note_compiled_graph(device)
        captured = patches.get("triton.cudagraphs", config.triton.cudagraphs)
        rest = _with_steps_of_the_device(module, rest)
        for name, value in SETTINGS.items():
            if getattr(config, name) != value:
                patches.setdefault(name, value)
        patches |= {name: False for name in OF_TRITON if patches.get(name, getattr(config, name))}
        if config.joint_custom_pre_pass is None:
            first = InOrder(
                repeat_by_views,
                operators.describe_bags,
                InlineAttention(),
                UseOwnNumbers(Words),
            )
            patches.setdefault("joint_custom_pre_pass", first)
        operators.define_lowerings()
        expressions.define_lowerings()
        keep_python(patches)
        _keep_order_of_draws(patches)
        if captured:
            _capture_graphs(patches)
        if not patches:  # the original's call of itself, with the settings in place
            return original(model_, example_inputs_, *arguments, **rest)
        return original(model_, example_inputs_, *arguments, config_patches=patches, **rest)

    module.compile_fx = compile_fx


def _capture_graphs(patches: dict[str, Any]) -> None:
    """Sets what graphs of `mode="reduce-overhead"` are captured by."""
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
    """Sets a pass over graphs that PyTorch has itself from 2.13 on."""
    from torch._inductor import config

    from torch_outboard.inductor.passes.random_numbers import KeepOrder, pytorch_keeps_order

    if not pytorch_keeps_order() and config.post_grad_custom_post_pass is None:
        patches.setdefault("post_grad_custom_post_pass", KeepOrder())


def _for_host(
    module: Any, compile_step: Any, patches: dict[str, Any], rest: dict[str, Any]
) -> dict[str, Any]:
    """Named arguments of compile_fx for graphs that become code for the CPU by a step of ours."""
    from torch._inductor import config

    from torch_outboard.inductor import host_code
    from torch_outboard.inductor.passes.random_numbers import HostValues, UseOwnNumbers

    for name, value in host_code.SETTINGS.items():
        if getattr(config, name) != value:
            patches.setdefault(name, value)
    if config.joint_custom_pre_pass is None:
        patches.setdefault("joint_custom_pre_pass", UseOwnNumbers(HostValues))
    _keep_order_of_draws(patches)
    step = rest.get("inner_compile", module.compile_fx_inner)
    # The original calls itself with the settings in place.
    if not hasattr(step, "compiles_for_host"):
        step = compile_step(step)
    rest = _with_steps_of_the_device(module, {**rest, "inner_compile": step})
    return {**rest, "config_patches": patches or None}


def _with_steps_of_the_device(module: Any, rest: dict[str, Any]) -> dict[str, Any]:
    """Named arguments of compile_fx, whose step tells strides of dynamic sizes as they are.

    The step takes the device for the accelerator also where it runs later, as for a backward.
    """
    from torch_outboard.inductor.dynamic_sizes import telling_dynamic_strides

    step = rest.get("inner_compile", module.compile_fx_inner)
    if hasattr(step, "tells_dynamic_strides"):
        return rest
    return {**rest, "inner_compile": _step_of_the_gpu(telling_dynamic_strides(step))}


def _devices(model: Any, inputs: Any) -> set[int]:
    """Indices of the kit's devices in a graph."""
    values = list(inputs)
    graph = getattr(model, "graph", None)
    for node in graph.nodes if graph is not None else ():
        value = node.meta.get("val", node.meta.get("example_value"))
        values += value if isinstance(value, (tuple, list)) else [value]
    return {
        value.device.index or 0
        for value in values
        if isinstance(value, torch.Tensor) and value.device.type == state.name
    }


def know_layouts_of_convolutions() -> None:
    """Predicts the strides of convolutions as the device's kernels choose them.

    Reason: for devices out of PyTorch's tree a result is said to be contiguous; ours follows its
    input, or else its weight, as on CPU. Compiled code checks strides.
    Where: torch/_subclasses/fake_impls.py, `conv`.
    Can go: when the Meta kernel of a backend is asked.
    """
    from torch._subclasses import fake_impls

    aten = torch.ops.aten
    known = fake_impls.op_implementations_dict
    for operator in (aten.convolution, aten._convolution, aten.convolution_backward):
        original = known.get(operator.default)
        # Before 2.13 nothing is predicted of `_convolution`.
        if original is not None and not hasattr(original, "__wrapped__"):
            known[operator.default] = _with_layout(original)


def _with_layout(original: Any) -> Any:
    @functools.wraps(original)
    def convolution(fake_mode: Any, func: Any, *arguments: Any, **rest: Any) -> Any:
        result = original(fake_mode, func, *arguments, **rest)
        names = [argument.name for argument in func._schema.arguments]
        given = {**dict(zip(names, arguments, strict=False)), **rest}
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

    return convolution


def count_places_in_logical_order() -> None:
    """Makes argmax and argmin of all dimensions count as eager mode does, whatever the strides.

    Reason: loops over a reduction may be exchanged later, and only for Triton and CPU, known by
    name, the place is taken along with the value.
    Where: torch/_inductor/lowering.py, `_make_reduction_inner`.
    Can go: when that is a feature of a backend.
    """
    from torch._inductor import ir, lowering

    def make(original: Any) -> Any:
        def make_reduction_inner(x: Any, *arguments: Any, **rest: Any) -> Any:
            described = original(x, *arguments, **rest)
            sizes, kind = described["reduction_ranges"], rest.get("reduction_type")
            ours = ir.get_device_type(x) == state.name and kind in ("argmax", "argmin")
            if ours and len(sizes) > 1:
                described["inner_fn"] = _with_place(described["inner_fn"], sizes)
            return described

        return make_reduction_inner

    _replace(lowering, "_make_reduction_inner", make)


def _with_place(inner: Any, sizes: Any) -> Any:
    """Values of a reduction, each with its place in row-major order."""
    from torch._inductor.virtualized import ops

    def loader(index: Any, reduced: Any) -> Any:
        value = inner(index, reduced)
        place = reduced[0]
        for size, part in zip(sizes[1:], reduced[1:], strict=True):
            place = place * size + part
        return value if isinstance(value, tuple) else (value, ops.index_expr(place, torch.int64))

    return loader


def split_for_processors() -> None:
    """Splits reductions along memory on processors by what suits those.

    Reason: numbers of parts are for GPUs of all backends. Subclasses of the class that chooses them
    can be named, one for a process, which is left to users.
    Where: torch/_inductor/choices.py, `InductorChoices.reduction_split_factor`.
    Can go: when a backend brings its own choices.
    """
    from torch._inductor.choices import InductorChoices

    from torch_outboard.inductor.kernel.loops import parts_of_reduction
    from torch_outboard.inductor.target import target_of

    original = InductorChoices.reduction_split_factor
    if hasattr(original, "__wrapped__"):
        return
    signature = inspect.signature(original)
    static = isinstance(vars(InductorChoices)["reduction_split_factor"], staticmethod)

    # From PyTorch 2.14 on, a method: the object comes first.
    @functools.wraps(original)
    def reduction_split_factor(*arguments: Any, **rest: Any) -> int:
        given = signature.bind(*arguments, **rest).arguments
        device = given["device"]
        if device.type == state.name and given["inner_reduction"]:
            target = target_of(device)
            if target.group == 1:
                return parts_of_reduction(
                    given["reduction_numel_hint"], given["numel_hint"], target.processors
                )
        return original(*arguments, **rest)

    changed = staticmethod(reduction_split_factor) if static else reduction_split_factor
    InductorChoices.reduction_split_factor = changed


def take_flex_attention() -> None:
    """Lets tensors of the device into flex_attention.

    Reason: it refuses devices that it does not know by name.
    Where: torch/nn/attention/flex_attention.py, `_validate_device`.
    Upstream: a note there says that it is to go once other devices are supported.
    Can go: when that is done.
    """
    from torch.nn.attention import flex_attention as module

    def with_device(constant: Any) -> Any:
        known = isinstance(constant, frozenset) and "cuda" in constant
        return constant | {state.name} if known else constant

    # A function of this package would break graphs: Dynamo does not look into it.
    code = module._validate_device.__code__
    constants = tuple(with_device(constant) for constant in code.co_consts)
    module._validate_device.__code__ = code.replace(co_consts=constants)


def count_steps_on_the_device() -> None:
    """Sets `capturable` of optimizers whose first step is compiled, as for CUDA.

    Reason: a compiled step is traced as if that were set. It is set for parameters on two devices
    that are known by name; elsewhere counts stay on the CPU, and lists of both devices are refused.
    Where: torch/_dynamo/variables/optimizer.py, `OptimizerVariable._set_capturable`; from 2.15 on
    `_safe_to_set_capturable`, which is asked for the time of the step's preparation.
    Can go: when it asks `_get_capturable_supported_devices` of torch/optim/optimizer.py.
    """
    from torch._dynamo.variables.optimizer import OptimizerVariable

    asked = hasattr(OptimizerVariable, "_safe_to_set_capturable")
    name = "_safe_to_set_capturable" if asked else "_set_capturable"
    original = getattr(OptimizerVariable, name)
    if hasattr(original, "__wrapped__"):
        return

    def counts_on_the_device(self: OptimizerVariable, group: dict[str, Any]) -> bool:
        return group.get("capturable") is False and all(
            parameter.device.type == state.name and parameter not in self.value.state
            for parameter in group["params"]
        )

    @functools.wraps(original)
    def safe_to_set_capturable(self: OptimizerVariable, group: dict[str, Any]) -> bool:
        return original(self, group) or counts_on_the_device(self, group)

    @functools.wraps(original)
    def set_capturable(self: OptimizerVariable, tx: Any) -> None:
        for group in self.value.param_groups:
            if counts_on_the_device(self, group):
                group["capturable"] = True
        original(self, tx)

    setattr(OptimizerVariable, name, safe_to_set_capturable if asked else set_capturable)


def install() -> None:
    """All of them."""
    want_no_templates_of_triton()
    count_places_in_logical_order()
    split_for_processors()
    be_a_gpu()
    need_no_triton()
    set_options_of_graphs()
    know_layouts_of_convolutions()
