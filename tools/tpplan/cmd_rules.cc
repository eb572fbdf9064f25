#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>

#include "commands.h"
#include "diagnostics/diagnostics.h"
#include "render/render_parts.h"
#include "text/json_writer.h"

namespace tpplan {
namespace {

void write_rules(JsonWriter& json) {
  begin_array(json);
  for (const DiagnosticKind& kind : diagnostic_kinds()) {
    next_line(json, 1);
    begin_object(json);
    write_field(json, "code", kind.id);
    write_field(json, "name", kind.name);
    write_field(json, "severity", severity_name(kind.severity));
    write_field(json, "title", kind.title);
    end_object(json);
  }
  end_array(json);
}

std::string rules_text() {
  std::string out;
  size_t width = 0;
  for (const DiagnosticKind& kind : diagnostic_kinds()) width = std::max(width, kind.name.size());
  for (const DiagnosticKind& kind : diagnostic_kinds())
    out += fmt::format("{}  {:<7}  {:<{}}  {}\n", kind.id, severity_name(kind.severity), kind.name, width, kind.title);
  return out + "\n`tpplan explain CODE` explains each with an example.\n";
}

}  // namespace

int cmd_rules(const RulesArguments& arguments) {
  const bool printed = arguments.format == "json" ? print_raw(STDOUT_FILENO, json_of(write_rules) + "\n")
                                                  : print(STDOUT_FILENO, rules_text());
  return printed ? kExitFine : kExitUsage;
}

}  // namespace tpplan
