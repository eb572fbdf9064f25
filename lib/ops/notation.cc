#include "ops/notation.h"

#include <algorithm>

namespace tpplan {
namespace {

std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> found;
  for (size_t at = text.find_first_not_of(' '); at != std::string_view::npos;) {
    const size_t end = std::min(text.find(' ', at), text.size());
    found.push_back(text.substr(at, end - at));
    at = text.find_first_not_of(' ', end);
  }
  return found;
}

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(' ');
  return begin == std::string_view::npos ? std::string_view{}
                                         : text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

std::vector<std::string_view> parts(std::string_view text, char between) {
  std::vector<std::string_view> found;
  for (size_t at = 0;;) {
    const size_t end = text.find(between, at);
    found.push_back(trimmed(text.substr(at, end == std::string_view::npos ? end : end - at)));
    if (end == std::string_view::npos) return found;
    at = end + 1;
  }
}

DimTokens tokens_of(std::string_view text) {
  DimTokens tokens;
  for (const std::string_view word : words(text)) {
    const bool is_many = word.ends_with("..");
    tokens.push_back({.factor = is_many ? word.substr(0, word.size() - 2) : word,
                      .is_many = is_many,
                      .is_one = word == "1",
                      .is_new = word.ends_with('+')});
  }
  return tokens;
}

struct ClauseRow {
  std::string_view name;
  int64_t Notation::*number = nullptr;
  bool Notation::*flag = nullptr;  // if `number` is nullptr too, the clause lists factors
};

constexpr ClauseRow kClauses[] = {
    {"whole"},
    {"index", &Notation::index},
    {"norm", &Notation::norm},
    {"divides", &Notation::divides},
    {"bends", nullptr, &Notation::bends},
    {"some", nullptr, &Notation::some},
};

bool parse_clause(std::string_view text, Notation& notation) {
  const std::vector<std::string_view> clause = words(text);
  if (clause.empty()) return false;
  const auto* row = std::find_if(std::begin(kClauses), std::end(kClauses),
                                 [&](const ClauseRow& candidate) { return candidate.name == clause[0]; });
  if (row == std::end(kClauses)) return false;
  if (row->flag != nullptr)
    notation.*row->flag = true;
  else if (row->number == nullptr)
    notation.replicated.assign(clause.begin() + 1, clause.end());
  else if (clause.size() > 1)
    notation.*row->number = clause[1][0] - '0';
  return true;
}

}  // namespace

bool parse_notation(std::string_view text, Notation& notation) {
  const std::vector<std::string_view> clauses = parts(text, ';');
  const size_t arrow = clauses[0].find("->");
  if (arrow == std::string_view::npos || trimmed(clauses[0].substr(0, arrow)).empty()) return false;
  for (const std::string_view addend : parts(clauses[0].substr(0, arrow), '|')) {
    auto& operands = notation.addends.emplace_back();
    for (const std::string_view operand : parts(addend, ',')) operands.push_back(tokens_of(operand));
  }
  notation.out = tokens_of(clauses[0].substr(arrow + 2));
  return std::all_of(clauses.begin() + 1, clauses.end(),
                     [&](std::string_view clause) { return parse_clause(clause, notation); });
}

bool is_notation(std::string_view text) {
  Notation notation;
  return parse_notation(text, notation);
}

bool fits(const Notation& notation, std::span<const Operand> operands) {
  size_t at = 0;
  for (const auto& addend : notation.addends) {
    for (const DimTokens& tokens : addend) {
      if (at == operands.size()) return true;
      const bool many = std::any_of(tokens.begin(), tokens.end(), [](const DimToken& token) { return token.is_many; });
      const size_t ndim = operands[at].layout->dims.size();
      if (many ? ndim + 1 < tokens.size() : ndim != tokens.size()) return false;
      ++at;
    }
  }
  return at == operands.size();
}

}  // namespace tpplan
