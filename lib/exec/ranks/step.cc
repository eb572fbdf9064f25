// Step, call count and failure of a rank.
#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>

#include "base/long_calls.h"
#include "base/text.h"
#include "exec/ranks/backend.h"
#include "exec/ranks/roster.h"

namespace tpplan {
namespace {

// Returns the value after "name=" in a comma-separated list; empty if it is missing.
std::string_view value_of(std::string_view list, std::string_view name) {
  for (const std::string_view part : split(list, ',')) {
    if (part.starts_with(name) && part.size() > name.size() && part[name.size()] == '=')
      return part.substr(name.size() + 1);
  }
  return "";
}

// Injects the fault of TPPLAN_EXEC_FAULT in tests, if this is its rank and step.
void inject_error(const Comm& comm) {
  const char* wanted = std::getenv("TPPLAN_EXEC_FAULT");
  if (wanted == nullptr) return;
  if (value_of(wanted, "rank") != std::to_string(comm.rank) ||
      value_of(wanted, "step") != std::to_string(comm.step.number))
    return;
  const std::string_view kind = value_of(wanted, "kind");
  if (kind == "exit") {
    const std::string text =
        fmt::format("rank {} and all other ranks of its process exit at {}\n", comm.rank, to_text(comm.step));
    if (comm.process.size() > 1 && write(STDERR_FILENO, text.data(), text.size()) < 0) _exit(2);
    _exit(1);
  }
  if (kind == "hang") {
    for (;;) pause();
  }
  if (kind == "stuck") {
    begin_call("pause", "");
    for (;;) pause();
  }
  throw Fault{.code = Code::InjectedFailure,
              .message = "TPPLAN_EXEC_FAULT requests this failure",
              .help = "unset TPPLAN_EXEC_FAULT"};
}

}  // namespace

void begin_step(Comm& comm, std::string what) {
  comm.step = {.number = comm.step.number + 1, .what = std::move(what)};
  set_call_place({.rank = comm.rank, .step = to_text(comm.step)});
  if (comm.backend != nullptr) comm.backend->publish_state(comm);
  inject_error(comm);
}

Fault with_rank_and_step(const Comm& comm, Fault fault) {
  if (fault.rank >= 0) return fault;
  fault.rank = comm.rank;
  fault.step = to_text(comm.step);
  return fault;
}

void fail(Comm& comm, Fault fault) {
  if (comm.fault) return;
  comm.fault = with_rank_and_step(comm, std::move(fault));
  if (comm.backend != nullptr) comm.backend->publish_state(comm);
}

void fail(Comm& comm, Code code, std::string message, std::string help) {
  fail(comm, {.code = code, .message = std::move(message), .help = std::move(help)});
}

void throw_if_failed(const Comm& comm, bool done) {
  if (!done) throw *comm.fault;
}

bool enter_call(Comm& comm) {
  if (comm.fault) return false;
  ++comm.calls;
  comm.backend->publish_state(comm);
  return !comm.fault;
}

}  // namespace tpplan
