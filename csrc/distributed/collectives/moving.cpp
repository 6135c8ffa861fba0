// Collectives that move bytes, point-to-point messages, and barriers.
#include <ATen/Functions.h>
#include <c10/util/accumulate.h>

#include <utility>

#include "distributed/communicator.h"
#include "distributed/process_group.h"
#include "runtime/driver/device.h"

namespace outboard::distributed {
namespace {

using Tensors = ProcessGroup::Tensors;

Tensors flattened(const std::vector<Tensors>& lists) {
  Tensors all;
  for (const Tensors& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

// ---- The same by the driver

DriverCall broadcast_by_driver(int root, int rank) {
  return [root, rank](const Tensors&, const Tensors& outputs, Communications& wanted) {
    for (const at::Tensor& output : outputs) {
      wanted.move(OB_COMMUNICATION_BROADCAST, rank == root ? output : at::Tensor(), output, root);
    }
  };
}

DriverCall gathered_by_driver() {
  return [](const Tensors& inputs, const Tensors& outputs, Communications& wanted) {
    for (size_t i = 0; i < outputs.size(); ++i)
      wanted.move(OB_COMMUNICATION_ALL_GATHER, inputs[i], outputs[i]);
  };
}

// Gathers each input to one output per rank; outputs of one rank are adjacent.
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

// Independent messages: inputs[i] goes to `to[i]`, outputs[i] comes from `from[i]`; without these,
// to and from rank i. The rank's own part is copied.
void exchange(int rank, const Tensors& inputs, const std::vector<int>& to, const Tensors& outputs,
              const std::vector<int>& from, Communications& wanted) {
  const auto peer = [](const std::vector<int>& ranks, size_t i) {
    return ranks.empty() ? static_cast<int>(i) : ranks[i];
  };
  at::Tensor given, got;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (peer(to, i) == rank) {
      given = inputs[i];
    } else {
      wanted.move(OB_COMMUNICATION_SEND, inputs[i], {}, peer(to, i));
    }
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (peer(from, i) == rank) {
      got = outputs[i];
    } else {
      wanted.move(OB_COMMUNICATION_RECEIVE, {}, outputs[i], peer(from, i));
    }
  }
  if (given.defined() && got.defined()) {
    wanted.finish = [given, got] { got.view({-1}).copy_(given.view({-1}), /*non_blocking=*/true); };
  }
}

DriverCall exchanged_by_driver(int rank, std::vector<int> to, std::vector<int> from) {
  return [rank, to = std::move(to), from = std::move(from)](
             const Tensors& inputs, const Tensors& outputs, Communications& wanted) {
    exchange(rank, inputs, to, outputs, from, wanted);
  };
}

// Parts of one input and one output, with sizes in elements per rank.
DriverCall split_by_driver(int rank, std::vector<int64_t> to, std::vector<int64_t> from) {
  return [rank, to = std::move(to), from = std::move(from)](
             const Tensors& inputs, const Tensors& outputs, Communications& wanted) {
    const Tensors parts = inputs[0].view({-1}).split_with_sizes(to);
    exchange(rank, parts, {}, outputs[0].view({-1}).split_with_sizes(from), {}, wanted);
  };
}

}  // namespace

ProcessGroup::WorkPointer ProcessGroup::broadcast(Tensors& tensors,
                                                  const c10d::BroadcastOptions& options) {
  check_one(tensors);
  return run({.type = c10d::OpType::BROADCAST,
              .outputs = tensors,
              .in_place = true,
              .to_driver = broadcast_by_driver(static_cast<int>(options.rootRank), rank_),
              .parts = Call::kFlat,
              .timeout = options.timeout},
             [this, options](auto&, auto& outputs) {
               Tensors bytes = bytes_of(outputs);
               finish(cpu_backend_->broadcast(bytes, options));
             });
}

ProcessGroup::WorkPointer ProcessGroup::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                                  const c10d::AllgatherOptions& options) {
  check_one(inputs);
  TORCH_CHECK_VALUE(outputs.size() == 1 && outputs[0].size() == static_cast<size_t>(size_),
                    "all_gather takes a list with a tensor for each of the ", size_, " ranks");
  for (const at::Tensor& output : outputs[0]) {
    TORCH_CHECK_VALUE(output.scalar_type() == inputs[0].scalar_type(),
                      "all_gather takes tensors of one dtype, and got ", output.scalar_type(),
                      " and ", inputs[0].scalar_type());
  }
  std::vector<Tensors> by_rank;
  for (const at::Tensor& output : outputs[0]) by_rank.push_back({output});
  return allgather_coalesced(by_rank, inputs, options);
}

ProcessGroup::WorkPointer ProcessGroup::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                        const c10d::AllgatherOptions& options) {
  Tensors outputs = {output}, inputs = {input};
  return allgather_into_tensor_coalesced(outputs, inputs, options);
}

ProcessGroup::WorkPointer ProcessGroup::allgather_into_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  TORCH_CHECK_VALUE(outputs.size() == inputs.size(),
                    "all_gather takes as many inputs as outputs, and got ", inputs.size(), " and ",
                    outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    TORCH_CHECK_VALUE(outputs[i].numel() == inputs[i].numel() * size_,
                      "output tensor size must be equal to world_size times input tensor size");
    TORCH_CHECK_TYPE(outputs[i].scalar_type() == inputs[i].scalar_type(),
                     "output tensor must have the same type as input tensor");
  }
  const c10d::OpType type =
      outputs.size() == 1 ? c10d::OpType::_ALLGATHER_BASE : c10d::OpType::ALLGATHER_COALESCED;
  return run({.type = type,
              .inputs = inputs,
              .outputs = outputs,
              .to_driver = gathered_by_driver(),
              .parts = outputs.size() == 1 ? Call::kByRank : Call::kWhole,
              .timeout = options.timeout},
             [this, options](auto& host_inputs, auto& host_outputs) {
               for (size_t i = 0; i < host_outputs.size(); ++i) {
                 at::Tensor to = host_outputs[i].bytes(), from = host_inputs[i].bytes();
                 finish(cpu_backend_->_allgather_base(to, from, options));
               }
             });
}

ProcessGroup::WorkPointer ProcessGroup::allgather_coalesced(std::vector<Tensors>& outputs,
                                                            Tensors& inputs,
                                                            const c10d::AllgatherOptions& options) {
  TORCH_CHECK_VALUE(outputs.size() == static_cast<size_t>(size_),
                    "all_gather takes a list for each of the ", size_, " ranks");
  for (const Tensors& list : outputs) {
    TORCH_CHECK_VALUE(list.size() == inputs.size(), "all_gather takes lists as long as its inputs");
  }
  const size_t count = inputs.size();
  return run({.type = count == 1 ? c10d::OpType::ALLGATHER : c10d::OpType::ALLGATHER_COALESCED,
              .inputs = inputs,
              .outputs = flattened(outputs),
              .to_driver = list_gathered_by_driver(size_),
              .timeout = options.timeout},
             [this, options, count](auto& host_inputs, auto& host_outputs) {
               for (size_t i = 0; i < count; ++i) {
                 std::vector<Tensors> to(1);
                 for (int rank = 0; rank < size_; ++rank) {
                   to[0].push_back(host_outputs[rank * count + i].bytes());
                 }
                 Tensors from = {host_inputs[i].bytes()};
                 finish(cpu_backend_->allgather(to, from, options));
               }
             });
}

ProcessGroup::WorkPointer ProcessGroup::gather(std::vector<Tensors>& outputs, Tensors& inputs,
                                               const c10d::GatherOptions& options) {
  check_one(inputs);
  const bool root = rank_ == options.rootRank;
  TORCH_CHECK_VALUE(root ? outputs.size() == 1 && outputs[0].size() == static_cast<size_t>(size_)
                         : outputs.empty(),
                    "gather takes a list with a tensor for each of the ", size_,
                    " ranks on the root, and none elsewhere");
  return run({.type = c10d::OpType::GATHER,
              .inputs = inputs,
              .outputs = flattened(outputs),
              .to_driver = exchanged_by_driver(rank_, {static_cast<int>(options.rootRank)}, {}),
              .timeout = options.timeout},
             [this, options, root](auto& host_inputs, auto& host_outputs) {
               std::vector<Tensors> to;
               if (root) to.push_back(bytes_of(host_outputs));
               Tensors from = bytes_of(host_inputs);
               finish(cpu_backend_->gather(to, from, options));
             });
}

ProcessGroup::WorkPointer ProcessGroup::scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                                const c10d::ScatterOptions& options) {
  check_one(outputs);
  const bool root = rank_ == options.rootRank;
  TORCH_CHECK_VALUE(
      root ? inputs.size() == 1 && inputs[0].size() == static_cast<size_t>(size_) : inputs.empty(),
      "scatter takes a list with a tensor for each of the ", size_,
      " ranks on the root, and none elsewhere");
  return run({.type = c10d::OpType::SCATTER,
              .inputs = flattened(inputs),
              .outputs = outputs,
              .to_driver = exchanged_by_driver(rank_, {}, {static_cast<int>(options.rootRank)}),
              .timeout = options.timeout},
             [this, options, root](auto& host_inputs, auto& host_outputs) {
               std::vector<Tensors> from;
               if (root) from.push_back(bytes_of(host_inputs));
               Tensors to = bytes_of(host_outputs);
               finish(cpu_backend_->scatter(to, from, options));
             });
}

// ---- All-to-all, messages and barriers

ProcessGroup::WorkPointer ProcessGroup::alltoall_base(at::Tensor& output, at::Tensor& input,
                                                      std::vector<int64_t>& output_sizes,
                                                      std::vector<int64_t>& input_sizes,
                                                      const c10d::AllToAllOptions& options) {
  TORCH_CHECK_TYPE(output.scalar_type() == input.scalar_type(),
                   "all_to_all takes tensors of one dtype, and got ", output.scalar_type(), " and ",
                   input.scalar_type());
  c10d::checkSplitSizes(input_sizes, input, size_);
  c10d::checkSplitSizes(output_sizes, output, size_);
  // Sizes count rows; the CPU backend moves their bytes.
  auto times = [this](int64_t item, const at::Tensor& tensor, std::vector<int64_t> sizes) {
    const int64_t rows = tensor.dim() == 0 ? 1 : tensor.size(0);
    const int64_t row = rows == 0 ? 0 : tensor.numel() / rows * item;
    if (sizes.empty()) sizes.assign(size_, rows / size_);
    for (int64_t& size : sizes) size *= row;
    return sizes;
  };
  const int64_t item = input.element_size();
  return run({.type = c10d::OpType::ALLTOALL_BASE,
              .inputs = {input},
              .outputs = {output},
              .to_driver = split_by_driver(rank_, times(1, input, input_sizes),
                                           times(1, output, output_sizes)),
              .timeout = options.timeout},
             [this, options, to_sizes = times(item, output, output_sizes),
              from_sizes = times(item, input, input_sizes)](auto& inputs, auto& outputs) mutable {
               at::Tensor to = outputs[0].bytes(), from = inputs[0].bytes();
               finish(cpu_backend_->alltoall_base(to, from, to_sizes, from_sizes, options));
             });
}

ProcessGroup::WorkPointer ProcessGroup::alltoall(Tensors& outputs, Tensors& inputs,
                                                 const c10d::AllToAllOptions& options) {
  TORCH_CHECK_VALUE(outputs.size() == static_cast<size_t>(size_) && inputs.size() == outputs.size(),
                    "all_to_all takes lists with a tensor for each of the ", size_, " ranks");
  return run({.type = c10d::OpType::ALLTOALL,
              .inputs = inputs,
              .outputs = outputs,
              .to_driver = exchanged_by_driver(rank_, {}, {}),
              .timeout = options.timeout},
             [this, options](auto& host_inputs, auto& host_outputs) {
               const Tensors given = bytes_of(host_inputs), got = bytes_of(host_outputs);
               std::vector<int64_t> from_sizes, to_sizes;
               for (const at::Tensor& bytes : given) from_sizes.push_back(bytes.numel());
               for (const at::Tensor& bytes : got) to_sizes.push_back(bytes.numel());
               at::Tensor from = at::cat(given),
                          to = at::empty({c10::sum_integers(to_sizes)}, from.options());
               const Tensors parts = to.split_with_sizes(to_sizes);
               // Gloo takes the contents of the sizes.
               finish(cpu_backend_->alltoall_base(to, from, to_sizes, from_sizes, options));
               for (size_t i = 0; i < parts.size(); ++i) got[i].copy_(parts[i]);
             });
}

ProcessGroup::WorkPointer ProcessGroup::send(Tensors& tensors, int destination, int tag) {
  check_one(tensors);
  return run({.type = c10d::OpType::SEND, .inputs = tensors, .peer = destination},
             [this, destination, tag](auto& inputs, auto&) {
               Tensors bytes = bytes_of(inputs);
               finish(cpu_backend_->send(bytes, destination, tag));
             });
}

ProcessGroup::WorkPointer ProcessGroup::recv(Tensors& tensors, int source, int tag) {
  check_one(tensors);
  return run({.type = c10d::OpType::RECV, .outputs = tensors, .peer = source},
             [this, source, tag](auto&, auto& outputs) {
               Tensors bytes = bytes_of(outputs);
               finish(cpu_backend_->recv(bytes, source, tag));
             });
}

ProcessGroup::WorkPointer ProcessGroup::recvAnysource(Tensors& tensors, int tag) {
  check_one(tensors);
  auto source = std::make_shared<int>(-1);
  const WorkPointer work =
      run({.type = c10d::OpType::RECVANYSOURCE, .outputs = tensors, .peer = -1},
          [this, source, tag](auto&, auto& outputs) {
            Tensors bytes = bytes_of(outputs);
            const WorkPointer work = cpu_backend_->recvAnysource(bytes, tag);
            finish(work);
            *source = work->sourceRank();
          });
  static_cast<CollectiveWork*>(work.get())->source = source;
  return work;
}

ProcessGroup::WorkPointer ProcessGroup::barrier(const c10d::BarrierOptions& options) {
  // Synchronizes the whole device: work of other streams counts.
  synchronize_device(current_device());
  const WorkPointer work = run({.type = c10d::OpType::BARRIER}, [this, options](auto&, auto&) {
    finish(cpu_backend_->barrier(options));
  });
  work->wait(std::chrono::hours(24 * 365));
  return work;
}

}  // namespace outboard::distributed
