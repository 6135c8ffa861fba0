// The communication of a device: collectives in the order of a stream, by the driver where it has
// communication of its own, else by a CPU backend, which is Gloo.
//
// A collective is enqueued on a stream of the group: wait for the caller's stream, copy to the host
// where it does not share the memory, the CPU backend's call in a callback of the queue, copy back;
// what is large goes so in pieces, whose copies have streams of their own (enqueueing.cpp). The
// caller goes on at once, and whoever waits for the work lets its stream wait. Sends and receives
// have a stream for each peer and direction, so that none waits for another; they have tags and may
// come from any rank, so they are the CPU backend's.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <atomic>
#include <map>
#include <mutex>

#include "distributed/collective_work.h"
#include "distributed/driver/communicator.h"
#include "distributed/host_tensors.h"
#include "runtime/export.h"

namespace outboard::distributed {

class OUTBOARD_API ProcessGroup final : public c10d::Backend {
 public:
  using Tensors = std::vector<at::Tensor>;
  using WorkPointer = c10::intrusive_ptr<c10d::Work>;

  // Every rank of the group at once. `cpu_backend` communicates tensors of the host among the same
  // ranks, `store` is for this group alone, `name` is the group's. Raises ValueError for a wrong
  // OUTBOARD_COMMUNICATION.
  ProcessGroup(c10::intrusive_ptr<c10d::Backend> cpu_backend, c10d::Store& store, std::string name,
               std::chrono::milliseconds timeout);
  ~ProcessGroup() override;

  const std::string getBackendName() const override { return "outboard"; }
  bool supportsCoalescing() const override { return true; }
  bool supportsSplitting() const override { return true; }
  // Those of the CPU backend, whose split() takes them.
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
  // Ends all waits, and starts nothing. What the CPU backend is at goes on in its
  // threads until its timeout, with memory that stays.
  void abort() override;
  // How often each operation was done by each of "driver" and "gloo".
  std::map<std::string, std::map<std::string, int64_t>> taken();
  // Why the driver does not communicate; empty if it does.
  const std::string& reason() const { return reason_; }
  // Waits for what was enqueued.
  void shutdown() override;

  WorkPointer broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPointer allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  // Returns when it is done.
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
  // What a collective does with its tensors, and the CPU backend's part of it, which gets those of
  // the host in the same order.
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
    // The same to the driver, for dense tensors on the communicator's device.
    std::function<void(const Tensors& inputs, const Tensors& outputs, Communications& wanted)>
        to_driver = nullptr;
    // Whether parts of the tensors can go one after another: of the one output, or of each rank's
    // part of the one input and the one output.
    enum { kWhole, kFlat, kByRank } parts = kWhole;
    std::chrono::milliseconds timeout = c10d::kUnsetTimeout;
  };
  // What one piece of a collective is about.
  struct Piece {
    Tensors inputs, outputs;
  };
  // What was enqueued, and the streams of which the ends are the work's end.
  struct Enqueued {
    std::vector<std::shared_ptr<HostPart>> parts;
    std::vector<c10::Stream> streams;
  };

  static void check_one(const Tensors& tensors);
  WorkPointer run(Call call);
  // Nothing if the driver does not do it.
  std::optional<Enqueued> enqueue_by_driver(const Call& call, const c10::Stream& stream,
                                            const std::string& description);
  Enqueued enqueue_by_cpu_backend(const Call& call, const c10::Stream& stream,
                                  const std::string& description);
  std::vector<Piece> pieces_of(const Call& call) const;
  // Fails if the group has failed before, and lets it fail with the part.
  std::shared_ptr<HostPart> guarded_part(std::function<void()> body,
                                         const std::string& description) const;
  c10::Stream stream_for(c10::Device device, const Call& call);
  // For copies to the host (0) and back (1).
  c10::Stream copy_stream(c10::Device device, int direction);
  c10::Stream kept_stream(c10::Device device, int peer, int direction);
  std::string description(const Call& call, uint64_t number) const;
  void reduce_on_host(const std::vector<HostTensor>& tensors, const c10d::ReduceOp& op,
                      const std::function<WorkPointer(Tensors&, const c10d::ReduceOp&)>& call);
  void scatter_reduced(const at::Tensor& output, const at::Tensor& input,
                       const c10d::ReduceScatterOptions& options);
  // Waits for work of the CPU backend, or raises when the group is aborted.
  void finish(const WorkPointer& work) const;
  void sweep();
  void correct_default_backend();

  const c10::intrusive_ptr<c10d::Backend> cpu_backend_;
  const std::string name_;
  std::string reason_;
  // nullptr: the CPU backend does everything.
  const std::shared_ptr<Communicator> communicator_;
  // Shared with what runs on queues, which may outlive the group.
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    std::exception_ptr failure;
    // Whether whoever waits for a stream only has been told of it.
    bool told = false;
    bool aborted = false;
    // Messages that are under way, which can be ended.
    std::vector<WorkPointer> messages;

    // Before a part ends by the failure, as whoever waits for its stream goes on then. The caller
    // holds the mutex.
    void tell();
  };
  const std::shared_ptr<State> state_ = std::make_shared<State>();

  std::atomic<std::chrono::milliseconds> timeout_;
  std::atomic<bool> default_checked_{false};
  std::mutex mutex_;
  uint64_t number_ = 0;
  std::map<std::string, std::map<std::string, int64_t>> taken_;
  // By device, and by peer and direction; -1, 0 for collectives, -2 for copies.
  std::map<std::tuple<c10::DeviceIndex, int, int>, c10::Stream> streams_;
  std::optional<c10::Stream> last_collective_;
  // What may still be on a queue: callbacks must not free memory, which can call the driver.
  std::vector<std::shared_ptr<HostPart>> parts_;
  bool coalescing_ = false;
  std::vector<std::shared_ptr<HostPart>> coalesced_parts_;
  std::vector<c10::Stream> coalesced_streams_;
  Tensors coalesced_outputs_;
};

}  // namespace outboard::distributed
