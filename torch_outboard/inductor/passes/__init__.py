"""Passes over graphs: random numbers, their order, values that are read several times."""
