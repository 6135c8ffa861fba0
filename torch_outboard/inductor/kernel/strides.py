"""By how much an index grows with a variable: PyTorch's functions, from where it has them."""

try:
    from torch._inductor.sizevars import stride_at, stride_at_vec_range
except ImportError:  # before 2.13
    from torch._inductor.codegen.cpp import (  # type: ignore[no-redef]
        stride_at,
        stride_at_vec_range,
    )

__all__ = ["stride_at", "stride_at_vec_range"]
