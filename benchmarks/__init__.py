"""Measurements of speed: ratios against PyTorch on CPU, taken in the same run."""
