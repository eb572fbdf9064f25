#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "resolve/match/pattern.h"

using namespace tpplan;

namespace {

// True if a glob without brackets matches; a naive reference implementation.
bool is_match(std::string_view glob, std::string_view text) {
  if (glob.empty()) return text.empty();
  if (glob[0] == '*') return is_match(glob.substr(1), text) || (!text.empty() && is_match(glob, text.substr(1)));
  return !text.empty() && (glob[0] == '?' || glob[0] == text[0]) && is_match(glob.substr(1), text.substr(1));
}

bool matches(const std::string& glob, std::string_view text) {
  return matches_any(*compile_globs(std::span(&glob, 1)), text);
}

}  // namespace

TEST_CASE("a set of globs finds the matches of each single glob") {
  std::mt19937 random(7);
  const auto word = [&](std::string_view letters, size_t longest) {
    std::string text(random() % (longest + 1), ' ');
    for (char& c : text) c = letters[random() % letters.size()];
    return text;
  };
  for (int round = 0; round < 300; ++round) {
    std::vector<std::string> globs(1 + random() % 20);
    for (std::string& glob : globs) glob = word("ab.*?*", 7);
    const PatternSetPtr set = compile_globs(globs);
    for (int i = 0; i < 30; ++i) {
      const std::string text = word("ab.", 9);
      std::vector<int> found, expected;
      find_matches(*set, text, found);
      for (size_t glob = 0; glob < globs.size(); ++glob) {
        if (is_match(globs[glob], text)) expected.push_back(static_cast<int>(glob));
      }
      CAPTURE(text);
      CHECK(found == expected);
    }
  }
}

TEST_CASE("classes contain characters, not bytes") {
  CHECK(matches("[a-\xc3\xa9]", "\xc3\xa0"));        // a to e acute holds a grave
  CHECK_FALSE(matches("[a-\xc3\xa9]", "\xc3\xaa"));  // and not e circumflex
  CHECK(matches("x[!\xc3\xa9]y", "x\xe8\xa8\x88y"));
  CHECK_FALSE(matches("x[!\xc3\xa9]y", "x\xc3\xa9y"));
  CHECK(matches("*[\xc3\xa9]", "abc\xc3\xa9"));
  CHECK(matches("*?", "\xf0\x9f\x98\x80"));
  CHECK_FALSE(matches("*??", "\xf0\x9f\x98\x80"));
}

TEST_CASE("stars do not backtrack on a million letters") {
  std::string glob;
  for (int i = 0; i < 1000; ++i) glob += "*a";
  const std::string text(1'000'000, 'a');
  CHECK(matches(glob, text));
  CHECK_FALSE(matches(glob + "*b", text));
  CHECK_FALSE(matches("*" + std::string(400'000, 'a') + "b*", text));
}

TEST_CASE("expressions that expand too much are rejected") {
  std::string many, long_one = "(?:", classes;
  for (int i = 0; i < 50; ++i) many += ".{0,1000}";
  for (int i = 0; i < 2000; ++i) long_one += "layers." + std::to_string(i) + "|";
  for (int i = 0; i < 60; ++i) classes += "\\pL{30}";
  const std::vector<std::string> good = {long_one + "x)", "a{3}b{2,4}[{}]{5}\\{", ".{0,1000}"};
  const std::vector<std::string> bad = {many, "(?:(?:a{100}){100}){100}", "(a{1000}){3}", "\\pL{1000}", classes};
  for (const std::string& expression : bad) {
    CAPTURE(expression);
    std::vector<std::string> faults;
    std::ignore = compile_patterns(std::span(&expression, 1), PatternAnchor::Whole, &faults);
    CHECK_FALSE(faults[0].empty());
  }
  std::vector<std::string> faults;
  const PatternSetPtr set = compile_patterns(good, PatternAnchor::Whole, &faults);
  CHECK(faults == std::vector<std::string>(good.size()));
  std::vector<int> found;
  find_matches(*set, std::string(1000, 'a'), found);
  CHECK(found == std::vector<int>{2});
}
