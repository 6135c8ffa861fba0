"""The sources of device kernels, as C++ asks for them before it compiles them.

Each function takes what a kernel is for, and returns OpenCL C: definitions, then a file of
`torch_outboard/kernels`. They are called on any thread, without a lock of the kit's.
"""

from torch_outboard.ops.sources.fourier import fourier
from torch_outboard.ops.sources.list_norms import list_norms
from torch_outboard.ops.sources.pointwise import pointwise
from torch_outboard.ops.sources.product import product
from torch_outboard.ops.sources.reduction import reduction
from torch_outboard.ops.sources.template import template

__all__ = ["fourier", "list_norms", "pointwise", "product", "reduction", "template"]
