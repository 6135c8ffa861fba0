"""Tables of normalizations and softmax."""
