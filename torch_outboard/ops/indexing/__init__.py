"""Operator definitions of reading and writing at the indices in index tensors."""
