"""OpenCL C source of kernels: types, expressions, helper functions, and the program."""
