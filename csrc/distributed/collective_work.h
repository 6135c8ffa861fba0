// The work of a collective: on a stream, with a middle part on the host, on host tensors.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/streams/event.h"
#include "runtime/streams/stream.h"

namespace outboard::distributed {

// ---- Host tensors in place of device tensors

// The host tensor of one device tensor: the same memory if shared and dense, else pinned memory
// with copies on the current stream.
class HostTensor {
 public:
  // Enqueues a copy to the host if `read`.
  HostTensor(const at::Tensor& device, bool read);

  // Dense, with the shape and dtype of the device tensor. Valid when the stream reaches this point.
  const at::Tensor& tensor() const { return host_; }
  // Its bytes, for data that is moved and not computed with.
  at::Tensor bytes() const;
  // Enqueues a copy back to the device if the memory is not shared.
  void write_back() const;

 private:
  at::Tensor device_;
  at::Tensor host_;
  bool aliases_;
};

std::vector<HostTensor> on_host(const std::vector<at::Tensor>& device, bool read);
std::vector<at::Tensor> bytes_of(const std::vector<HostTensor>& tensors);
void write_back(const std::vector<HostTensor>& tensors);

// ---- Work

// A DistBackendError that names the collective, `what`, before the first line of the failure. Other
// types than std::exception are unchanged.
std::exception_ptr described(std::exception_ptr failure, const std::string& what) noexcept;

// The host part. Shared by the queue, which runs it, and the group, which releases it later:
// releasing its tensors may take the interpreter lock and free memory by driver calls.
class HostPart : public std::enable_shared_from_this<HostPart> {
 public:
  explicit HostPart(std::function<void()> body) : body_(std::move(body)) {}

  // Runs on a thread of the driver: never throws, takes no interpreter lock.
  void run() noexcept;
  bool done() const;
  // True once run() has ended, after which the memory of the part is unused.
  bool over() const { return over_; }
  // nullptr while nothing has failed.
  std::exception_ptr failure() const;
  // Waits up to `timeout`; 0: no limit. Returns done().
  bool wait(std::chrono::milliseconds timeout) const;
  // The part that runs on this thread, or nullptr.
  static std::shared_ptr<HostPart> running();
  // Ends it, even while it runs: its result is ignored. `failure`: nullptr for none.
  void finish(std::exception_ptr failure) noexcept;

 private:
  std::function<void()> body_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool done_ = false;
  std::atomic<bool> over_{false};
  std::exception_ptr failure_;
};

class CollectiveWork final : public c10d::Work {
 public:
  // Everything is enqueued on `streams`; `outputs` are on their device.
  CollectiveWork(int rank, c10d::OpType type, std::vector<std::shared_ptr<HostPart>> parts,
                 const std::vector<c10::Stream>& streams, std::vector<at::Tensor> outputs);

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  std::vector<at::Tensor> result() override { return outputs_; }
  // The current stream waits; the caller only with a timeout.
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  void synchronize() override;
  void blockCurrentStream() override { synchronize(); }
  int sourceRank() const override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }

  // Receives from any rank: destination of the source rank.
  std::shared_ptr<int> source;

 private:
  void raise_failure() const;

  const std::vector<std::shared_ptr<HostPart>> parts_;
  std::vector<Event> ends_;
  const std::vector<at::Tensor> outputs_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

}  // namespace outboard::distributed
