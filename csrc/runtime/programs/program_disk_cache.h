// Compiled programs on disk, so that the next process need not compile them.
//
// Some drivers (PoCL) put a kernel's machine code into the binary only after its first launch, and
// again for each new work-group size. An entry therefore names the launches that it has seen, and a
// program is written again, a little later and on a thread of the cache, when there was a new one.
//
// Entries are files that appear by renaming, so several processes may share a folder: the last one
// wins, and a reader sees a whole entry or none. An entry with a wrong checksum, or under another
// name than its own, is removed. Folder and entries are read only if no other user can have written
// them (private_folder.h). When entries become more than the limit, those go that were not used for
// the longest time.
#pragma once

#include <c10/core/Device.h>
#include <outboard/driver.h>

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/export.h"

namespace outboard {

struct DiskCacheSettings {
  // Of the entries, made when it does not exist; "": nothing is kept.
  std::string folder;
  // Bytes of all entries; 0: no limit.
  uint64_t limit = 0;
  // Others who can write to the folder are trusted.
  bool shared = false;
};

// Initially nothing is kept. Returns why the folder is refused and nothing is kept, or "".
OUTBOARD_API std::string configure_disk_cache(DiskCacheSettings settings);

// Whether compiled programs are kept.
bool disk_cache_keeps() noexcept;

// Of a program: the text with its preludes, the options, the device and the driver's version.
std::string disk_cache_key(c10::DeviceIndex device, const std::string& text,
                           const std::string& options);

// The binary of an entry; "" if there is none or it is damaged.
std::string disk_cache_read(const std::string& key);
void disk_cache_remove(const std::string& key);

// A kernel of `program`, of `device`, was launched for the first time with a work-group size.
// Cheap; keeps no lock that a launch needs.
void disk_cache_note_launch(c10::DeviceIndex device, const std::string& key, ob_program program,
                            const std::string& kernel, uint64_t local_size) noexcept;

// Programs go back to the driver: waits until none of them is being written, and asks for their
// binaries no more. Launches of those that are made again are noted anew.
void disk_cache_forget(const std::vector<ob_program>& programs) noexcept;

// Writes what has changed, now. Does nothing when the cache is off. Programs of devices with
// OB_FEATURE_COMPILER_CACHE are written only if a user `asked` for it.
OUTBOARD_API void flush_disk_cache(bool asked = false) noexcept;
// The same for the last time: afterwards the cache calls the driver no more.
void close_disk_cache() noexcept;

// Whether a file of the folder is an entry, or what is left of a write that was interrupted.
OUTBOARD_API bool is_disk_cache_file(const std::string& name) noexcept;

// How many entries this process wrote.
OUTBOARD_API uint64_t disk_cache_writes() noexcept;

}  // namespace outboard
