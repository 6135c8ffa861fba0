"""What users decide about how operators run: policies, placement, and kernels of their own."""
