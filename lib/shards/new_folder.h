// Files and folders that are there whole or not at all, written by all ranks of a job together.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "ranks/backend.h"

namespace tpplan {

// A file that is being written; its name is in `path`. Closed with the last copy.
struct OutputFile {
  std::string path;
  std::shared_ptr<int> fd;
};

[[nodiscard]] OutputFile create_file(const std::string& path);       // new; throws TP8032, as all of these
[[nodiscard]] OutputFile open_for_writing(const std::string& path);  // there already
void write_at(const OutputFile& file, const void* bytes, uint64_t count, uint64_t offset);
void sync_file(const OutputFile& file);

// Lets all ranks write into a new folder beside `path`, and renames it to `path` when every rank has succeeded; else
// removes it. What a job that was killed has left of the same `path` is removed first: rank 0 holds a lock (flock) on
// what it writes, and a leftover is what nobody holds one on. `prepare` runs on rank 0 before the others write,
// `create` and, when all have done that, `write` on every rank, `finish` on rank 0 when all have written; they are
// given the new folder and throw what is wrong. Between them, when all have written, `exchange` is called on every rank
// where it may call the backend, and then `seal`. A `path` that is there is refused unless it is an empty folder
// (TP8031). Throws, the same on every rank, when `path` is not there then.
struct FolderSteps {
  std::function<void(const std::string&folder)> prepare, create, write, finish;
  std::function<void()> exchange = {};
  std::function<void(const std::string& folder)> seal = {};
};
void write_folder(Comm& comm, const std::string& path, const FolderSteps& steps);

// The same for one file, which replaces a regular file at `path`. All ranks write into it after rank 0 has made it.
void write_file_together(Comm& comm, const std::string& path, const FolderSteps& steps);

}  // namespace tpplan
