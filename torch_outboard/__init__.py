"""torch_outboard: a small driver in, a complete out-of-tree PyTorch device out."""
