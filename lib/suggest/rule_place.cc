#include "suggest/rule_place.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/starred_path.h"
#include "base/text.h"
#include "model/module_kinds.h"
#include "plan/write_plan.h"
#include "resolve/match/glob.h"

namespace tpplan {
namespace {

// Returns the last rule of a block, or of the rules outside blocks if `block` is kNoRule.
RuleId last_rule(const TpPlan& plan, uint32_t block) {
  RuleId last = kNoRule;
  for (RuleId id = 0; id < plan.rules.size(); ++id) {
    if (plan.rules[id].block == block) last = id;
  }
  return last;
}

// Returns a glob of names as a regular expression in which a star matches a number.
std::string as_regex(std::string_view glob) {
  std::string out;
  for (size_t i = 0; i < glob.size(); ++i) {
    const bool is_class = glob[i] == '[' && i + 2 < glob.size();
    const char c = glob[is_class ? i + 1 : i];
    if (c == '*' && !is_class)
      out += "\\d+";
    else if (is_word_char(c) || c == '/')
      out += c;
    else
      out += fmt::format("\\{}", c);
    i += is_class ? 2 : 0;
  }
  return out;
}

std::string joined(const std::vector<std::string_view>& atoms, size_t from, char separator) {
  std::string out;
  for (size_t i = from; i < atoms.size(); ++i) {
    if (i > from) out += separator;
    out += atoms[i];
  }
  return out;
}

// Returns the length of the common prefix of two paths, in names.
size_t common_atoms(const std::vector<std::string_view>& a, const std::vector<std::string_view>& b) {
  size_t count = 0;
  while (count < a.size() && count < b.size() && a[count] == b[count]) ++count;
  return count;
}

// Returns the key with the suffix `replaced` replaced by `other`; empty if the key does not end with `replaced`.
std::string other_end(const TpPlan& plan, std::string_view key, const std::string& replaced, const std::string& other) {
  const std::string end = key_in_dialect(*plan.dialect, glob_of_name(replaced));
  if (replaced.empty() || other.empty() || !key.ends_with(end)) return {};
  const std::string_view before = key.substr(0, key.size() - end.size());
  if (!before.empty() && is_word_char(before.back())) return {};
  return std::string(before) + key_in_dialect(*plan.dialect, glob_of_name(other));
}

// Returns the key with its last name, which may be a pattern, replaced by `leaf`: `*.mlp.w[13]` becomes `*.mlp.w2`.
std::string other_leaf(const TpPlan& plan, std::string_view key, char dot, std::string_view leaf) {
  const std::string between = key_in_dialect(*plan.dialect, std::string(1, dot));
  const size_t at = key.rfind(between);
  return at == std::string_view::npos
             ? std::string{}
             : std::string(key.substr(0, at + between.size())) + key_in_dialect(*plan.dialect, glob_of_name(leaf));
}

}  // namespace

std::string key_in_dialect(const DialectRow& dialect, std::string_view glob) {
  if (dialect.keys == KeySyntax::Regex) return as_regex(glob);
  return dialect.keys_are_names ? name_of_glob(glob) : std::string(glob);
}

std::vector<std::string> first_matched_paths(const TpPlan& plan, const ModelGraph& graph, const MatchTable& matches) {
  std::vector<std::string> firsts(plan.rules.size());
  for (ParamId id = 0; id < matches.params.size(); ++id) {
    const ParamMatch& match = matches.params[id];
    if (match.rule == kNoRule || !firsts[match.rule].empty()) continue;
    const Param& param = graph.params[id];
    firsts[match.rule] = match.by_module ? std::string(graph.modules[param.module].path) : path_of(graph, param);
  }
  for (const BoundaryMatch& match : matches.boundaries) {
    if (firsts[match.rule].empty()) firsts[match.rule] = graph.modules[match.module].path;
  }
  return firsts;
}

std::optional<RulePlace> place_next_to(const TpPlan& plan, const ModelGraph& graph,
                                       const std::vector<std::string>& firsts, std::string_view path) {
  const char dot = separator(graph.framework);
  const std::vector<std::string_view> wanted = split(path, dot);
  std::optional<RulePlace> best;
  size_t most = 0;
  for (RuleId id = 0; id < plan.rules.size(); ++id) {
    if (firsts[id].empty()) continue;
    const std::vector<std::string_view> parts = split(firsts[id], dot);
    const size_t common = common_atoms(parts, wanted);
    if (best && common < most) continue;
    std::string key = other_end(plan, plan.rules[id].key, joined(parts, common, dot), joined(wanted, common, dot));
    if (key.empty() && parts.size() == wanted.size() && common + 1 == parts.size())
      key = other_leaf(plan, plan.rules[id].key, dot, wanted.back());
    if (key.empty()) continue;
    best = {.key = std::move(key), .block = plan.rules[id].block, .after = id};
    most = common;
  }
  return best;
}

RulePlace place_of_key(const TpPlan& plan, const ModelGraph& graph, const DraftKey& key) {
  const auto block = std::ranges::find(plan.blocks, key.block, &ModulePattern::text);
  if (!key.block.empty() && !key.name.empty() && block != plan.blocks.end()) {
    const auto id = static_cast<uint32_t>(block - plan.blocks.begin());
    return {.key = key_in_dialect(*plan.dialect, key.name), .block = id, .after = last_rule(plan, id)};
  }
  std::string path = key.block;
  if (!key.block.empty() && !key.name.empty()) path += separator(graph.framework);
  path += key.name;
  if (plan.dialect->follows_framework) path = starred_path(path);
  return {.key = key_in_dialect(*plan.dialect, path), .block = kNoRule, .after = last_rule(plan, kNoRule)};
}

RulePlace place_of_path(const TpPlan& plan, const ModelGraph& graph, std::string_view path) {
  return place_of_key(plan, graph, {.block = {}, .name = glob_of_name(path)});
}

void add_rule_text(const SourceFile& file, const TpPlan& plan, const RulePlace& place, std::string_view value,
                   const std::vector<std::string>& comments, std::vector<TextEdit>& edits) {
  const std::string& text = file.text;
  const std::string entry = fmt::format("{}: {}", key_text(place.key), value);
  TextEdit lines;
  TextEdit added;
  std::string indent = "  ", head;
  if (place.after != kNoRule) {
    const uint64_t key = plan.rules[place.after].key_span.offset;
    if (!entry_lines(text, key, lines)) {  // the rules are a flow mapping in braces
      edits.push_back({.offset = key, .length = 0, .text = entry + ", "});
      return;
    }
    added.offset = lines.offset + lines.length;
    indent.assign(key - lines.offset, ' ');
  } else {
    const Span& rules = plan.rules_span;
    const bool is_blocks = text.compare(rules.offset, rules.length, "blocks") == 0;
    added.offset = is_blocks ? rules.offset : text.size();
    const bool is_begun = std::ranges::any_of(edits, [](const TextEdit& e) { return e.text.starts_with("tp_plan:"); });
    if (!is_begun) head = "tp_plan:\n";
  }
  added.text = head;
  for (const std::string& comment : comments)
    added.text += fmt::format("{}# {}\n", indent, escape_for_terminal(comment));
  added.text += fmt::format("{}{}\n", indent, entry);
  if (added.offset == text.size() && !text.ends_with('\n')) {
    added.text.pop_back();
    added.text.insert(0, "\n");
  }
  edits.push_back(std::move(added));
}

}  // namespace tpplan
