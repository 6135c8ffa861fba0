"""Facts of PyTorch's dispatcher and of the kit about operators, for commands and users."""
