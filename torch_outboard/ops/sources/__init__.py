"""Sources of device kernels: C++ calls one of these functions for each program that it compiles.

A function takes a description and returns OpenCL C: macros and functions, then a file of
`torch_outboard/kernels`. Calls come from any thread, and hold no lock but the interpreter's.
"""

from torch_outboard.ops.sources.fourier import fourier
from torch_outboard.ops.sources.list_norms import list_norms
from torch_outboard.ops.sources.pointwise import pointwise
from torch_outboard.ops.sources.product import product
from torch_outboard.ops.sources.reduction import reduction
from torch_outboard.ops.sources.template import template

__all__ = ["fourier", "list_norms", "pointwise", "product", "reduction", "template"]
