#include "apply_settings.h"

#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <tuple>

#include "base/text.h"
#include "manifest/coverage_gate.h"
#include "render/render.h"
#include "repository_path.h"

namespace tpplan {
namespace {

enum class Origin { Default, File, Variable, Flag };

struct GivenCodes {
  Origin origin = Origin::Default;
  std::string name;  // name of the option in its source
  std::vector<Code> codes;
};

std::string check_code(const std::string& name) {
  if (find_kind(name) != nullptr) return "";
  if (name == "warnings" || name == "all")
    return fmt::format("there is no code `{}`; `--strict` makes every warning an error", name);
  return fmt::format("there is no code `{}`; `tpplan rules` lists them", name);
}

// Returns an error text if the name is not the code of a warning, because errors cannot be allowed.
std::string check_allowed(const std::string& name) {
  const DiagnosticKind* kind = find_kind(name);
  if (kind == nullptr || kind->severity == Severity::Warning) return check_code(name);
  return not_allowed(*kind);
}

std::string check_share(const std::string& text) {
  double share = 0;
  return parse_share(text, share) ? "" : fmt::format("`{}` is not {}", text, kShareForm);
}

// Returns the codes of the source with the highest precedence that names any.
GivenCodes given_codes(const CLI::Option& option, const ParsedLine& line, const std::vector<std::string>& given,
                       const std::optional<std::vector<std::string>>& setting) {
  GivenCodes codes_given;
  if (option.count() > 0)
    codes_given.origin = line.from_variables.contains(&option) ? Origin::Variable : Origin::Flag;
  else if (setting)
    codes_given.origin = Origin::File;
  codes_given.name = codes_given.origin == Origin::Variable ? option.get_envname() : option.get_name();
  const std::vector<std::string>& names = codes_given.origin == Origin::File ? *setting : given;
  for (const std::string& name : names) codes_given.codes.push_back(find_kind(name)->code);
  return codes_given;
}

bool names(const GivenCodes& given_codes, Code code) {
  return std::ranges::find(given_codes.codes, code) != given_codes.codes.end();
}

void yield_to(const GivenCodes& stronger, GivenCodes& weaker) {
  if (stronger.origin > weaker.origin) std::erase_if(weaker.codes, [&](Code code) { return names(stronger, code); });
}

template <typename Value>
void fill(const CLI::App& command, const std::string& option, const std::optional<Value>& setting, Value& target) {
  const CLI::Option* known = command.get_option_no_throw(option);
  if (setting && known != nullptr && known->count() == 0) target = *setting;
}

}  // namespace

void add_severity(CLI::App& command, GateArguments& gate) {
  command.add_option("--deny", gate.deny, "report warnings with this code as errors; repeatable")
      ->type_name("CODE")
      ->allow_extra_args(false)
      ->delimiter(',')
      ->check(check_code)
      ->envname("TPPLAN_DENY");
  command.add_option("--allow", gate.allow, "do not report warnings with this code; repeatable")
      ->type_name("CODE")
      ->allow_extra_args(false)
      ->delimiter(',')
      ->check(check_allowed)
      ->envname("TPPLAN_ALLOW");
  command.add_flag("--strict", gate.strict, "report every warning as an error")->envname("TPPLAN_STRICT");
}

void add_max_replicated(CLI::App& command, GateArguments& gate) {
  command
      .add_option("--max-replicated", gate.max_replicated,
                  "maximum share of the model that is replicated on every rank, such as 5%; a larger one is an error "
                  "(default: no limit)")
      ->type_name("SHARE")
      ->check(check_share)
      ->envname("TPPLAN_MAX_REPLICATED");
}

bool load_settings(const std::string& config, std::string& path, Settings& settings) {
  const std::string reason = config.empty() ? find_settings_file(path) : "";
  if (!config.empty()) path = config;
  if (path.empty()) return true;
  SourceFile file{.name = path, .text = {}};
  Diagnostics diagnostics;
  if (reason.empty())
    settings = read_settings(path, !config.empty(), file, diagnostics);
  else
    report_message(diagnostics, Code::FileUnreadable, {file.id, 0, 0},
                   fmt::format("cannot search for the settings file: {}", reason), std::string(kOtherSettings));
  finish_diagnostics(diagnostics);
  file.name = path_in_repository(file.name);
  print_diagnostics(STDERR_FILENO, diagnostics, sources_of(file), ColorChoice::Auto);
  return !has_errors(diagnostics);
}

void apply_settings(const CLI::App& command, const Settings& settings, bool& quiet, std::string& color,
                    std::string& format, std::string& baseline) {
  fill(command, "--quiet", settings.quiet, quiet);
  fill(command, "--color", settings.color, color);
  fill(command, "--format", settings.format, format);
  fill(command, "--baseline", settings.baseline, baseline);
}

bool apply_gate(const CLI::App& command, const ParsedLine& line, const GateArguments& gate, const Settings& settings,
                InputArguments& inputs) {
  inputs.severity.strict = gate.strict;
  fill(command, "--strict", settings.strict, inputs.severity.strict);
  if (!gate.max_replicated.empty())
    std::ignore = parse_share(gate.max_replicated, inputs.max_replicated);  // the option has validated it
  fill(command, "--max-replicated", settings.max_replicated, inputs.max_replicated);
  GivenCodes deny = given_codes(*command.get_option("--deny"), line, gate.deny, settings.deny);
  GivenCodes allow = given_codes(*command.get_option("--allow"), line, gate.allow, settings.allow);
  yield_to(deny, allow);
  yield_to(allow, deny);
  for (const Code code : deny.codes) {
    if (!names(allow, code)) continue;
    usage_error(fmt::format("{} and {} both name {}", deny.name, allow.name, kind_of(code).id));
    return false;
  }
  inputs.severity.deny = deny.codes;
  inputs.severity.allow = allow.codes;
  return true;
}

}  // namespace tpplan
