"""The device module `torch.<name>` and its parts."""
