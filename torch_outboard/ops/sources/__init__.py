"""Sources of device kernels: C++ calls one of these functions for each program that it compiles.

A function takes a description, by the names of its parameters or of the fields of a dataclass, and
returns OpenCL C: macros and functions, then a file of `torch_outboard/kernels`. Calls come from any
thread, and hold no lock but the interpreter's.
"""

from torch_outboard.ops.sources.pointwise import PointwiseInput, PointwiseOutput, pointwise
from torch_outboard.ops.sources.products import fourier, product
from torch_outboard.ops.sources.reduction import list_norms, reduction
from torch_outboard.ops.sources.template import TemplateTensor, template

__all__ = [
    "PointwiseInput", "PointwiseOutput", "TemplateTensor",
    "fourier", "list_norms", "pointwise", "product", "reduction", "template",
]  # fmt: skip
