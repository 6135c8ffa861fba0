"""Registration of the device with PyTorch: entry point, driver, native code."""
