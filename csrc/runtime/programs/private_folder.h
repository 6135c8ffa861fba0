// Files that only this user can have written: whoever can write a cache of machine code runs code
// in this process.
//
// A folder and a file in it are taken if they belong to this user or to root, and no other user may
// write to them; a group counts as another user. It is the opened object that is looked at, and
// names are only ever resolved within the opened folder, so the folders above do not matter:
// whoever can rename those can bring in nothing but what the user has written. Where `shared` is
// true, others are trusted.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <vector>

#include "runtime/export.h"

namespace outboard {

struct FolderEntry {
  std::string name;
  uint64_t bytes = 0;  // on disk
  timespec used = {};  // when it was written or read
};

class OUTBOARD_API PrivateFolder {
 public:
  // Opens a folder; with `create` it is made if there is none, for this user alone unless `shared`.
  PrivateFolder(const std::string& path, bool shared, bool create = false);
  ~PrivateFolder();
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;

  // Whether there is one that can be used. If not, `problem` says why as a sentence; it is "" if
  // the folder does not exist.
  bool usable() const noexcept { return folder_ >= 0; }
  const std::string& problem() const noexcept { return problem_; }

  // The content of a file, which is marked as used; nothing if it does not exist or is refused:
  // then `problem` gets the sentence.
  std::optional<std::string> read(const std::string& name, std::string& problem) const;
  // Replaces a file as a whole; readers see the old one or the new one. False if that failed.
  bool write(const std::string& name, const std::string& data) const;
  bool remove(const std::string& name) const;
  // Regular files only.
  std::vector<FolderEntry> list() const;
  // Of the files in all folders below, where compilers of drivers keep what they make.
  uint64_t bytes_in_folders() const;

  // Holds off other processes that ask for the same; false if one has it.
  bool try_lock() const;

 private:
  std::string mistrusted(const struct stat& status) const;

  const std::string path_;
  const bool shared_;
  int folder_ = -1;
  std::string problem_;
};

}  // namespace outboard
