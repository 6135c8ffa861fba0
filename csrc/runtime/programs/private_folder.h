// Files that only this user can have written: write access to a cache of machine code means code
// execution in this process.
//
// A folder and its files are accepted if they belong to this user or to root and no other user may
// write to them; a group counts as another user. The opened objects are checked, and names are
// resolved within the opened folder, so the folders above do not matter: renaming them brings in
// nothing but files that this user wrote. With `shared`, other users are trusted.
#pragma once

#include <c10/macros/Macros.h>

#include <sys/stat.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/export.h"

namespace outboard {

struct FolderEntry {
  std::string name;
  uint64_t bytes = 0;
  double used = 0;  // time of the last write or read, in seconds since 1970
};

class OUTBOARD_API PrivateFolder {
 public:
  // Opens a folder. `create`: creates a missing one, for this user alone unless `shared`.
  PrivateFolder(const std::string& path, bool shared, bool create = false);
  ~PrivateFolder();
  C10_DISABLE_COPY_AND_ASSIGN(PrivateFolder);

  // Whether the folder exists and is accepted. `problem` says why it is refused; it is "" for a
  // folder that does not exist.
  bool usable() const noexcept { return folder_ >= 0; }
  const std::string& problem() const noexcept { return problem_; }

  // The content of a file, which is marked as used; nothing if it does not exist, or if it is
  // refused and `problem` says why.
  std::optional<std::string> read(const std::string& name, std::string& problem) const;
  // Replaces a file atomically. False on failure.
  bool write(const std::string& name, const std::string& data) const;
  bool remove(const std::string& name) const;
  // Regular files only.
  std::vector<FolderEntry> list() const;
  // Bytes of the files in all folders below, which are caches of compilers of drivers.
  uint64_t bytes_in_folders() const;

  // Locks the folder against other processes; false if one has the lock.
  bool try_lock() const;

 private:
  std::string mistrusted(const struct stat& status) const;

  const std::string path_;
  const bool shared_;
  int folder_ = -1;
  std::string problem_;
};

}  // namespace outboard
