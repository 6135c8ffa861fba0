"""Programs with a model, compiled on a device, that are compared with eager CPU.

See tests/programs/comparison.py: where the device's numbers differ from CPU's, a run on CPU in
float64 says by how much they may.
"""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn

from tests.programs.comparison import Program, Run

STEPS = 3
# Sizes of what a graph is called with after another; the first two make it dynamic.
SIZES = (10, 14, 18)

Make = Callable[[], nn.Module]
Batch = Callable[..., dict[str, Any]]


@dataclass(frozen=True)
class How:
    """How a model is compiled and used.

    Attributes:
        options: arguments of torch.compile.
        attention: what computes attention, if not a model's own choice. CPU has that in place of
            flex_attention, which would have to be compiled.
        autocast: the dtype of mixed precision, if any.
        checkpointing: whether layers are computed again for their derivatives.
        dynamic: whether batches have different lengths.
        inference: without derivatives, in evaluation mode.
        relative: as for `compare`.
    """

    options: dict[str, Any] = field(default_factory=dict)
    attention: str | None = None
    autocast: torch.dtype | None = None
    checkpointing: bool = False
    dynamic: bool = False
    inference: bool = False
    relative: float = 2e-5


def in_pieces(how: How) -> How:
    """The same for a model that becomes several graphs."""
    options = {key: value for key, value in how.options.items() if key != "fullgraph"}
    return replace(how, options=options)


def on(run: Run, batch: dict[str, Any]) -> dict[str, Any]:
    """A batch where the run works, in its precision."""
    return {
        name: run.on_device(value) if isinstance(value, torch.Tensor) else value
        for name, value in batch.items()
    }


def prepared(run: Run, make: Make, how: How) -> tuple[nn.Module, Callable[..., Any]]:
    """A model where the run works, and what is called: compiled if that is not the CPU."""
    model = run.on_device(make())
    if how.inference:
        model.eval()
    if how.checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    if run.exact and hasattr(model, "set_experts_implementation"):
        model.set_experts_implementation("eager")  # grouped products know no float64
    on_cpu = run.device.type == "cpu"
    if how.attention is not None and not (on_cpu and how.attention == "flex_attention"):
        model.set_attn_implementation(how.attention)
    return model, model if on_cpu else torch.compile(model, **how.options)


def numbers(output: Any) -> dict[str, torch.Tensor]:
    """The loss, scores and states of a model."""
    if isinstance(output, torch.Tensor):
        return {"output": output}
    named = output.items() if hasattr(output, "items") else enumerate(output)
    return {
        str(name): value
        for name, value in named
        if isinstance(value, torch.Tensor) and value.is_floating_point()
    }


def loss_of(output: Any) -> torch.Tensor:
    found = numbers(output)
    if "loss" in found:
        return found["loss"]
    first = next(iter(found.values()))
    # Squares alone say nothing of what a norm has made, and autocast on CPU squares in its dtype.
    # Sums along a norm's result can be zero, and AdamW would follow the rounding of gradients.
    wide = first.to(torch.promote_types(first.dtype, torch.float32))
    length = wide.shape[-1:].numel()  # 1 of a number
    weights = torch.linspace(0.5, 1.5, length, dtype=wide.dtype, device=wide.device)
    return (wide * weights).square().mean()


def calls(make: Make, batch: Batch, how: How) -> Program:
    """Training steps, or calls without derivatives."""

    def program(run: Run) -> Iterator[dict[str, Any]]:
        model, called = prepared(run, make, how)
        mixed = nullcontext() if how.autocast is None else run.autocast(how.autocast)
        learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
        optimizer = torch.optim.AdamW(learned, lr=1e-3)
        for step in range(STEPS):
            given = on(run, batch(SIZES[step]) if how.dynamic else batch())
            if how.inference:
                with torch.no_grad(), mixed:
                    yield numbers(called(**given))
                continue
            with mixed:
                loss = loss_of(called(**given))
            optimizer.zero_grad()
            loss.backward()
            gradients = {
                name: parameter.grad.clone()
                for name, parameter in model.named_parameters()
                if parameter.grad is not None
            }
            optimizer.step()
            yield {"loss": loss, "gradients": gradients}

    return program


def generation(make: Make, how: How, words: int) -> Program:
    """Word by word with a cache of one size, so that one graph has all words but the first ones.

    Nothing is drawn, so the words have to be those of CPU.
    """

    def program(run: Run) -> Iterator[dict[str, Any]]:
        model = run.on_device(make()).eval()
        if run.device.type != "cpu":
            model.forward = torch.compile(model.forward, **how.options)
        for length in (5, 7):
            start = run.integers(3, words, (2, length))
            result = model.generate(
                start,
                attention_mask=torch.ones_like(start),
                max_new_tokens=6,
                do_sample=False,
                cache_implementation="static",
                output_logits=True,
                return_dict_in_generate=True,
            )
            yield {"words": result.sequences, "scores": result.logits}

    return program
