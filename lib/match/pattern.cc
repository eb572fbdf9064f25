#include "match/pattern.h"

#include <re2/re2.h>
#include <re2/set.h>
#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "match/glob_index.h"

namespace tpplan {

namespace {

// `.` stands for any character of a name, a newline too, as in what Python's fnmatch.translate writes (`(?s:...)`).
RE2::Options quiet_options() {
  RE2::Options options;
  options.set_log_errors(false);
  options.set_dot_nl(true);
  options.set_max_mem(int64_t{64} << 20);
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

// `set` answers for all expressions at once; when its automaton outgrows its memory, or it could not be built at all,
// the expressions in `single` answer one by one, each in linear time.
struct PatternSet {
  std::vector<std::string> expressions;
  PatternAnchor anchor;
  std::vector<int> index_of;  // expression of each member of `set`
  RE2::Set set;
  bool set_is_ready = false;
  std::vector<std::unique_ptr<RE2>> single;
  GlobIndex globs;  // instead of all these
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

std::string regex_help(std::string_view key, std::string_view otherwise) {
  const bool star_repeats_nothing = key.starts_with('*') || key.find("/*") != std::string_view::npos;
  const bool ends = key.ends_with("\\Z") || key.ends_with("\\z");
  if (!star_repeats_nothing && ends) return "a key is matched to its end anyway: leave out what says so";
  const bool is_pythons = key.find("(?") != std::string_view::npos || has_backreference(key);
  if (!star_repeats_nothing)
    return is_pythons ? std::string(otherwise) : "mend the expression, or write the path as it is";
  return fmt::format("keys are regular expressions here, and this is a glob: write `{}`", glob_as_regex(key));
}

std::string glob_to_regex(std::string_view glob) {
  std::string regex;
  const Glob parsed = parse_glob(glob);
  for (size_t i = 0; i < parsed.pieces.size(); ++i) {
    const GlobPiece& piece = parsed.pieces[i];
    if (i > 0 && !regex.ends_with(".*")) regex += ".*";
    for (size_t k = 0; k < piece.texts.size(); ++k) {
      if (k > 0) regex += class_regex(piece.classes[k - 1]);
      regex += RE2::QuoteMeta(piece.texts[k]);
    }
  }
  return regex;
}

namespace {

// How many pieces a repetition that begins at `at` makes of one, and where it ends; {1, at} where none does.
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

// The end of the piece of an expression that begins at `at` and is no group: an escape, a class, a character.
size_t end_of_atom(std::string_view text, size_t at) {
  if (text[at] == '\\') {
    const bool has_name = at + 2 < text.size() && std::string_view("pPx").find(text[at + 1]) != std::string::npos;
    const size_t close = has_name && text[at + 2] == '{' ? text.find('}', at) : std::string::npos;
    return std::min(close == std::string::npos ? at + 2 : close + 1, text.size());
  }
  if (text[at] != '[') return at + 1;
  size_t i = at + 1;
  if (i < text.size() && text[i] == '^') ++i;
  if (i < text.size() && text[i] == ']') ++i;
  while (i < text.size() && text[i] != ']') i += text[i] == '\\' ? 2 : 1;
  return std::min(i + 1, text.size());
}

// How many pieces an expression has more with its repetitions written out; it has what RE2 takes, or RE2 says so.
uint64_t count_repeated(std::string_view text) {
  constexpr uint64_t kMany = uint64_t{1} << 40;
  std::vector<uint64_t> open = {0};  // pieces of each group around
  for (size_t at = 0; at < text.size();) {
    if (text[at] == '(') {
      open.push_back(0);
      ++at;
      continue;
    }
    uint64_t pieces = 1;
    if (text[at] == ')' && open.size() > 1) {
      pieces = open.back();
      open.pop_back();
      ++at;
    } else {
      at = end_of_atom(text, at);
    }
    const auto [times, end] = repetition_at(text, at);
    at = end;
    open.back() = std::min(open.back() + pieces * std::min(times, kMany / std::max<uint64_t>(pieces, 1)), kMany);
  }
  return open.front() - std::min<uint64_t>(open.front(), text.size());
}

std::string shortened_error(std::string error) {
  if (error.size() > 120) error = error.substr(0, 120) + "...";
  return error.empty() ? "not a regular expression" : error;
}

// Where a set cannot be compiled one of them may be too large, which only compiling each says.
void compile_one_by_one(PatternSet& patterns, std::vector<std::string>& faults) {
  RE2::Options options = quiet_options();
  options.set_max_mem(kMaxPatternBytes);
  patterns.single.resize(patterns.expressions.size());
  std::erase_if(patterns.index_of, [&](int index) {
    const auto i = static_cast<size_t>(index);
    patterns.single[i] = std::make_unique<RE2>(patterns.expressions[i], options);
    if (!patterns.single[i]->ok()) faults[i] = shortened_error(patterns.single[i]->error());
    return !patterns.single[i]->ok();
  });
}

}  // namespace

PatternSetPtr compile_patterns(std::span<const std::string> expressions, PatternAnchor anchor,
                               std::vector<std::string>* faults) {
  PatternSetPtr patterns(new PatternSet{.expressions = {expressions.begin(), expressions.end()},
                                        .anchor = anchor,
                                        .index_of = {},
                                        .set = RE2::Set(quiet_options(), re2_anchor(anchor)),
                                        .single = {},
                                        .globs = {}});
  std::vector<std::string> found(expressions.size());
  for (size_t i = 0; i < expressions.size(); ++i) {
    std::string error;
    if (count_repeated(expressions[i]) > kMaxRepeatedPieces)
      found[i] = fmt::format("its repetitions stand for more than {} pieces", kMaxRepeatedPieces);
    else if (patterns->set.Add(expressions[i], &error) >= 0)
      patterns->index_of.push_back(static_cast<int>(i));
    else
      found[i] = shortened_error(std::move(error));
  }
  patterns->set_is_ready = patterns->set.Compile();
  if (!patterns->set_is_ready) compile_one_by_one(*patterns, found);
  if (faults != nullptr) *faults = std::move(found);
  return patterns;
}

PatternSetPtr compile_globs(std::span<const std::string> globs) {
  return PatternSetPtr(new PatternSet{.expressions = {},
                                      .anchor = PatternAnchor::Whole,
                                      .index_of = {},
                                      .set = RE2::Set(quiet_options(), RE2::ANCHOR_BOTH),
                                      .single = {},
                                      .globs = index_globs(globs)});
}

namespace {

// The single expressions are compiled when the set fails for the first time, which most never do: a set is not for two
// threads at once.
void find_one_by_one(const PatternSet& patterns, std::string_view text, std::vector<int>& matches) {
  auto& single = const_cast<PatternSet&>(patterns).single;
  if (single.empty()) {
    for (const std::string& expression : patterns.expressions)
      single.push_back(std::make_unique<RE2>(expression, quiet_options()));
  }
  for (const int i : patterns.index_of) {
    const RE2& re = *single[static_cast<size_t>(i)];
    if (re.ok() && re.Match({text.data(), text.size()}, 0, text.size(), re2_anchor(patterns.anchor), nullptr, 0))
      matches.push_back(i);
  }
}

}  // namespace

void find_matches(const PatternSet& patterns, std::string_view text, std::vector<int>& matches) {
  matches.clear();
  if (!patterns.globs.globs.empty()) return find_globs(const_cast<PatternSet&>(patterns).globs, text, matches);
  if (patterns.index_of.empty()) return;
  RE2::Set::ErrorInfo info{RE2::Set::kNoError};
  // False without an error is an answer: nothing matches. False with one (the automaton ran out of memory) is none.
  if (patterns.set_is_ready &&
      (patterns.set.Match({text.data(), text.size()}, &matches, &info) || info.kind == RE2::Set::kNoError)) {
    for (int& match : matches) match = patterns.index_of[static_cast<size_t>(match)];
    std::sort(matches.begin(), matches.end());
    return;
  }
  matches.clear();
  find_one_by_one(patterns, text, matches);
}

bool matches_any(const PatternSet& patterns, std::string_view text) {
  std::vector<int> matches;
  find_matches(patterns, text, matches);
  return !matches.empty();
}

}  // namespace tpplan
