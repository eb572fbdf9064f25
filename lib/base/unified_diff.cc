#include "base/unified_diff.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <vector>

namespace tpplan {
namespace {

using Lines = std::vector<std::string_view>;

// Splits a text into lines with their line breaks; the last one can have none.
Lines lines_of(std::string_view text) {
  Lines lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size() - 1);
    lines.push_back(text.substr(0, end + 1));
    text.remove_prefix(end + 1);
  }
  return lines;
}

// A change of lines [old_begin, old_end) to [new_begin, new_end).
struct LineChange {
  size_t old_begin, old_end, new_begin, new_end;
};

// Bounds the memory of the search: a row for each edit, kMostEdits^2 / 2 numbers.
constexpr int32_t kMostEdits = 4000;

// Myers, "An O(ND) difference algorithm" (1986), greedy: finds for each number of edits the furthest point on each
// diagonal, then traces back from the end. `from`: the number of common lines before both.
std::vector<LineChange> changes_between(const Lines& a, const Lines& b, size_t from) {
  const auto n = static_cast<int32_t>(a.size()), m = static_cast<int32_t>(b.size());
  std::vector<std::vector<int32_t>>
      trace;  // trace[d][(k + d) / 2]: x on diagonal k after d edits, k = -d, -d + 2, ..., d
  const auto furthest = [&](int32_t d, int32_t k) {
    return trace[static_cast<size_t>(d)][static_cast<size_t>((k + d) / 2)];
  };
  // An edit onto diagonal k takes a line of b (down from k + 1, x stays) or a line of a (right from k - 1).
  const auto is_down = [&](int32_t d, int32_t k) {
    return k == -d || (k != d && furthest(d - 1, k - 1) < furthest(d - 1, k + 1));
  };
  const auto start = [&](int32_t d, int32_t k) {
    return d == 0 ? 0 : is_down(d, k) ? furthest(d - 1, k + 1) : furthest(d - 1, k - 1) + 1;
  };
  bool found = false;
  for (int32_t d = 0; d <= std::min(n + m, kMostEdits) && !found; ++d) {
    std::vector<int32_t> row(static_cast<size_t>(d) + 1);
    for (int32_t k = -d; k <= d && !found; k += 2) {
      int32_t x = start(d, k);
      while (x < n && x - k < m && a[static_cast<size_t>(x)] == b[static_cast<size_t>(x - k)]) ++x;
      row[static_cast<size_t>((k + d) / 2)] = x;
      found = x >= n && x - k >= m;
    }
    trace.push_back(std::move(row));
  }
  if (!found) return {{from, from + a.size(), from, from + b.size()}};
  std::vector<LineChange> changes;
  int32_t x = n, y = m;
  for (auto d = static_cast<int32_t>(trace.size()) - 1; d > 0; --d) {
    const int32_t k = x - y, slid = start(d, k);
    const bool down = is_down(d, k);
    const int32_t old_x = down ? slid : slid - 1, old_y = down ? slid - k - 1 : slid - k;
    const auto at = [from](int32_t i) { return from + static_cast<size_t>(i); };
    const LineChange edit{at(old_x), at(slid), at(old_y), at(slid - k)};
    if (!changes.empty() && changes.back().old_begin == edit.old_end && changes.back().new_begin == edit.new_end) {
      changes.back().old_begin = edit.old_begin;
      changes.back().new_begin = edit.new_begin;
    } else {
      changes.push_back(edit);
    }
    x = old_x;
    y = old_y;
  }
  std::reverse(changes.begin(), changes.end());
  return changes;
}

void append_lines(std::string& out, char sign, const Lines& lines, size_t begin, size_t end) {
  for (size_t i = begin; i < end; ++i) {
    out += sign;
    out += lines[i];
    if (!lines[i].ends_with('\n')) out += "\n\\ No newline at end of file\n";
  }
}

// Returns "12,3"; an empty range has the number of the line before it.
std::string range(size_t begin, size_t end) {
  const size_t count = end - begin;
  return count == 1 ? fmt::format("{}", begin + 1) : fmt::format("{},{}", count == 0 ? begin : begin + 1, count);
}

}  // namespace

std::string unified_diff(std::string_view old_name, std::string_view new_name, std::string_view old_text,
                         std::string_view new_text) {
  constexpr size_t context = 3;
  const Lines a = lines_of(old_text), b = lines_of(new_text);
  size_t front = 0, back = 0;
  while (front < a.size() && front < b.size() && a[front] == b[front]) ++front;
  while (back < a.size() - front && back < b.size() - front && a[a.size() - 1 - back] == b[b.size() - 1 - back]) ++back;
  const auto middle = [&](const Lines& lines) {
    return Lines(lines.begin() + static_cast<std::ptrdiff_t>(front), lines.end() - static_cast<std::ptrdiff_t>(back));
  };
  if (front == a.size() && front == b.size()) return "";
  const std::vector<LineChange> changes = changes_between(middle(a), middle(b), front);
  std::string out = fmt::format("--- {}\n+++ {}\n", old_name, new_name);
  for (size_t i = 0; i < changes.size();) {
    size_t last = i;
    while (last + 1 < changes.size() && changes[last + 1].old_begin - changes[last].old_end <= 2 * context) ++last;
    const size_t before = std::min(context, changes[i].old_begin),
                 after = std::min(context, a.size() - changes[last].old_end);
    const size_t old_begin = changes[i].old_begin - before, old_end = changes[last].old_end + after;
    out += fmt::format("@@ -{} +{} @@\n", range(old_begin, old_end),
                       range(changes[i].new_begin - before, changes[last].new_end + after));
    size_t at = old_begin;
    for (; i <= last; ++i) {
      append_lines(out, ' ', a, at, changes[i].old_begin);
      append_lines(out, '-', a, changes[i].old_begin, changes[i].old_end);
      append_lines(out, '+', b, changes[i].new_begin, changes[i].new_end);
      at = changes[i].old_end;
    }
    append_lines(out, ' ', a, at, old_end);
  }
  return out;
}

}  // namespace tpplan
