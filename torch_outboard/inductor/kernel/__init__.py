"""One kernel of a compiled graph."""

from torch_outboard.inductor.kernel.body import OpenCLKernel

__all__ = ["OpenCLKernel"]
