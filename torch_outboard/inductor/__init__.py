"""torch.compile on the device: an Inductor backend that writes kernels in OpenCL C.

registration.py imports these modules only after PyTorch's compiler.
"""
