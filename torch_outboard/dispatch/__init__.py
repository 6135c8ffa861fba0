"""What users decide about how operators run: policies, ways, and kernels of their own."""
