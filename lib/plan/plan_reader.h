// The state that the readers of a plan's sections share, and readers of single values.
#pragma once

#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "diagnostics/diagnostics.h"
#include "plan/tp_plan.h"
#include "text/yaml_tree.h"

namespace tpplan {

struct PlanReader {
  const YamlTree& tree;
  TpPlan& plan;
  Diagnostics& diagnostics;
  AxisId axis = kNoAxis;  // the plan's `axis`
  std::string axis_name = "tp";
  bool axis_is_wrong = false;  // `axis` is invalid, and an error was reported
};

const YamlNode& node_at(const PlanReader& reader, YamlId id);
[[nodiscard]] Span span_at(const PlanReader& reader, YamlId id);

Diagnostic& report_error(PlanReader& reader, Code code, YamlId id, std::string message, std::string help = {});

// Reports an unknown key with the nearest known one. `known`: the valid keys in this mapping.
void report_unknown_key(PlanReader& reader, YamlId key, std::string_view where,
                        std::span<const std::string_view> known);

// Adds an edit to the last diagnostic: it replaces the value by `text`. Has no effect if the text is empty.
void propose_edit(PlanReader& reader, YamlId id, std::string_view text);
[[nodiscard]] std::string did_you_mean(std::string_view text);

// The readers below return false after reporting an invalid value. `what` names the value in messages.

// Checks the kind of a node. `help`: the form of a valid value (default: derived from the node).
[[nodiscard]] bool expect(PlanReader& reader, YamlId id, YamlKind kind, std::string_view what,
                          std::string_view help = {});

// True for a plain scalar that YAML reads as a number.
[[nodiscard]] bool is_yaml_number(const YamlNode& node);

// Checks that a node is a name: a scalar that no YAML reader interprets as a boolean or a number.
[[nodiscard]] bool expect_name(PlanReader& reader, YamlId id, std::string_view what,
                               std::string_view help = "quote it if it is a name");

// Reads a plain decimal integer from `minimum` to `maximum`.
bool read_integer(PlanReader& reader, YamlId id, std::string_view what, int64_t minimum, int64_t& value,
                  Code code = Code::InvalidPlanValue, int64_t maximum = std::numeric_limits<int64_t>::max());
bool read_number(PlanReader& reader, YamlId id, std::string_view what, double& value);
bool read_bool(PlanReader& reader, YamlId id, std::string_view what, bool& value);

// Reads one of `names` as its index.
[[nodiscard]] bool read_choice(PlanReader& reader, YamlId id, std::string_view what,
                               std::span<const std::string_view> names, size_t& choice);

bool read_axis(PlanReader& reader, YamlId id, std::string_view what, AxisId& axis);
// Returns the list of axes for a help text.
[[nodiscard]] std::string axes_help(const PlanReader& reader);

// The maximum length of a key or pattern. Module paths have about a hundred bytes.
inline constexpr size_t kMaxKeyBytes = 4096;

// Checks that a key or pattern has at most kMaxKeyBytes bytes.
[[nodiscard]] bool check_key_length(PlanReader& reader, YamlId id);

void read_patterns(PlanReader& reader, YamlId id, std::string_view what, std::vector<ModulePattern>& patterns);

// Returns the items of a list; a single value is a list of one.
[[nodiscard]] std::vector<YamlId> items_of(const PlanReader& reader, YamlId id);

struct YamlEntry {
  YamlId key = kNoYaml, value = kNoYaml;
};

// Returns the entry of a map; kNoYaml twice if there is none.
[[nodiscard]] YamlEntry find_entry(const PlanReader& reader, YamlId map, std::string_view key);

// Calls `visit(key, value)` for each entry of a map. Returns false if the node is not a map.
template <typename Visit>
bool for_each_entry(PlanReader& reader, YamlId id, std::string_view what, Visit visit, std::string_view help = {}) {
  if (!expect(reader, id, YamlKind::Map, what, help)) return false;
  const std::vector<YamlId>& children = node_at(reader, id).children;
  for (size_t i = 0; i + 1 < children.size(); i += 2) visit(children[i], children[i + 1]);
  return true;
}

}  // namespace tpplan
