// Runs a program and prints its elapsed seconds, CPU seconds and peak resident MiB. Separate from bench.py, because the
// peak of a child is at least the memory of its parent at the fork, and Python needs more than tpplan.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const auto start = std::chrono::steady_clock::now();
  const pid_t child = fork();
  if (child == 0) {
    const int null = open("/dev/null", O_WRONLY);
    dup2(null, STDOUT_FILENO);
    execvp(argv[1], argv + 1);
    _exit(127);
  }
  int status = 0;
  rusage usage{};
  wait4(child, &status, 0, &usage);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  const auto seconds_of = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  std::printf("%.6f %.6f %.3f\n", seconds.count(), seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime),
              static_cast<double>(usage.ru_maxrss) / 1024);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
