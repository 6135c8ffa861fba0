"""Discrete Fourier transforms: definitions for csrc/device_kernels/fourier/fourier.cpp."""

from __future__ import annotations

from torch_outboard.ops.definition import Definition, kernel_source, qualified


def definitions() -> list[Definition]:
    """Every operator definition of this module."""
    kinds = {"_fft_c2c": "complex", "_fft_r2c": "from_real", "_fft_c2r": "to_real"}
    return [
        Definition(
            "fourier",
            qualified(f"{name} {name}.out"),
            {"direction": kind, "source": kernel_source("fourier")},
        )
        for name, kind in kinds.items()
    ]
