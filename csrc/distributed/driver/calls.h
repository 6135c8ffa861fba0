// Collectives of torch.distributed in the words of the driver contract.
#pragma once

#include <functional>

#include "distributed/driver/communicator.h"

namespace outboard::distributed {

// From dense tensors on the communicator's device.
using DriverCall =
    std::function<void(const std::vector<at::Tensor>& inputs,
                       const std::vector<at::Tensor>& outputs, Communications& wanted)>;

// Of as many outputs as inputs; in place without inputs.
DriverCall reduced_by_driver(ob_communication_kind kind, const c10d::ReduceOp& op, int root = 0);
DriverCall gathered_by_driver();
DriverCall broadcast_by_driver(int root, int rank);
// Of each input to one output for each rank, those of a rank side by side.
DriverCall list_gathered_by_driver(int ranks);
// Of one input for each rank.
DriverCall list_scattered_by_driver(const c10d::ReduceOp& op);
// By messages, which wait for no other: inputs[i] goes to `to[i]`, outputs[i] comes from `from[i]`.
DriverCall exchanged_by_driver(int rank, std::vector<int> to, std::vector<int> from);
// Of the parts of one input and one output, whose sizes are in elements and by rank.
DriverCall split_by_driver(int rank, std::vector<int64_t> to, std::vector<int64_t> from);

}  // namespace outboard::distributed
