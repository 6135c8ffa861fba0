"""Philox4x32-10 and the documented mapping from elements to words, in NumPy."""

import numpy as np

_MASK = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)


def philox(counter: np.ndarray, key: tuple[int, int]) -> np.ndarray:
    """Blocks of four words.

    Args:
        counter: uint32, shape (blocks, 4).
        key: the two words of the key.

    Returns:
        uint32, shape (blocks, 4).
    """
    x, y, z, w = (counter[:, i].astype(np.uint64) for i in range(4))
    low, high = key
    for _ in range(10):
        product_x = np.uint64(0xD2511F53) * x
        product_z = np.uint64(0xCD9E8D57) * z
        x = (product_z >> _SHIFT) ^ y ^ np.uint64(low)
        y = product_z & _MASK
        z = (product_x >> _SHIFT) ^ w ^ np.uint64(high)
        w = product_x & _MASK
        low = (low + 0x9E3779B9) & 0xFFFFFFFF
        high = (high + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack([x, y, z, w], axis=1).astype(np.uint32)


def draws_32(count: int, seed: int, offset: int) -> np.ndarray:
    """The 32-bit draws of the elements 0 to count - 1 (uint32)."""
    blocks = np.arange((count + 3) // 4, dtype=np.uint64)
    counter = np.empty((len(blocks), 4), dtype=np.uint32)
    counter[:, 0] = blocks & _MASK
    counter[:, 1] = blocks >> _SHIFT
    counter[:, 2] = offset & 0xFFFFFFFF
    counter[:, 3] = offset >> 32
    return philox(counter, (seed & 0xFFFFFFFF, seed >> 32)).reshape(-1)[:count]


def draws_64(count: int, seed: int, offset: int) -> np.ndarray:
    """The 64-bit draws of the elements 0 to count - 1 (uint64)."""
    words = draws_32(2 * count, seed, offset).astype(np.uint64)
    return words[0::2] | (words[1::2] << _SHIFT)


def exponential(draws: np.ndarray, bits: int) -> np.ndarray:
    """-log((draw + 1/2) / 2**bits) in float64, right near 0, too."""
    unit = (draws.astype(np.float64) + 0.5) * 2.0**-bits
    largest = np.array(2**bits - 1, dtype=draws.dtype)
    from_one = ((largest - draws).astype(np.float64) + 0.5) * 2.0**-bits
    return np.where(unit < 0.5, -np.log(unit), -np.log1p(-from_one))


def normal(draws: np.ndarray, bits: int) -> np.ndarray:
    """Box and Muller's transformation of pairs of draws in float64; the count is even."""
    radius = np.sqrt(2 * exponential(draws[0::2], bits))
    angle = draws[1::2].astype(np.float64) * (2 * np.pi * 2.0**-bits)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).reshape(-1)


def cauchy(draws: np.ndarray, bits: int) -> np.ndarray:
    """tan(pi * (u - 1/2)) in float64."""
    centred = (draws.astype(np.float64) + 0.5) * 2.0**-bits - 0.5
    return np.tan(np.pi * centred)
