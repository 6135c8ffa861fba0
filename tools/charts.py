"""Draws the pictures of the documents: the layers, and the charts of committed measurements.

    python -m tools.charts          # writes docs/static/*.svg
    python -m tools.charts --check  # exit status 1 if a file there is not what this would write

Each picture is written twice, for light and for dark pages. A row of a chart is the time of the
device divided by a reference's; a thin line is the interval of the repeated measurements.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PICTURES = ROOT / "docs" / "static"


@dataclass(frozen=True)
class Theme:
    text: str
    faint: str
    grid: str
    box: str
    accent: str
    series: tuple[str, ...]


THEMES = {
    "light": Theme(
        "#1f2328", "#59636e", "#d1d9e0", "#f6f8fa", "#0969da",
        ("#0969da", "#1a7f37", "#bc4c00", "#8250df"),
    ),
    "dark": Theme(
        "#e6edf3", "#9198a1", "#3d444d", "#161b22", "#1f6feb",
        ("#4493f8", "#3fb950", "#f0883e", "#ab7df8"),
    ),
}  # fmt: skip
FONT = (
    "font-family='ui-sans-serif, system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif'"
)


# ---- Measurements


@dataclass(frozen=True)
class Row:
    """A label, and for each series a ratio with its interval; None where it was not measured."""

    label: str
    values: tuple[tuple[float, float, float] | None, ...]


@dataclass(frozen=True)
class Panel:
    title: str
    rows: Sequence[Row]


@dataclass(frozen=True)
class Chart:
    name: str
    panels: Sequence[Panel]
    limit: float
    series: Sequence[str] = field(default=("",))


def measured(file: str) -> dict[str, tuple[float, float, float]]:
    """Ratios of a file of results, by the names of the measurements."""
    results = json.loads((RESULTS / f"{file}.json").read_text())["results"]
    return {r["name"]: (r.get("ratio") or r["value"], r["low"], r["high"]) for r in results}


def rows(file: str, labels: Sequence[str] | dict[str, str], suffix: str = "") -> list[Row]:
    """Rows of one series; a dictionary maps names in the file to labels."""
    found = measured(file)
    names = labels if isinstance(labels, dict) else {label: label for label in labels}
    return [Row(label, (found[name + suffix],)) for name, label in names.items()]


def rows_of_many(files: Sequence[tuple[str, str]], labels: Sequence[str]) -> list[Row]:
    """Rows with a series for each file and suffix of names in it."""
    found = [(measured(file), suffix) for file, suffix in files]
    return [
        Row(label, tuple(values.get(label + suffix) for values, suffix in found))
        for label in labels
    ]


MEMORY_BOUND = (
    "add", "exp", "gelu", "copy of a transpose", "cat", "sum", "sum of rows", "sum of columns",
    "argmax of rows", "variance of rows", "cumsum of rows", "softmax", "layer norm",
    "gradients of layer norm", "gather", "embedding", "gradient of embedding", "sort of rows",
    "topk of rows", "dropout",
)  # fmt: skip
PRODUCTS = {
    "1024^3": "matrix product, 1024³", "4096^3": "matrix product, 4096³",
    "128 of 512^3": "128 matrix products, 512³", "convolution": "convolution",
    "gradients of convolution": "gradients of convolution", "attention": "attention",
}  # fmt: skip
HALVES = {
    "4096^3, bfloat16": "matrix product, 4096³", "1024^3, bfloat16": "matrix product, 1024³",
    "convolution, bfloat16": "convolution",
    "gradients of convolution, bfloat16": "gradients of convolution",
    "convolution, channels last, bfloat16": "convolution, channels last",
    "attention, bfloat16": "attention", "causal attention, bfloat16": "causal attention",
    "gradients of attention, bfloat16": "gradients of attention",
}  # fmt: skip
GPU_STEPS = {
    "chain of 50": "50 additions of 16 elements",
    "x + x and its value": "addition, read by the host",
    "small step: MLP": "MLP", "small GPT": "small GPT",
    "ResNet-18, 8 x 3 x 64 x 64": "ResNet-18, 64 x 64",
    "ResNet-18, 8 x 3 x 224 x 224": "ResNet-18, 224 x 224",
}  # fmt: skip
STEPS = {
    "MLP": "MLP", "small GPT": "small GPT", "tiny BERT": "tiny BERT", "LSTM": "LSTM",
    "U-Net": "U-Net", "ResNet-18, 8 x 3 x 64 x 64": "ResNet-18, 64 x 64",
    "ResNet-18, 8 x 3 x 224 x 224": "ResNet-18, 224 x 224",
}  # fmt: skip
KERNELS = (
    "layer norm", "RMS norm", "softmax and mask", "GELU and bias", "rotary embedding",
    "cross entropy", "group norm and SiLU", "argmax", "cumsum", "Adam step", "chain and sum",
    "sum of columns",
)  # fmt: skip
EAGER = "2026-11-29-2-x-amd-epyc"


def charts() -> list[Chart]:
    """All charts; a committed result that misses one of their rows raises KeyError."""
    in_eager = {name: label for name, label in STEPS.items() if name != "tiny BERT"}
    first = ("add", "gelu", "copy of a transpose", "sum", "softmax", "layer norm", "topk of rows")
    on_gpu = [*rows("gpu-h100", first), *rows("gpu-h100", PRODUCTS)[1:2]]
    on_gpu += rows("gpu-h100", ("convolution", "attention"))
    autocast = {f"{name}, autocast": STEPS[name] for name in ("MLP", *list(GPU_STEPS)[3:])}
    machines = [
        ("compiled", ", ocl device / CPU compiled"),
        ("compiled_zen3", ", ocl device / CPU compiled"),
        ("compiled_xeon", ", ocl device / CPU compiled"),
        ("compiled", ", host device / CPU compiled"),
    ]
    return [
        Chart(
            "speed",
            [
                Panel("Operators on an H100, float32: time / PyTorch's CUDA", on_gpu),
                Panel(
                    "Compiled training steps on a CPU: time / Inductor on CPU",
                    rows("compiled_default", STEPS, ", ocl auto / CPU compiled"),
                ),
                Panel(
                    "Eager training steps on a CPU: time / eager CPU",
                    rows(EAGER, in_eager, ", ocl, placement auto"),
                ),
            ],
            1.75,
        ),
        Chart(
            "gpu",
            [
                Panel("Bound by memory, float32", rows("gpu-h100", MEMORY_BOUND)),
                Panel("Bound by arithmetic, float32", rows("gpu-h100", PRODUCTS)),
                Panel("Bound by arithmetic, bfloat16", rows("gpu-halves", HALVES)),
                Panel("Launches and training steps, float32", rows("gpu-h100", GPU_STEPS)),
                Panel("Training steps, autocast", rows("gpu-autocast", autocast)),
            ],
            3.5,
        ),
        Chart(
            "compiled-kernels",
            [Panel("Fused kernels: time / Inductor on CPU", rows_of_many(machines, KERNELS))],
            1.5,
            ("ocl, EPYC", "ocl, Zen 3", "ocl, Xeon", "host, EPYC"),
        ),
        Chart(
            "compiled-steps",
            [
                Panel(
                    "Training steps, compiled: time / Inductor on CPU",
                    _labelled(rows_of_many(
                        [
                            ("compiled_default", ", ocl auto / CPU compiled"),
                            ("compiled_zen3", ", ocl auto / CPU compiled"),
                            ("compiled_xeon", ", ocl auto / CPU compiled"),
                        ],
                        tuple(STEPS),
                    )),
                ),
                Panel(
                    "Training steps by device kernels: compiled / eager",
                    _labelled(rows_of_many(
                        [
                            ("compiled", ", ocl device / device eager"),
                            ("compiled_zen3", ", ocl device / device eager"),
                            ("compiled_xeon", ", ocl device / device eager"),
                        ],
                        tuple(STEPS),
                    )),
                ),
            ],
            1.5,
            ("EPYC", "Zen 3", "Xeon"),
        ),
        Chart(
            "eager-steps",
            [
                Panel(
                    "Training steps in eager mode: time / eager CPU",
                    _labelled(rows_of_many(
                        [
                            (EAGER, ""),
                            (EAGER, ", ocl, placement auto"),
                            (EAGER, ", ocl, placement device"),
                        ],
                        tuple(in_eager),
                    )),
                )
            ],
            1.5,
            ("host, CPU kernels", "ocl, CPU kernels", "ocl, device kernels"),
        ),
    ]  # fmt: skip


def _labelled(found: list[Row]) -> list[Row]:
    return [Row(STEPS[row.label], row.values) for row in found]


# ---- Drawing

WIDTH, LEFT, RIGHT, LINE = 660, 200, 50, 20


def text(x: float, y: float, words: str, color: str, **style: str) -> str:
    more = "".join(f" {name.replace('_', '-')}='{value}'" for name, value in style.items())
    return f"<text x='{x:g}' y='{y:g}' fill='{color}'{more}>{escape(words)}</text>"


def svg(height: float, title: str, parts: Sequence[str]) -> str:
    head = (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {height:g}' "
        f"width='{WIDTH}' height='{height:g}' role='img' {FONT} font-size='13'>"
    )
    return "\n".join([head, f"<title>{escape(title)}</title>", *parts, "</svg>"]) + "\n"


def draw_chart(chart: Chart, theme: Theme) -> str:
    """The picture of a chart: dots on a line from 0 to its limit, and a line at 1."""
    parts: list[str] = []
    y = 24.0
    if len(chart.series) > 1:
        parts += _legend(chart.series, theme)
        y += 24
    for panel in chart.panels:
        parts.append(text(0, y, panel.title, theme.text, font_weight="600", font_size="14"))
        parts += _panel(panel, chart, theme, y + 10)
        y += 10 + LINE * len(panel.rows) + 46
    words = "; ".join(panel.title for panel in chart.panels)
    return svg(y - 16, f"{words}. Shorter than 1 is faster.", parts)


def _legend(series: Sequence[str], theme: Theme) -> Iterator[str]:
    for i, name in enumerate(series):
        x = LEFT + i * (WIDTH - LEFT - RIGHT) / len(series)
        yield f"<circle cx='{x + 4:g}' cy='12' r='5' fill='{theme.series[i]}'/>"
        yield text(x + 14, 16, name, theme.faint)


def _panel(panel: Panel, chart: Chart, theme: Theme, top: float) -> Iterator[str]:
    def at(ratio: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * min(ratio, chart.limit) / chart.limit

    bottom = top + LINE * len(panel.rows)
    step = 0.25 if chart.limit < 2 else 0.5
    for i in range(round(chart.limit / step) + 1):
        x, is_one = at(i * step), i * step == 1
        color, width = (theme.faint, 1.5) if is_one else (theme.grid, 1)
        yield (
            f"<line x1='{x:g}' y1='{top:g}' x2='{x:g}' y2='{bottom:g}' stroke='{color}' "
            f"stroke-width='{width:g}'/>"
        )
        if chart.limit >= 2 or i % 2 == 0:
            label = f"{i * step:g}"
            yield text(x, bottom + 15, label, theme.faint, text_anchor="middle", font_size="11")
    yield text(WIDTH, top - 10, "left of 1: faster", theme.faint, text_anchor="end", font_size="12")
    for i, row in enumerate(panel.rows):
        y = top + LINE * (i + 0.5)
        yield text(LEFT - 12, y + 4, row.label, theme.text, text_anchor="end")
        for k, value in enumerate(row.values):
            if value is None:
                continue
            ratio, low, high = value
            shift = y + 3 * (k - (len(row.values) - 1) / 2)
            yield (
                f"<line x1='{at(low):.1f}' y1='{shift:g}' x2='{at(high):.1f}' y2='{shift:g}' "
                f"stroke='{theme.series[k]}' stroke-width='2' stroke-opacity='0.5'/>"
            )
            yield f"<circle cx='{at(ratio):.1f}' cy='{shift:g}' r='4.5' fill='{theme.series[k]}'/>"
        if len(row.values) == 1 and row.values[0] is not None:
            ratio = row.values[0][0]
            yield text(WIDTH, y + 4, f"{ratio:.2f}", theme.text, text_anchor="end")


LAYERS = (
    ("your program", "PyTorch models, torch.compile, torch.distributed, torch.profiler", ""),
    ("torch.mychip", "device module, reports, commands, Inductor backend", "Python"),
    ("operators", "device kernels in OpenCL C, or CPU kernels", "C++"),
    ("runtime", "caching allocator, streams, events, programs, graphs", "C++"),
    ("driver", "memory, queues, events, copies; optional: kernels", "C"),
    ("hardware", "an accelerator, a GPU, a processor", ""),
)
YOURS = ("driver", "hardware")


def draw_layers(theme: Theme) -> str:
    """The layers, from a program down to the hardware; the vendor's are filled."""
    parts, y = [], 4.0
    width = WIDTH - 125
    for name, content, language in LAYERS:
        yours = name in YOURS
        fill, words = (theme.accent, "#ffffff") if yours else (theme.box, theme.text)
        parts.append(
            f"<rect x='1' y='{y:g}' width='{width}' height='50' rx='6' fill='{fill}' "
            f"stroke='{theme.accent if yours else theme.grid}'/>"
        )
        parts.append(text(16, y + 21, name, words, font_weight="600", font_size="15"))
        parts.append(text(16, y + 40, content, words if yours else theme.faint))
        parts.append(text(width - 14, y + 30, language, words, text_anchor="end"))
        y += 56
    for first, last, words in ((0, 0, "yours"), (1, 3, "the kit"), (4, 5, "the vendor's")):
        top, bottom, x = 4 + 56 * first, 54 + 56 * last, width + 10
        parts.append(f"<path d='M{x} {top} h8 V{bottom} h-8' fill='none' stroke='{theme.faint}'/>")
        parts.append(text(x + 18, (top + bottom) / 2 + 5, words, theme.text, font_size="14"))
    title = "Layers: program, torch.mychip, operators, runtime, driver, hardware"
    return svg(y, title, parts)


def pictures() -> dict[str, str]:
    """All pictures, by the names of their files."""
    found = {}
    for theme_name, theme in THEMES.items():
        found[f"layers-{theme_name}.svg"] = draw_layers(theme)
        for chart in charts():
            found[f"{chart.name}-{theme_name}.svg"] = draw_chart(chart, theme)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing, compare")
    check = parser.parse_args(arguments).check
    changed = [
        name
        for name, picture in pictures().items()
        if not (PICTURES / name).exists() or (PICTURES / name).read_text() != picture
    ]
    if check:
        for name in changed:
            print(f"docs/static/{name} is not what this draws: python -m tools.charts")
        return 1 if changed else 0
    for name, picture in pictures().items():
        (PICTURES / name).write_text(picture)
    return 0


if __name__ == "__main__":
    sys.exit(main())
