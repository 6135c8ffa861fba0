"""Tables of what sums products: matrices, convolutions, distances, Fourier transforms."""
