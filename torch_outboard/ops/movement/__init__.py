"""Tables of operators that move elements by rules, or make tensors of numbers."""
