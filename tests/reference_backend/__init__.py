"""Tests of PyTorch's reference backend (`torch_openreg`), on this device.

A file here answers for those of the same subject in PyTorch's tree. Two things are otherwise, on
purpose: generators have offsets, and users attach strings to a tensor.
"""
