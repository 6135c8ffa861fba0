"""Functions of the device for PyTorch's profilers, beside those of the device module."""
