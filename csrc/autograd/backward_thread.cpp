#include "autograd/backward_thread.h"

#include <c10/core/AutogradState.h>
#include <torch/csrc/autograd/graph_task.h>

#include "runtime/driver/device.h"

namespace outboard {

thread_local bool t_backward_thread_chosen = false;

void choose_backward_thread(c10::DeviceIndex device) {
  if (!shares_host_memory(device)) return;
  t_backward_thread_chosen = true;
  // Inside a backward pass, the thread that started it has already chosen.
  if (torch::autograd::get_current_graph_task_id() != -1) return;
  c10::AutogradState::get_tls_state().set_multithreading_enabled(false);
}

}  // namespace outboard
