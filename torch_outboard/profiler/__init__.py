"""Support for PyTorch's profilers beyond the device module."""
