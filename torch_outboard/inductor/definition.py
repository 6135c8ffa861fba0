"""How generated code defines a kernel of its program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch_outboard.inductor.kernel.parameters import Parameter


@dataclass(frozen=True)
class KernelDefinition:
    """A kernel that has a name.

    Attributes:
        name: in the program and in generated code.
        source: its text.
        parameters: in their order.
        properties: how its work is cut, for GraphKernel.
        origins: the nodes of the graph that it computes, each with its line of source.
        device: the index of the device.
    """

    name: str
    source: str
    parameters: Sequence[Parameter]
    properties: dict[str, Any]
    origins: Sequence[str]
    device: int

    def text(self) -> str:
        """What the name becomes: a kernel of `program`."""
        letters = "".join(parameter.letter for parameter in self.parameters)
        described = ", ".join(f"{key}={value!r}" for key, value in self.properties.items())
        return (
            f"program.kernel({self.name!r}, r'''\n{self.source}''', device={self.device}, "
            f"parameters={letters!r}, {described},\n"
            f"    origins={tuple(self.origins)!r})"
        )
