"""What profilers of PyTorch need of the device and do not find in the device module."""
