#include "resolve/match/pattern.h"

#include <re2/re2.h>
#include <re2/set.h>
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <new>

#include "base/keyed_hash.h"
#include "base/text.h"
#include "resolve/match/glob_index.h"

namespace tpplan {

namespace {

// Memory limit of an RE2 automaton with its states. A program of kMaxPatternCost instructions needs half of it.
constexpr int64_t kMaxPatternBytes = int64_t{32} << 20;

// Start of the error message for an expression that exceeds the budget.
constexpr std::string_view kTooCostly = "the patterns of the plan up to this one need ";

// Returns options in which `.` matches newlines too, like the output of Python's fnmatch.translate (`(?s:...)`).
RE2::Options quiet_options() {
  RE2::Options options;
  options.set_log_errors(false);
  options.set_dot_nl(true);
  options.set_max_mem(kMaxPatternBytes);
  return options;
}

RE2::Anchor re2_anchor(PatternAnchor anchor) {
  return anchor == PatternAnchor::Whole   ? RE2::ANCHOR_BOTH
         : anchor == PatternAnchor::Start ? RE2::ANCHOR_START
                                          : RE2::UNANCHORED;
}

std::string class_regex(const GlobClass& members) {
  if (members.ranges.empty()) return members.negated ? "." : "[^\\x{0}-\\x{10FFFF}]";
  std::string text = members.negated ? "[^" : "[";
  for (const auto& [first, last] : members.ranges) {
    text += fmt::format("\\x{{{:X}}}-\\x{{{:X}}}", static_cast<uint32_t>(first), static_cast<uint32_t>(last));
  }
  return text + "]";
}

}  // namespace

struct PatternSet {
  std::vector<int> index_of;  // by index in `set`: the index of the expression
  RE2::Set set;
  GlobIndex globs;  // used instead of `set` for globs
};

void PatternSetDeleter::operator()(PatternSet* set) const { delete set; }

bool is_glob(std::string_view text) { return text.find_first_of("*?[") != std::string_view::npos; }

std::string glob_as_regex(std::string_view glob) {
  std::string text;
  for (const char c : glob) {
    if (c == '.')
      text += "\\.";
    else if (c == '*')
      text += ".*";
    else
      text += c;
  }
  return text;
}

namespace {

bool has_backreference(std::string_view key) {
  for (size_t at = key.find('\\'); at != std::string_view::npos && at + 1 < key.size(); at = key.find('\\', at + 2)) {
    if (key[at + 1] >= '1' && key[at + 1] <= '9') return true;
  }
  return false;
}

}  // namespace

std::string regex_help(std::string_view key, std::string_view fault, std::string_view otherwise) {
  if (fault.starts_with(kTooCostly))
    return "use fewer repetitions, and replace a class such as `\\pL` by the characters of the paths: `[a-z]`";
  const bool is_glob = key.starts_with('*') || key.find("/*") != std::string_view::npos;
  const bool ends = key.ends_with("\\Z") || key.ends_with("\\z");
  if (!is_glob && ends) return "remove the end anchor, or write `$`";
  const bool is_pythons = key.find("(?") != std::string_view::npos || has_backreference(key);
  if (!is_glob) return is_pythons ? std::string(otherwise) : "fix the expression, or write the exact path";
  return fmt::format("keys are regular expressions in this dialect, and this is a glob: write `{}`",
                     glob_as_regex(key));
}

std::string glob_to_regex(std::string_view glob) {
  std::string regex;
  const Glob parsed = parse_glob(glob);
  for (size_t i = 0; i < parsed.tokens.size(); ++i) {
    const GlobToken& token = parsed.tokens[i];
    if (i > 0 && !regex.ends_with(".*")) regex += ".*";
    for (size_t k = 0; k < token.texts.size(); ++k) {
      if (k > 0) regex += class_regex(token.classes[k - 1]);
      regex += RE2::QuoteMeta(token.texts[k]);
    }
  }
  return regex;
}

namespace {

// Returns the maximum count and the end of a repetition `{m,n}` at `at`; {1, at} if there is none.
std::pair<uint64_t, size_t> repetition_at(std::string_view text, size_t at) {
  const size_t end = at < text.size() && text[at] == '{' ? text.substr(0, at + 13).find('}', at) : std::string::npos;
  if (end == std::string::npos) return {1, at};
  uint64_t number = 0, most = 1;
  for (const char c : text.substr(at + 1, end - at - 1)) {
    if (c != ',' && (c < '0' || c > '9')) return {1, at};
    number = c == ',' ? 0 : number * 10 + static_cast<uint64_t>(c - '0');
    most = std::max(most, number);
  }
  return {most, end + 1};
}

// Returns the end of the atom at `at`: an escape, a class or a character.
size_t end_of_atom(std::string_view text, size_t at) {
  if (text[at] == '\\') {
    const bool has_name = at + 2 < text.size() && std::string_view("pPx").find(text[at + 1]) != std::string::npos;
    const size_t close = has_name && text[at + 2] == '{' ? text.find('}', at) : std::string::npos;
    const size_t letters = has_name && text[at + 1] != 'x' ? 3 : 2;
    return std::min(close == std::string::npos ? at + letters : close + 1, text.size());
  }
  if (text[at] != '[') return at + 1;
  size_t i = at + 1;
  if (i < text.size() && text[i] == '^') ++i;
  if (i < text.size() && text[i] == ']') ++i;
  while (i < text.size() && text[i] != ']') i += text[i] == '\\' ? 2 : 1;
  return std::min(i + 1, text.size());
}

// Returns the instruction count of an atom: estimated from the length of a class, compiled by RE2 for a Unicode class.
uint64_t atom_cost(std::string_view atom, TextMap<std::string, uint64_t>& known) {
  constexpr uint64_t kAnyCharacter = 7, kNegatedClass = 12, kEnds = 4;
  if (atom == ".") return kAnyCharacter;
  if (atom.size() == 1) return 1;
  if (atom.find("\\p") == std::string_view::npos && atom.find("\\P") == std::string_view::npos)
    return atom.size() + kNegatedClass;
  const auto [found, is_new] = known.try_emplace(std::string(atom), 0);
  if (is_new) {
    const RE2 compiled(std::string(atom), quiet_options());
    found->second = compiled.ok() ? static_cast<uint64_t>(compiled.ProgramSize()) - kEnds : atom.size();
  }
  return found->second;
}

// Returns the instruction count of an expression with expanded repetitions. For an invalid expression the count is
// arbitrary.
uint64_t pattern_cost(std::string_view text, TextMap<std::string, uint64_t>& known) {
  constexpr uint64_t kMany = uint64_t{1} << 40;
  std::vector<uint64_t> group_costs = {0};  // cost so far of each enclosing group
  for (size_t at = 0; at < text.size();) {
    if (text[at] == '(') {
      group_costs.push_back(0);
      ++at;
      continue;
    }
    uint64_t cost = 0;
    if (text[at] == ')' && group_costs.size() > 1) {
      cost = group_costs.back() + 1;
      group_costs.pop_back();
      ++at;
    } else {
      const size_t end = end_of_atom(text, at);
      cost = atom_cost(text.substr(at, end - at), known);
      at = end;
    }
    const auto [times, end] = repetition_at(text, at);
    at = end;
    group_costs.back() =
        std::min(group_costs.back() + cost * std::min(times, kMany / std::max<uint64_t>(cost, 1)), kMany);
  }
  uint64_t cost = 0;
  for (const uint64_t group : group_costs) cost += group;
  return std::min(cost, kMany);
}

std::string shortened_error(std::string error) {
  if (error.size() > 120) error = error.substr(0, 120) + "...";
  return error.empty() ? "not a regular expression" : error;
}

}  // namespace

PatternSetPtr compile_patterns(std::span<const std::string> expressions, PatternAnchor anchor,
                               std::vector<std::string>* faults, uint64_t budget) {
  PatternSetPtr patterns(
      new PatternSet{.index_of = {}, .set = RE2::Set(quiet_options(), re2_anchor(anchor)), .globs = {}});
  std::vector<std::string> found(expressions.size());
  TextMap<std::string, uint64_t> costs;
  uint64_t spent = 0;
  for (size_t i = 0; i < expressions.size(); ++i) {
    spent += pattern_cost(expressions[i], costs);
    if (spent > budget) {
      found[i] = fmt::format("{}{} RE2 instructions, more than {}", kTooCostly, spent, budget);
      break;
    }
    std::string error;
    if (patterns->set.Add(expressions[i], &error) >= 0)
      patterns->index_of.push_back(static_cast<int>(i));
    else
      found[i] = shortened_error(std::move(error));
  }
  if (!patterns->set.Compile()) {  // the cost can be too low: under (?i) a letter needs several instructions
    found[static_cast<size_t>(patterns->index_of.back())] =
        fmt::format("{}more memory than {}", kTooCostly, human_bytes(kMaxPatternBytes));
    patterns->index_of.clear();
  }
  if (faults != nullptr) *faults = std::move(found);
  return patterns;
}

PatternSetPtr compile_globs(std::span<const std::string> globs) {
  return PatternSetPtr(
      new PatternSet{.index_of = {}, .set = RE2::Set(quiet_options(), RE2::ANCHOR_BOTH), .globs = index_globs(globs)});
}

void find_matches(const PatternSet& patterns, std::string_view text, std::vector<int>& matches) {
  matches.clear();
  if (!patterns.globs.globs.empty()) return find_globs(const_cast<PatternSet&>(patterns).globs, text, matches);
  if (patterns.index_of.empty()) return;
  RE2::Set::ErrorInfo info{RE2::Set::kNoError};
  // `false` without an error means no match; with an error, RE2 is out of memory.
  if (!patterns.set.Match({text.data(), text.size()}, &matches, &info) && info.kind != RE2::Set::kNoError)
    throw std::bad_alloc();
  for (int& match : matches) match = patterns.index_of[static_cast<size_t>(match)];
  std::sort(matches.begin(), matches.end());
}

bool matches_any(const PatternSet& patterns, std::string_view text) {
  std::vector<int> matches;
  find_matches(patterns, text, matches);
  return !matches.empty();
}

}  // namespace tpplan
