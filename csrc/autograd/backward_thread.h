// The thread in which backward passes run on devices whose memory the host shares.
#pragma once

#include <c10/core/Device.h>

#include "runtime/export.h"

namespace outboard {

extern __attribute__((tls_model("initial-exec"))) thread_local bool t_backward_thread_chosen;

OUTBOARD_API void choose_backward_thread(c10::DeviceIndex device);

// PyTorch runs the backward pass of a device in a thread of its own. Kernels of the host would then
// use two pools of OpenMP threads in turn, one for each thread that calls them: together they are
// more than there are processors, so OpenMP puts them to sleep after every kernel, and waking them
// for the next takes longer than many kernels. So the first time that a thread makes a tensor on a
// device that shares the host's memory, it gets what PyTorch does for the CPU: its backward passes
// run in itself. `torch.autograd.set_multithreading_enabled(True)` takes that back, once and for
// all. PyTorch is about to do the same for graphs on a single device
// (https://github.com/pytorch/pytorch/pull/192004); this file goes when it has.
inline void ensure_backward_thread(c10::DeviceIndex device) {
  if (__builtin_expect(!t_backward_thread_chosen, 0)) choose_backward_thread(device);
}

}  // namespace outboard
