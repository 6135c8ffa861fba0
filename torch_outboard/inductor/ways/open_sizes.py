"""Graphs whose sizes are open: what they are in a call, and code that holds for some of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy
import torch
from torch._inductor.output_code import OutputCode
from torch.fx.experimental.symbolic_shapes import SYMPY_INTERP
from torch.utils._sympy.printers import PythonPrinter

from torch_outboard.inductor.ways.layouts import as_laid_out
from torch_outboard.inductor.ways.source import Source


class OpenSizes:
    """Finds the sizes of a call in its inputs.

    Args:
        inputs: those that the graph is compiled for, with symbols for open sizes.
    """

    def __init__(self, inputs: Sequence[Any]) -> None:
        # Of each symbol, an input, and a dimension of it if it is a tensor.
        self.places: dict[str, tuple[int, int | None]] = {}
        self.open_inputs: list[int] = []
        for place, value in enumerate(inputs):
            if isinstance(value, torch.SymInt):
                self._note(value, place, None)
            elif isinstance(value, torch.Tensor):
                for dim, size in enumerate(value.size()):
                    self._note(size, place, dim)
                if any(not isinstance(size, int) for size in value.size()):
                    self.open_inputs.append(place)

    def _note(self, size: Any, place: int, dim: int | None) -> None:
        expression = size.node.expr if isinstance(size, torch.SymInt) else None
        if isinstance(expression, sympy.Symbol):
            self.places.setdefault(str(expression), (place, dim))

    def work(self, inputs: Sequence[Any]) -> float:
        """How much a call does: elements of the inputs whose sizes are open, 1 if there are none.

        A constant for graphs of which numbers alone are open: what these do is not known.
        """
        return max(1.0, float(sum(inputs[place].numel() for place in self.open_inputs)))

    def values(self, inputs: Sequence[Any]) -> dict[str, int]:
        """Of each symbol."""
        return {
            symbol: inputs[place] if dim is None else inputs[place].size(dim)
            for symbol, (place, dim) in self.places.items()
        }


class CodeForSizes(OutputCode):
    """Code for a graph that was compiled after PyTorch's checks of its inputs were.

    Args:
        run: the code.
        other: what runs at sizes for which it does not hold.
        sizes: of the graph.
        conditions: what has to be true of the sizes, as expressions of SymPy.
        layouts: for each result the strides that it is to have, as texts, or None if it has them.

    Raises:
        NotImplementedError: if they depend on what inputs do not show.
    """

    def __init__(
        self,
        run: Any,
        other: Any,
        sizes: OpenSizes,
        conditions: Sequence[Any],
        layouts: Sequence[Sequence[str] | None],
    ) -> None:
        self._boxed_call = True
        self.run = run
        self.other = other
        self.sizes = sizes
        every = [f"({PythonPrinter().doprint(condition)})" for condition in conditions]
        self.condition = _compiled(" and ".join(every) or "True")
        texts = [
            None if each is None else f"({' '.join(f'{s},' for s in each)})" for each in layouts
        ]
        self.layouts = _compiled(f"[{', '.join(map(str, texts))}]") if any(texts) else None
        for code in filter(None, (self.condition, self.layouts)):
            try:
                eval(code, SYMPY_INTERP, dict.fromkeys(sizes.places, 2))
            except (NameError, AttributeError, TypeError) as problem:
                raise NotImplementedError(f"it depends on more than sizes: {problem}") from problem

    def __call__(self, inputs: Any) -> Any:
        values = self.sizes.values(inputs)
        if not eval(self.condition, SYMPY_INTERP, values):
            return self.other(inputs)
        results = self.run(inputs)
        if self.layouts is None:
            return results
        return as_laid_out(results, eval(self.layouts, SYMPY_INTERP, values))


def _compiled(text: str) -> Any:
    return compile(text, "<sizes>", "eval")


def compiled_for_sizes(source: Source, way: str, other: Any, sizes: OpenSizes) -> Any:
    """Another way of a graph, compiled after PyTorch's checks of its inputs were.

    Args:
        source: of a copy of what is known of sizes.
        way: "kernels" or "host".
        other: the way that the checks are for.
        sizes: of the graph.

    Returns:
        Code that leaves sizes for which it does not hold to the other way, and lays its results out
        as that does.

    Raises:
        NotImplementedError: if it depends on what inputs do not show.
    """
    known = len(source.conditions())
    code = source.host() if way == "host" else source.kernels()
    conditions = source.conditions()[known:]
    layouts = other_layouts(_compiled_by_inductor(code), _compiled_by_inductor(other))
    if not conditions and not any(layouts):
        return code
    return CodeForSizes(code, other, sizes, conditions, layouts)


def _compiled_by_inductor(code: Any) -> Any:
    return getattr(code, "compiled", code)


def other_layouts(code: Any, wanted: Any) -> list[Sequence[str] | None]:
    """Strides of the results of Inductor's code that other code lays out in another way.

    Returns:
        For each result the strides that are wanted, as texts, or None if it has them.

    Raises:
        NotImplementedError: if they are not known.
    """
    theirs, ours = (getattr(each, "output_strides", None) for each in (wanted, code))
    if theirs is None or ours is None or len(theirs) != len(ours):
        raise NotImplementedError("how its code lays out results is not known")
    return [
        None if a is None or tuple(a) == tuple(b or ()) else a
        for a, b in zip(theirs, ours, strict=True)
    ]
