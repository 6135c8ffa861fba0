// The communication of a device: collectives in stream order, by the driver's own communication or
// by a CPU backend, which is Gloo.
//
// By the CPU backend a collective is enqueued on a stream of the group: wait for the caller's
// stream, copy to the host unless memory is shared, call the CPU backend in a callback of the
// queue, copy back. Large ones are split into pieces with their own copy streams.
// The caller returns at once; waiting for the work makes the current stream wait. Sends and
// receives have a stream per peer and direction, so none waits for another. They have tags and may
// come from any rank, so they use the CPU backend.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <atomic>
#include <map>
#include <mutex>

#include "distributed/collective_work.h"
#include "distributed/communicator.h"
#include "runtime/export.h"

namespace outboard::distributed {

class OUTBOARD_API ProcessGroup final : public c10d::Backend {
 public:
  using Tensors = std::vector<at::Tensor>;
  using WorkPointer = c10::intrusive_ptr<c10d::Work>;

  // Called by every rank of the group at once. `cpu_backend`: communicates host tensors among the
  // same ranks; `store`: for this group only; `name`: the group's.
  ProcessGroup(c10::intrusive_ptr<c10d::Backend> cpu_backend, c10d::Store& store, std::string name,
               std::chrono::milliseconds timeout);
  ~ProcessGroup() override;

  const std::string getBackendName() const override { return "outboard"; }
  bool supportsCoalescing() const override { return true; }
  bool supportsSplitting() const override { return true; }
  // The CPU backend's options, as its split() takes them.
  c10::intrusive_ptr<Options> getBackendOptions() override {
    return cpu_backend_->getBackendOptions();
  }
  c10::intrusive_ptr<c10d::Backend> split(const c10::intrusive_ptr<c10d::Store>& store,
                                          const std::vector<int>& ranks,
                                          const c10::intrusive_ptr<Options>& options) override;
  const c10::intrusive_ptr<c10d::Backend>& cpu_backend() const { return cpu_backend_; }
  void startCoalescing() override;
  WorkPointer endCoalescing() override;
  void setTimeout(std::chrono::milliseconds timeout) override {
    timeout_ = timeout;
    cpu_backend_->setTimeout(timeout);
  }
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override { return number_; }
  c10d::ErrorType getError() override;
  // Ends all waits and starts nothing. The CPU backend's running work continues on its threads
  // until its timeout; its memory stays allocated.
  void abort() override;
  // Count of each operation by "driver" and by "gloo".
  std::map<std::string, std::map<std::string, int64_t>> taken();
  // The reason why the driver does not communicate; empty if it does.
  const std::string& reason() const { return reason_; }
  // Waits for enqueued work.
  void shutdown() override;

  WorkPointer broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPointer allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  // Synchronous.
  WorkPointer allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) override;
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
  // A collective and its tensors.
  struct Call {
    c10d::OpType type;
    Tensors inputs = {};    // read
    Tensors outputs = {};   // written
    bool in_place = false;  // outputs are also read
    // The driver's function, for dense tensors on the communicator's device.
    DriverCall to_driver = nullptr;
    // Split into sequential pieces: none, of the single output, or of each rank's part of the
    // single input and output.
    enum Parts { kWhole, kFlat, kByRank } parts = kWhole;
    std::chrono::milliseconds timeout = c10d::kUnsetTimeout;
    // Sends and receives: the peer, -1 for any.
    std::optional<int> peer = std::nullopt;
  };
  // The CPU backend's function, with host tensors in the order of the call's.
  using Body = std::function<void(const std::vector<HostTensor>& inputs,
                                  const std::vector<HostTensor>& outputs)>;
  // The tensors of one piece of a collective.
  struct Piece {
    Tensors inputs, outputs;
  };
  // Enqueued parts, and the streams whose ends are the end of the work.
  struct Enqueued {
    std::vector<std::shared_ptr<HostPart>> parts;
    std::vector<c10::Stream> streams;
  };

  static void check_one(const Tensors& tensors);
  WorkPointer run(const Call& call, const Body& body);
  // nullopt if the driver does not support it.
  std::optional<Enqueued> enqueue_by_driver(const Call& call, const c10::Stream& stream,
                                            const std::string& description);
  Enqueued enqueue_by_cpu_backend(const Call& call, const Body& body, const c10::Stream& stream,
                                  const std::string& description);
  std::vector<Piece> pieces_of(const Call& call) const;
  // A part that fails if the group has failed, and whose failure becomes the group's.
  std::shared_ptr<HostPart> guarded_part(std::function<void()> body,
                                         const std::string& description) const;
  c10::Stream stream_for(c10::Device device, const Call& call);
  c10::Stream kept_stream(c10::Device device, int peer, int direction);
  std::string description(const Call& call, uint64_t number) const;
  WorkPointer reduce_all(c10d::OpType type, const Tensors& tensors,
                         const c10d::AllreduceOptions& options);
  void scatter_reduced(const at::Tensor& output, const at::Tensor& input,
                       const c10d::ReduceScatterOptions& options);
  // Waits for work of the CPU backend, or raises when the group is aborted.
  void finish(const WorkPointer& work) const;
  void correct_default_backend();

  const c10::intrusive_ptr<c10d::Backend> cpu_backend_;
  const std::string name_;
  std::string reason_;
  // nullptr: the CPU backend does everything.
  const std::shared_ptr<Communicator> communicator_;
  // Shared with callbacks on queues, which may outlive the group.
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    std::exception_ptr failure;
    // True once the failure was deferred to the next wait for a stream.
    bool told = false;
    bool aborted = false;
    // Running messages, which can be aborted.
    std::vector<WorkPointer> messages;

    // Defers the failure before a part ends with it, because a wait for its stream returns then.
    // The caller holds the mutex.
    void tell();
  };
  const std::shared_ptr<State> state_ = std::make_shared<State>();

  std::atomic<std::chrono::milliseconds> timeout_;
  std::atomic<bool> default_checked_{false};
  std::mutex mutex_;
  uint64_t number_ = 0;
  std::map<std::string, std::map<std::string, int64_t>> taken_;
  // Key: device, peer, direction; peer -1 and direction 0: collectives; peer -2: copies, direction
  // 0 to the host and 1 back.
  std::map<std::tuple<c10::DeviceIndex, int, int>, c10::Stream> streams_;
  std::optional<c10::Stream> last_collective_;
  // Parts that may still be on a queue: callbacks must not free memory, which can call the driver.
  std::vector<std::shared_ptr<HostPart>> parts_;
  bool coalescing_ = false;
  std::vector<std::shared_ptr<HostPart>> coalesced_parts_;
  std::vector<c10::Stream> coalesced_streams_;
  Tensors coalesced_outputs_;
};

}  // namespace outboard::distributed
