"""Operator definitions of matrix products, convolutions, distances and Fourier transforms."""
