"""mychip for PyTorch: the driver lies beside this file as libob_mychip.so."""

# Environment variables that the driver reads, so that a misspelt one is named in a warning.
SETTINGS = ("OUTBOARD_MYCHIP_MEMORY", "OUTBOARD_MYCHIP_PRODUCTS")
