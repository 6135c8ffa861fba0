// Copies and fills. A 1-D copy is one row of a 2-D copy.
#include <algorithm>
#include <array>
#include <cstring>

#include "ocl.h"

namespace ocl {
namespace {

using drivers::extent;

// Shared virtual memory knows no rectangles.
void copy_rows(ob_queue queue, void* destination, uint64_t destination_pitch, const void* source,
               uint64_t source_pitch, uint64_t row_bytes, uint64_t rows) {
  if (destination_pitch == row_bytes && source_pitch == row_bytes) {
    row_bytes *= rows;
    rows = 1;
  }
  const OpenCL* api = queue->device.api;
  for (uint64_t row = 0; row < rows; ++row) {
    enqueue(queue, "clEnqueueSVMMemcpy", [=](cl_command_queue commands, cl_event* event) {
      return api->clEnqueueSVMMemcpy(
          commands, CL_FALSE, static_cast<char*>(destination) + row * destination_pitch,
          static_cast<const char*>(source) + row * source_pitch, row_bytes, 0, nullptr, event);
    });
  }
}

void copy_bytes(ob_queue queue, const Location& destination, const Location& source,
                uint64_t bytes) {
  if (destination.buffer == nullptr) {
    copy_rows(queue, destination.pointer, bytes, source.pointer, bytes, bytes, 1);
    return;
  }
  const OpenCL* api = queue->device.api;
  enqueue(queue, "clEnqueueCopyBuffer", [=](cl_command_queue commands, cl_event* event) {
    return api->clEnqueueCopyBuffer(commands, source.buffer, destination.buffer, source.offset,
                                    destination.offset, bytes, 0, nullptr, event);
  });
}

// The origin of rows for OpenCL's copies of rectangles.
using Origin = std::array<size_t, 3>;

Origin origin_of(const Location& location, uint64_t pitch) {
  return {location.offset % pitch, location.offset / pitch, 0};
}

// Between a buffer and the host. A read always has an event, because the reader is about to wait.
void copy_buffer(ob_queue queue, bool writes, const Location& location, uint64_t pitch, void* host,
                 uint64_t host_pitch, uint64_t row_bytes, uint64_t rows) {
  const OpenCL* api = queue->device.api;
  if (rows == 1) {
    const auto copy = writes ? api->clEnqueueWriteBuffer : api->clEnqueueReadBuffer;
    enqueue(
        queue, writes ? "clEnqueueWriteBuffer" : "clEnqueueReadBuffer",
        [=](cl_command_queue commands, cl_event* event) {
          return copy(commands, location.buffer, CL_FALSE, location.offset, row_bytes, host, 0,
                      nullptr, event);
        },
        !writes);
    return;
  }
  const auto copy = writes ? api->clEnqueueWriteBufferRect : api->clEnqueueReadBufferRect;
  const Origin origin = origin_of(location, pitch), region = {row_bytes, rows, 1};
  enqueue(queue, writes ? "clEnqueueWriteBufferRect" : "clEnqueueReadBufferRect",
          [=](cl_command_queue commands, cl_event* event) {
            constexpr size_t kHostOrigin[] = {0, 0, 0};
            return copy(commands, location.buffer, CL_FALSE, origin.data(), kHostOrigin,
                        region.data(), pitch, 0, host_pitch, 0, host, 0, nullptr, event);
          });
}

void fill_aligned(ob_queue queue, const Location& location, const void* pattern,
                  uint32_t pattern_bytes, uint64_t bytes) {
  const OpenCL* api = queue->device.api;
  std::array<unsigned char, 16> kept = {};
  std::memcpy(kept.data(), pattern, pattern_bytes);
  enqueue(queue, "clEnqueueFillBuffer or clEnqueueSVMMemFill",
          [=](cl_command_queue commands, cl_event* event) {
            if (location.buffer == nullptr) {
              return api->clEnqueueSVMMemFill(commands, location.pointer, kept.data(),
                                              pattern_bytes, bytes, 0, nullptr, event);
            }
            return api->clEnqueueFillBuffer(commands, location.buffer, kept.data(), pattern_bytes,
                                            location.offset, bytes, 0, nullptr, event);
          });
}

Location operator+(Location location, uint64_t bytes) {
  location.offset += bytes;
  location.pointer = static_cast<char*>(location.pointer) + bytes;
  return location;
}

// OpenCL fills only at multiples of the pattern's size. Elsewhere the first pattern is written byte
// by byte, and copies double it.
void fill_unaligned(ob_queue queue, const Location& location, const void* pattern,
                    uint32_t pattern_bytes, uint64_t bytes) {
  for (uint32_t i = 0; i < pattern_bytes; ++i) {
    fill_aligned(queue, location + i, static_cast<const char*>(pattern) + i, 1, 1);
  }
  for (uint64_t done = pattern_bytes; done < bytes; done *= 2) {
    copy_bytes(queue, location + done, location, std::min(done, bytes - done));
  }
}

}  // namespace

ob_status copy_host_to_device_2d(ob_queue queue, ob_address destination, uint64_t destination_pitch,
                                 const void* source, uint64_t source_pitch, uint64_t row_bytes,
                                 uint64_t rows) {
  const Location to =
      locate(queue->device, destination, extent(destination_pitch, row_bytes, rows));
  check_host_range(source, extent(source_pitch, row_bytes, rows));
  if (to.buffer == nullptr) {
    copy_rows(queue, to.pointer, destination_pitch, source, source_pitch, row_bytes, rows);
  } else {
    copy_buffer(queue, /*writes=*/true, to, destination_pitch, const_cast<void*>(source),
                source_pitch, row_bytes, rows);
  }
  return OB_OK;
}

ob_status copy_device_to_host_2d(ob_queue queue, void* destination, uint64_t destination_pitch,
                                 ob_address source, uint64_t source_pitch, uint64_t row_bytes,
                                 uint64_t rows) {
  const Location from = locate(queue->device, source, extent(source_pitch, row_bytes, rows));
  check_host_range(destination, extent(destination_pitch, row_bytes, rows));
  if (from.buffer == nullptr) {
    copy_rows(queue, destination, destination_pitch, from.pointer, source_pitch, row_bytes, rows);
  } else {
    copy_buffer(queue, /*writes=*/false, from, source_pitch, destination, destination_pitch,
                row_bytes, rows);
  }
  return OB_OK;
}

ob_status copy_device_to_device_2d(ob_queue queue, ob_address destination,
                                   uint64_t destination_pitch, ob_address source,
                                   uint64_t source_pitch, uint64_t row_bytes, uint64_t rows) {
  const Location to =
      locate(queue->device, destination, extent(destination_pitch, row_bytes, rows));
  const Location from = locate(queue->device, source, extent(source_pitch, row_bytes, rows));
  if (to.buffer == nullptr) {
    copy_rows(queue, to.pointer, destination_pitch, from.pointer, source_pitch, row_bytes, rows);
    return OB_OK;
  }
  // Within one buffer OpenCL wants both pitches to be the same.
  if (rows == 1 || (to.buffer == from.buffer && destination_pitch != source_pitch)) {
    for (uint64_t row = 0; row < rows; ++row) {
      copy_bytes(queue, to + row * destination_pitch, from + row * source_pitch, row_bytes);
    }
    return OB_OK;
  }
  const Origin to_origin = origin_of(to, destination_pitch);
  const Origin from_origin = origin_of(from, source_pitch), region = {row_bytes, rows, 1};
  const OpenCL* api = queue->device.api;
  enqueue(queue, "clEnqueueCopyBufferRect", [=](cl_command_queue commands, cl_event* event) {
    return api->clEnqueueCopyBufferRect(commands, from.buffer, to.buffer, from_origin.data(),
                                        to_origin.data(), region.data(), source_pitch, 0,
                                        destination_pitch, 0, 0, nullptr, event);
  });
  return OB_OK;
}

ob_status copy_host_to_device(ob_queue queue, ob_address destination, const void* source,
                              uint64_t bytes) {
  return copy_host_to_device_2d(queue, destination, bytes, source, bytes, bytes, 1);
}

ob_status copy_device_to_host(ob_queue queue, void* destination, ob_address source,
                              uint64_t bytes) {
  return copy_device_to_host_2d(queue, destination, bytes, source, bytes, bytes, 1);
}

ob_status copy_device_to_device(ob_queue queue, ob_address destination, ob_address source,
                                uint64_t bytes) {
  return copy_device_to_device_2d(queue, destination, bytes, source, bytes, bytes, 1);
}

ob_status fill(ob_queue queue, ob_address destination, const void* pattern, uint32_t pattern_bytes,
               uint64_t bytes) {
  drivers::check_pattern(pattern_bytes, bytes);
  const Location location = locate(queue->device, destination, bytes);
  if (destination % pattern_bytes == 0) {
    fill_aligned(queue, location, pattern, pattern_bytes, bytes);
  } else {
    fill_unaligned(queue, location, pattern, pattern_bytes, bytes);
  }
  return OB_OK;
}

// ---- Copies between devices
//
// Devices that share the host's memory reach each other's; all others go through pinned memory of
// the host.

namespace {

void order(ob_queue earlier, ob_queue later) { wait_for(later, mark(earlier), earlier->device); }

void copy_through_host(ob_queue queue, Device& destination_device, ob_address destination,
                       Device& source_device, ob_address source, uint64_t bytes) {
  void* staging = nullptr;
  const ob_host_allocation wanted = {sizeof wanted, bytes};
  host_allocate(&wanted, &staging);
  const bool queue_reads = &queue->device == &source_device;
  // A queue of the other device for this copy, so that it waits for no other work there.
  const auto helper = make_queue(queue_reads ? destination_device : source_device, 0);
  try {
    if (queue_reads) {
      copy_device_to_host(queue, staging, source, bytes);
      order(queue, helper.get());
      copy_host_to_device(helper.get(), destination, staging, bytes);
      order(helper.get(), queue);
    } else {
      order(queue, helper.get());
      copy_device_to_host(helper.get(), staging, source, bytes);
      order(helper.get(), queue);
      copy_host_to_device(queue, destination, staging, bytes);
    }
    run_after(mark(queue), *queue->device.api, [staging] {
      try {
        host_deallocate(staging);
      } catch (const Failure&) {
        // Memory leaks; the failure cannot be reported.
      }
    });
  } catch (...) {
    // Enqueued copies may still use the memory.
    try {
      queue_synchronize(helper.get());
      queue_synchronize(queue);
      host_deallocate(staging);
    } catch (const Failure&) {
      // The first failure is the one to report.
    }
    throw;
  }
}

bool reach_each_other(const Device& one, const Device& other) {
  return one.memory == MemoryKind::kShared && other.memory == MemoryKind::kShared;
}

}  // namespace

ob_status peer_access(int32_t index, int32_t peer, int32_t* direct) {
  *direct = reach_each_other(device_at(index), device_at(peer)) ? 1 : 0;
  return OB_OK;
}

ob_status copy_peer(ob_queue queue, int32_t destination_device, ob_address destination,
                    int32_t source_device, ob_address source, uint64_t bytes) {
  drivers::check_peers(queue->device.index, destination_device, source_device);
  Device& to_device = device_at(destination_device);
  Device& from_device = device_at(source_device);
  if (&to_device == &from_device) return copy_device_to_device(queue, destination, source, bytes);
  const Location to = locate(to_device, destination, bytes);
  const Location from = locate(from_device, source, bytes);
  if (bytes == 0) fail(OB_INVALID_ARGUMENT, "A copy of 0 bytes.");
  if (reach_each_other(to_device, from_device)) {
    copy_rows(queue, to.pointer, bytes, from.pointer, bytes, bytes, 1);
  } else {
    {
      std::lock_guard lock(queue->mutex);
      check_not_recording(queue, "copies between devices that do not reach each other's memory");
    }
    copy_through_host(queue, to_device, destination, from_device, source, bytes);
  }
  return OB_OK;
}

void set_transfer_functions(ob_driver& table) {
  OB_SET(table, copy_host_to_device);
  OB_SET(table, copy_device_to_host);
  OB_SET(table, copy_device_to_device);
  OB_SET(table, copy_host_to_device_2d);
  OB_SET(table, copy_device_to_host_2d);
  OB_SET(table, copy_device_to_device_2d);
  OB_SET(table, fill);
  OB_SET(table, peer_access);
  OB_SET(table, copy_peer);
}

}  // namespace ocl
