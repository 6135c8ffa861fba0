"""A kernel on another instruction set, without PyTorch: by a compiler and a linker, then by the
table of the driver `riscv`.

    pip install unicorn ziglang
    python examples/compile_by_hand/run.py
"""

import array
import ctypes
import subprocess
import sys
import tempfile
from pathlib import Path

from torch_outboard.drivers import contract, riscv
from torch_outboard.drivers.client import Client, DriverError

HERE = Path(__file__).resolve().parent


def compile_by_hand() -> bool:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([HERE / "build.sh"], cwd=folder, check=True)
        return (Path(folder) / "saxpy.elf").read_bytes()[:4] == b"\x7fELF"


def launch() -> bool:
    driver = Client(contract.load(riscv.library_path()))
    queue, x = driver.queue_create(0), driver.allocate(0, 1 << 20)
    y = x + 4096
    driver.write(queue, x, array.array("f", range(4)).tobytes())
    driver.fill(queue, y, array.array("f", [1]).tobytes(), 16)
    program = driver.program_build(0, (HERE / "saxpy.cl").read_text())
    saxpy = driver.kernel_create(program, "saxpy")
    driver.launch(queue, saxpy, [4], [1], y, x, ctypes.c_float(10))
    result = array.array("f", driver.read(queue, y, 16))
    print(result)

    poke = driver.program_build(0, "__kernel void poke(__global int *x, long i) { x[i] = 1; }")
    poke = driver.kernel_create(poke, "poke")
    driver.launch(queue, poke, [1], [1], x, ctypes.c_long(1 << 40))
    try:
        driver.queue_synchronize(queue)
    except DriverError as error:
        print(f"DriverError: {error}")
        return result.tolist() == [1, 11, 21, 31]
    return False


if __name__ == "__main__":
    sys.exit(0 if compile_by_hand() and launch() else 1)
