// What both programs do around their commands.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace tpplan {

// All that `main` does. Each program has its own in command_line.cc, apart from main.cc, so that the tests can run a
// program many times without starting it anew (tests/fork_server.cc).
[[nodiscard]] int program_main(int argc, char** argv);

// Around a program's command line: a write to a pipe without a reader, or past a limit of file sizes, is an error and
// no signal; what `run` throws is said, escaped, with exit status 3; lost standard output makes any lower status 2, and
// is said unless its reader is gone.
[[nodiscard]] int run_program(const char* name, int (*run)(int argc, char** argv), int argc, char** argv);

// For a program of one thread that asks for memory: from now on, when there is none, the process ends at once with the
// message and the status that run_program has for it, and what is unfinished is taken away (base/unfinished.h). Nothing
// is unwound: of libraries some would end the process, and streams go on with what fitted as if that were all.
void end_at_first_shortage(const char* name);

// The commands `completion SHELL` and `man`, alike in both programs.
struct ShellCommands {
  CLI::App* completion = nullptr;
  CLI::App* man = nullptr;
  std::string shell;
};

// `commands` must outlive the parsing of `app`.
void add_shell_commands(CLI::App& app, ShellCommands& commands);

// Whether one of them was asked for.
[[nodiscard]] bool is_asked(const ShellCommands& commands);

// Prints what was asked for. `files`: the section FILES of the manual page, in man's roff, or "". False when standard
// output is gone.
[[nodiscard]] bool print_for_shell(const CLI::App& app, const ShellCommands& commands, const std::string& version,
                                   const std::string& files);

}  // namespace tpplan
