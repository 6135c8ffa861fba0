// Compiled programs on disk, so that the next process need not compile them.
//
// Some drivers (PoCL) add a kernel's machine code to the binary only at its first launch, and again
// for each new work-group size. An entry therefore lists its launches. After a new one, a thread of
// the cache writes the program again, a few seconds later.
//
// Entries are files that appear by renaming, so several processes may share a folder: the last one
// wins, and a reader sees a whole entry or none. Entries with a wrong checksum or the name of
// another key are removed. Folder and entries are read only if no other user can have written them
// (private_folder.h). Beyond the size limit, the least recently used entries are removed.
#pragma once

#include <c10/core/Device.h>
#include <outboard/driver.h>

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/export.h"

namespace outboard {

struct DiskCacheSettings {
  std::string folder;   // created if it does not exist; "": the cache is off
  uint64_t limit = 0;   // bytes of all entries; 0: no limit
  bool shared = false;  // other users who can write to the folder are trusted
};

// Initially the cache is off. Returns why the folder is refused and the cache is off, or "".
OUTBOARD_API std::string configure_disk_cache(DiskCacheSettings settings);

bool disk_cache_is_on() noexcept;

// The key of a program: a checksum of its source with preludes, its options, the device and the
// driver's version.
std::string disk_cache_key(c10::DeviceIndex device, const std::string& source,
                           const std::string& options);

// The binary of an entry; "" if there is none or it is damaged.
std::string disk_cache_read(const std::string& key);
void disk_cache_remove(const std::string& key);

// Notes the first launch of a kernel of `program` on `device` with a work-group size. Cheap; takes
// no lock that a launch needs.
void disk_cache_note_launch(c10::DeviceIndex device, const std::string& key, ob_program program,
                            const std::string& kernel, uint64_t local_size) noexcept;

// Before programs are released: waits until none of them is being written; later writes do not ask
// for their binaries. Launches of programs that are loaded again are noted again.
void disk_cache_forget(const std::vector<ob_program>& programs) noexcept;

// Writes changed entries now, if the cache is on. Programs of devices with
// OB_FEATURE_COMPILER_CACHE are written only if a user `asked` for it.
OUTBOARD_API void flush_disk_cache(bool asked = false) noexcept;
// The same; afterwards the cache does not call the driver.
void close_disk_cache() noexcept;

// Whether a file of the folder is an entry, or a rest of an interrupted write.
OUTBOARD_API bool is_disk_cache_file(const std::string& name) noexcept;

// Number of entries that this process wrote.
OUTBOARD_API uint64_t disk_cache_writes() noexcept;

}  // namespace outboard
