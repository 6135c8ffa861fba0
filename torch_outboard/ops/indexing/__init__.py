"""Tables of operators that read and write at places given by index tensors."""
