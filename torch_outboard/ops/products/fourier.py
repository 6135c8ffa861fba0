"""Discrete Fourier transforms: rows of the engine in csrc/device_kernels/fourier/fourier.cpp."""

from __future__ import annotations

from torch_outboard.ops.row import Row, kernel_source, qualified


def rows() -> list[Row]:
    """Every row."""
    kinds = {"_fft_c2c": "complex", "_fft_r2c": "from_real", "_fft_c2r": "to_real"}
    return [
        {
            "engine": "fourier",
            "overloads": qualified(f"{name} {name}.out"),
            "kind": kind,
            "source": kernel_source("fourier"),
        }
        for name, kind in kinds.items()
    ]
