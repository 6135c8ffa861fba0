"""The `ocl` driver with a compiler that refuses everything, for tests."""

from typing import Any

from tests.device_kernels import changed_driver

builds = 0  # so far


def use() -> None:
    """Makes it the driver of this process; to be called before the first use of the device."""
    original = changed_driver.original()

    def build(context: int, source: Any, program: Any) -> int:
        global builds
        builds += 1
        source.contents.source = b"int refused("
        return original.program_build(context, source, program)

    def change(found: Any) -> None:  # all of one model
        found.name = b"a device"
        found.driver_version = b"1"

    changed_driver.use(
        device_properties=changed_driver.with_properties(change), program_build=build
    )
