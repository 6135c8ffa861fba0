"""torch.compile on the device: an Inductor backend that writes kernels in OpenCL C.

Nothing here is imported before PyTorch's own compiler is; registration.py sees to that.
"""
