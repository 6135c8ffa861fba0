"""What PyTorch's dispatcher and the kit know of operators, for people who look for one."""
