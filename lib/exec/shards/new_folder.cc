#include "exec/shards/new_folder.h"

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
#include "base/read_file.h"
#include "base/shared_fd.h"
#include "base/temporary_files.h"
#include "base/text.h"
#include "base/write_file.h"
#include "exec/ranks/gather.h"
#include "exec/shards/work_together.h"

namespace tpplan {
namespace {

namespace fs = std::filesystem;

Fault failure(const std::string& path, int error) {
  return {.code = Code::OutputNotWritten, .message = errno_text(error), .place = path};
}

OutputFile open_output(const std::string& path, int flags) {
  const int fd = make_registered_call("open", path, kNoOffset,
                                      [&] { return open(path.c_str(), flags | O_WRONLY | O_CLOEXEC, 0666); });
  if (fd < 0) throw failure(path, errno);
  return {path, share_fd(fd)};
}

// Syncs a folder to disk. `help` becomes the help of an error.
void sync_folder(const fs::path& folder, const std::string& help = {}) {
  const std::string path = folder.empty() ? "." : folder.string();
  const auto failed = [&](int error) {
    Fault fault = failure(path, error);
    fault.help = help;
    return fault;
  };
  const int fd = make_registered_call("open", path, kNoOffset,
                                      [&] { return open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  if (fd < 0) throw failed(errno);
  const int error = make_registered_call("fsync", path, kNoOffset, [&] { return fsync(fd); }) == 0 ? 0 : errno;
  close(fd);
  if (error != 0 && error != EINVAL) throw failed(error);
}

// While a job writes PARENT/NAME, its work is in PARENT/.NAME.tpplan-XXXXXXXX: the mark, and what is renamed to NAME.
constexpr std::string_view kMark = "tpplan-unfinished", kContent = "content";
constexpr std::string_view kMarkText = "tpplan: unfinished output\n";
constexpr size_t kNumberDigits = 8;

// Returns the path without trailing slashes. A symbolic link is followed, so that its target is replaced.
std::string bare(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  std::string end = resolve_links(path);
  if (end.empty()) throw failure(path, errno);
  return end;
}

std::string work_prefix(const fs::path& path) { return fmt::format(".{}.tpplan-", path.filename().string()); }

// Returns an unused path for the work folder of `path`. Throws when `path` exists and must not be replaced.
std::string new_work_folder(const std::string& path, bool is_folder) {
  std::error_code error;
  begin_call("stat", path);
  const bool exists = fs::exists(path, error);
  const bool is_taken = exists && !(is_folder ? fs::is_directory(path, error) && fs::is_empty(path, error)
                                              : fs::is_regular_file(path, error));
  end_call();
  if (is_folder && is_taken)
    throw Fault{.code = Code::OutputExists,
                .message = "the folder already exists",
                .help = "choose a new folder, or remove this one first",
                .place = path};
  if (is_taken)
    throw Fault{.code = Code::OutputExists,
                .message = "the path is not a regular file",
                .help = "choose another path",
                .place = path};
  uint32_t number = 0;
  if (getrandom(&number, sizeof number, 0) != sizeof number) throw failure(path, errno);
  return (fs::path(path).parent_path() / fmt::format("{}{:0{}x}", work_prefix(path), number, kNumberDigits)).string();
}

// A lock that rank 0 holds while the job writes; the system releases it when the process ends. null if the file system
// has no such locks.
using Lock = std::shared_ptr<int>;

Lock lock_name(const std::string& name) {
  const int fd =
      make_registered_call("open", name, kNoOffset, [&] { return open(name.c_str(), O_RDONLY | O_CLOEXEC); });
  if (fd < 0) return nullptr;
  Lock lock = share_fd(fd);
  return flock(fd, LOCK_EX | LOCK_NB) == 0 ? lock : nullptr;
}

// True if the name is that of a work folder of `prefix`, as it is written or while it is removed.
bool is_work_name(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return false;
  name.remove_prefix(prefix.size());
  const std::string_view number = name.substr(0, kNumberDigits), rest = name.substr(number.size());
  return number.size() == kNumberDigits && number.find_first_not_of("0123456789abcdef") == std::string_view::npos &&
         (rest.empty() || rest == kRemovedSuffix);
}

// True if this user made the folder as a work folder: a name can be a coincidence, the mark inside cannot.
bool is_marked(const std::string& folder) {
  struct stat status {};
  if (lstat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode) || status.st_uid != geteuid()) return false;
  const ReadResult mark = read_untrusted_file((fs::path(folder) / kMark).string(), kMarkText.size());
  return mark.fault == ReadError::None && mark.file.text == kMarkText;
}

// Removes the work folders of earlier jobs that were killed: those that have the mark and that no process locks.
void remove_leftovers(const std::string& path, std::vector<Fault>& notes) {
  const std::string prefix = work_prefix(path);
  const fs::path folder = fs::path(path).parent_path();
  std::vector<std::string> left;
  std::error_code error;
  begin_call("a folder listing", path);
  for (fs::directory_iterator at(folder.empty() ? "." : folder, error); !error && at != fs::directory_iterator();
       at.increment(error)) {
    if (is_work_name(at->path().filename().string(), prefix) && is_marked(at->path().string()))
      left.push_back(at->path().string());
  }
  end_call();
  for (const std::string& name : left) {
    const Lock lock = lock_name(name);
    if (!lock) continue;
    remove_temporary(name);
    notes.push_back({.code = Code::UnfinishedOutputRemoved,
                     .message = "removed the unfinished output of an earlier job that was killed",
                     .help = fmt::format("nothing to do: this job writes {}", escape_for_terminal(path)),
                     .place = name});
  }
}

// Creates the work folder and returns its lock. The lock is held before the mark exists: otherwise another job that
// writes the same path would treat the folder as a leftover.
Lock make_work_folder(const std::string& path, const std::string& work, const std::string& content, bool is_folder) {
  const auto make_folder = [](const std::string& name, const std::string& place) {
    if (make_registered_call("mkdir", name, kNoOffset, [&] { return mkdir(name.c_str(), 0777); }) != 0)
      throw failure(place, errno);
  };
  make_folder(work, path);
  Lock lock = lock_name(work);
  write_at(create_file((fs::path(work) / kMark).string()), kMarkText.data(), kMarkText.size(), 0);
  if (is_folder)
    make_folder(content, content);
  else
    std::ignore = create_file(content);  // empty; its ranks open it again
  return lock;
}

// The message of rank 0 with the new name; the other ranks send it empty.
struct NewName {
  std::string name;
  std::optional<Fault> fault;
};
auto fields(NewName& name) { return std::tie(name.name, name.fault); }

// Every rank knows the name before the folder exists, so that any surviving rank can remove it. Rank 0 sends its error
// to all ranks: if only rank 0 threw, the others would wait in the collective.
std::string agree_on_name(Comm& comm, const std::string& path, bool is_folder) {
  begin_step(comm, fmt::format("save: making {}", path));
  NewName mine;
  try {
    if (comm.rank == 0) mine.name = new_work_folder(path, is_folder);
  } catch (...) {
    mine.fault = with_rank_and_step(comm, current_error());
  }
  const NewName agreed = receive_from_first(comm, mine);
  if (agreed.fault) throw *agreed.fault;
  return agreed.name;
}

// The ranks sync the files that they write; then rank 0 syncs the folder, renames it and syncs the parent. After a loss
// of power the final name is complete or does not exist.
void fill(Comm& comm, const std::string& work, const std::string& path, bool is_folder, const FolderSteps& steps) {
  const std::string content = (fs::path(work) / kContent).string();
  Lock lock;
  const auto step = [&](const char* what, const std::function<void(const std::string&)>& function, bool by_all) {
    if (!function) return;
    const auto call = [&] { function(content); };
    work_together(comm, fmt::format("save: {} {}", what, path),
                  by_all || comm.rank == 0 ? call : std::function<void()>());
  };
  step(
      "preparing",
      [&](const std::string&) {
        remove_leftovers(path, comm.notes);
        lock = make_work_folder(path, work, content, is_folder);
        if (steps.prepare) steps.prepare(content);
      },
      false);
  step("creating files in", steps.create, true);
  step("writing", steps.write, true);
  if (steps.exchange) {
    begin_step(comm, fmt::format("save: exchanging checksums of {}", path));
    steps.exchange();
  }
  step("sealing", steps.seal, true);
  step("finishing", steps.finish, false);
  step(
      "renaming",
      [&](const std::string&) {
        if (is_folder) sync_folder(content);
        if (make_registered_call("rename", path, kNoOffset, [&] { return rename(content.c_str(), path.c_str()); }) != 0)
          throw failure(path, errno);
        sync_folder(fs::path(path).parent_path(),
                    fmt::format("{} is complete, but may not survive a loss of power", escape_for_terminal(path)));
        remove_temporary(work);
      },
      false);
}

void write_temporary(Comm& comm, const std::string& wanted, bool is_folder, const FolderSteps& steps) {
  const std::string path = bare(wanted), name = agree_on_name(comm, path, is_folder);
  const std::shared_ptr<void> guard = guard_temporary(name);
  try {
    fill(comm, name, path, is_folder, steps);
  } catch (...) {
    // Every surviving rank removes the work folder. If rank 0 is renaming at this moment, the renamed output is
    // complete.
    remove_temporary(name);
    Fault fault = current_error();
    // All ranks name the same rank, because the first report counts for the job.
    const int rank = fault.rank < 0 ? comm.rank : fault.rank;
    const bool is_elsewhere = rank != 0 && fault.place.starts_with(name) && fault.message == std::strerror(ENOENT);
    if (fault.help.empty())
      fault.help = fmt::format(
          "nothing was written to {}{}", escape_for_terminal(path),
          is_elsewhere
              ? fmt::format("; rank {} does not see the files of rank 0: check that both use the same file system",
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
    const ssize_t put = make_registered_call("a write", file.path, offset + done, [&] {
      return pwrite(*file.fd, static_cast<const char*>(bytes) + done, std::min(count - done, kBytesACall),
                    static_cast<off_t>(offset + done));
    });
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) throw failure(file.path, put == 0 ? ENOSPC : errno);
    done += static_cast<uint64_t>(put);
  }
}

// Syncs in chunks: one fsync of a large file could exceed the deadline and look like a hang. sync_file_range reports
// errors that fsync does not report again.
void sync_file(const OutputFile& file) {
  struct stat now {};
  if (make_registered_call("fstat", file.path, kNoOffset, [&] { return fstat(*file.fd, &now); }) != 0)
    throw failure(file.path, errno);
  constexpr unsigned kAll = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
  for (uint64_t offset = 0; offset < static_cast<uint64_t>(now.st_size); offset += kBytesACall) {
    const int done = make_registered_call("fsync", file.path, offset, [&] {
      return sync_file_range(*file.fd, static_cast<off64_t>(offset), kBytesACall, kAll);
    });
    if (done != 0 && (errno == EIO || errno == ENOSPC || errno == EDQUOT)) throw failure(file.path, errno);
    if (done != 0) break;  // this file system does not support it
  }
  if (make_registered_call("fsync", file.path, kNoOffset, [&] { return fsync(*file.fd); }) != 0)
    throw failure(file.path, errno);
}

void write_folder(Comm& comm, const std::string& path, const FolderSteps& steps) {
  write_temporary(comm, path, true, steps);
}
void write_file_together(Comm& comm, const std::string& path, const FolderSteps& steps) {
  write_temporary(comm, path, false, steps);
}

}  // namespace tpplan
