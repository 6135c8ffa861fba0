"""What is read from the header is what a compiler reads; the libraries export what they should."""

import ctypes
import re
import subprocess
from pathlib import Path

from torch_outboard.drivers import contract, faults, host, validation

INCLUDE = Path(__file__).parents[2] / "csrc" / "include"
HEADER = (INCLUDE / "outboard" / "driver.h").read_text()
TABLE = HEADER[HEADER.index("typedef struct ob_driver {") :]

RENAMED = {"global_size": "global", "local_size": "local", "pass_": "pass"}

ENUMS = {
    "OB_": contract.Status,
    "OB_ADDRESSING_": contract.Addressing,
    "OB_HOST_ACCESS_": contract.HostAccess,
    "OB_DEVICE_": contract.DeviceKind,
    "OB_DTYPE_": contract.DType,
    "OB_FEATURE_": contract.Feature,
    "OB_STATE_": contract.DeviceStateField,
    "OB_ALLOCATION_": contract.AllocationFlag,
    "OB_EVENT_": contract.EventFlag,
    "OB_ARGUMENT_": contract.ArgumentKind,
    "OB_ACTIVATION_": contract.Activation,
    "OB_LIBRARY_": contract.LibraryFlag,
    "OB_CONVOLUTION_": contract.ConvolutionPass,
    "OB_COMMUNICATION_": contract.CommunicationKind,
    "OB_REDUCTION_": contract.Reduction,
}


def values_in_c(folder: Path, expressions: list[str]) -> list[int]:
    source = folder / "print.c"
    source.write_text(
        "#include <outboard/driver.h>\n#include <stdio.h>\nint main(void) {\n"
        + "\n".join(f'printf("%lld\\n", (long long)({each}));' for each in expressions)
        + "\nreturn 0; }\n"
    )
    program = folder / "print"
    subprocess.run(["cc", "-std=c11", f"-I{INCLUDE}", source, "-o", program], check=True)
    return [int(line) for line in subprocess.check_output([program], text=True).split()]


def test_layouts_enumerators_and_version(tmp_path: Path) -> None:
    enumerators = {
        prefix + name: value for prefix, e in ENUMS.items() for name, value in e.__members__.items()
    }
    expected = enumerators | {
        "OB_VERSION_MAJOR": contract.VERSION_MAJOR,
        "OB_VERSION_MINOR": contract.VERSION_MINOR,
    }
    for struct, mirror in contract.STRUCTS.items():
        expected[f"sizeof({struct})"] = ctypes.sizeof(mirror)
        for name, _ in mirror._fields_:
            offset = f"offsetof({struct}, {RENAMED.get(name, name)})"
            expected[offset] = getattr(mirror, name).offset
    found = values_in_c(tmp_path, list(expected))
    assert dict(zip(expected, found, strict=True)) == expected
    theirs = set(re.findall(r"^\s*(OB_\w+) = ", HEADER, re.M)) | set(
        re.findall(r"(OB_(?:DEVICE|EVENT)_\w+) = ", HEADER)
    )
    assert set(enumerators) == theirs
    driver = contract.load(host.library_path())
    assert (driver.major, driver.minor) == (contract.VERSION_MAJOR, contract.VERSION_MINOR)


def test_every_function_is_read() -> None:
    found = re.findall(r"ob_status \(\*(\w+)\)\(([^)]*)\)", TABLE)
    assert list(contract.FUNCTIONS) == [name for name, _ in found]
    for name, arguments in found:
        assert len(contract.FUNCTIONS[name]._argtypes_) == arguments.count(",") + 1, name


def test_functions_that_are_not_optional() -> None:
    assert contract.FUNCTIONS.keys() - contract.OPTIONAL == {
        *("initialize", "device_count", "device_properties", "allocate", "deallocate"),
        *("queue_create", "queue_destroy", "queue_query", "queue_synchronize"),
        *("event_create", "event_destroy", "event_record", "event_wait", "event_query"),
        *("event_synchronize", "event_elapsed", "copy_host_to_device", "copy_device_to_host"),
        *("copy_device_to_device", "fill"),
    }


def test_every_struct_is_read_and_starts_with_its_size() -> None:
    structs = dict(re.findall(r"typedef struct (ob_\w+) \{(.*?)^\}", HEADER, re.M | re.S))
    assert structs.keys() == contract.STRUCTS.keys()
    for name, fields in structs.items():
        if name not in ("ob_argument", "ob_tensor", "ob_driver"):  # arrays, and parts of others
            assert fields.split("\n")[1].startswith("  size_t struct_size;"), name


def exported(path: str) -> set[str]:
    """But what the standard library of C++ exports from every library that uses it."""
    lines = subprocess.check_output(["nm", "-D", "--defined-only", path], text=True).splitlines()
    names = {line.split()[-1] for line in lines}
    return {name for name in names if not re.match("_Z[A-Z]*St", name)}


def test_exports() -> None:
    assert exported(host.library_path()) == {contract.ENTRY_POINT, "ob_host_describe"}
    names = exported(faults.library_path())
    assert contract.LAYER_ENTRY_POINT in names
    assert all(name.startswith("ob_faults_") for name in names - {contract.LAYER_ENTRY_POINT})
    assert exported(validation.library_path()) == {contract.LAYER_ENTRY_POINT}
    assert set(faults.FaultInjection(faults.library_path()).calls()) == set(contract.FUNCTIONS)
