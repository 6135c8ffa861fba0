"""Values that come from many: loops, what they accumulate, and running results."""
