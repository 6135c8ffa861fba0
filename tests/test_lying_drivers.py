"""Each lie of a driver is answered by a sentence, where it crashed or was believed."""

import json
import textwrap
from pathlib import Path

import pytest

from tests.support import run_python, try_python

SETTINGS = {
    "OUTBOARD_DRIVER": "host",
    "OUTBOARD_HOST_ACCESS": "shared",
    "OUTBOARD_HOST_DEVICES": "1",
    "OUTBOARD_FAULTS": None,
    "PYTHONPATH": str(Path(__file__).parents[1]),
}


@pytest.mark.parametrize(
    ("validate", "lies"), [("0", "WRONG_TABLES"), ("1", "WRONG_TABLES"), ("1", "WRONG_ANSWERS")]
)
def test_every_lie_is_told(validate: str, lies: str) -> None:
    code = "import json, tests.lying_drivers as d; print(json.dumps(d.run_all(d.{lies})))"
    printed = run_python(code.format(lies=lies), OUTBOARD_VALIDATE=validate, **SETTINGS)
    assert json.loads(printed.splitlines()[-1]) == []


# The calls of the first tensor, one line of names and numbers.
FIRST_TENSOR = """
    import torch
    from torch_outboard.drivers import faults

    x = torch.empty(3, device="host")
    print({name: calls for name, calls in faults.calls().items() if calls})
"""


def test_a_trusted_driver_is_not_probed() -> None:
    """The driver's calls before and for the first allocation."""
    settings = SETTINGS | {"OUTBOARD_FAULTS": "count"}
    code = textwrap.dedent(FIRST_TENSOR)
    trusted = eval(run_python(code, OUTBOARD_VALIDATE=None, **settings))
    assert trusted["allocate"] == 1
    assert not [name for name in trusted if name.startswith("copy_")]
    assert "deallocate" not in trusted
    validated = eval(run_python(code, OUTBOARD_VALIDATE="1", **settings))
    assert validated["allocate"] == trusted["allocate"] + 2
    assert validated["deallocate"] == 2
    assert validated["copy_host_to_device"] == 2
    assert validated["copy_device_to_host"] == 4
    assert validated["queue_create"] == trusted.get("queue_create", 0) + 1


def test_validation_names_what_a_trusted_driver_loses() -> None:
    """Copies that move nothing are wrong bytes without validation, and an error with it."""
    code = "import torch; print(torch.arange(3.0).to('host').cpu().tolist())"
    settings = SETTINGS | {
        "OUTBOARD_HOST_ACCESS": "separate",
        "OUTBOARD_FAULTS": "lie=copy_host_to_device:1:on",
    }
    believed = try_python(code, OUTBOARD_VALIDATE=None, **settings)
    assert believed.returncode == 0, believed.stderr
    assert believed.stdout.strip() != "[0.0, 1.0, 2.0]"
    refused = try_python(code, OUTBOARD_VALIDATE="1", **settings)
    assert refused.returncode == 1
    assert "returned OK from copies to the device" in refused.stderr
