"""The driver ocl: where OpenCL is found, which devices are used and in which order."""

import ctypes
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from driver_support import (
    DriverUnderTest,
    describe_alone,
    fails_with,
    open_driver,
)

from tests.support import environment_without, run_python
from torch_outboard.drivers import contract, ocl
from torch_outboard.drivers.client import Client
from torch_outboard.drivers.contract import (
    Addressing,
    DeviceKind,
    DType,
    Feature,
    HostAccess,
    Status,
)

# In the order in which they are used; the platform "Old" has a card, too.
FAKES = ["small card", "large card", "old card", "dsp", "first processor"]


@pytest.fixture(scope="session")
def fake_library(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An OpenCL driver with devices that do nothing; see fake_opencl.cpp."""
    library = tmp_path_factory.mktemp("fake") / "libfake_opencl.so"
    here = Path(__file__).parent
    headers = here.parents[1] / "torch_outboard" / "drivers" / "ocl"
    command = ["c++", "-std=c++20", "-O1", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror"]
    command += [f"-I{headers}", str(here / "fake_opencl.cpp"), "-o", str(library)]
    subprocess.run(command, check=True)
    return str(library)


@pytest.fixture
def open_fake(tmp_path: Path, fake_library: str):
    def open_it(**environment: str) -> DriverUnderTest:
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        return open_driver(folder, ocl, OUTBOARD_OCL_LIBRARY=fake_library, **environment)

    return open_it


def names(driver: DriverUnderTest) -> list[str]:
    return [driver.device_properties(i).name.decode() for i in range(driver.device_count())]


def describe(library: Path, **environment: str) -> str:
    """Devices found by a copy of the driver's library in a process that loaded nothing else."""
    environment = environment_without("OUTBOARD_") | environment
    return describe_alone(library, "ob_ocl_describe", environment)


def test_chosen_devices(open_fake) -> None:
    for wanted, expected in (
        ("4, 1", [FAKES[4], FAKES[1]]),
        ("Old/,dsp", ["old card", "dsp"]),
        ("processor,card,0", ["first processor", *FAKES[:3]]),
        ("", FAKES),
        ("1,77", FAKES[1:2]),
    ):
        assert names(open_fake(OUTBOARD_OCL_DEVICES=wanted)) == expected


def test_settings_that_are_refused(open_fake) -> None:
    for words, settings in {
        "OUTBOARD_OCL_DEVICES.*3: Fake/dsp": {"DEVICES": "nonesuch,9"},
        "OUTBOARD_OCL_MEMORY=shared.*Fake/dsp.*coarse": {"MEMORY": "shared", "DEVICES": "dsp"},
        "buffers alone": {"MEMORY": "coarse", "DEVICES": "small"},
    }.items():
        with fails_with(Status.INVALID_ARGUMENT, words):
            open_fake(**{f"OUTBOARD_OCL_{name}": value for name, value in settings.items()})


def test_report_names_what_is_not_used(tmp_path: Path, fake_library: str) -> None:
    library = shutil.copy(ocl.library_path(), tmp_path)
    report = describe(Path(library), OUTBOARD_OCL_LIBRARY=fake_library)
    assert "Ancient, OpenCL 1.1 fake (not used: OpenCL 1.2 is needed)" in report
    assert "Fake, OpenCL 2.0 fake (not used: a platform of this name" in report
    assert "Fake/broken card is not used: it is not available" in report
    assert "Empty has no device" in report
    assert "device 3: Fake/dsp, coarse-grained shared virtual memory" in report
    assert "twin" not in report


def test_what_intels_run_time_lacks_is_named(tmp_path: Path) -> None:
    """Its package can be installed without the one that it needs."""
    needed, library = tmp_path / "libneeded.so", tmp_path / "libintelocl.so"
    for file, more in ((needed, []), (library, ["-Wl,--no-as-needed", str(needed)])):
        command = ["c++", "-shared", "-x", "c++", os.devnull, "-x", "none", *more]
        subprocess.run([*command, "-o", str(file)], check=True)
    copy = Path(shutil.copy(ocl.library_path(), tmp_path))
    assert "it is not an OpenCL library" in describe(copy, OUTBOARD_OCL_LIBRARY=str(library))
    needed.unlink()
    report = describe(copy, OUTBOARD_OCL_LIBRARY=str(library))
    assert "libneeded.so" in report
    assert "(what is missing is in the package intel-cmplr-lib-rt)" in report
    library.unlink()
    assert "intel-cmplr-lib-rt" not in describe(copy, OUTBOARD_OCL_LIBRARY=str(library))


def test_properties_by_device(open_fake) -> None:
    driver = open_fake()
    assert names(driver) == FAKES
    devices = [driver.device_properties(i) for i in range(5)]
    kinds = [each.kind for each in devices]
    assert kinds == [DeviceKind.GPU] * 3 + [DeviceKind.ACCELERATOR, DeviceKind.CPU]
    shared = (Addressing.POINTER, HostAccess.COHERENT)
    coarse = (Addressing.POINTER, HostAccess.NONE)
    handles = (Addressing.HANDLE, HostAccess.NONE)
    # The old card's platform has no functions for shared virtual memory.
    found = [(each.addressing, each.host_access) for each in devices]
    assert found == [handles, coarse, handles, coarse, shared]
    adopting = [bool(each.features & Feature.HOST_MEMORY_IS_DEVICE_MEMORY) for each in devices]
    assert adopting == [False] * 4 + [True]
    # Binaries are kept apart.
    assert len({each.driver_version for each in devices}) == 5
    small, large, old = devices[:3]
    assert (small.least_priority, small.greatest_priority) == (0, 0)
    assert (large.least_priority, large.greatest_priority) == (1, -1)
    assert (old.least_priority, old.greatest_priority) == (0, 0)  # no function to create such
    assert not small.dtypes & DType.FLOAT16
    assert large.dtypes & DType.FLOAT16
    assert not large.dtypes & (DType.FLOAT64 | DType.COMPLEX128 | DType.BFLOAT16)
    assert small.total_memory == 1 << 30
    assert small.max_allocation == 1 << 28


def test_mask(open_fake) -> None:
    plain, masked = open_fake(), open_fake(OUTBOARD_OCL_MASK="float64, float16")
    for device, hidden in ((1, DType.FLOAT16), (4, DType.FLOAT64 | DType.COMPLEX128)):
        dtypes = plain.device_properties(device).dtypes
        assert dtypes & hidden == hidden
        assert masked.device_properties(device).dtypes == dtypes & ~hidden


def test_failure_of_work_is_reported_once(open_fake) -> None:
    driver = open_fake()
    queue, address = driver.queue_create(0), driver.allocate(0, 64)
    driver.fill(queue, address, b"\x01", 64)
    driver.queue_synchronize(queue)
    for synchronize in (driver.queue_synchronize, driver.queue_destroy):
        queue = driver.queue_create(0)
        driver.fill(queue, address, b"\xff", 64)
        assert driver.queue_query(queue)
        with fails_with(Status.ERROR, "CL_OUT_OF_RESOURCES"):
            synchronize(queue)
        if synchronize == driver.queue_synchronize:
            driver.queue_synchronize(queue)
            driver.queue_destroy(queue)
    # Events behind it happen.
    queue, other, event = driver.queue_create(0), driver.queue_create(0), driver.event_create(0)
    driver.fill(queue, address, b"\xff", 64)
    driver.event_record(event, queue)
    assert driver.event_query(event)
    driver.event_wait(other, event)
    driver.fill(other, address, b"\x01", 64)
    driver.queue_synchronize(other)
    with fails_with(Status.ERROR, "CL_OUT_OF_RESOURCES"):
        driver.queue_synchronize(queue)
    driver.queue_synchronize(queue)


@pytest.mark.timeout(60)  # to open a pipe can take for ever
def test_libraries_that_are_none(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.so"
    os.mkfifo(pipe)
    for library, words in (
        ("/nonexistent/libOpenCL.so", ""),
        ("libm.so.6", ""),
        (pipe, "it is not a regular file"),
    ):
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        with fails_with(Status.INVALID_ARGUMENT, f"OUTBOARD_OCL_LIBRARY={library}.*{words}"):
            open_driver(folder, ocl, OUTBOARD_OCL_LIBRARY=str(library))


def test_nothing_found_is_no_failure(tmp_path: Path) -> None:
    library = shutil.copy(ocl.library_path(), tmp_path)
    report = describe(Path(library))
    assert "libOpenCL.so.1: " in report
    assert "no OpenCL driver in Python packages" in report


def test_no_device_is_one_sentence(fake_library: str) -> None:
    """Doctor's findings, and advice without hardware, more than once."""
    printed = run_python(
        """
        import os
        os.environ["FAKE_OPENCL"] = "empty"
        import torch
        for use in (lambda: torch.ones(2, device="ocl"), torch.ocl.init) * 2:
            try:
                use()
            except RuntimeError as error:
                print(str(error).partition(chr(10))[0])
        print(torch.ocl.device_count(), torch.ocl.is_available(), torch.ones(2).sum().item())
        """,
        OUTBOARD_DRIVER=None,
        OUTBOARD_FAULTS=None,
        OUTBOARD_OCL_LIBRARY=fake_library,
    ).splitlines()
    assert printed[4] == "0 False 2.0"
    assert len(set(printed[:4])) == 1
    assert printed[0].startswith("device ocl:0 was asked for, but driver 'ocl' found no device: ")
    assert "OpenCL has none" in printed[0]
    assert "Empty has no device" in printed[0]
    assert "OUTBOARD_DRIVER=host works without hardware" in printed[0]


@pytest.mark.opencl
def test_found_beside_this_package(tmp_path: Path) -> None:
    found = [
        word for word in ocl.describe().split() if word.endswith(".so:") and "pyopencl" in word
    ]
    if not found:
        pytest.skip("pocl-binary-distribution is not installed")
    real = Path(found[0].removesuffix(":")).parents[1]
    (tmp_path / "pyopencl").symlink_to(real)
    folder = tmp_path / "torch_outboard" / "drivers" / "ocl"
    folder.mkdir(parents=True)
    library = Path(shutil.copy(ocl.library_path(), folder))
    assert f"{tmp_path}/pyopencl/.libs/libpocl" in describe(library)


@pytest.mark.opencl
def test_describe_before_and_after_initialize(tmp_path: Path) -> None:
    path = shutil.copy(ocl.library_path(), tmp_path)
    library = ctypes.CDLL(path)
    library.ob_ocl_describe.restype = ctypes.c_char_p
    before = library.ob_ocl_describe()
    driver = Client(contract.load(path))
    assert before.decode().count("  device ") == driver.device_count()
    assert library.ob_ocl_describe() == before
