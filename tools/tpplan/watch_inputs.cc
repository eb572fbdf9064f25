#include "watch_inputs.h"

#include <poll.h>
#include <spdlog/fmt/fmt.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <filesystem>

#include "base/text.h"
#include "settings.h"
#include "timed_step.h"

namespace tpplan {
namespace {

// The state by which a changed file is detected. All missing files have the same state.
struct FileState {
  std::string path;
  dev_t device = 0;
  ino_t number = 0;
  off_t size = 0;
  int64_t seconds = 0, nanoseconds = 0;

  bool operator==(const FileState&) const = default;
};

FileState state_of(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return {.path = path};
  return {.path = path,
          .device = status.st_dev,
          .number = status.st_ino,
          .size = status.st_size,
          .seconds = status.st_mtim.tv_sec,
          .nanoseconds = status.st_mtim.tv_nsec};
}

using States = std::vector<FileState>;

States states_of(const std::vector<std::string>& paths) {
  States states;
  for (const std::string& path : paths) states.push_back(state_of(path));
  return states;
}

void pause_briefly() {
  const timespec pause{.tv_sec = 0, .tv_nsec = 100'000'000};
  nanosleep(&pause, nullptr);
}

bool has_reader() {
  pollfd output{.fd = STDOUT_FILENO, .events = 0, .revents = 0};
  return poll(&output, 1, 0) <= 0 || (output.revents & (POLLERR | POLLNVAL)) == 0;
}

// Waits until a file differs from `before` and two polls see the same state, because a file can be written in several
// calls. Returns false if the reader of standard output is gone.
bool await_change(const std::function<std::vector<std::string>()>& inputs, const States& before) {
  for (;;) {
    if (!has_reader()) return false;
    pause_briefly();
    States now = states_of(inputs());
    if (now == before) continue;
    for (States next = states_of(inputs()); next != now; next = states_of(inputs())) {
      now = std::move(next);
      pause_briefly();
    }
    return true;
  }
}

// Adds the files of a topology's measured steps. The check reports a topology that cannot be read.
void add_measured_steps(const std::string& word, std::vector<std::string>& paths) {
  std::vector<SpeedFile> speeds;
  Diagnostics ignored;
  if (!read_speed_files({word}, 1, speeds, ignored)) return;
  for (const MeasuredStep& step : read_speeds(speeds, Mesh{}, ignored).calibrate) {
    for (const std::string& path : {step.model, step.plan, step.run})
      paths.push_back(measured_path(speeds.front().file.name, path));
  }
}

}  // namespace

std::vector<std::string> watched_inputs(const CheckArguments& arguments, const std::string& config, bool no_config) {
  std::vector<std::string> paths;
  const auto each_once = [&paths] {
    std::ranges::sort(paths);
    paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
    return paths;
  };
  for (const std::string& path : {arguments.inputs.model, arguments.inputs.plan, arguments.baseline, arguments.run}) {
    if (!path.empty()) paths.push_back(path);
  }
  for (const std::string& speeds : arguments.speeds) {
    paths.push_back(speed_path(speeds));
    add_measured_steps(speeds, paths);
  }
  std::string settings_file = config;
  if (!no_config && config.empty()) std::ignore = find_settings_file(settings_file);  // the check reports errors
  if (no_config || settings_file.empty()) return each_once();
  paths.push_back(settings_file);
  SourceFile file;
  Diagnostics ignored;
  const Settings settings = read_settings(settings_file, !config.empty(), file, ignored);
  if (settings.baseline) paths.push_back(*settings.baseline);
  if (arguments.inputs.model.empty()) {
    const std::vector<std::string> found = project_files(settings.project);
    paths.insert(paths.end(), found.begin(), found.end());
  }
  return each_once();
}

bool run_at_each_change(const std::function<std::vector<std::string>()>& inputs, int& status) {
  for (;;) {
    const States before = states_of(inputs());
    const pid_t self = getpid(), child = fork();
    if (child == 0) {  // ends with the process that watches, also while it waits for a pipe
      prctl(PR_SET_PDEATHSIG, SIGTERM);
      if (getppid() != self) _exit(kExitInternal);
      return true;
    }
    if (child < 0) {
      status = usage_error(fmt::format("--watch: cannot start a process: {}", std::strerror(errno)));
      return false;
    }
    int ended = 0;
    while (waitpid(child, &ended, 0) < 0 && errno == EINTR) continue;
    status = WIFEXITED(ended) ? WEXITSTATUS(ended) : kExitInternal;
    if (before.empty()) return false;  // no file to watch, and the check has reported it
    print(STDERR_FILENO,
          fmt::format("exit status {}; {} watched, press Ctrl-C to stop\n", status, counted(before.size(), "file")));
    if (!await_change(inputs, before)) return false;
    if (isatty(STDOUT_FILENO) != 0) print_raw(STDOUT_FILENO, "\x1b[H\x1b[2J\x1b[3J");
  }
}

}  // namespace tpplan
