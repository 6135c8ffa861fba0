"""Runs the test files of a source tree of PyTorch, unchanged, for the device."""
