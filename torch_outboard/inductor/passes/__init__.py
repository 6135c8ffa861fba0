"""Passes over graphs: random numbers, their order, elements that are read repeatedly."""
