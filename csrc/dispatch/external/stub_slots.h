// Kernels that others put into PyTorch's stubs: REGISTER_PRIVATEUSE1_DISPATCH(abs_stub, &f).
//
// PyTorch's implementation of many operators builds a TensorIterator and ends in a stub, which has
// a slot for our kind of device. Where a vendor has filled the slot, the router
// runs that implementation on the device tensors.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <ATen/native/DispatchStub.h>

#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "dispatch/router.h"
#include "runtime/export.h"

namespace outboard {

// A stub and the operators whose implementation calls it for the device of their tensors:
// overloads of aten without namespace, separated by blanks.
struct StubOperators {
  const char* stub;
  const char* overloads;
};
// stub_operators.cpp
extern OUTBOARD_API const std::span<const StubOperators> kStubOperators;

// The slot of a stub: PyTorch offers a function that fills it and none that reads it, but a stub
// is nothing else than the structure that holds the slots.
inline void*& slot_of(void* stub) noexcept {
  static_assert(std::is_standard_layout_v<at::native::DispatchStubImpl>);
  return static_cast<at::native::DispatchStubImpl*>(stub)->privateuse1_dispatch_ptr;
}

struct StubSlot {
  const char* name;
  void* stub;
  void* own;  // what the kit put there; null: nothing
  bool brought_by_others() const noexcept {
    const void* now = __atomic_load_n(&slot_of(stub), __ATOMIC_RELAXED);
    return now != nullptr && now != own;
  }
};

// The stubs of an overload.
struct StubUses {
  std::vector<StubSlot> slots;
};
inline bool brought_by_others(const StubUses& stubs) noexcept {
  for (const StubSlot& slot : stubs.slots) {
    if (slot.brought_by_others()) return true;
  }
  return false;
}

// Puts a kernel of the kit into a slot that is free. At load, before connect_stubs.
void fill_slot(void* stub, void* function);
// Whether a kernel in a slot is to decline a call that it cannot serve, since PyTorch's
// implementation runs for a vendor's kernel in another slot.
bool in_stub_run() noexcept;

// Tells the entries of operators of their stubs. Once, at load.
void connect_stubs();
// Takes that back, for whoever looks for what the table is to say.
OUTBOARD_API void disconnect_stubs();

// Runs PyTorch's implementation on device tensors, of a form that ends in a stub. Throws Declined
// where it needs another one that is empty.
void run_with_stubs(const c10::OperatorHandle& op, torch::jit::Stack* stack);

// What a slot holds, by the stub's name in at::native.
struct StubState {
  bool exists = false;  // in this version of PyTorch
  bool filled = false;
  bool by_kit = false;
  std::string library;  // the file of the kernel; empty if unknown
};
OUTBOARD_API StubState stub_state(const std::string& name);
// The stubs of an overload that a vendor filled, by name.
OUTBOARD_API std::vector<std::string> brought_stubs(const std::string& overload);

}  // namespace outboard
