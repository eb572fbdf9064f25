#include "shards/new_folder.h"

#include <fcntl.h>
#include <spdlog/fmt/fmt.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <tuple>
#include <vector>

#include "base/file_limit.h"
#include "base/long_calls.h"
#include "base/text.h"
#include "base/unfinished.h"
#include "base/write_file.h"
#include "ranks/gather.h"
#include "shards/work_together.h"

namespace tpplan {
namespace {

namespace fs = std::filesystem;

Fault failure(const std::string& path, int error) {
  return {.code = Code::TP8032, .message = error_text(error), .place = path};
}

OutputFile open_output(const std::string& path, int flags) {
  const int fd =
      noted_call("open", path, kNoOffset, [&] { return open(path.c_str(), flags | O_WRONLY | O_CLOEXEC, 0666); });
  if (fd < 0) throw failure(path, errno);
  return {path, std::shared_ptr<int>(new int(fd), [](int* open_fd) {
            close(*open_fd);
            delete open_fd;
          })};
}

// `help` is said of what fails.
void sync_folder(const fs::path& folder, const std::string& help = {}) {
  const std::string path = folder.empty() ? "." : folder.string();
  const auto failed = [&](int error) {
    Fault fault = failure(path, error);
    fault.help = help;
    return fault;
  };
  const int fd =
      noted_call("open", path, kNoOffset, [&] { return open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  if (fd < 0) throw failed(errno);
  const int error = noted_call("fsync", path, kNoOffset, [&] { return fsync(fd); }) == 0 ? 0 : errno;
  close(fd);
  if (error != 0 && error != EINVAL) throw failed(error);
}

constexpr std::string_view kTemporary = ".tmp-";

// Path without a slash at its end, so that a name can be put behind it; a symbolic link stays, and what it names is
// replaced.
std::string bare(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  std::string end = link_end(path);
  if (end.empty()) throw failure(path, errno);
  return end;
}

// A name beside `path` that nothing has yet; throws when `path` itself may not be written.
std::string name_beside(const std::string& path, bool is_folder) {
  std::error_code error;
  begin_call("stat", path);
  const bool is_there = fs::exists(path, error);
  const bool is_taken = is_there && !(is_folder ? fs::is_directory(path, error) && fs::is_empty(path, error)
                                                : fs::is_regular_file(path, error));
  end_call();
  if (is_folder && is_taken)
    throw Fault{.code = Code::TP8031,
                .message = "the folder is there already",
                .help = "name one that is not, or remove it first",
                .place = path};
  if (is_taken)
    throw Fault{.code = Code::TP8031, .message = "it is no regular file", .help = "name another one", .place = path};
  uint32_t number = 0;
  if (getrandom(&number, sizeof number, 0) != sizeof number) throw failure(path, errno);
  return fmt::format("{}{}{:08x}", path, kTemporary, number);
}

// Held for as long as the job writes, by rank 0; the system lets go of it with the process, however that ends. null
// where the file system knows no such locks.
using Lock = std::shared_ptr<int>;

Lock lock_name(const std::string& name) {
  const int fd = noted_call("open", name, kNoOffset, [&] { return open(name.c_str(), O_RDONLY | O_CLOEXEC); });
  if (fd < 0) return nullptr;
  Lock lock(new int(fd), [](int* open_fd) {
    close(*open_fd);
    delete open_fd;
  });
  return flock(fd, LOCK_EX | LOCK_NB) == 0 ? lock : nullptr;
}

// What a job that was killed left beside `path`: it bears a name of name_beside, and nobody holds its lock.
void remove_leftovers(const std::string& path) {
  const std::string begin = fs::path(path).filename().string() + std::string(kTemporary);
  const fs::path folder = fs::path(path).parent_path();
  std::vector<std::string> left;
  std::error_code error;
  begin_call("a look into the folder", path);
  for (fs::directory_iterator at(folder.empty() ? "." : folder, error); !error && at != fs::directory_iterator();
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    const std::string number = name.starts_with(begin) ? name.substr(begin.size(), 8) : "";
    if (number.size() == 8 && number.find_first_not_of("0123456789abcdef") == std::string::npos)
      left.push_back(at->path().string());
  }
  end_call();
  for (const std::string& name : left) {
    if (const Lock lock = lock_name(name)) remove_unfinished(name);
  }
}

void make(const std::string& name, bool is_folder) {
  if (is_folder) {
    if (noted_call("mkdir", name, kNoOffset, [&] { return mkdir(name.c_str(), 0777); }) != 0)
      throw failure(name, errno);
  } else {
    std::ignore = create_file(name);  // empty; it is opened again by its ranks
  }
}

// What rank 0 says of the new name, the others say nothing.
struct NewName {
  std::string name;
  std::optional<Fault> fault;
};
auto members(NewName& name) { return std::tie(name.name, name.fault); }

// Every rank knows the name before there is anything under it, so that whoever is left can remove it. A fault of rank 0
// travels as its answer: thrown there alone, it would leave the others in the gather.
std::string agree_on_name(Comm& comm, const std::string& path, bool is_folder) {
  begin_step(comm, fmt::format("save: making {}", path));
  NewName mine;
  try {
    if (comm.rank == 0) mine.name = name_beside(path, is_folder);
  } catch (...) {
    mine.fault = located(comm, current_fault());
  }
  const NewName agreed = hear_first(comm, mine);
  if (agreed.fault) throw *agreed.fault;
  return agreed.name;
}

// Files are synced by those who write them, then the folder, so that their names last, then the rename by its own
// folder: after a loss of power the final name stands for all of it, or is not there.
void fill(Comm& comm, const std::string& name, const std::string& path, bool is_folder, const FolderSteps& steps) {
  Lock lock;
  const auto step = [&](const char* what, const std::function<void(const std::string&)>& function, bool by_all) {
    if (!function) return;
    const auto work = [&] { function(name); };
    work_together(comm, fmt::format("save: {} {}", what, path),
                  by_all || comm.rank == 0 ? work : std::function<void()>());
  };
  step(
      "preparing",
      [&](const std::string& made) {
        remove_leftovers(path);
        make(made, is_folder);
        lock = lock_name(made);
        if (steps.prepare) steps.prepare(made);
      },
      false);
  step("creating files in", steps.create, true);
  step("writing", steps.write, true);
  if (steps.exchange) {
    begin_step(comm, fmt::format("save: telling each other of {}", path));
    steps.exchange();
  }
  step("sealing", steps.seal, true);
  step("finishing", steps.finish, false);
  step(
      "renaming",
      [&](const std::string& made) {
        if (is_folder) sync_folder(made);
        if (noted_call("rename", path, kNoOffset, [&] { return rename(made.c_str(), path.c_str()); }) != 0)
          throw failure(path, errno);
        sync_folder(fs::path(path).parent_path(),
                    fmt::format("{} stands there whole; whether it outlives a loss of power is not known",
                                escape_for_terminal(path)));
      },
      false);
}

void write_beside(Comm& comm, const std::string& wanted, bool is_folder, const FolderSteps& steps) {
  const std::string path = bare(wanted), name = agree_on_name(comm, path, is_folder);
  const std::shared_ptr<void> guard = guard_unfinished(name);
  try {
    fill(comm, name, path, is_folder, steps);
  } catch (...) {
    // Every rank that is left takes it away; rank 0 may be giving it the final name at this moment, and what has that
    // is whole.
    remove_unfinished(name);
    Fault fault = current_fault();
    // Whose it is, all ranks say alike, for the first that says it speaks for the job.
    const int rank = fault.rank < 0 ? comm.rank : fault.rank;
    const bool is_elsewhere = rank != 0 && fault.place.starts_with(name) && fault.message == std::strerror(ENOENT);
    if (fault.help.empty())
      fault.help = fmt::format(
          "nothing is written at {}{}", escape_for_terminal(path),
          is_elsewhere ? fmt::format("; what rank 0 has made there rank {} does not find: see that both have the same "
                                     "file system there",
                                     rank)
                       : "");
    throw fault;
  }
}

}  // namespace

OutputFile create_file(const std::string& path) { return open_output(path, O_CREAT | O_EXCL); }
OutputFile open_for_writing(const std::string& path) { return open_output(path, 0); }

void write_at(const OutputFile& file, const void* bytes, uint64_t count, uint64_t offset) {
  for (uint64_t done = 0; done < count;) {
    const ssize_t put = noted_call("a write", file.path, offset + done, [&] {
      return pwrite(*file.fd, static_cast<const char*>(bytes) + done, std::min(count - done, kBytesACall),
                    static_cast<off_t>(offset + done));
    });
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) throw failure(file.path, put == 0 ? ENOSPC : errno);
    done += static_cast<uint64_t>(put);
  }
}

// In pieces: fsync of a file that is larger than a disk takes within the deadline would look like one that hangs. What
// they tell of an error fsync does not tell again.
void sync_file(const OutputFile& file) {
  struct stat now {};
  if (noted_call("fstat", file.path, kNoOffset, [&] { return fstat(*file.fd, &now); }) != 0)
    throw failure(file.path, errno);
  constexpr unsigned kAll = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
  for (uint64_t offset = 0; offset < static_cast<uint64_t>(now.st_size); offset += kBytesACall) {
    const int done = noted_call("fsync", file.path, offset, [&] {
      return sync_file_range(*file.fd, static_cast<off64_t>(offset), kBytesACall, kAll);
    });
    if (done != 0 && (errno == EIO || errno == ENOSPC || errno == EDQUOT)) throw failure(file.path, errno);
    if (done != 0) break;  // this file system has no such thing
  }
  if (noted_call("fsync", file.path, kNoOffset, [&] { return fsync(*file.fd); }) != 0) throw failure(file.path, errno);
}

void write_folder(Comm& comm, const std::string& path, const FolderSteps& steps) {
  write_beside(comm, path, true, steps);
}
void write_file_together(Comm& comm, const std::string& path, const FolderSteps& steps) {
  write_beside(comm, path, false, steps);
}

}  // namespace tpplan
