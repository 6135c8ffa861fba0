"""How the device comes into PyTorch: entry point, registration, driver, native code."""
