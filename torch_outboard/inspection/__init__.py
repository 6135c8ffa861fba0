"""Inspection of operators: their kernels, dispatch keys, placements and schemas."""
