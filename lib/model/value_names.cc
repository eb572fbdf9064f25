#include "model/value_names.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/text.h"
#include "model/graph_words.h"

namespace tpplan {
namespace {

constexpr uint32_t kSmallSuffixes = 8;  // larger suffixes are never reused, to make naming of many values linear
constexpr size_t kMaxBase = 40;

// True if the value is used after `after`, up to `last`.
bool has_use(const ValueUses& uses, ValueId value, Tick after, Tick last) {
  const auto begin = uses.ticks.begin() + static_cast<std::ptrdiff_t>(uses.begins[value]);
  const auto end = uses.ticks.begin() + static_cast<std::ptrdiff_t>(uses.begins[value + 1]);
  const auto next = std::upper_bound(begin, end, after);
  return next != end && *next <= last;
}

// True if `name` cannot be the name of a value: a reserved word, a path, or a name of a size such as `s1`.
bool is_unavailable_name(const ValueNames& names, std::string_view name) {
  return is_reserved_word(name) || is_size_name(name) || names.reserved.contains(name);
}

// A binding shadows the bindings of outer frames until its frame ends.
bool is_free_entry(const ValueNames& names, const NameEntry& entry, NameScope scope, Tick now) {
  if (entry.is_exclusive) return false;
  for (auto at = entry.bindings.rbegin(); at != entry.bindings.rend(); ++at) {
    const bool is_inner = at->scope.depth > scope.depth;
    if (has_use(names.uses, at->value, now, is_inner ? at->scope.end : scope.end)) return false;
    if (!is_inner) break;
  }
  return true;
}

void bind_entry(ValueNames& names, const std::string& name, NameEntry& entry, ValueId value, NameScope scope) {
  const auto at = std::find_if(entry.bindings.begin(), entry.bindings.end(),
                               [&](const NameBinding& b) { return b.scope.depth >= scope.depth; });
  names.names[value] = &name;
  if (at != entry.bindings.end() && at->scope.depth == scope.depth) {
    at->value = value;
    return;
  }
  entry.bindings.insert(at, {.scope = scope, .value = value});
  if (names.bound.size() <= scope.depth) names.bound.resize(scope.depth + 1);
  names.bound[scope.depth].push_back(&name);
}

bool try_name(ValueNames& names, ValueId value, const std::string& name, NameScope scope, Tick now, bool is_permanent) {
  if (is_unavailable_name(names, name)) return false;
  const auto found = names.entries.find(name);
  if (found != names.entries.end() && (is_permanent || !is_free_entry(names, found->second, scope, now))) return false;
  const auto entry = found != names.entries.end() ? found : names.entries.emplace(name, NameEntry{}).first;
  entry->second.is_exclusive = is_permanent;
  bind_entry(names, entry->first, entry->second, value, scope);
  return true;
}

}  // namespace

void add_use(ValueUses& uses, ValueId value, Tick tick) { uses.list.emplace_back(value, tick); }

void sort_uses(ValueUses& uses, size_t values) {
  uses.begins.assign(values + 1, 0);
  for (const auto& [value, tick] : uses.list) ++uses.begins[value + 1];
  for (size_t i = 1; i < uses.begins.size(); ++i) uses.begins[i] += uses.begins[i - 1];
  uses.ticks.resize(uses.list.size());
  std::vector<size_t> next(uses.begins.begin(), uses.begins.end() - 1);
  for (const auto& [value, tick] : uses.list) uses.ticks[next[value]++] = tick;
  uses.list = {};
}

Tick last_use(const ValueUses& uses, ValueId value) {
  return uses.begins[value] == uses.begins[value + 1] ? 0 : uses.ticks[uses.begins[value + 1] - 1];
}

std::string identifier_of(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, kMaxBase)) {
    const bool is_part = is_word_char(c);
    if (is_part || !out.empty()) out += is_part ? c : '_';
  }
  out.erase(0, std::min(out.find_first_not_of('_'), out.size()));
  while (out.ends_with('_')) out.pop_back();
  return is_identifier(out) ? out : "v" + out;
}

bool is_free(const ValueNames& names, std::string_view name, NameScope scope, Tick now) {
  if (is_unavailable_name(names, name)) return false;
  const auto found = names.entries.find(name);
  return found == names.entries.end() || is_free_entry(names, found->second, scope, now);
}

void name_value(ValueNames& names, ValueId value, std::string_view base, NameScope scope, Tick now, bool is_permanent) {
  std::string name(base);
  uint32_t suffix = 0;
  while (suffix < kSmallSuffixes && !try_name(names, value, name, scope, now, is_permanent))
    name = fmt::format("{}_{}", base, ++suffix);
  if (suffix < kSmallSuffixes) return;
  uint32_t& next = names.suffixes.try_emplace(std::string(base), kSmallSuffixes).first->second;
  while (!try_name(names, value, fmt::format("{}_{}", base, next), scope, now, is_permanent)) ++next;
  ++next;
}

void release_name(ValueNames& names, ValueId value) {
  names.entries.find(*names.names[value])->second.is_exclusive = false;
}

void rebind_outer_name(ValueNames& names, ValueId value, NameScope scope) {
  const auto entry = names.entries.find(*names.names[value]);
  bind_entry(names, entry->first, entry->second, value, scope);
}

void end_names(ValueNames& names, uint32_t depth) {
  if (names.bound.size() <= depth) return;
  for (const std::string* name : names.bound[depth]) {
    std::vector<NameBinding>& bindings = names.entries.find(*name)->second.bindings;
    std::erase_if(bindings, [depth](const NameBinding& b) { return b.scope.depth == depth; });
  }
  names.bound[depth].clear();
}

}  // namespace tpplan
