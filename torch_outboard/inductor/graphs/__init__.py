"""`mode="reduce-overhead"`: compiled graphs that are captured by the driver and replayed."""
