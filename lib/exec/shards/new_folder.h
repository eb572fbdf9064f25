// Files and folders that all ranks of a job write together and that appear atomically.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "exec/ranks/backend.h"

namespace tpplan {

// A file that is open for writing. The last copy closes it.
struct OutputFile {
  std::string path;
  std::shared_ptr<int> fd;
};

[[nodiscard]] OutputFile create_file(const std::string& path);       // a new file; all of these throw TP8032
[[nodiscard]] OutputFile open_for_writing(const std::string& path);  // an existing file
void write_at(const OutputFile& file, const void* bytes, uint64_t count, uint64_t offset);
void sync_file(const OutputFile& file);

// Lets all ranks write a folder and renames it to `path` when every rank has succeeded, else removes it. Until then it
// is in a work folder next to `path`, `.NAME.tpplan-XXXXXXXX` (8 hexadecimal digits), which holds a mark and which rank
// 0 locks (flock). Work folders of the same `path` that have the mark and no lock are left from jobs that were killed:
// they are removed, each with a note TP8034 in `Comm::notes`; nothing else ever is. `prepare` runs on rank 0 before the
// others write, `create` and, when all have done that, `write` on every rank, `finish` on rank 0 when all have written;
// they are given the unfinished folder and throw what is wrong. Between them, when all have written, `exchange` is
// called on every rank where it may call the backend, and then `seal`. A `path` that exists is rejected unless it is an
// empty folder (TP8031). Throws the same on every rank if `path` was not written.
struct FolderSteps {
  std::function<void(const std::string&folder)> prepare, create, write, finish;
  std::function<void()> exchange = {};
  std::function<void(const std::string& folder)> seal = {};
};
void write_folder(Comm& comm, const std::string& path, const FolderSteps& steps);

// Writes one file in the same way; it replaces a regular file at `path`. All ranks write into it after rank 0 has
// created it.
void write_file_together(Comm& comm, const std::string& path, const FolderSteps& steps);

}  // namespace tpplan
