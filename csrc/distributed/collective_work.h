// What a collective returns: work on a stream, of which the middle runs on the host.
#pragma once

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "runtime/streams/event.h"
#include "runtime/streams/stream.h"

namespace outboard::distributed {

// A DistBackendError that names the collective, `what`, in front of the first line of the failure.
// What is no std::exception stays as it is.
std::exception_ptr described(std::exception_ptr failure, const std::string& what) noexcept;

// The part on the host. Shared by the queue, which runs it, and the group, which lets go of it
// later: its tensors may belong to objects of Python, whose end takes the interpreter's lock, and
// their memory may go back to the driver.
class HostPart : public std::enable_shared_from_this<HostPart> {
 public:
  explicit HostPart(std::function<void()> body) : body_(std::move(body)) {}

  // On a thread of the driver's: never throws, takes no lock of the interpreter.
  void run() noexcept;
  bool done() const;
  // Whether run() has ended, after which nothing uses the memory of the part.
  bool over() const { return over_; }
  // nullptr as long as nothing failed.
  std::exception_ptr failure() const;
  // Waits at most so long; 0: without an end. Returns whether it is done.
  bool wait(std::chrono::milliseconds timeout) const;
  // The part that runs on this thread, or nullptr.
  static std::shared_ptr<HostPart> running();
  // Ends it with a failure, also while it runs: its result is ignored.
  void refuse(std::exception_ptr failure) noexcept;

 private:
  void finish(std::exception_ptr failure) noexcept;

  std::function<void()> body_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool done_ = false;
  std::atomic<bool> over_{false};
  std::exception_ptr failure_;
};

class CollectiveWork final : public c10d::Work {
 public:
  // Everything is enqueued on `stream`; `outputs` are on its device.
  CollectiveWork(int rank, c10d::OpType type, std::vector<std::shared_ptr<HostPart>> parts,
                 const std::vector<c10::Stream>& streams, std::vector<at::Tensor> outputs);

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  std::vector<at::Tensor> result() override { return outputs_; }
  // The current stream waits, the caller does not, unless a timeout is given.
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  void synchronize() override;
  void blockCurrentStream() override { synchronize(); }
  int sourceRank() const override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }

  // Of receives from any rank: where it is written.
  std::shared_ptr<int> source;

 private:
  void raise_failure() const;

  const std::vector<std::shared_ptr<HostPart>> parts_;
  std::vector<Event> ends_;
  const std::vector<at::Tensor> outputs_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

}  // namespace outboard::distributed
