"""Every operator that makes a tensor from numbers, against CPU."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch

# What a test gives for an argument without a default, by name, else by type.
BY_NAME = {"low": 1, "start": 1, "high": 7, "end": 7, "stop": 7}
BY_TYPE = {
    "int": 5, "SymInt": 5, "number": 4, "float": 0.5, "bool": True,
    "List[int]": [2, 3], "List[SymInt]": [2, 3],
}  # fmt: skip
OF_TENSOR_OPTIONS = ("dtype", "layout", "device", "pin_memory", "generator", "names")
# Of JIT, which asks no backend for a generator.
LEFT_OUT = ("aten::Generator",)
# Values differ by random streams, or are not set.
UNDEFINED = ("rand", "normal", "empty", "_make_dep_token")


def overloads() -> Iterator[Any]:
    """Schemas of operators with a device and without a tensor among their arguments."""
    for schema in torch._C._jit_get_all_schemas():
        names = [argument.name for argument in schema.arguments]
        tensors = any("Tensor" in str(argument.type) for argument in schema.arguments)
        aten = schema.name.startswith("aten::") and schema.name not in LEFT_OUT
        if aten and "device" in names and not tensors:
            yield schema


def called(schema: Any, device: str | torch.device) -> torch.Tensor:
    positional, named = [], {}
    for argument in schema.arguments:
        if argument.name in OF_TENSOR_OPTIONS or argument.has_default_value():
            continue
        value = BY_NAME.get(argument.name, BY_TYPE.get(str(argument.type)))
        if argument.kwarg_only:
            named[argument.name] = value
        else:
            positional.append(value)
    packet = getattr(torch.ops.aten, schema.name.removeprefix("aten::"))
    operator = getattr(packet, schema.overload_name or "default")
    result: torch.Tensor = operator(*positional, **named, device=torch.device(device))
    return result


def test_the_list_is_whole() -> None:
    names = {schema.name for schema in overloads()}
    assert {"aten::kaiser_window", "aten::linspace", "aten::full", "aten::randperm"} <= names


@pytest.mark.parametrize(
    "schema", list(overloads()), ids=lambda schema: f"{schema.name[6:]}.{schema.overload_name}"
)
def test_a_factory_does_on_the_device_what_it_does_on_cpu(
    schema: Any, device: torch.device
) -> None:
    try:
        expected = called(schema, "cpu")
    except (RuntimeError, TypeError) as error:
        with pytest.raises(type(error)):
            called(schema, device)
        return
    result = called(schema, device)
    assert result.device == device
    assert result.layout == expected.layout
    if any(name in schema.name for name in UNDEFINED) or result.layout is not torch.strided:
        assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
    else:
        torch.testing.assert_close(result.cpu(), expected, check_stride=True)
