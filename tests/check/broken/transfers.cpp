// Faults of copies and fills.
#include "broken.h"

#include <cstdlib>

using namespace broken;

using Copy2d = decltype(ob_driver::copy_host_to_device_2d);

FAULT("odd_sizes_lose_a_byte") {
  table.copy_host_to_device = [](void*, ob_queue queue, ob_address destination, const void* source,
                                 uint64_t bytes) {
    const bool odd = bytes > 1 && bytes % 2 != 0;
    return BASE(copy_host_to_device, queue, destination, source, bytes - odd);
  };
}
FAULT("copies_write_whole_words") {
  table.copy_host_to_device = [](void*, ob_queue queue, ob_address destination, const void* source,
                                 uint64_t bytes) {
    const ob_status status = BASE(copy_host_to_device, queue, destination, source, bytes);
    const uint64_t more = (4 - bytes % 4) % 4;
    if (status == OB_OK && more != 0) BASE(fill, queue, destination + bytes, "\0", 1, more);
    return status;
  };
}
FAULT("offsets_are_rounded_down") {
  table.copy_device_to_device = [](void*, ob_queue queue, ob_address destination, ob_address source,
                                   uint64_t bytes) {
    return BASE(copy_device_to_device, queue, destination, source / 4 * 4, bytes);
  };
}
FAULT("device_offsets_are_rounded_down") {
  table.copy_device_to_host = [](void*, ob_queue queue, void* destination, ob_address source,
                                 uint64_t bytes) {
    const uint64_t wrong = bytes < 100 ? source % 4 : 0;
    return BASE(copy_device_to_host, queue, destination, source - wrong, bytes);
  };
}
FAULT("beyond_64_mib_is_lost") {
  table.copy_host_to_device = [](void*, ob_queue queue, ob_address destination, const void* source,
                                 uint64_t bytes) {
    const uint64_t most = 64u << 20;
    return BASE(copy_host_to_device, queue, destination, source, bytes < most ? bytes : most);
  };
}
FAULT("copies_of_2_gib_are_dropped") {
  table.copy_host_to_device = [](void*, ob_queue queue, ob_address destination, const void* source,
                                 uint64_t bytes) {
    const auto size = static_cast<int32_t>(bytes);
    if (size <= 0) return ob_status(OB_OK);
    return BASE(copy_host_to_device, queue, destination, source, static_cast<uint64_t>(size));
  };
}
FAULT("fills_of_2_gib_are_cut") {
  table.fill = [](void*, ob_queue queue, ob_address destination, const void* pattern,
                  uint32_t pattern_bytes, uint64_t bytes) {
    const uint64_t most = 1u << 31;
    return BASE(fill, queue, destination, pattern, pattern_bytes, bytes < most ? bytes : most);
  };
}
FAULT("patterns_of_16_bytes_are_halved") {
  table.fill = [](void*, ob_queue queue, ob_address destination, const void* pattern,
                  uint32_t pattern_bytes, uint64_t bytes) {
    return BASE(fill, queue, destination, pattern, pattern_bytes == 16 ? 8 : pattern_bytes, bytes);
  };
}
FAULT("pattern_is_read_later") {
  struct Late {
    ob_queue queue;
    char* destination;
    const char* pattern;
    uint32_t pattern_bytes;
    uint64_t bytes;
  };
  table.fill = [](void*, ob_queue queue, ob_address destination, const void* pattern,
                  uint32_t pattern_bytes, uint64_t bytes) {
    if (pattern_bytes != 2) return BASE(fill, queue, destination, pattern, pattern_bytes, bytes);
    auto* late = new Late{queue, reinterpret_cast<char*>(destination),
                          static_cast<const char*>(pattern), pattern_bytes, bytes};
    const auto run = [](void* argument) {
      auto* late = static_cast<Late*>(argument);
      for (uint64_t i = 0; i < late->bytes; ++i) {
        late->destination[i] = late->pattern[i % late->pattern_bytes];
      }
      delete late;
    };
    return BASE(host_callback, queue, run, late);
  };
}
FAULT("peer_copies_do_nothing") {
  table.copy_peer = [](void*, ob_queue, int32_t, ob_address, int32_t, ob_address, uint64_t) {
    return ob_status(OB_OK);
  };
}
FAULT("pitches_are_swapped") {
  table.copy_host_to_device_2d = [](void*, ob_queue queue, ob_address destination,
                                    uint64_t destination_pitch, const void* source,
                                    uint64_t source_pitch, uint64_t row_bytes, uint64_t rows) {
    const bool fits = destination_pitch >= source_pitch;
    return BASE(copy_host_to_device_2d, queue, destination, fits ? source_pitch : destination_pitch,
                source, fits ? source_pitch : destination_pitch, row_bytes, rows);
  };
}
FAULT("rows_write_between_them") {
  table.copy_device_to_host_2d = [](void*, ob_queue queue, void* destination,
                                    uint64_t destination_pitch, ob_address source,
                                    uint64_t source_pitch, uint64_t row_bytes, uint64_t rows) {
    if (rows > 1 && source_pitch == destination_pitch && row_bytes < source_pitch) {
      const uint64_t bytes = (rows - 1) * source_pitch + row_bytes;
      return BASE(copy_device_to_host, queue, destination, source, bytes);
    }
    return BASE(copy_device_to_host_2d, queue, destination, destination_pitch, source, source_pitch,
                row_bytes < destination_pitch && rows > 1 ? row_bytes + 1 : row_bytes, rows);
  };
}
FAULT("last_row_is_lost") {
  table.copy_device_to_device_2d = [](void*, ob_queue queue, ob_address destination,
                                      uint64_t destination_pitch, ob_address source,
                                      uint64_t source_pitch, uint64_t row_bytes, uint64_t rows) {
    return BASE(copy_device_to_device_2d, queue, destination, destination_pitch, source,
                source_pitch, row_bytes, rows > 1 ? rows - 1 : rows);
  };
}
FAULT("copies_wait") {
  table.copy_device_to_host = [](void*, ob_queue queue, void* destination, ob_address source,
                                 uint64_t bytes) {
    const ob_status status = BASE(copy_device_to_host, queue, destination, source, bytes);
    return status == OB_OK ? BASE(queue_synchronize, queue) : status;
  };
}
FAULT("host_memory_is_read_later") {
  // Copies of 4 MiB run on a thread that the queue does not wait for.
  table.copy_host_to_device = [](void*, ob_queue queue, ob_address destination, const void* source,
                                 uint64_t bytes) {
    if (bytes != (4u << 20)) return BASE(copy_host_to_device, queue, destination, source, bytes);
    struct Late {
      char* destination;
      const void* source;
    };
    auto* late = new Late{reinterpret_cast<char*>(destination), source};
    pthread_t thread;
    pthread_create(
        &thread, nullptr,
        [](void* argument) -> void* {
          auto* late = static_cast<Late*>(argument);
          sleep_ms(1);
          std::memcpy(late->destination, late->source, 4u << 20);
          delete late;
          return nullptr;
        },
        late);
    pthread_detach(thread);
    return ob_status(OB_OK);
  };
}
FAULT("features_lie") {
  table.device_properties = [](void*, int32_t device, ob_device_properties* properties) {
    const ob_status status = BASE(device_properties, device, properties);
    properties->features |= OB_FEATURE_HOST_MEMORY_IS_DEVICE_MEMORY;
    return status;
  };
}
