// The communication of a device: collectives in the order of a stream, by an engine for tensors of
// the host, which is Gloo.
//
// A collective is enqueued on a stream of the group: wait for the caller's stream, copy to the host
// where it does not share the memory, the engine's call in a callback of the queue, copy back. The
// caller goes on at once, and whoever waits for the work lets its stream wait. Sends and receives
// have a stream for each peer and direction, so that none waits for another.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <atomic>
#include <map>
#include <mutex>

#include "distributed/collective_work.h"
#include "distributed/host_tensors.h"
#include "runtime/export.h"

namespace outboard::distributed {

class OUTBOARD_API ProcessGroup final : public c10d::Backend {
 public:
  using Tensors = std::vector<at::Tensor>;
  using WorkPointer = c10::intrusive_ptr<c10d::Work>;

  // `engine` communicates tensors of the host among the same ranks. `name` is the group's.
  ProcessGroup(c10::intrusive_ptr<c10d::Backend> engine, std::string name);
  ~ProcessGroup() override;

  const std::string getBackendName() const override { return "outboard"; }
  bool supportsCoalescing() const override { return true; }
  void startCoalescing() override;
  WorkPointer endCoalescing() override;
  void setTimeout(std::chrono::milliseconds timeout) override { engine_->setTimeout(timeout); }
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override { return number_; }
  c10d::ErrorType getError() override;
  // What was not begun fails; what the engine is at ends with its timeout.
  void abort() override;
  // Waits for what was enqueued.
  void shutdown() override;

  WorkPointer broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPointer allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPointer allreduce_coalesced(Tensors& tensors,
                                  const c10d::AllreduceCoalescedOptions& options) override;
  WorkPointer reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  WorkPointer allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                        const c10d::AllgatherOptions& options) override;
  WorkPointer _allgather_base(at::Tensor& output, at::Tensor& input,
                              const c10d::AllgatherOptions& options) override;
  WorkPointer allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                  const c10d::AllgatherOptions& options) override;
  WorkPointer allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                              const c10d::AllgatherOptions& options) override;
  WorkPointer gather(std::vector<Tensors>& outputs, Tensors& inputs,
                     const c10d::GatherOptions& options) override;
  WorkPointer scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                      const c10d::ScatterOptions& options) override;
  WorkPointer reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                             const c10d::ReduceScatterOptions& options) override;
  WorkPointer _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                   const c10d::ReduceScatterOptions& options) override;
  WorkPointer reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                              const c10d::ReduceScatterOptions& options) override;
  WorkPointer alltoall_base(at::Tensor& output, at::Tensor& input,
                            std::vector<int64_t>& output_sizes, std::vector<int64_t>& input_sizes,
                            const c10d::AllToAllOptions& options) override;
  WorkPointer alltoall(Tensors& outputs, Tensors& inputs,
                       const c10d::AllToAllOptions& options) override;
  WorkPointer send(Tensors& tensors, int destination, int tag) override;
  WorkPointer recv(Tensors& tensors, int source, int tag) override;
  WorkPointer recvAnysource(Tensors& tensors, int tag) override;
  WorkPointer barrier(const c10d::BarrierOptions& options) override;

 private:
  // What a collective does with its tensors, and the engine's part of it, which gets those of the
  // host in the same order.
  struct Call {
    c10d::OpType type;
    Tensors inputs;         // read
    Tensors outputs;        // written
    bool in_place = false;  // outputs are read, too
    std::function<void(const std::vector<HostTensor>& inputs,
                       const std::vector<HostTensor>& outputs)>
        body;
    // Of sends and receives: the peer, -1 for any.
    std::optional<int> peer = std::nullopt;
  };

  WorkPointer run(Call call);
  c10::Stream stream_for(c10::Device device, const Call& call);
  std::string description(const Call& call, uint64_t number) const;
  void reduce_on_host(const std::vector<HostTensor>& tensors, const c10d::ReduceOp& op,
                      const std::function<WorkPointer(Tensors&, const c10d::ReduceOp&)>& call);
  void scatter_reduced(const at::Tensor& output, const at::Tensor& input,
                       const c10d::ReduceScatterOptions& options);
  void sweep();
  void correct_default_backend();

  const c10::intrusive_ptr<c10d::Backend> engine_;
  const std::string name_;
  // Shared with what runs on queues, which may outlive the group.
  struct State {
    std::mutex mutex;
    std::exception_ptr failure;
  };
  const std::shared_ptr<State> state_ = std::make_shared<State>();

  std::atomic<bool> default_checked_{false};
  std::mutex mutex_;
  uint64_t number_ = 0;
  // By device, and by peer and direction; -1, 0 for collectives.
  std::map<std::tuple<c10::DeviceIndex, int, int>, c10::Stream> streams_;
  // What may still be on a queue: callbacks must not free memory, which can call the driver.
  std::vector<std::shared_ptr<HostPart>> parts_;
  bool coalescing_ = false;
  std::vector<std::shared_ptr<HostPart>> coalesced_parts_;
  std::vector<c10::Stream> coalesced_streams_;
  Tensors coalesced_outputs_;
};

}  // namespace outboard::distributed
