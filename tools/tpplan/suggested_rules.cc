#include "suggested_rules.h"

#include <spdlog/fmt/fmt.h>

#include "base/text.h"
#include "base/unified_diff.h"
#include "render/render.h"
#include "text/json_writer.h"

namespace tpplan {
namespace {

std::string counts_text(const FoundCounts& counts) {
  return fmt::format("{}, {}", counted(counts.errors, "error"), counted(counts.warnings, "warning"));
}

std::string heading(const RuleSuggestion& suggestion) {
  uint64_t parameters = 0, bytes = 0;
  for (const SuggestedRule& rule : suggestion.rules) {
    parameters += rule.parameters;
    bytes += rule.bytes;
  }
  if (suggestion.rules.empty()) return "no rules to suggest\n";
  return fmt::format("{} for {} without one, {}:\n", counted(suggestion.rules.size(), "rule"),
                     counted(parameters, "parameter"), human_bytes(bytes));
}

void write_counts(JsonWriter& json, std::string_view name, const FoundCounts& counts) {
  write_key(json, name);
  begin_object(json);
  write_field(json, "errors", counts.errors);
  write_field(json, "warnings", counts.warnings);
  end_object(json);
}

}  // namespace

RuleSuggestion suggest_for_session(const Session& session, const InputArguments& inputs) {
  MeshSizes sizes;
  if (!mesh_error(inputs.mesh, sizes).empty()) return {};
  Checker checker = make_checker(session.compilation.graph);
  return suggest_rules(checker, session.plan, sizes, walk_options(inputs));
}

std::string suggestion_text(const RuleSuggestion& suggestion, const SourceFile& plan) {
  const std::string name = escape_for_terminal(plan.name);
  std::string out = heading(suggestion) + unified_diff(name, name, plan.text, suggestion.text);
  if (!suggestion.rules.empty())
    out += fmt::format("checked with these rules{}: {}; without them: {}\n",
                       suggestion.is_walked ? ", operation by operation" : ", by names, shapes and heads",
                       counts_text(suggestion.after), counts_text(suggestion.before));
  for (const UncoveredUnit& uncovered_units : suggestion.uncovered_units)
    out += fmt::format("no known rule for `{}`: {}\n", escape_for_terminal(uncovered_units.path),
                       escape_for_terminal(uncovered_units.reason));
  return out;
}

std::string suggestion_field(const RuleSuggestion& suggestion, const SourceFile& plan) {
  return json_of([&](JsonWriter& json) {
    begin_object(json);
    write_key(json, "rules");
    write_array(json, suggestion.rules, [&](const SuggestedRule& rule) {
      begin_object(json);
      if (!rule.block.empty()) write_field(json, "block", rule.block);
      write_field(json, "key", rule.key);
      write_field(json, "treatment", rule.treatment);
      write_field(json, "parameters", rule.parameters);
      write_field(json, "bytes", rule.bytes);
      end_object(json);
    });
    write_key(json, "edits");
    write_edits(json, plan, suggestion.edits);
    write_key(json, "left");
    write_array(json, suggestion.uncovered_units, [&](const UncoveredUnit& uncovered_units) {
      begin_object(json);
      write_field(json, "path", uncovered_units.path);
      write_field(json, "reason", uncovered_units.reason);
      end_object(json);
    });
    write_counts(json, "before", suggestion.before);
    write_counts(json, "after", suggestion.after);
    write_field(json, "walked", suggestion.is_walked);
    end_object(json);
  });
}

}  // namespace tpplan
