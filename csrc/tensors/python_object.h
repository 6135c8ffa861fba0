// The object that Python has of a tensor or a storage.
#pragma once

#include <c10/core/impl/PyObjectSlot.h>

namespace outboard {

// Null if there is none. `slot` is what `pyobj_slot()` returns, whose functions differ by version.
template <class Slot>
PyObject* python_object(const Slot* slot) {
  if constexpr (requires { slot->load_pyobj(); }) {
    return slot->load_pyobj();
  } else {
    return slot->check_pyobj().value_or(nullptr);
  }
}

}  // namespace outboard
