#include "manifest/rule_facts.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/keyed_hash.h"
#include "base/text.h"

namespace tpplan {
namespace {

constexpr std::string_view kSeparators = "./";

// Calls visit(path) for each module that contains the parameter. Skips modules that it shares with the previous
// parameter `before`, because they were visited then.
template <typename Visit>
void for_each_module_around(std::string_view path, std::string_view before, Visit visit) {
  const size_t alike = static_cast<size_t>(std::ranges::mismatch(path, before).in1 - path.begin());
  for (size_t end = path.find_last_of(kSeparators); end != std::string_view::npos && end >= alike;
       end = end == 0 ? std::string_view::npos : path.find_last_of(kSeparators, end - 1))
    visit(path.substr(0, end));
}

bool has_dim(const ParamLayout& layout, std::string_view name) {
  return std::ranges::find(layout.dims, name) != layout.dims.end();
}

// Returns the counter for a parameter's kind. A linear or embedding without named dims counts as `other`.
uint64_t KindCounts::*kind_of(const ParamLayout& layout) {
  const bool is_named = has_dim(layout, "out") && (layout.shape.size() < 2 || has_dim(layout, "in"));
  if (layout.kind != "norm" && !is_named) return &KindCounts::other;
  const auto* const kind =
      std::ranges::find(kHeldKinds, layout.kind, &std::pair<std::string_view, uint64_t KindCounts::*>::first);
  return kind == std::end(kHeldKinds) ? &KindCounts::other : kind->second;
}

}  // namespace

std::vector<KindCounts> count_module_kinds(const Manifest& manifest) {
  std::vector<uint64_t> uses(manifest.layouts.size());
  for (const ManifestParam& param : manifest.parameters) ++uses[param.layout];
  std::vector<KindCounts> held(manifest.rules.size());
  for (size_t i = 0; i < uses.size(); ++i) {
    const ParamLayout& layout = manifest.layouts[i];
    if (layout.rule != kNoManifestRule) held[layout.rule].*kind_of(layout) += uses[i];
  }
  return held;
}

std::vector<uint64_t> count_empty_modules(const Manifest& manifest, const ManifestPaths& paths,
                                          const std::vector<bool>& has_params) {
  std::vector<uint64_t> bare(manifest.rules.size());
  TextMap<std::string_view, bool> is_bare;
  std::vector<uint32_t> searched;
  for (uint32_t i = 0; i < manifest.modules.size(); ++i) {
    if (!has_params.empty() && has_params[i]) continue;
    searched.push_back(i);
    is_bare.try_emplace(paths.module(i), true);
  }
  if (is_bare.empty()) return bare;
  std::string before;
  for (uint32_t i = 0; i < manifest.parameters.size(); ++i) {
    const std::string_view path = paths.parameter(i);
    for_each_module_around(path, before, [&](std::string_view module) {
      if (const auto found = is_bare.find(module); found != is_bare.end()) found->second = false;
    });
    before = path;
  }
  if (const auto root = is_bare.find(std::string_view()); root != is_bare.end())
    root->second = manifest.parameters.empty();
  for (const uint32_t i : searched)
    bare[layout_of(manifest, manifest.modules[i]).rule] += is_bare.find(paths.module(i))->second;
  return bare;
}

std::string to_text(const std::vector<RuleValue>& values, std::string_view side) {
  std::string text;
  for (const RuleValue& value : values) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", side,
                        value.kwarg.empty() ? std::to_string(value.arg) : escape_for_terminal(value.kwarg));
    if (value.use_local) text += *value.use_local ? " as a local tensor" : " as a DTensor";
  }
  return text.empty() ? fmt::format("no {}", side) : text;
}

}  // namespace tpplan
