// Reports which backends can be used on this machine, and what the others need.
#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>

#include "commands.h"
#include "exec/ranks/rank_checks.h"
#include "terminal.h"
#include "text/json_writer.h"

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
  JsonWriter out;
  begin_object(out);
  next_line(out, 2);
  write_field(out, "version", kExecVersion);
  next_line(out, 2);
  write_key(out, "checks");
  begin_array(out);
  for (const Check& check : checks) {
    next_line(out, 4);
    begin_object(out);
    write_field(out, "name", check.name);
    write_field(out, "state", state_text(check.state));
    write_field(out, "found", check.found);
    write_field(out, "remedy", check.remedy);
    end_object(out);
  }
  next_line(out, 2);
  end_array(out);
  next_line(out, 0);
  end_object(out);
  return out.out + '\n';
}

}  // namespace

int cmd_doctor(const JobArguments& job) {
  std::vector<Check> checks = rank_checks(std::getenv);
  const bool works = checks.front().state == CheckState::Ok;  // `local`, which has no requirements
  std::ranges::move(cuda_checks(), std::back_inserter(checks));
  job.json ? print_raw(STDOUT_FILENO, json(checks)) : print(STDOUT_FILENO, human(checks));
  return works ? 0 : 1;
}

}  // namespace tpplan
