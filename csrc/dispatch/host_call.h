// From the router to the CPU fallback, which lies in a layer above (cpu_kernels).
#pragma once

#include "dispatch/report.h"
#include "dispatch/router.h"

namespace outboard {

// Replaces the arguments on `stack` by what stands for them on the host, calls the CPU kernel of
// `op`, and leaves device results on the stack. Raises NotImplementedError where there is no CPU
// kernel, RuntimeError where tensors of several devices are mixed.
void run_on_host(Operator& entry, const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                 torch::jit::Stack* stack, c10::DeviceIndex device, ReportedCall& reported);

}  // namespace outboard
