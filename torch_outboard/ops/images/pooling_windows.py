"""Windows, sizes and layouts of images, as rows of pooling describe them."""

from __future__ import annotations

from torch_outboard.ops.template import Launch

AXES = "dhw"
ADJACENT_CHANNELS = [
    "dims(self) == 4",
    "size(self, 1) > 1 && stride(self, 1) == 1 && stride(self, 3) >= size(self, 1)",
]
INPUT = ("depth", "height", "width")


def axes(dimensions: int) -> list[tuple[int, int]]:
    """Axes of an image, and where each stands in parameters; -1: there is none of the kind."""
    return [(axis, axis - 3 + dimensions if axis >= 3 - dimensions else -1) for axis in range(3)]


def planes(kernel: str, result: str, dimensions: int) -> Launch:
    """A launch of a group per plane of a result."""
    planes = f"prod(sizes({result})[:{-dimensions}])"
    return Launch(kernel, f"numel({result}) > 0 ? {planes} : 0", groups=True)


def image(tensor: str, dimensions: int, prefix: str = "") -> dict[str, str]:
    """Numbers `depth`, `height` and `width`: sizes of a tensor or of a list."""
    sizes = tensor if tensor.startswith("[") else f"sizes({tensor})"
    return {
        prefix + INPUT[axis]: f"{sizes}[{axis - 3}]" if at >= 0 else "1"
        for axis, at in axes(dimensions)
    }


def window(dimensions: int, *, dilation: bool = False) -> dict[str, str]:
    """Numbers for the windows of the arguments kernel_size, stride, padding and dilation."""
    numbers = {}
    for axis, at in axes(dimensions):
        letter = AXES[axis]

        def each(name: str, at: int = at) -> str:
            return f"each({name}, {dimensions})[{at}]"

        known = at >= 0
        kernel = each("kernel_size")
        numbers[f"kernel_{letter}"] = kernel if known else "1"
        numbers[f"step_{letter}"] = (
            f"len(stride) == 0 ? {kernel} : {each('stride')}" if known else "1"
        )
        numbers[f"padding_{letter}"] = each("padding") if known else "0"
        if dilation:
            numbers[f"dilation_{letter}"] = each("dilation") if known else "1"
    return numbers


def channels_last(tensor: str, dimensions: int, batched: str) -> str:
    """Whether strides of a tensor are such that results come with channels last."""
    conditions = [f"stride({tensor}, {-1 - dimensions}) > 0"]
    inner = -1 - dimensions
    for outer in range(-1, -1 - dimensions, -1):
        conditions.append(
            f"stride({tensor}, {outer}) >= stride({tensor}, {inner}) * size({tensor}, {inner})"
        )
        inner = outer
    extent = f"stride({tensor}, {inner}) * size({tensor}, {inner})"
    conditions.append(
        f"(!({batched}) || stride({tensor}, 0) >= {extent}"
        f" && {extent} != stride({tensor}, {-1 - dimensions}))"
    )
    return " && ".join(conditions)


def channels_last_strides(sizes: str, dimensions: int, batched: str) -> str:
    """Strides of a list of sizes with channels last."""
    channels = f"{sizes}[{-1 - dimensions}]"
    strides = ["1"]
    for axis in range(dimensions):
        further = [f"{sizes}[{i - dimensions}]" for i in range(axis + 1, dimensions)]
        strides.append(" * ".join([channels, *further]))
    listed = ", ".join(strides)
    every = " * ".join([channels, *(f"{sizes}[{i - dimensions}]" for i in range(dimensions))])
    return f"({batched}) ? [{every}, {listed}] : [{listed}]"
