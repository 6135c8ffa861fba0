"""The text of kernels: types, expressions, helpers, and the program that they become."""
