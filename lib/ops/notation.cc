#include "ops/notation.h"

#include <algorithm>

namespace tpplan {
namespace {

struct NotationRow {
  std::string_view name;
  std::string_view text;
};

// The first row of a name whose operands have as many dims as those at hand.
constexpr NotationRow kRows[] = {
    {"linear", "b.. k, o k | o -> b.. o"},
    {"bmm", "b m k, b k n -> b m n"},
    {"mm", "m k, k n -> m n"},
    {"mv", "m k, k -> m"},
    {"addmm", "n | m k, k n -> m n"},
    {"addmm", "m n | m k, k n -> m n"},
    {"baddbmm", "b m n | b m k, b k n -> b m n"},
    {"outer", "m, n -> m n"},
    {"dot", "k, k -> "},
    {"bilinear", "b.. i, b.. j, o i j | o -> b.. o"},
    {"cdist", "b.. m k, b.. n k -> b.. m n; whole k; bends"},
    {"bucketize", "b.., n -> b..; whole n; bends"},
    {"searchsorted", "n, b.. -> b..; whole n; bends"},
    {"searchsorted", "b.. n, b.. m -> b.. m; whole n; bends"},
    {"isin", "b.., n.. -> b..; whole n; bends"},
    {"grid_sample", "n c h w, n p q t -> n c p q; whole h w t; index 1"},
    {"grid_sample", "n c d h w, n o p q t -> n c o p q; whole d h w t; index 1"},
    {"stft", "b.. t, w -> b.. f+ n+; whole t w; some"},
    {"istft", "b.. f n, w -> b.. t+; whole f n w; divides 1; some"},
    {"embedding", "i.., v h -> i.. h; whole v; index 0"},
    {"_grouped_mm", "t k, e k n, e -> t n; whole t e; index 2"},
    {"grouped_mm", "t k, e k n, e -> t n; whole t e; index 2"},
    {"linalg_solve_triangular", "b.. n m, b.. n k -> b.. m k; whole n m; divides 0"},
    {"tril", "b.. m n -> b.. m n; whole m n"},
    {"triu", "b.. m n -> b.. m n; whole m n"},
    {"view_as_complex", "b.. c -> b..; whole c"},
    {"view_as_real", "b.. -> b.. c+"},
};

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
  bool Notation::*flag = nullptr;  // neither: it lists factors
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
    notation.whole.assign(clause.begin() + 1, clause.end());
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

std::string_view find_notation(std::string_view name, size_t index) {
  for (const NotationRow& row : kRows) {
    if (row.name == name && index-- == 0) return row.text;
  }
  return {};
}

void add_notation_names(std::vector<std::string_view>& names) {
  for (const NotationRow& row : kRows) names.push_back(row.name);
}

}  // namespace tpplan
