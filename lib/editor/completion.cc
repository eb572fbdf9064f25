#include "editor/completion.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/keyed_hash.h"
#include "base/path_patterns.h"
#include "base/starred_path.h"
#include "base/text.h"
#include "plan/dialects.h"
#include "plan/write_plan.h"
#include "resolve/match/glob.h"
#include "sharding/tensor_size.h"
#include "styles/explain_style.h"

namespace tpplan {
namespace {

constexpr size_t kMostItems = 500;

struct Gathered {
  CompletionPath item;
  std::vector<std::string> paths;
};

void gather(std::vector<Gathered>& all, TextMap<std::string, size_t>& places, std::string_view path,
            const CompletionPath& like) {
  std::string stars = starred_path(path);
  const auto [place, is_new] = places.try_emplace(stars, all.size());
  if (is_new) {
    all.push_back({like, {}});
    all.back().item.stars = std::move(stars);
  }
  Gathered& found = all[place->second];
  found.item.is_block |= like.is_block;
  if (found.item.type.empty()) found.item.type = like.type;
  if (found.paths.empty() || found.paths.back() != path) found.paths.emplace_back(path);
}

// Adds every repeated module above the path: the ancestors whose last path part is a number.
void gather_blocks(std::vector<Gathered>& all, TextMap<std::string, size_t>& places, std::string_view path,
                   char separator) {
  for (size_t end = path.find(separator); end != std::string_view::npos; end = path.find(separator, end + 1)) {
    const std::string_view prefix = path.substr(0, end);
    if (is_digits(prefix.substr(prefix.rfind(separator) + 1))) gather(all, places, prefix, {.is_block = true});
  }
}

// ---- the context of the cursor ----

size_t indent_of(std::string_view line) { return std::min(line.find_first_not_of(' '), line.size()); }

bool is_blank_or_comment(std::string_view line) {
  const size_t first = line.find_first_not_of(" \t");
  return first == std::string_view::npos || line[first] == '#';
}

// Returns the key at the beginning of a line; empty if there is none.
std::string_view key_of(std::string_view line) {
  line.remove_prefix(indent_of(line));
  if (!line.empty() && (line[0] == '"' || line[0] == '\'')) {
    const size_t end = line.find(line[0], 1);
    return end == std::string_view::npos ? std::string_view{} : line.substr(1, end - 1);
  }
  const size_t colon = line.find(':');
  return colon == std::string_view::npos ? std::string_view{} : line.substr(0, colon);
}

// Returns the keys of the mappings that contain a line, outermost first.
std::vector<std::string_view> keys_above(const TextLines& lines, size_t line, size_t indent) {
  std::vector<std::string_view> keys;
  while (line > 0 && indent > 0) {
    const std::string_view above = line_text(lines, --line);
    if (is_blank_or_comment(above) || indent_of(above) >= indent) continue;
    indent = indent_of(above);
    keys.insert(keys.begin(), key_of(above));
  }
  return keys;
}

const DialectRow& dialect_of(const TextLines& lines) {
  for (size_t line = 0; line < lines.begins.size(); ++line) {
    std::string_view text = line_text(lines, line);
    if (!text.starts_with("dialect:")) continue;
    text.remove_prefix(8);
    for (const DialectRow* row : dialect_table()) {
      const size_t at = text.find(row->name);
      if (at != std::string_view::npos && text.find_first_not_of(" \"'") == at) return *row;
    }
  }
  return *dialect_table().front();
}

// ---- the completions ----

void add_styles(const DialectRow& dialect, Completion& completion) {
  for (const StyleRow& row : style_table()) {
    if ((row.sets & dialect.styles) == 0) continue;
    completion.items.push_back({.kind = CompletionItem::Kind::Style,
                                .label = std::string(row.name),
                                .detail = "style",
                                .text = std::string(row.name),
                                .documentation = fmt::format("```\n{}```\n", explain_style(row.name).value_or("")),
                                .filter = std::string(row.name)});
  }
}

// Returns a star pattern as a key of the dialect: the same glob, or a regular expression.
std::string as_key(const DialectRow& dialect, std::string_view stars) {
  if (dialect.keys == KeySyntax::Glob) return std::string(stars);
  std::string key;
  for (const char c : stars) {
    if (c == '*')
      key += "\\d+";
    else if (is_word_char(c) || c == '/' || c == '-')
      key += c;
    else
      key += fmt::format("\\{}", c);
  }
  return key;
}

// Returns the YAML text of a key: the rest of a quoted text if a quote is open, else a complete key. Empty if single
// quotes cannot represent it.
std::string as_yaml(std::string_view key, char quote) {
  if (quote == '\0') return key_text(key);
  const std::string text = quoted_text(key);
  if (quote == '"') return text.substr(1, text.size() - 2);
  std::string doubled;
  for (const char c : key) doubled.append(c == '\'' ? 2 : 1, c);
  const auto escaped = static_cast<size_t>(std::ranges::count_if(key, [](char c) { return c == '"' || c == '\\'; }));
  return text.size() == key.size() + escaped + 2 ? doubled : std::string();
}

// Returns the path relative to the outermost module that the block's pattern matches; empty if none matches.
std::string_view below_block(const Glob& block, std::string_view stars, char separator) {
  for (size_t end = stars.find(separator); end != std::string_view::npos; end = stars.find(separator, end + 1)) {
    if (matches_glob(block, stars.substr(0, end))) return stars.substr(end + 1);
  }
  return {};
}

struct KeyPlace {
  const DialectRow& dialect;
  char separator;
  char quote;                 // the open quote before the cursor; '\0' without one
  std::string_view typed;     // typed part of the key
  std::optional<Glob> block;  // the enclosing block; keys are relative to it
  bool names_blocks = false;  // keys are patterns of blocks
};

bool fits(const KeyPlace& place, const CompletionPath& item) {
  if (place.names_blocks) return item.is_block;
  if (item.is_block && item.type.empty()) return false;
  const KeyTargets targets = place.dialect.targets;
  return item.shape.empty() ? targets != KeyTargets::Parameters : targets != KeyTargets::Modules;
}

void add_paths(const KeyPlace& place, const std::vector<CompletionPath>& items, Completion& completion) {
  for (const CompletionPath& item : items) {
    if (!fits(place, item)) continue;
    const std::string_view stars = place.block ? below_block(*place.block, item.stars, place.separator) : item.stars;
    if (stars.empty()) continue;
    const std::string key = place.names_blocks ? std::string(stars) : as_key(place.dialect, stars);
    const std::string text = as_yaml(key, place.quote);
    const bool has = std::ranges::any_of(completion.items, [&](const CompletionItem& i) { return i.label == key; });
    if (has || text.empty()) continue;
    if (completion.items.size() == kMostItems) {
      completion.is_incomplete = true;
      if (!key.starts_with(place.typed)) continue;
      std::erase_if(completion.items, [&](const CompletionItem& i) { return !i.label.starts_with(place.typed); });
      if (completion.items.size() == kMostItems) return;
    }
    const std::string what = item.shape.empty() ? escape_for_terminal(item.type) : item.shape;
    completion.items.push_back({.kind = CompletionItem::Kind::Path,
                                .label = key,
                                .detail = item.count == 1 ? what : fmt::format("{} x {}", item.count, what),
                                .text = text,
                                .documentation = fmt::format("```\n{}\n```\n", escape_for_terminal(item.ranged)),
                                .filter = key});
  }
}

}  // namespace

std::vector<CompletionPath> completion_paths(const ModelGraph& graph) {
  std::vector<Gathered> all;
  TextMap<std::string, size_t> places;
  const char sign = separator(graph.framework);
  for (const Module& module : graph.modules) {
    if (module.param_count == 0) continue;
    gather_blocks(all, places, module.path, sign);
    if (!module.path.empty()) gather(all, places, module.path, {.type = type_of(graph, module)});
    for (const Param& param : params_of(graph, module))
      gather(all, places, path_of(graph, param), {.shape = shape_text(shape_of(graph, param))});
  }
  std::vector<CompletionPath> items;
  for (Gathered& found : all) {
    const std::vector<std::string_view> views(found.paths.begin(), found.paths.end());
    const std::vector<PathPattern> patterns = path_patterns(views);
    found.item.count = found.paths.size();
    for (const PathPattern& pattern : patterns)
      found.item.ranged += (found.item.ranged.empty() ? "" : "\n") + pattern.text;
    items.push_back(std::move(found.item));
  }
  return items;
}

Completion complete_plan(const TextLines& lines, size_t offset, const std::vector<CompletionPath>& items,
                         char separator) {
  Completion completion{.begin = offset};
  const size_t line = position_of(lines, offset).line;
  const std::string_view before = lines.text.substr(lines.begins[line], offset - lines.begins[line]);
  if (before.find_first_not_of(" ") != std::string_view::npos && before[before.find_first_not_of(" ")] == '#')
    return completion;
  const size_t indent = indent_of(before);
  const std::vector<std::string_view> keys = keys_above(lines, line, indent);
  if (keys.empty() || (keys[0] != "tp_plan" && keys[0] != "blocks")) return completion;
  const bool in_blocks = keys[0] == "blocks";
  const DialectRow& dialect = dialect_of(lines);
  if (dialect.keys == KeySyntax::Names) return completion;  // keys are dim names, not paths
  // After a colon: completes a style if the key is a rule's or `style`.
  size_t begin = before.size();
  while (begin > 0 && is_word_char(before[begin - 1])) --begin;
  const size_t colon = before.find_last_not_of(' ', begin == 0 ? std::string_view::npos : begin - 1);
  const bool after_colon = begin > 0 && colon != std::string_view::npos && before[colon] == ':' &&
                           colon + 1 < before.size() && colon + 1 <= begin && before[colon + 1] == ' ';
  if (after_colon) {
    const bool is_open = before.find('{') != std::string_view::npos;
    const bool of_style = before.substr(0, colon).ends_with("style");
    const size_t rule_depth = in_blocks ? 2 : 1;
    if (is_open || keys.size() > rule_depth ? !of_style : keys.size() < rule_depth) return completion;
    completion.begin = offset - (before.size() - begin);
    add_styles(dialect, completion);
    return completion;
  }
  // Otherwise: completes a key.
  std::string_view typed = before.substr(indent);
  const char quote = !typed.empty() && (typed[0] == '"' || typed[0] == '\'') ? typed[0] : '\0';
  if (quote != '\0') typed.remove_prefix(1);
  const std::string_view ends = quote == '\0' ? std::string_view(": {") : std::string_view(&quote, 1);
  if (keys.size() > (in_blocks ? 2U : 1U) || typed.find_first_of(ends) != std::string_view::npos) return completion;
  completion.begin = offset - typed.size();
  KeyPlace place{.dialect = dialect, .separator = separator, .quote = quote, .typed = typed, .block = {}};
  place.names_blocks = in_blocks && keys.size() == 1;
  if (in_blocks && keys.size() == 2) place.block = parse_glob(keys[1]);
  add_paths(place, items, completion);
  return completion;
}

}  // namespace tpplan
