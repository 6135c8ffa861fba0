"""Scalar functions in OpenCL C, of which expressions are made, and their coefficients."""
