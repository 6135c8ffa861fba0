"""What host kernels save of the time of a device's own: the table by which `auto` decides.

Made of the times of calls by both ways, which `python -m torch_outboard tune` measures, or of those
below.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping

from torch_outboard import _C

# Microseconds of a call by the device's kernels (when others follow it) and by the host's, by
# operator or family, and by number of elements.
Times = dict[str, dict[int, tuple[float, float]]]
Table = dict[str, list[int]]
# Microseconds that Python takes between two calls, about, during which kernels of the device work
# and those of the host cannot; or "device" or "host", the side of all programs; or "typical", where
# measured times do no better than those below.
Beside = float | str

# Of a driver's device that is a CPU, which nobody has measured: PoCL 3.0 on two x86-64 cores, and
# what `tune` finds there.
TYPICAL_BESIDE: Beside = 60.0
TYPICAL: Times = {
    name: dict(zip((1 << 10, 1 << 17, 1 << 20), times, strict=True))
    for name, times in {
        "attention": ((453, 57), (1440, 918), (71400, 54000)),
        "convolution": ((125, 145), (3130, 916), (16700, 7110)),
        "copy": ((7, 3), (95, 37), (747, 225)),
        "distance": ((22, 36), (1090, 418), (6390, 2380)),
        "embedding": ((9, 6), (32, 19), (202, 103)),
        "embedding_backward": ((22, 29), (75, 182), (431, 991)),
        "fourier": ((18, 7), (406, 87), (2450, 776)),
        "indexing": ((11, 6), (137, 150), (1310, 1400)),
        "interpolation": ((22, 15), (713, 410), (3430, 3360)),
        "loss": ((10, 2), (10, 3), (18, 11)),
        "matrix_product": ((15, 7), (751, 421), (9180, 8420)),
        "movement": ((38, 5), (47, 21), (111, 83)),
        "normalization": ((15, 11), (43, 52), (243, 439)),
        "pointwise": ((8, 3), (53, 34), (250, 210)),
        "pointwise_lists": ((82, 36), (159, 105), (586, 312)),
        "pooling": ((17, 11), (124, 113), (709, 644)),
        "random": ((7, 4), (267, 174), (1290, 1190)),
        "recurrent": ((10, 18), (194, 275), (990, 1910)),
        "recurrent_layer": ((1060, 4280), (10200, 12500), (70800, 62800)),
        "reduction": ((7, 3), (19, 20), (104, 51)),
        "scan": ((13, 4), (149, 68), (1290, 510)),
        "selection": ((23, 11), (653, 765), (5250, 6690)),
        "softmax": ((10, 5), (72, 42), (395, 236)),
        "sorting": ((57, 14), (4700, 2680), (34500, 21900)),
    }.items()
}  # fmt: skip


def table(times: Times, beside: Beside) -> Table:
    """The table that `_C.set_way_savings` takes.

    Args:
        times: of calls.
        beside: microseconds, or a word as above.
    """
    if beside == "typical":
        times, beside = TYPICAL, TYPICAL_BESIDE
    if isinstance(beside, str):
        always = int(_C.WAY_PATIENCE) * (1 if beside == "host" else -1)
        return {name: [always] * 32 for name in times}
    return {
        name: [_saved(by_size, int(0.75 * (1 << bits)), beside) for bits in range(32)]
        for name, by_size in times.items()
    }


def _saved(times: Mapping[int, tuple[float, float]], elements: int, beside: float) -> int:
    """Nanoseconds that the host saves in a call of so many elements.

    What a device's kernel takes longer than one that has next to nothing to do runs beside Python,
    as long as Python takes.
    """
    device, host = (_at([(size, both[i]) for size, both in sorted(times.items())], elements)
                    for i in (0, 1))  # fmt: skip
    least = min(both[0] for both in times.values())
    hidden = min(beside, max(device - least, 0.0))
    return max(-(2**31), min(int(1000 * (device - host - hidden)), 2**31 - 1))


def _at(points: Iterable[tuple[int, float]], elements: int) -> float:
    """The time of a size between those that were measured; beyond, it grows with the size."""
    points = list(points)
    if elements <= points[0][0]:
        return points[0][1]
    for (fewer, less), (more, longer) in itertools.pairwise(points):
        if elements <= more:
            return less + (longer - less) * (elements - fewer) / (more - fewer)
    return points[-1][1] * elements / points[-1][0]
