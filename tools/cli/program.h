// Shared by both programs: everything around their commands.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace tpplan {

// The work of `main`. It is in each program's command_line.cc, separate from main.cc, so that tests can run a program
// many times in forks (tests/fork_server.cc).
[[nodiscard]] int program_main(int argc, char** argv);

// Runs a program: turns SIGPIPE and SIGXFSZ into write errors; reports an exception of `run`, escaped, with exit status
// 3; returns at least status 2 if standard output failed, and reports that unless its reader is gone.
[[nodiscard]] int run_program(const char* name, int (*run)(int argc, char** argv), int argc, char** argv);

// For a single-threaded program: when memory is exhausted, the process removes unfinished output
// (base/temporary_files.h) and exits at once with the message and status of run_program. It does not unwind, because
// some libraries would abort, and streams would continue with truncated data.
void end_at_first_shortage(const char* name);

// The commands `completion SHELL` and `man` of both programs.
struct ShellCommands {
  CLI::App* completion = nullptr;
  CLI::App* man = nullptr;
  std::string shell;
};

// Adds the commands `completion` and `man` to `app`. `commands` must outlive the parsing of `app`.
void add_shell_commands(CLI::App& app, ShellCommands& commands);

// True if the line has one of them.
[[nodiscard]] bool is_requested(const ShellCommands& commands);

// Prints the script or the manual page. `files`: its section FILES in roff, or "". Returns false if standard output
// failed.
[[nodiscard]] bool print_for_shell(const CLI::App& app, const ShellCommands& commands, const std::string& version,
                                   const std::string& files);

}  // namespace tpplan
