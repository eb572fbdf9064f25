#include "walk/state/rank_functions.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

namespace tpplan {
namespace {

// Functions with more pieces are not tracked.
constexpr size_t kMaxFunctionIntervals = 4096;

struct Line {
  int64_t slope = 0, offset = 0;
};

void append(RankFunction& function, LinearInterval interval) {
  if (interval.begin >= interval.end) return;
  // On a single integer the function is a constant.
  if (interval.end - interval.begin == 1)
    interval = {interval.begin, interval.end, 0, interval.slope * interval.begin + interval.offset};
  if (!function.empty() && function.back().end == interval.begin && function.back().slope == interval.slope &&
      function.back().offset == interval.offset)
    function.back().end = interval.end;
  else
    function.push_back(interval);
}

// Calls f(begin, end, a, b) for each interval on which both functions are linear. Intervals of only one are skipped.
template <typename F>
void overlay(const RankFunction& a, const RankFunction& b, F f) {
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const int64_t begin = std::max(a[i].begin, b[j].begin), end = std::min(a[i].end, b[j].end);
    if (begin < end) f(begin, end, Line{a[i].slope, a[i].offset}, Line{b[j].slope, b[j].offset});
    (a[i].end <= b[j].end ? i : j)++;
  }
}

// Calls f(begin, end, sign) for the intervals of [begin, end) on which the line is below, at and above 0.
template <typename F>
void by_sign(int64_t begin, int64_t end, Line line, F f) {
  const auto sign = [](int64_t n) { return n < 0 ? -1 : n > 0 ? 1 : 0; };
  if (line.slope == 0) return f(begin, end, sign(line.offset));
  // The first t at which the line no longer has its initial sign.
  int64_t root = -line.offset / line.slope;
  const bool exact = line.slope * root + line.offset == 0;
  const int before = line.slope > 0 ? -1 : 1;
  const auto is_before = [&](int64_t t) { return sign(line.slope * t + line.offset) == before; };
  while (!exact && is_before(root)) ++root;
  while (!exact && !is_before(root - 1)) --root;
  const int64_t first = std::clamp(root, begin, end), after = std::clamp(exact ? root + 1 : root, begin, end);
  if (begin < first) f(begin, first, before);
  if (first < after) f(first, after, 0);
  if (after < end) f(after, end, -before);
}

bool is_near(int64_t n) { return std::abs(n) <= kFarInteger; }

struct Comparison {
  bool is_one = false;
  std::array<bool, 3> holds{};  // result if a is below, at and above b
};

constexpr auto kComparisons = by_op<Comparison>({
    {OpId::Lt, {true, {true, false, false}}},
    {OpId::Le, {true, {true, true, false}}},
    {OpId::Gt, {true, {false, false, true}}},
    {OpId::Ge, {true, {false, true, true}}},
    {OpId::Eq, {true, {false, true, false}}},
    {OpId::Ne, {true, {true, false, true}}},
});

// Combines two linear functions. Returns false if the operation is not supported or the result is too large.
bool combine_lines(OpId op, Line a, Line b, Line& out) {
  const bool are_truths = a.slope == 0 && b.slope == 0 && (a.offset | b.offset | 1) == 1;
  if (op == OpId::Add)
    out = {a.slope + b.slope, a.offset + b.offset};
  else if (op == OpId::Sub)
    out = {a.slope - b.slope, a.offset - b.offset};
  else if (op == OpId::Mul && (a.slope == 0 || b.slope == 0)) {
    if (a.slope != 0) std::swap(a, b);
    int64_t slope = 0, offset = 0;
    if (__builtin_mul_overflow(a.offset, b.slope, &slope) || __builtin_mul_overflow(a.offset, b.offset, &offset))
      return false;
    out = {slope, offset};
  } else if ((op == OpId::LogicalAnd || op == OpId::BitwiseAnd) && are_truths)
    out = {0, a.offset & b.offset};
  else if ((op == OpId::LogicalOr || op == OpId::BitwiseOr) && are_truths)
    out = {0, a.offset | b.offset};
  else if ((op == OpId::LogicalXor || op == OpId::BitwiseXor) && are_truths)
    out = {0, a.offset ^ b.offset};
  else
    return false;
  return is_near(out.slope) && is_near(out.offset) && std::abs(out.slope) <= 1024;
}

}  // namespace

RankFunction constant_function(int64_t number) { return {{-kFarInteger, kFarInteger, 0, number}}; }

RankFunction identity_function() { return {{-kFarInteger, kFarInteger, 1, 0}}; }

std::optional<int64_t> constant_of(const RankFunction& function) {
  if (function.size() != 1 || function[0].slope != 0) return std::nullopt;
  return function[0].offset;
}

std::optional<RankFunction> apply_to_functions(OpId op, const RankFunction& a, const RankFunction& b) {
  RankFunction out;
  bool known = true;
  const Comparison& comparison = kComparisons[index_of(op)];
  overlay(a, b, [&](int64_t begin, int64_t end, Line x, Line y) {
    const Line difference{x.slope - y.slope, x.offset - y.offset};
    if (comparison.is_one) {
      by_sign(begin, end, difference, [&](int64_t from, int64_t to, int sign) {
        append(out, {from, to, 0, comparison.holds[static_cast<size_t>(sign + 1)] ? 1 : 0});
      });
    } else if (op == OpId::Maximum || op == OpId::Minimum) {
      by_sign(begin, end, difference, [&](int64_t from, int64_t to, int sign) {
        const Line& taken = (sign > 0) == (op == OpId::Maximum) ? x : y;
        append(out, {from, to, taken.slope, taken.offset});
      });
    } else {
      Line line;
      known = known && combine_lines(op, x, y, line);
      append(out, {begin, end, line.slope, line.offset});
    }
  });
  if (!known || out.size() > kMaxFunctionIntervals) return std::nullopt;
  return out;
}

std::optional<RankFunction> select_function(const RankFunction& condition, const RankFunction& yes,
                                            const RankFunction& no) {
  RankFunction out;
  bool known = true;
  for (const LinearInterval& interval : condition) {
    known = known && interval.slope == 0;
    for (const LinearInterval& taken : restrict_function(interval.offset != 0 ? yes : no, interval.begin, interval.end))
      append(out, taken);
  }
  if (!known || out.size() > kMaxFunctionIntervals) return std::nullopt;
  return out;
}

RankFunction restrict_function(const RankFunction& function, int64_t begin, int64_t end) {
  RankFunction out;
  for (LinearInterval interval : function) {
    interval.begin = std::max(interval.begin, begin);
    interval.end = std::min(interval.end, end);
    append(out, interval);
  }
  return out;
}

std::optional<RankFunction> compare_element(const RankFunction& index, const RankFunction& wanted,
                                            const std::vector<ElementRange>& places) {
  // Consecutive intervals map a local index to its global element by a shift; other local indices have no element.
  constexpr int64_t kNoElement = -kFarInteger;
  constexpr size_t kMaxElementRanges = 64;
  if (places.size() > kMaxElementRanges) return std::nullopt;
  RankFunction out;
  overlay(index, wanted, [&](int64_t begin, int64_t end, Line at, Line element) {
    // Splits [begin, end) at the interval borders, from the first local index to the last.
    const auto append_result = [&](int64_t from, int64_t to, int64_t shift) {
      if (shift == kNoElement) return append(out, {from, to, 0, 2});
      by_sign(from, to, {at.slope - element.slope, at.offset + shift - element.offset},
              [&](int64_t b, int64_t e, int sign) {
                append(out, {b, e, 0, sign == 0 ? 1 : 2});
              });
    };
    std::vector<int64_t> bounds{begin, end};
    int64_t first = 0;
    const auto split_at = [&](int64_t place) {
      by_sign(begin, end, {at.slope, at.offset - place}, [&](int64_t from, int64_t to, int) {
        bounds.push_back(from);
        bounds.push_back(to);
      });
    };
    split_at(0);
    for (const ElementRange& run : places) split_at(first += run.end - run.begin);
    std::sort(bounds.begin(), bounds.end());
    bounds.erase(std::unique(bounds.begin(), bounds.end()), bounds.end());
    for (size_t i = 0; i + 1 < bounds.size(); ++i) {
      const int64_t place = at.slope * bounds[i] + at.offset;
      int64_t shift = kNoElement, elements_before = 0;
      for (const ElementRange& run : places) {
        const int64_t size = run.end - run.begin;
        if (place >= elements_before && place < elements_before + size) shift = run.begin - elements_before;
        elements_before += size;
      }
      append_result(bounds[i], bounds[i + 1], shift);
    }
  });
  if (out.size() > kMaxFunctionIntervals) return std::nullopt;
  return out;
}

}  // namespace tpplan
