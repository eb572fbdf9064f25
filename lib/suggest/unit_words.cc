#include "suggest/unit_words.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace tpplan {
namespace {

constexpr size_t kCommentWidth = 104;

constexpr std::string_view kReplicatedTexts[] = {"The vocabulary", "Scores",  "An embedding",   "Attention",
                                                 "An MLP",         "Experts", "A single layer", "No known sharding"};
static_assert(std::size(kReplicatedTexts) == static_cast<size_t>(UnitKind::Whole) + 1);

}  // namespace

std::vector<std::string> comment_lines_of(std::string_view text) {
  std::vector<std::string> lines;
  std::string line;
  for (const std::string_view word : split(text, ' ')) {
    if (!line.empty() && line.size() + 1 + word.size() > kCommentWidth) lines.push_back(std::exchange(line, {}));
    if (!line.empty()) line += ' ';
    line += word;
  }
  if (!line.empty()) lines.push_back(std::move(line));
  return lines;
}

std::string unit_comment(const DraftUnit& unit, const UnitStrategy* strategy, std::string_view reason) {
  std::string text;
  if (strategy != nullptr) {
    text = std::string(strategy->comment);
    if (!strategy->is_best && !reason.empty()) text += fmt::format(" Otherwise: {}.", reason);
    if (unit.is_unseen) text += " Based on names, shapes and heads only: the traced run does not reach it.";
    return text;
  }
  const DraftRole role = unit.layers.front().role;
  if (role == DraftRole::Router) return "The router: replicated, so that all ranks send tokens to the same experts.";
  if (role == DraftRole::Table && unit.kind == UnitKind::Whole) return "Replicated: small compared with the others.";
  text = fmt::format("{}: replicated", kReplicatedTexts[static_cast<size_t>(unit.kind)]);
  return reason.empty() ? text + "." : fmt::format("{}, because {}.", text, reason);
}

std::string unverifiable_reason(const ModelGraph& graph, const DraftUnit& unit, const UnitStrategy& strategy) {
  if (graph.operations.is_there && !unit.is_unseen) return {};
  for (const DraftLayer& layer : unit.layers) {
    const bool is_other =
        (layer.role == DraftRole::ExpertsOther && style_of(strategy, layer.role).empty()) ||
        (strategy.by_heads && (layer.role == DraftRole::HeadOther || layer.role == DraftRole::HeadParam));
    if (is_other) return fmt::format("without operations the use of `{}` is unknown", layer.key.name);
  }
  if (!strategy.by_heads) return {};
  for (const DraftLayer& layer : unit.layers) {
    if (layer.role == DraftRole::FullNorm) return fmt::format("`{}` is a norm over all heads", layer.key.name);
  }
  const auto has = [&](DraftRole role) {
    return std::ranges::find(unit.layers, role, &DraftLayer::role) != unit.layers.end();
  };
  if (!has(DraftRole::Out)) return "no layer is known that uses the heads";
  return {};
}

}  // namespace tpplan
