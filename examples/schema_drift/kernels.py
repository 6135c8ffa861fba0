"""Kernels of a vendor, for operators that some versions of PyTorch lack."""

import torch

import torch_outboard


def is_there(name: str) -> bool:
    return name in torch._C._dispatch_get_all_op_names()


# Until 2.13.
if is_there("aten::cholesky"):

    @torch_outboard.kernel("aten::cholesky")
    def cholesky(self, upper=False):
        return torch.linalg.cholesky(self, upper=upper)


# The first argument is `grad` until 2.13, and `grad_output` since 2.14.
@torch_outboard.kernel("aten::_cdist_backward")
def cdist_backward(gradient, x1, x2, p, cdist):
    raise NotImplementedError


# Since 2.14.
if is_there("aten::linalg_polar"):

    @torch_outboard.kernel("aten::linalg_polar")
    def linalg_polar(A, *, side="right"):
        raise NotImplementedError
