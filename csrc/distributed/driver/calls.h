// torch.distributed's collectives as calls of the driver contract.
#pragma once

#include <functional>

#include "distributed/driver/communicator.h"

namespace outboard::distributed {

// Takes dense tensors on the communicator's device.
using DriverCall =
    std::function<void(const std::vector<at::Tensor>& inputs,
                       const std::vector<at::Tensor>& outputs, Communications& wanted)>;

// As many outputs as inputs; in place without inputs.
DriverCall reduced_by_driver(ob_communication_kind kind, const c10d::ReduceOp& op, int root = 0);
DriverCall gathered_by_driver();
DriverCall broadcast_by_driver(int root, int rank);
// Gathers each input to one output per rank; outputs of one rank are adjacent.
DriverCall list_gathered_by_driver(int ranks);
// One input per rank.
DriverCall list_scattered_by_driver(const c10d::ReduceOp& op);
// Independent messages: inputs[i] goes to `to[i]`, outputs[i] comes from `from[i]`.
DriverCall exchanged_by_driver(int rank, std::vector<int> to, std::vector<int> from);
// Parts of one input and one output, with sizes in elements per rank.
DriverCall split_by_driver(int rank, std::vector<int64_t> to, std::vector<int64_t> from);

}  // namespace outboard::distributed
