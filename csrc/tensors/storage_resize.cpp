#include "tensors/storage_resize.h"

#include <algorithm>
#include <cstring>

#include "transfer/transfer.h"
#include "dispatch/placement.h"
#include "runtime/memory/caching/caching_allocator.h"
#include "runtime/driver/device.h"
#include "runtime/process.h"
#include "runtime/streams/stream.h"

namespace outboard {

void resize_storage_bytes(c10::StorageImpl* storage, size_t bytes) {
  check_fork();
  TORCH_CHECK(storage->resizable(),
              "Trying to resize storage that is not resizable; it shares memory that something "
              "else owns, so make a copy with clone() first");
  const c10::DeviceIndex device = storage->device().index();
  StreamState& stream = current_stream_state(device);
  c10::DataPtr memory = caching_allocator()->allocate_on(stream, bytes);
  wait_for_new_memory(stream);
  const size_t kept = std::min(bytes, storage->nbytes());
  if (kept > 0) {
    if (shares_host_memory(device)) {
      synchronize_stream(stream);
      std::memcpy(memory.mutable_get(), storage->data(), kept);
    } else {
      enqueue_copy(stream, {device, reinterpret_cast<uint64_t>(memory.get())},
                   {device, reinterpret_cast<uint64_t>(storage->data())},
                   static_cast<int64_t>(kept));
      caching_allocator()->recordStream(storage->data_ptr(), stream.stream());
    }
  }
  storage->set_data_ptr_noswap(std::move(memory));
  storage->set_nbytes(bytes);
}

}  // namespace outboard
