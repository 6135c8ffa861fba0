"""The ctypes mirror agrees with the header, and the libraries export what they should."""

from __future__ import annotations

import ctypes
import re
import subprocess
from pathlib import Path

from torch_outboard.drivers import contract, host, torture

INCLUDE = Path(__file__).parents[2] / "csrc" / "include"
HEADER = (INCLUDE / "outboard" / "driver.h").read_text()
TABLE = HEADER[HEADER.index("typedef struct ob_driver {") :]

STRUCTS = {
    "ob_device_properties": contract.DeviceProperties,
    "ob_argument": contract.Argument,
    "ob_launch": contract.Launch,
    "ob_tensor": contract.Tensor,
    "ob_matrix_product": contract.MatrixProduct,
    "ob_convolution": contract.Convolution,
    "ob_communicator_id": contract.CommunicatorId,
    "ob_communicator_description": contract.CommunicatorDescription,
    "ob_communication": contract.Communication,
    "ob_device_state": contract.DeviceState,
    "ob_kernel_attributes": contract.KernelAttributes,
    "ob_allocation": contract.Allocation,
    "ob_host_allocation": contract.HostAllocation,
    "ob_memory_handle": contract.MemoryHandle,
    "ob_queue_description": contract.QueueDescription,
    "ob_event_description": contract.EventDescription,
    "ob_program_source": contract.ProgramSource,
    "ob_program_image": contract.ProgramImage,
    "ob_driver": contract.Driver,
}
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


def compile_and_run(folder: Path, lines: list[str]) -> list[int]:
    source = folder / "print.c"
    source.write_text(
        "#include <outboard/driver.h>\n#include <stdio.h>\nint main(void) {\n"
        + "\n".join(f'printf("%lld\\n", (long long)({line}));' for line in lines)
        + "\nreturn 0; }\n"
    )
    program = folder / "print"
    subprocess.run(["cc", "-std=c11", f"-I{INCLUDE}", source, "-o", program], check=True)
    return [int(line) for line in subprocess.check_output([program], text=True).split()]


def test_layouts(tmp_path: Path) -> None:
    lines, expected = [], []
    for struct, mirror in STRUCTS.items():
        names = [name for name, _ in mirror._fields_]
        lines += [f"sizeof({struct})"]
        lines += [f"offsetof({struct}, {RENAMED.get(name, name)})" for name in names]
        expected += [ctypes.sizeof(mirror), *(getattr(mirror, name).offset for name in names)]
    found = compile_and_run(tmp_path, lines)
    assert dict(zip(lines, found, strict=True)) == dict(zip(lines, expected, strict=True))


def test_enumerators(tmp_path: Path) -> None:
    ours = {
        prefix + name: value for prefix, e in ENUMS.items() for name, value in e.__members__.items()
    }
    assert compile_and_run(tmp_path, list(ours)) == list(ours.values())
    theirs = set(re.findall(r"^\s*(OB_\w+) = ", HEADER, re.M)) | set(
        re.findall(r"(OB_(?:DEVICE|EVENT)_\w+) = ", HEADER)
    )
    assert set(ours) == theirs


def test_every_function_is_mirrored() -> None:
    found = re.findall(r"ob_status \(\*(\w+)\)\(([^)]*)\)", TABLE)
    assert list(contract.FUNCTIONS) == [name for name, _ in found]
    for name, arguments in found:
        count = 0 if arguments == "void" else arguments.count(",") + 1
        assert len(contract.FUNCTIONS[name]._argtypes_) == count, name


def test_optional_functions_are_those_of_the_header() -> None:
    groups = {"code": "Code (all or none of build .. launch; optional", "graphs": "Graphs (all or"}
    assert all(words in TABLE for words in groups.values())
    comment, optional = "", set()
    in_group = False
    for part in re.split(r"(/\*.*?\*/)", TABLE, flags=re.S):
        if part.startswith("/*"):
            comment = part
            if part.startswith("/* ----"):
                in_group = "optional" in part
            continue
        for name in re.findall(r"ob_status \(\*(\w+)\)", part):
            # A comment is about all that follows until the next.
            if in_group or "(optional" in comment or "_2d" in name:
                optional.add(name)
    assert optional == contract.OPTIONAL
    assert set(contract.OPTIONAL) < set(contract.FUNCTIONS)


def test_every_struct_is_mirrored_and_starts_with_its_size() -> None:
    structs = dict(re.findall(r"typedef struct (ob_\w+) \{(.*?)^\}", HEADER, re.M | re.S))
    assert structs.keys() == STRUCTS.keys()
    for name, fields in structs.items():
        if name not in ("ob_argument", "ob_tensor", "ob_driver"):  # arrays, and parts of others
            assert fields.split("\n")[1].startswith("  size_t struct_size;"), name


def test_version() -> None:
    assert f"#define OB_VERSION_MAJOR {contract.VERSION_MAJOR}u" in HEADER
    assert f"#define OB_VERSION_MINOR {contract.VERSION_MINOR}u" in HEADER
    driver = contract.load(host.library_path())
    assert (driver.major, driver.minor) == (contract.VERSION_MAJOR, contract.VERSION_MINOR)


def exported(path: str) -> set[str]:
    lines = subprocess.check_output(["nm", "-D", "--defined-only", path], text=True).splitlines()
    return {line.split()[-1] for line in lines}


def test_exports() -> None:
    assert exported(host.library_path()) == {contract.ENTRY_POINT, "ob_host_describe"}
    names = exported(torture.library_path())
    assert "ob_torture_wrap" in names
    assert all(name.startswith("ob_torture_") for name in names)
    assert set(torture.Torture(torture.library_path()).calls()) == set(contract.FUNCTIONS)


def test_header_compiles_as_cxx(tmp_path: Path) -> None:
    source = tmp_path / "empty.cpp"
    source.write_text("#include <outboard/driver.h>\n")
    command = ["c++", "-Wall", "-Wextra", "-Werror", f"-I{INCLUDE}", "-fsyntax-only", str(source)]
    subprocess.run(command, check=True)
