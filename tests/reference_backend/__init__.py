"""What PyTorch's reference backend (`torch_openreg`) is tested for, asked of this device.

A file here answers for those of the same subject in PyTorch's tree. Two things are otherwise, on
purpose: generators have offsets, and users attach strings to a tensor.
"""
