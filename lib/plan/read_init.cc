#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>

#include "plan/plan_sections.h"

namespace tpplan {
namespace {

constexpr std::string_view kWithArguments =
    "{constant: 0.5}, {normal: {mean: 0, std: 0.02}}, {uniform: {low: -0.1, high: 0.1}}";

const DistributionRow& row_of(const Distribution& distribution) {
  return distribution_table()[static_cast<size_t>(distribution.kind)];
}

// Reads the named arguments of a distribution. All are required.
void read_arguments(PlanReader& reader, YamlId id, const DistributionRow& row, std::array<double, 2>& arguments) {
  const std::span<const std::string_view> names(row.arguments.data(), row.argument_count);
  size_t given = 0;
  const bool is_map = for_each_entry(
      reader, id, fmt::format("`{}`", row.name),
      [&](YamlId key, YamlId value) {
        const auto at =
            static_cast<size_t>(std::find(names.begin(), names.end(), node_at(reader, key).text) - names.begin());
        if (at == names.size()) return report_unknown_key(reader, key, fmt::format("`{}`", row.name), names);
        ++given;
        read_number(reader, value, fmt::format("`{}`", names[at]), arguments[at]);
      },
      fmt::format("write `{{{}: {{{}: 0, {}: 0.02}}}}`", row.name, names[0], names[1]));
  if (!is_map || given == names.size()) return;
  report_error(reader, Code::MissingPlanField, id, fmt::format("`{}` needs {}", row.name, fmt::join(names, " and ")),
               fmt::format("{{{}: {{{}: 0, {}: 0.02}}}}", row.name, names[0], names[1]));
}

// `zeros`, `{constant: 0.5}`, `{normal: {mean: 0, std: 0.02}}`.
void read_distribution(PlanReader& reader, YamlId id, Distribution& distribution) {
  const YamlNode& node = node_at(reader, id);
  const bool is_map = node.kind == YamlKind::Map;
  if (is_map && node.children.size() != 2) {
    report_error(reader, Code::InvalidPlanValue, id,
                 fmt::format("a distribution is a mapping with {} keys instead of one", node.children.size() / 2),
                 "{normal: {mean: 0, std: 0.02}}");
    return;
  }
  std::vector<std::string_view> names;  // of those that are written in this form
  for (const DistributionRow& row : distribution_table()) {
    if (is_map == (row.argument_count > 0)) names.push_back(row.name);
  }
  const YamlId name = is_map ? node.children[0] : id;
  const std::string& text = node_at(reader, name).text;
  if (find_distribution(text, distribution.kind) && std::find(names.begin(), names.end(), text) == names.end()) {
    report_error(reader, Code::InvalidPlanValue, id,
                 fmt::format("`{}` {}", text, is_map ? "takes no arguments" : "needs arguments"),
                 is_map ? fmt::format("write only `{}`", text) : std::string(kWithArguments));
    return;
  }
  size_t choice = 0;
  if (!read_choice(reader, name, "the distribution", names, choice)) {
    Diagnostic& d = reader.diagnostics.list.back();
    if (d.edits.empty()) d.help = fmt::format("use one of zeros, ones, {}", kWithArguments);
    return;
  }
  const DistributionRow& row = row_of(distribution);
  const size_t faults = reader.diagnostics.list.size();
  if (row.argument_count == 1)
    read_number(reader, node.children[1], fmt::format("`{}`", row.name), distribution.arguments[0]);
  if (row.argument_count == 2) read_arguments(reader, node.children[1], row, distribution.arguments);
  const std::string_view wrong = distribution_error(distribution);
  if (faults == reader.diagnostics.list.size() && !wrong.empty()) {
    report_error(reader, Code::InvalidDistribution, node.children[1], fmt::format("{} in `{}`", wrong, row.name));
  }
}

}  // namespace

void read_init(PlanReader& reader, YamlId id) {
  for_each_entry(
      reader, id, "`init`",
      [&](YamlId key, YamlId value) {
        if (!check_key_length(reader, key)) return;
        InitEntry& entry = reader.plan.init.emplace_back();
        entry.pattern = {node_at(reader, key).text, span_at(reader, key)};
        read_distribution(reader, value, entry.distribution);
      },
      "write a distribution for each pattern: `init: {\"*.norm\": ones}`");
}

}  // namespace tpplan
