"""The sweep over the arguments of operators with device kernels."""
