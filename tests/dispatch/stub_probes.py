"""Which operators' implementations in PyTorch ask a stub for the device of their tensors.

    python -m tests.dispatch.stub_probes > csrc/dispatch/external/stub_operators.cpp

Calls the CPU's implementation of every overload that the samples of PyTorch's own tests reach, on
device tensors, with a function in each slot that notes the stub and computes nothing.
"""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from tests.opinfo.arguments.calls import Calls, entries, unbind
from torch_outboard.commands.sample_arguments import overload_of

NOTES = """
#include <array>
#include <utility>
static int seen[64];
static int count = 0;
template <int stub> void note() { if (count < 64) seen[count++] = stub; }
template <int... i> constexpr auto make(std::integer_sequence<int, i...>) {
  return std::array<void (*)(), sizeof...(i)>{&note<i>...};
}
static constexpr auto notes = make(std::make_integer_sequence<int, 512>());
extern "C" void* note_of(int stub) { return reinterpret_cast<void*>(notes[stub]); }
extern "C" int take(int* to) {
  const int noted = count;
  for (int i = 0; i < noted; ++i) to[i] = seen[i];
  count = 0;
  return noted;
}
"""
# The variable of a stub for any processor, among the symbols of PyTorch's library.
STUB = re.compile(
    r"DispatchStub<void \(\*\)\(.*, at::native::(\w+)_DECLARE_DISPATCH_type>::DEFAULT$", re.M
)
# Where the slot of our device lies in a stub (ATen/native/DispatchStub.h).
SLOT = 6 * ctypes.sizeof(ctypes.c_void_p)
# These touch memory of the device beside what they do with stubs, or go on with what stubs said.
EXCLUDED = frozenset([
    "_fft_r2c", "_fft_r2c.out", "_histogramdd_bin_edges", "_histogramdd_from_bin_cts", "cholesky",
    "histc", "histc.out", "histogram.bin_ct", "histogram.bin_ct_out", "index_add.out",
    "index_reduce.out", "linalg_eig.out", "linalg_lstsq.out", "linalg_qr.out",
])  # fmt: skip
# What makes no result, or is not for dense tensors of the device.
# Of two stubs, the one that no sample within the limits asks for.
ALSO = {"div_floor_stub": {"div.out_mode"}}
NOT_ASKED = ("set_", "resize", "_local_scalar", "is_", "_pin", "pin", "record", "_foreach",
             "_fused", "empty", "as_strided", "_to_copy", "_has", "equal", "item")  # fmt: skip
SAMPLES = 14
CALLS = 16
STRUCTURED = "CompositeExplicitAutogradNonFunctional"

Call = tuple[torch._ops.OpOverload, Sequence[Any], dict[str, Any]]


class Slots:
    """The slots of all stubs whose kernels return nothing."""

    def __init__(self) -> None:
        from torch_outboard import _C

        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "notes.cpp").write_text(NOTES)
            library = Path(folder, "notes.so")
            command = ["c++", "-std=c++20", "-O1", "-shared", "-fPIC", f"{folder}/notes.cpp"]
            subprocess.run([*command, "-o", library], check=True)
            self._notes = ctypes.CDLL(str(library))
        self._notes.note_of.restype = ctypes.c_void_p
        path = os.path.join(os.path.dirname(torch.__file__), "lib/libtorch_cpu.so")
        pytorch = ctypes.CDLL(path)
        command = ["nm", "--dynamic", "--demangle", "--defined-only", path]
        symbols = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        found = sorted(set(STUB.findall(symbols)))
        self.names = [name for name in found if _C.stub_state(name)[0]]
        self._slots = []
        for name in self.names:
            stub = ctypes.c_void_p.in_dll(pytorch, f"_ZN2at6native{len(name)}{name}E")
            self._slots.append(ctypes.c_void_p.from_address(ctypes.addressof(stub) + SLOT))
        self._before = [slot.value for slot in self._slots]

    def watch(self) -> None:
        for index, slot in enumerate(self._slots):
            slot.value = self._notes.note_of(index)

    def restore(self) -> None:
        for slot, value in zip(self._slots, self._before, strict=True):
            slot.value = value

    def noted(self) -> list[str]:
        found = (ctypes.c_int * 64)()
        return [self.names[index] for index in found[: self._notes.take(found)]]


def sampled_calls() -> dict[str, list[Call]]:
    calls: dict[str, list[Call]] = defaultdict(list)
    for entry in entries().values():
        mode = Calls(None)
        for dtype in (torch.float32, torch.int64, torch.bool, torch.complex64):
            if dtype not in entry.dtypes:
                continue
            with suppress(Exception), torch.no_grad():
                for sample in islice(entry.sample_inputs("cpu", dtype), SAMPLES):
                    with suppress(Exception), mode:
                        entry.op(sample.input, *sample.args, **sample.kwargs)
        if entry.supports_autograd and torch.float32 in entry.dtypes:
            with suppress(Exception):
                samples = entry.sample_inputs("cpu", torch.float32, requires_grad=True)
                for sample in islice(samples, 2):
                    with suppress(Exception), mode:
                        result = entry.op(sample.input, *sample.args, **sample.kwargs)
                        leaves = [t for t in tree_leaves(result) if t.requires_grad]
                        sum((t * 1.0).sum() for t in leaves).backward()
        for call in mode.calls:
            if call.overload.startswith("aten::") and len(calls[call.overload]) < CALLS:
                given = unbind(call.overload, call.arguments)
                calls[call.overload].append((overload_of(call.overload), *given))
    for function, *arguments in _further_calls():
        overload = function if isinstance(function, torch._ops.OpOverload) else function.default
        outs = [a.name for a in overload._schema.arguments if a.is_out]
        last = len(arguments) - len(outs)
        keywords = dict(zip(outs, arguments[last:], strict=True))
        calls[overload.name()].append((overload, tuple(arguments[:last]), keywords))
    return calls


def _further_calls() -> Iterator[tuple[Any, ...]]:
    """What the samples do not reach."""
    a = torch.ops.aten
    x, first_two = torch.randn(3, 4), [torch.tensor([0, 1])]
    yield a.random_, x.clone()
    yield a.random_.to, x.clone(), 5
    yield getattr(a.random_, "from"), x.clone(), 0, 5
    yield getattr(a.random_, "from"), torch.zeros(4, dtype=torch.int64), -(2**63), None
    yield a._index_put_impl_, x.clone(), first_two, x[:2].clone(), False, False
    yield a._index_put_impl_, x.clone(), first_two, x[:2].clone(), True, False
    yield a.clamp_max, x, 0.5
    yield a.conj_physical, x.to(torch.complex64)
    yield a.polygamma, 1, x
    yield a.fake_quantize_per_tensor_affine_cachemask, x, 1.0, 0, 0, 255
    yield a.bernoulli_.Tensor, x.clone(), torch.ones(3, 4)
    yield a.arange.start_out, 0, 5, 1, torch.empty(5)
    yield a.linspace.out, 0, 1, 5, torch.empty(5)
    yield a._logcumsumexp, x, 0
    yield a._linalg_svd.U, x, False, True, *(torch.empty(0) for _ in range(3))
    yield a.floor_divide, x, x
    channels = torch.ones(3), torch.zeros(3, dtype=torch.int32)
    yield a.fake_quantize_per_channel_affine_cachemask, x, *channels, 0, 0, 255
    one = torch.ones(1)
    yield a._fake_quantize_learnable_per_tensor_affine_backward, x, x, one, one * 0, 0, 255, 1.0
    yield a._compute_linear_combination, x, x[:, :3].clone()


def forms(function: torch._ops.OpOverload) -> Iterator[tuple[torch._ops.OpOverload, bool]]:
    """The overload and those with the same inputs; whether they have out= arguments beside them."""
    inputs = _described(function._schema.arguments)
    if any(a.alias_info and a.alias_info.is_write for a in function._schema.arguments):
        yield function, False
        return
    yield function, False
    name = function.name().removeprefix("aten::").partition(".")[0]
    for base in (name, f"{name}_"):
        packet = getattr(torch.ops.aten, base, None)
        for overload in packet.overloads() if packet is not None else ():
            form = getattr(packet, overload)
            if form is function:
                continue
            arguments = form._schema.arguments
            if _described([a for a in arguments if not a.is_out]) == inputs:
                yield form, any(a.is_out for a in arguments)


def _described(arguments: Any) -> list[tuple[str, str]]:
    return [(a.name, str(a.type)) for a in arguments]


def find(device: torch.device) -> dict[str, set[str]]:
    """The overloads of aten by stub."""
    from torch_outboard import _C, fallback

    # What implementations call beside stubs is to run as without vendors' kernels.
    _C.testing.disconnect_stubs()
    slots = Slots()
    found: dict[str, set[str]] = defaultdict(set)
    cpu = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)

    def moved(value: Any) -> Any:
        dense = isinstance(value, torch.Tensor) and value.layout == torch.strided
        return value.to(device) if dense else value

    for name, calls in sorted(sampled_calls().items()):
        if name.removeprefix("aten::").startswith(NOT_ASKED):
            continue
        for function, args, kwargs in calls:
            for form, is_out in forms(function):
                overload = form.name().removeprefix("aten::")
                if overload in EXCLUDED or not _is_implementation(form):
                    continue
                with suppress(Exception):
                    on_device, keywords = tree_map(moved, (args, kwargs))
                    if is_out:
                        results = function(*args, **kwargs)
                        results = results if isinstance(results, (tuple, list)) else (results,)
                        names = [a.name for a in form._schema.arguments if a.is_out]
                        outs = [torch.empty_like(t).to(device) for t in results]
                        keywords = {**keywords, **dict(zip(names, outs, strict=True))}
                    slots.watch()
                    # With a report typed kernels, which call stubs, ask the router.
                    with suppress(Exception), torch.no_grad(), fallback.report():
                        form.redispatch(cpu, *on_device, **keywords)
                slots.restore()
                for stub in slots.noted():
                    found[stub].add(overload)
    for stub, overloads in ALSO.items():
        found[stub] |= overloads
    return dict(found)


def _is_implementation(form: torch._ops.OpOverload) -> bool:
    """Whether it has a kernel of the CPU's own that is not generated around its out= form."""
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    return has(form.name(), "CPU") and not has(form.name(), STRUCTURED)


def as_source(table: dict[str, set[str]]) -> str:
    rows = []
    for stub, overloads in sorted(table.items(), key=lambda row: row[0].lower()):
        row = f'    {{"{stub}", "{" ".join(sorted(overloads))}"}},'
        if len(row) > 100:
            lines = [""]
            for overload in sorted(overloads):
                if len(lines[-1]) + len(overload) > 80:
                    lines.append("")
                lines[-1] += overload + " "
            lines[-1] = lines[-1].rstrip()
            quoted = "\n".join(f'     "{line}"' for line in lines)
            row = f'    {{"{stub}",\n{quoted}}},'
        rows.append(row)
    return HEAD + "\n".join(rows) + TAIL


HEAD = """\
// Which operators' implementations in PyTorch ask a stub for the device of their tensors, as
// tests/dispatch/stub_probes.py finds out by calling all of them. Other stubs are called for the
// CPU alone, whatever lies in their slots.
#include "dispatch/external/stub_slots.h"

namespace outboard {
namespace {

constexpr StubOperators kTable[] = {
"""
TAIL = """
};

}  // namespace

const std::span<const StubOperators> kStubOperators = kTable;

}  // namespace outboard
"""


def main() -> int:
    os.environ |= {"OUTBOARD_DRIVER": "host", "OUTBOARD_HOST_ACCESS": "shared"}
    import torch_outboard

    sys.stdout.write(as_source(find(torch.device(torch_outboard.device_name(), 0))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
