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

// Writes a folder from all ranks and renames it to `path` after every rank has succeeded; otherwise removes it. All
// ranks call it. Throws the same fault on every rank if `path` was not written; TP8031 if `path` exists, unless it is
// an empty folder.
//
// The steps run in this order, each after every rank has finished the previous one. A step gets the path of the
// unfinished folder and throws on an error.
// - `prepare`: on rank 0
// - `create`: on every rank
// - `write`: on every rank
// - `exchange`: on every rank; the only step that may call the backend
// - `seal`: on every rank
// - `finish`: on rank 0
//
// Until the rename the content is in a work folder next to `path`, `.NAME.tpplan-XXXXXXXX` (8 hexadecimal digits). It
// contains a mark file, and rank 0 holds a lock on it (flock). A work folder of the same `path` with the mark but
// without a lock is left over from a killed job: it is removed, with a note TP8034 in `Comm::notes`.
struct FolderSteps {
  std::function<void(const std::string&folder)> prepare, create, write, finish;
  std::function<void()> exchange = {};
  std::function<void(const std::string& folder)> seal = {};
};
void write_folder(Comm& comm, const std::string& path, const FolderSteps& steps);

// Writes one file in the same way, and replaces a regular file at `path`. Rank 0 creates the file before the steps; all
// ranks write into it.
void write_file_together(Comm& comm, const std::string& path, const FolderSteps& steps);

}  // namespace tpplan
