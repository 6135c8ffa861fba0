#include "distributed/driver/calls.h"

#include <ATen/Functions.h>

#include <utility>

namespace outboard::distributed {
namespace {

using Tensors = std::vector<at::Tensor>;

// Messages to other ranks; a copy for the rank's own part.
void exchange(int rank, const Tensors& inputs, const std::vector<int>& to, const Tensors& outputs,
              const std::vector<int>& from, Communications& wanted) {
  at::Tensor given, got;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (to[i] == rank) {
      given = inputs[i];
    } else {
      wanted.move(OB_COMMUNICATION_SEND, inputs[i], {}, to[i]);
    }
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (from[i] == rank) {
      got = outputs[i];
    } else {
      wanted.move(OB_COMMUNICATION_RECEIVE, {}, outputs[i], from[i]);
    }
  }
  if (given.defined() && got.defined()) {
    wanted.finish = [given, got] { got.view({-1}).copy_(given.view({-1}), /*non_blocking=*/true); };
  }
}

Tensors split(const at::Tensor& tensor, const std::vector<int64_t>& sizes) {
  return tensor.view({-1}).split_with_sizes(sizes);
}

std::vector<int> all_ranks(size_t ranks) {
  std::vector<int> all;
  for (size_t rank = 0; rank < ranks; ++rank) all.push_back(static_cast<int>(rank));
  return all;
}

}  // namespace

DriverCall reduced_by_driver(ob_communication_kind kind, const c10d::ReduceOp& op, int root) {
  return [kind, op, root](const Tensors& inputs, const Tensors& outputs, Communications& wanted) {
    for (size_t i = 0; i < outputs.size(); ++i) {
      wanted.reduce(kind, inputs.empty() ? outputs[i] : inputs[i], outputs[i], op, root);
    }
  };
}

DriverCall gathered_by_driver() {
  return [](const Tensors& inputs, const Tensors& outputs, Communications& wanted) {
    for (size_t i = 0; i < outputs.size(); ++i)
      wanted.move(OB_COMMUNICATION_ALL_GATHER, inputs[i], outputs[i]);
  };
}

DriverCall broadcast_by_driver(int root, int rank) {
  return [root, rank](const Tensors&, const Tensors& outputs, Communications& wanted) {
    for (const at::Tensor& output : outputs) {
      wanted.move(OB_COMMUNICATION_BROADCAST, rank == root ? output : at::Tensor(), output, root);
    }
  };
}

DriverCall list_gathered_by_driver(int ranks) {
  return [ranks](const Tensors& inputs, const Tensors& outputs, Communications& wanted) {
    Tensors gathered;
    for (size_t i = 0; i < inputs.size(); ++i) {
      gathered.push_back(at::empty({ranks, inputs[i].numel()}, inputs[i].options()));
      wanted.move(OB_COMMUNICATION_ALL_GATHER, inputs[i], gathered.back());
      for (int rank = 0; rank < ranks; ++rank) {
        if (outputs[rank * inputs.size() + i].numel() != inputs[i].numel()) wanted.possible = false;
      }
    }
    wanted.finish = [ranks, gathered, outputs] {
      for (size_t i = 0; i < gathered.size(); ++i) {
        for (int rank = 0; rank < ranks; ++rank) {
          const at::Tensor& output = outputs[rank * gathered.size() + i];
          output.view({-1}).copy_(gathered[i][rank], /*non_blocking=*/true);
        }
      }
    };
  };
}

DriverCall list_scattered_by_driver(const c10d::ReduceOp& op) {
  return [op](const Tensors& inputs, const Tensors& outputs, Communications& wanted) {
    Tensors parts;
    for (const at::Tensor& input : inputs) parts.push_back(input.view({-1}));
    const at::Tensor whole = at::cat(parts);
    wanted.reduce(OB_COMMUNICATION_REDUCE_SCATTER, whole, outputs[0], op);
    // Keeps the tensor alive until it is enqueued; then the stream does.
    wanted.finish = [whole] {};
  };
}

DriverCall exchanged_by_driver(int rank, std::vector<int> to, std::vector<int> from) {
  return [rank, to = std::move(to), from = std::move(from)](
             const Tensors& inputs, const Tensors& outputs, Communications& wanted) {
    const std::vector<int> every = all_ranks(std::max(inputs.size(), outputs.size()));
    exchange(rank, inputs, to.empty() ? every : to, outputs, from.empty() ? every : from, wanted);
  };
}

DriverCall split_by_driver(int rank, std::vector<int64_t> to, std::vector<int64_t> from) {
  return [rank, to = std::move(to), from = std::move(from)](
             const Tensors& inputs, const Tensors& outputs, Communications& wanted) {
    const std::vector<int> every = all_ranks(to.size());
    exchange(rank, split(inputs[0], to), every, split(outputs[0], from), every, wanted);
  };
}

}  // namespace outboard::distributed
