#include "git_file.h"

#include <fcntl.h>
#include <spawn.h>
#include <spdlog/fmt/fmt.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <new>
#include <system_error>
#include <utility>
#include <vector>

#include "base/text.h"

namespace tpplan {
namespace {

struct GitRun {
  int error_number = 0;  // errno if git could not be started (ENOENT: not installed) or its output not read
  bool too_large = false;
  int status = -1;  // git's exit status
  std::string out, error;
};

// Stores the first error. Throws std::bad_alloc if memory is exhausted.
void note_error(GitRun& run, int error) {
  if (error == ENOMEM) throw std::bad_alloc();
  if (run.error_number == 0) run.error_number = error;
}

// Reads a descriptor to its end. Stops as soon as the text is longer than `limit`.
std::string drain(GitRun& run, int fd, uint64_t limit) {
  std::string text;
  char buffer[1 << 16];
  while (text.size() <= limit) {
    const ssize_t got = read(fd, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) note_error(run, errno);
    if (got <= 0) break;
    text.append(buffer, static_cast<size_t>(got));
  }
  return text;
}

// Starts git with these output descriptors. If any step fails, git is not started, so that it never uses other streams.
pid_t start_git(GitRun& run, std::vector<std::string>& words, int out, int error) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  note_error(run, posix_spawn_file_actions_init(&actions));
  if (run.error_number != 0) return 0;
  note_error(run, posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0));
  note_error(run, posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO));
  note_error(run, posix_spawn_file_actions_adddup2(&actions, error, STDERR_FILENO));
  pid_t process = 0;
  if (run.error_number == 0)
    note_error(run, posix_spawnp(&process, "git", &actions, nullptr, arguments.data(), environ));
  posix_spawn_file_actions_destroy(&actions);
  return run.error_number == 0 ? process : 0;
}

// Waits for a process. Returns its exit status; -1 if it was killed or the status is unknown.
int await(GitRun& run, pid_t process) {
  int status = 0;
  pid_t ended = 0;
  while ((ended = waitpid(process, &status, 0)) < 0 && errno == EINTR) {
  }
  if (ended < 0) note_error(run, errno);
  return ended == process && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// Runs git with these arguments in a folder, with empty standard input.
GitRun run_git(const std::string& folder, std::vector<std::string> words, uint64_t limit) {
  constexpr uint64_t kMaxMessage = uint64_t{64} << 10;
  words.insert(words.begin(), {"git", "-C", folder});
  GitRun run;
  int ends[2];
  const int error = memfd_create("git", MFD_CLOEXEC);
  if (error < 0 || pipe2(ends, O_CLOEXEC) != 0) {
    note_error(run, errno);
    if (error >= 0) close(error);
    return run;
  }
  const pid_t process = start_git(run, words, ends[1], error);
  close(ends[1]);
  if (process > 0) {
    run.out = drain(run, ends[0], limit);
    run.too_large = run.out.size() > limit;
    if (run.too_large || run.error_number != 0) kill(process, SIGKILL);
    run.status = await(run, process);
    if (lseek(error, 0, SEEK_SET) != 0) note_error(run, errno);
    run.error = drain(run, error, kMaxMessage);
  }
  close(ends[0]);
  close(error);
  return run;
}

// Returns the first line of git's error output, without the prefix "fatal: " or "error: ".
std::string first_line(std::string_view text) {
  text = text.substr(0, text.find('\n'));
  for (const std::string_view word : {"fatal: ", "error: "}) {
    if (text.starts_with(word)) text.remove_prefix(word.size());
  }
  return std::string(text);
}

std::string trimmed(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  return text;
}

GitFile not_requested(int error) {
  return {.text = {}, .fault = GitError::NotRequested, .reason = std::strerror(error)};
}

}  // namespace

bool is_git_ref(std::string_view ref) { return !ref.empty() && !ref.starts_with('-'); }

GitFile read_git_file(const std::string& path, const std::string& ref, uint64_t limit) {
  constexpr uint64_t kMostNamed = uint64_t{64} << 10;
  std::error_code failed;
  const std::filesystem::path file = std::filesystem::weakly_canonical(path, failed);
  if (failed == std::errc::not_enough_memory) throw std::bad_alloc();
  if (failed) return not_requested(failed.value());
  const std::string folder = file.has_parent_path() ? file.parent_path().string() : ".";
  const GitRun inside = run_git(folder, {"rev-parse", "--show-prefix"}, kMostNamed);
  if (inside.error_number == ENOENT) return {.text = {}, .fault = GitError::NoGit, .reason = {}};
  if (inside.error_number != 0) return not_requested(inside.error_number);
  if (inside.status != 0) return {.text = {}, .fault = GitError::NoRepository, .reason = first_line(inside.error)};
  const GitRun commit = run_git(folder, {"rev-parse", "--verify", "--quiet", ref + "^{commit}"}, kMostNamed);
  if (commit.error_number != 0) return not_requested(commit.error_number);
  if (commit.status != 0) return {.text = {}, .fault = GitError::NoCommit, .reason = first_line(commit.error)};
  GitRun blob = run_git(
      folder, {"cat-file", "blob", fmt::format("{}:./{}", trimmed(commit.out), file.filename().string())}, limit);
  if (blob.error_number != 0) return not_requested(blob.error_number);
  if (blob.too_large) return {.text = {}, .fault = GitError::TooLarge, .reason = {}};
  if (blob.status != 0) return {.text = {}, .fault = GitError::NotThere, .reason = first_line(blob.error)};
  return {.text = std::move(blob.out), .fault = GitError::None, .reason = {}};
}

GitWords describe(const GitFile& file, const std::string& path, const std::string& ref, uint64_t limit) {
  const std::string git_reason = file.reason.empty() ? "" : fmt::format(" (git: {})", file.reason);
  switch (file.fault) {
    case GitError::None:
      break;
    case GitError::NotRequested:
      return {fmt::format("cannot query git for the file: {}", file.reason), ""};
    case GitError::NoGit:
      return {"cannot start `git`", "install git, or pass two files: `tpplan diff MODEL OLD NEW`"};
    case GitError::NoRepository:
      return {"the file is not in a git repository" + git_reason,
              "pass two files instead of --base: `tpplan diff MODEL OLD NEW`"};
    case GitError::NoCommit:
      return {fmt::format("the file's repository has no commit `{}`{}", ref, git_reason),
              "list local commits with `git log --oneline --all`; for a remote one, run `git fetch --depth 1 origin "
              "BRANCH` and pass FETCH_HEAD"};
    case GitError::NotThere:
      return {fmt::format("the file is not in commit `{}`", ref),
              fmt::format("list the commits that changed it with `git log --oneline -- {}`", path)};
    case GitError::TooLarge:
      return {fmt::format("in commit `{}` the file is larger than {}", ref, human_bytes(limit)), ""};
  }
  return {};
}

}  // namespace tpplan
