"""The examples print what their pages say."""

from __future__ import annotations

import re

import pytest

from tests.examples.running import CONFIGURATIONS_OF_EXAMPLES, ROOT, run
from tests.support import kernels_run_on

pytestmark = pytest.mark.by_turns(6)

slow = pytest.mark.slow
PLACEMENTS = {"shared": "host", "separate": "copied", "ocl": "device"}
VENDORS_FALLBACK = "  the vendor's fallback runs fallback_example::third"
MUST_DERIVE = "derivative for {}_example::{} is not implemented"
CHECKS = "test_schema, test_autograd_registration, test_faketensor, test_aot_dispatch_dynamic"

# Lines that an example prints, as regular expressions; {device} and {where} are those of the
# configuration, {name} is the device's name.
LINES = {
    "device_module": [
        r"torch\.{name}: \d+ devices, the current one is 0",
        *[r".*\.{name}\(\) +{device}.*"] * 5,
        "bytes of every dtype come back as they were",
    ],
    "dispatch_trace": [
        ".*AutogradPrivateUse1 > PrivateUse1.*",
        ".*AddmmBackward0.*",
        "2 products of matrices, by {where}",
    ],
    "graph_transforms": [
        r"fake: \(1048576, 1048576\) on {device}",
        r"torch\.func: gradients of each row on {device}",
        r"functionalized: \['aten.clone.default', 'aten.add.Tensor', 'aten.mul.Tensor'\]",
        "counted: 96 operations",
        "saved on the host, and computed again: the same gradients",
        r"anomaly: Function 'SqrtBackward0' returned nan values in its 0th output\.",
    ],
    "kernels_in_python": [
        r"softplus, torch\.library\.impl       \[0\.1269, 3\.0486\]  device",
        r"relu: user \(torch\.float32,\)",
    ],
    "kernels_needed": [
        r"\d+ overloads of ATen; \d+ need a kernel on a new device:.*",
        r".*aten::add\.out, which brings 2 others.*",
    ],
    "layouts": [
        *(f"{name}: on {{device}}, its product on {{device}}" for name in ("coo", "csr", "bsr")),
        *(rf"nested, torch\.{name}: on {{device}}, by {{where}}" for name in ("strided", "jagged")),
        r"quantized: \[0, 10, 12, 20\] on {device}",
        r"sum: \[-1\.0, 0\.0, 0\.4, 2\.0\]",
    ],
    "schema_drift": [r"\S+ +removed +user +boxed .*never called"],
    "torchscript": [
        *(rf"{name} +on {{device}}:.*" for name in ("scripted", "traced", "frozen")),
        "loaded +on cpu:.*",
        "loaded +on {device}:.*",
    ],
}
# Those that compile C++.
COMPILED = {
    "attention": [
        *[".*  the vendor's *"] * 2,
        ".*  torch_outboard's *",
        ".*  PyTorch's, of matrix products *",
        "loss of a layer .*",
    ],
    "autocast": [r"erf, +KERNEL_PRIVATEUSEONE +torch\.float32", r"loss 21\.8.*"],
    "backend_metadata": [
        r"detach\(\)   keeps the tiling",
        "Parameter  keeps the tiling",
        "saved, loaded and saved again: 2, 2; loaded to the CPU: 0",
        r"a user's strings beside it: \{{'unit': 'mm'\}}",
    ],
    "backward": ["  " + MUST_DERIVE.format("backward", "halve")],
    "custom_operators": [
        *(f"custom_example::{n} +{CHECKS} *" for n in ("hypotenuse", "swish", "limit", "cube")),
        MUST_DERIVE.format("custom", "hypotenuse"),
        "nms keeps .* boxes; .*: device",
    ],
    "declining": ["a long vector                the next"],
    "fallback": [VENDORS_FALLBACK],
    "generator": [
        "default generator: the vendor's True, seed 7",
        "after one draw: offset 1.*",
    ],
    "kernels_in_cpp": [r"loaded before: relu \[0\.0, 2\.0\], gradient \[0\.0, 1\.0\]"],
    "opaque_tensors": [
        r"tensor\(\[\[-1\.0000, -0\.5714, -0\.1429\],",
        "loaded: packed False; copies: packed True",
        r"8 operators refused: a tensor without storage \(Float of shape.*",
    ],
    "streams": [
        r"C\+\+: 8 threads, devices: .*\[40000\.0\]",
        r"Python: \[40000\.0\], device and stream as before: True",
    ],
    "structured_operators": [r"mul\.Tensor             user: run\.py:22, from the out= form"],
    "stubs": [r"gradient of abs \[\[-1\.0\], \[1\.0\]\]"],
}
CASES = [
    pytest.param(name, configuration, marks=() if is_default else slow)
    for examples in (LINES, COMPILED)
    for name in examples
    for configuration in CONFIGURATIONS_OF_EXAMPLES
    for is_default in [examples is LINES and configuration == "separate"]
]


@pytest.mark.parametrize(("name", "configuration"), CASES)
def test_example(name: str, configuration: str) -> None:
    printed = run(ROOT / "examples" / name / "run.py", configuration)
    driver = "ocl" if configuration == "ocl" else "host"
    of_run = {"name": driver, "device": f"{driver}:0", "where": PLACEMENTS[configuration]}
    patterns = [line.format(**of_run) for line in (LINES | COMPILED)[name]]
    found = iter(printed.splitlines())
    for pattern in patterns:  # in this order, others between them
        assert any(re.fullmatch(pattern, line) for line in found), f"{pattern} not in\n{printed}"
    if name == "kernels_needed":
        assert ("device kernel here" in printed) == (configuration == "ocl")
    if name == "torchscript":
        assert "'aten::_convolution', 'aten::batch_norm', 'aten::relu', 'aten::flatten'" in printed


@pytest.mark.parametrize(
    ("example", "configuration"),
    [
        pytest.param("first_kernel/function.py", "shared", marks=slow),
        ("first_kernel/function.py", "separate"),
        pytest.param("first_kernel/function.py", "ocl", marks=slow),
        ("first_kernel/expression.py", "ocl"),  # needs a compiler
        ("first_kernel/own_operator.py", "ocl"),
        ("first_kernel/definitions.py", "ocl"),
        ("first_model/train.py", "shared"),
        pytest.param("first_model/train.py", "separate", marks=slow),
        pytest.param("first_model/train.py", "ocl", marks=slow),
    ],
)
def test_first_steps(example: str, configuration: str) -> None:
    if configuration == "ocl" and not kernels_run_on("ocl"):
        pytest.skip("the driver `ocl` runs no kernels here")
    run(ROOT / "examples" / example, configuration)
