"""Sources of kernels that checks launch."""

from __future__ import annotations

import array

from torch_outboard.check.session import Session
from torch_outboard.drivers.contract import Addressing

# One source for pointers and for (memory object, offset in bytes).
_MACROS = {
    Addressing.POINTER: """
#define ADDRESS(type, name) __global type* name
#define AT(type, name) name
""",
    Addressing.HANDLE: """
#define ADDRESS(type, name) __global type* name##_start, ulong name##_offset
#define AT(type, name) ((__global type*)((__global char*)name##_start + name##_offset))
""",
}
KERNELS = """
__kernel void add(ADDRESS(int, a), ADDRESS(int, b), int factor, ADDRESS(int, out), long bias) {
  size_t i = get_global_id(0);
  AT(int, out)[i] = AT(int, a)[i] + factor * AT(int, b)[i] + (int)bias;
}

__kernel void coordinates(ADDRESS(int, out)) {
  size_t x = get_global_id(0), y = get_global_id(1), z = get_global_id(2);
  size_t i = (z * get_global_size(1) + y) * get_global_size(0) + x;
  AT(int, out)[2 * i] = (int)(x + 100 * y + 10000 * z + 1000000 * get_local_id(1));
  AT(int, out)[2 * i + 1] =
      (int)(get_group_id(0) + 10 * get_group_id(1) + 100 * get_num_groups(1) +
            1000 * get_local_size(0) + 10000 * get_work_dim() + 100000 * get_global_offset(2));
}

__kernel void count(ADDRESS(int, out)) {
  size_t x = get_global_id(0), y = get_global_id(1), z = get_global_id(2);
  size_t i = (z * get_global_size(1) + y) * get_global_size(0) + x;
  AT(int, out)[i] += (int)(1 + x + 3 * y + 7 * z);
}

__kernel void increment(ADDRESS(int, data)) { AT(int, data)[get_global_id(0)] += 1; }

__kernel void append(ADDRESS(int, data), int digit) {
  AT(int, data)[get_global_id(0)] = AT(int, data)[get_global_id(0)] * 3 + digit;
}

__kernel void spin(ADDRESS(int, data), int rounds) {
  size_t i = get_global_id(0);
  int value = AT(int, data)[i];
  for (int round = 0; round < rounds; ++round) value = value * 1664525 + 1013904223;
  AT(int, data)[i] = value;
}
"""
ANSWER = "__kernel void f(ADDRESS(int, x)) { AT(int, x)[0] = ANSWER; }"
# Each argument is stored as the bytes that it has in the kernel.
VALUES = """
typedef struct { uchar b[3]; } bytes3;
typedef struct { int a; uchar c; } mixed;
typedef struct { int bias[3]; long factor; } numbers;
__kernel void values(ADDRESS(uchar, out), uchar one, const bytes3 three, ushort two, int four,
                     const mixed eight, long whole, const numbers more, int4 sixteen) {
  __global uchar* o = AT(uchar, out);
  o[0] = one;
  for (int i = 0; i < 3; ++i) o[1 + i] = three.b[i];
  for (int i = 0; i < 2; ++i) o[4 + i] = (uchar)(two >> (8 * i));
  for (int i = 0; i < 4; ++i) o[6 + i] = (uchar)((uint)four >> (8 * i));
  for (int i = 0; i < 4; ++i) o[10 + i] = (uchar)((uint)eight.a >> (8 * i));
  o[14] = eight.c;
  for (int i = 0; i < 8; ++i) o[15 + i] = (uchar)((ulong)whole >> (8 * i));
  for (int k = 0; k < 3; ++k)
    for (int i = 0; i < 4; ++i) o[23 + 4 * k + i] = (uchar)((uint)more.bias[k] >> (8 * i));
  for (int i = 0; i < 8; ++i) o[35 + i] = (uchar)((ulong)more.factor >> (8 * i));
  const int parts[4] = {sixteen.x, sixteen.y, sixteen.z, sixteen.w};
  for (int k = 0; k < 4; ++k)
    for (int i = 0; i < 4; ++i) o[43 + 4 * k + i] = (uchar)((uint)parts[k] >> (8 * i));
}
"""
# One kernel for each width of a struct of bytes.
WIDTHS = "".join(
    f"""
typedef struct {{ uchar b[{width}]; }} w{width};
__kernel void width{width}(ADDRESS(uchar, out), const w{width} value, int last) {{
  for (int i = 0; i < {width}; ++i) AT(uchar, out)[i] = value.b[i];
  AT(uchar, out)[{width}] = (uchar)last;
}}
"""
    for width in range(1, 17)
)
EXCHANGE = """
__kernel void exchange(__local int* buffer, ADDRESS(int, data), __local int* other) {
  const size_t i = get_global_id(0), index = get_local_id(0), last = get_local_size(0) - 1;
  buffer[index] = AT(int, data)[2 * i];
  other[index] = AT(int, data)[2 * i + 1];
  barrier(CLK_LOCAL_MEM_FENCE);
  AT(int, data)[2 * i] = other[last - index];
  AT(int, data)[2 * i + 1] = buffer[last - index];
}
"""


def source_for(driver: Session, source: str) -> str:
    """A source in which ADDRESS declares a parameter, and AT is the pointer that it stands for."""
    return _MACROS[Addressing(driver.device_properties(0).addressing)] + source


def kernel_of(driver: Session, name: str, device: int = 0, source: str = KERNELS) -> int:
    """A kernel of such a source, released after the check."""
    return driver.make_kernel(source_for(driver, source), name, device)


def ints(*values: int) -> bytes:
    """Values as a kernel's `int`s lie in memory."""
    return array.array("i", values).tobytes()


def read_ints(driver: Session, queue: int, address: int, count: int) -> list[int]:
    """The same from memory of a device, after the work of the queue so far."""
    return list(array.array("i", driver.read(queue, address, 4 * count)))
