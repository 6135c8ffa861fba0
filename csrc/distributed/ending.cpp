// End of groups and their work: failures, abort, shutdown.
#include <algorithm>

#include "distributed/process_group.h"
#include "distributed/stream_pool.h"
#include "runtime/driver/device.h"
#include "runtime/driver/driver_table.h"
#include "runtime/process.h"
#include "runtime/driver/driver_failure.h"

namespace outboard::distributed {
namespace {

// CPU-backend work that was abandoned when a group was aborted, with the parts that own its memory
// and the CPU backend.
struct GivenUp {
  std::mutex mutex;
  std::vector<std::pair<ProcessGroup::WorkPointer, std::shared_ptr<HostPart>>> works;
};

GivenUp& given_up() {
  static auto* instance = new GivenUp;
  return *instance;
}

// Not to be called on a thread of the driver.
void forget_given_up() {
  std::vector<std::pair<ProcessGroup::WorkPointer, std::shared_ptr<HostPart>>> ended;
  GivenUp& all = given_up();
  std::lock_guard<std::mutex> lock(all.mutex);
  const auto open = std::partition(all.works.begin(), all.works.end(),
                                   [](const auto& pair) { return !pair.first->isCompleted(); });
  ended.assign(std::make_move_iterator(open), std::make_move_iterator(all.works.end()));
  all.works.erase(open, all.works.end());
}

}  // namespace

ProcessGroup::~ProcessGroup() {
  forget_given_up();
  // Parts still on queues must not be destroyed on the queues' threads.
  {
    static auto* left = new std::pair<std::mutex, std::vector<std::shared_ptr<HostPart>>>;
    std::lock_guard<std::mutex> lock(left->first);
    auto& parts = left->second;
    for (auto& part : parts_) parts.push_back(std::move(part));
    parts.erase(
        std::remove_if(parts.begin(), parts.end(), [](const auto& part) { return part->over(); }),
        parts.end());
  }
  if (in_bad_fork() || driver_finalized()) return;
  abort();
  for (const auto& [key, stream] : streams_) give_back_stream(stream);
}

void ProcessGroup::State::tell() {
  if (!std::exchange(told, true)) defer_failure(failure);
}

c10d::ErrorType ProcessGroup::getError() {
  std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->failure == nullptr ? c10d::ErrorType::SUCCESS : c10d::ErrorType::COMM_ERROR;
}

void ProcessGroup::abort() {
  std::exception_ptr aborted;
  try {
    TORCH_CHECK_WITH(DistBackendError, false, "group '", name_, "' was aborted on rank ", rank_);
  } catch (...) {
    aborted = std::current_exception();
  }
  {
    std::lock_guard<std::mutex> lock(state_->mutex);
    if (state_->failure == nullptr) state_->failure = aborted;
    state_->aborted = true;
    for (const WorkPointer& message : state_->messages) message->abort();
  }
  state_->changed.notify_all();
  if (communicator_ != nullptr) communicator_->abort();
  // Parts behind other work of their stream would fail late.
  std::vector<std::shared_ptr<HostPart>> parts;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    parts = parts_;
  }
  for (const auto& part : parts) {
    if (part->done()) continue;
    {
      std::lock_guard<std::mutex> lock(state_->mutex);
      state_->tell();
    }
    part->refuse(aborted);
  }
}

void ProcessGroup::finish(const WorkPointer& work) const {
  if (work == nullptr) return;
  const std::shared_ptr<State> state = state_;
  c10::intrusive_ptr<c10::ivalue::Future> future;
  try {
    future = work->getFuture();
  } catch (const c10::Error&) {
    // Messages have no future, but can be aborted.
  }
  if (future == nullptr) {
    {
      std::lock_guard<std::mutex> lock(state->mutex);
      if (state->aborted) std::rethrow_exception(state->failure);
      state->messages.push_back(work);
    }
    std::exception_ptr failure;
    try {
      work->wait();
    } catch (...) {
      failure = std::current_exception();
    }
    std::lock_guard<std::mutex> lock(state->mutex);
    auto& messages = state->messages;
    messages.erase(std::find(messages.begin(), messages.end(), work));
    if (state->aborted) failure = state->failure;
    if (failure != nullptr) std::rethrow_exception(failure);
    return;
  }
  future->addCallback([state](c10::ivalue::Future&) {
    std::lock_guard<std::mutex> lock(state->mutex);
    state->changed.notify_all();
  });
  {
    std::unique_lock<std::mutex> lock(state->mutex);
    state->changed.wait(lock, [&] { return future->completed() || state->aborted; });
    if (!future->completed()) {
      GivenUp& all = given_up();
      std::lock_guard<std::mutex> all_lock(all.mutex);
      all.works.emplace_back(work, HostPart::running());
      std::rethrow_exception(state->failure);
    }
  }
  work->wait();
}

void ProcessGroup::shutdown() {
  std::vector<std::shared_ptr<HostPart>> parts;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    parts.swap(parts_);
  }
  for (const auto& part : parts) part->wait(kNoTimeout);
  abort();
}

}  // namespace outboard::distributed
