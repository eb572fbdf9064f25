// Says what of this machine the backends can use, and what to do about the rest.
#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>

#include "base/text.h"
#include "commands.h"
#include "ranks/rank_checks.h"
#include "terminal.h"

namespace tpplan {
namespace {

std::string_view state_text(CheckState state) {
  switch (state) {
    case CheckState::Ok:
      return "ok";
    case CheckState::Missing:
      return "missing";
    case CheckState::Absent:
      return "absent";
  }
  return "";
}

std::string human(const std::vector<Check>& checks) {
  size_t width = 0;
  for (const Check& check : checks) width = std::max(width, check.name.size());
  std::string out = fmt::format("{}\n", kExecVersion);
  for (const Check& check : checks) {
    out += fmt::format("  {:<7}  {:<{}}  {}\n", state_text(check.state), check.name, width, check.found);
    if (!check.remedy.empty()) out += fmt::format("  {:<7}  {:<{}}  -> {}\n", "", "", width, check.remedy);
  }
  return out;
}

std::string json(const std::vector<Check>& checks) {
  std::string out = "{\n  \"version\": ";
  append_json_string(out, kExecVersion);
  out += ",\n  \"checks\": [";
  for (size_t i = 0; i < checks.size(); ++i) {
    out += i == 0 ? "\n    {\"name\": " : ",\n    {\"name\": ";
    append_json_string(out, checks[i].name);
    out += fmt::format(", \"state\": \"{}\", \"found\": ", state_text(checks[i].state));
    append_json_string(out, checks[i].found);
    out += ", \"remedy\": ";
    append_json_string(out, checks[i].remedy);
    out += '}';
  }
  return out + "\n  ]\n}\n";
}

}  // namespace

int cmd_doctor(const JobArguments& job) {
  std::vector<Check> checks = rank_checks(std::getenv);
  const bool works = checks.front().state == CheckState::Ok;  // `local`, which needs nothing
  std::ranges::move(cuda_checks(), std::back_inserter(checks));
  print(STDOUT_FILENO, job.json ? json(checks) : human(checks));
  return works ? 0 : 1;
}

}  // namespace tpplan
