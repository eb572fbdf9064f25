#include "program.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <new>

#include "base/temporary_files.h"
#include "base/text.h"
#include "describe_app.h"
#include "parse_line.h"
#include "terminal.h"

namespace tpplan {

namespace {

constexpr int kInternal = 3;

// Returns the exit status, at least 2 if standard output failed. Reports the failure unless its reader closed the pipe.
int with_lost_output(const char* name, int status) {
  if (lost_output() == 0) return status;
  if (lost_output() != EPIPE)
    print(STDERR_FILENO,
          std::string(name) + ": error: cannot write to standard output: " + std::strerror(lost_output()) + "\n");
  return std::max(status, kWrongLine);
}

// Reports that memory is exhausted, without allocating.
void report_shortage(const char* name) {
  print_raw(STDERR_FILENO, name);
  print_raw(STDERR_FILENO, ": error[TP9001]: out of memory\n");
}

const char* short_program = "";

[[noreturn]] void end_for_shortage() {
  std::set_new_handler(nullptr);
  try {
    remove_all_temporary();
  } catch (const std::exception&) {  // no memory to list a folder, which keeps its temporary name
  }
  report_shortage(short_program);
  _exit(kInternal);
}

}  // namespace

void end_at_first_shortage(const char* name) {
  short_program = name;
  std::set_new_handler(end_for_shortage);
}

int run_program(const char* name, int (*run)(int argc, char** argv), int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    return with_lost_output(name, run(argc, argv));
  } catch (const std::bad_alloc&) {
    report_shortage(name);
  } catch (const std::exception& error) {
    print(STDERR_FILENO, std::string(name) + ": internal error: " + escape_for_terminal(error.what()) + "\n");
  }
  return kInternal;
}

void add_shell_commands(CLI::App& app, ShellCommands& commands) {
  commands.completion = app.add_subcommand("completion", "print a completion script for a shell");
  commands.completion->add_option("SHELL", commands.shell, "shell of the script: bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  commands.man = app.add_subcommand("man", "print the manual page");
}

bool is_requested(const ShellCommands& commands) { return *commands.completion || *commands.man; }

bool print_for_shell(const CLI::App& app, const ShellCommands& commands, const std::string& version,
                     const std::string& files) {
  const CommandDescription program = describe_app(app);
  return print_raw(STDOUT_FILENO, *commands.completion ? completion_script(program, commands.shell)
                                                       : manual_page(program, version, app.get_footer(), files));
}

}  // namespace tpplan
