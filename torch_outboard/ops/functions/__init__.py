"""Scalar functions in OpenCL C, which expressions call, and their coefficients."""
