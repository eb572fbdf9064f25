#include "walk/example.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <optional>

#include "walk/node_args.h"
#include "walk/slots.h"

namespace tpplan {
namespace {

using Numbers = std::vector<double>;
constexpr size_t kRanks = 2;

enum class Held : uint8_t { Whole, Piece, Term };
constexpr std::string_view kHeld[] = {"", ", pieces", ", terms"};  // by Held
static_assert(std::size(kHeld) == static_cast<size_t>(Held::Term) + 1);

// One vector of a value: along the dim that is cut.
struct Vector {
  Held held = Held::Whole;
  Numbers whole;
  Numbers local[kRanks];
};

// Pieces of one element a rank. Terms of the sum differ, and add up to the value.
Vector hold(Held held, Numbers whole) {
  Vector v{.held = held, .whole = std::move(whole), .local = {}};
  for (size_t i = 0; i < v.whole.size(); ++i) {
    if (held == Held::Piece) v.local[i % kRanks].push_back(v.whole[i]);
    for (size_t rank = 0; held != Held::Piece && rank < kRanks; ++rank)
      v.local[rank].push_back(held == Held::Whole ? v.whole[i] : rank == 0 ? v.whole[i] + 2 : -2);
  }
  return v;
}

double relu(double x) { return std::max(x, 0.0); }
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double silu(double x) { return x * sigmoid(x); }
double gelu(double x) { return x / 2 * (1 + std::erf(x / std::sqrt(2.0))); }

struct ElementRow {
  std::string_view name;
  double (*apply)(double);
};
constexpr ElementRow kElements[] = {
    {"relu", relu},
    {"silu", silu},
    {"gelu", gelu},
    {"sigmoid", sigmoid},
    {"tanh", [](double x) { return std::tanh(x); }},
    {"exp", [](double x) { return std::exp(x); }},
    {"abs", [](double x) { return std::abs(x); }},
    {"cos", [](double x) { return std::cos(x); }},
    {"sin", [](double x) { return std::sin(x); }},
};

struct PairRow {
  std::string_view name;
  double (*apply)(double, double);
};
constexpr PairRow kPairs[] = {
    {"add", [](double a, double b) { return a + b; }},
    {"sub", [](double a, double b) { return a - b; }},
    {"mul", [](double a, double b) { return a * b; }},
    {"div", [](double a, double b) { return a / b; }},
};

Numbers softmax(const Numbers& x) {
  Numbers y;
  double sum = 0;
  for (const double each : x) sum += std::exp(each);
  for (const double each : x) y.push_back(std::exp(each) / sum);
  return y;
}
double sum(const Numbers& x) { return std::accumulate(x.begin(), x.end(), 0.0); }

// Over a whole dim.
struct WholeDimRow {
  std::string_view name;
  Numbers (*apply)(const Numbers&);
};
constexpr WholeDimRow kDims[] = {
    {"softmax", softmax},
    {"mean", [](const Numbers& x) { return Numbers{sum(x) / static_cast<double>(x.size())}; }},
    {"max", [](const Numbers& x) { return Numbers{*std::max_element(x.begin(), x.end())}; }},
    {"amax", [](const Numbers& x) { return Numbers{*std::max_element(x.begin(), x.end())}; }},
    {"min", [](const Numbers& x) { return Numbers{*std::min_element(x.begin(), x.end())}; }},
    {"cumsum",
     [](const Numbers& x) {
       Numbers y(x.size());
       std::partial_sum(x.begin(), x.end(), y.begin());
       return y;
     }},
};
// To sizes of the whole.
constexpr std::string_view kSizedViews[] = {"view", "reshape"};
// Over a dim that both operands have.
constexpr std::string_view kProducts[] = {"linear", "matmul"};

template <typename Rows>
auto find_name(const Rows& rows, std::string_view name) {
  const auto* row = std::find_if(std::begin(rows), std::end(rows), [&](const auto& r) { return r.name == name; });
  return row == std::end(rows) ? nullptr : row;
}

bool is_product(std::string_view name) {
  return std::find(std::begin(kProducts), std::end(kProducts), name) != std::end(kProducts);
}

bool is_sized_view(std::string_view name) {
  return std::find(std::begin(kSizedViews), std::end(kSizedViews), name) != std::end(kSizedViews);
}

// What the operation makes of the vectors; nothing where it has no arithmetic here, and an empty one where their sizes
// do not fit.
std::optional<Numbers> computed(std::string_view name, const std::vector<Numbers>& in) {
  Numbers out;
  if (const auto* row = find_name(kElements, name); row != nullptr && in.size() == 1) {
    for (const double x : in[0]) out.push_back(row->apply(x));
    return out;
  }
  if (const auto* row = find_name(kDims, name); row != nullptr && in.size() == 1) return row->apply(in[0]);
  if (is_sized_view(name) && in.size() == 1) return in[0].size() == kRanks ? in[0] : out;
  if (in.size() != 2) return std::nullopt;
  const auto* pair = find_name(kPairs, name);
  if (pair == nullptr && !is_product(name)) return std::nullopt;
  if (in[0].size() != in[1].size()) return out;
  for (size_t i = 0; i < in[0].size(); ++i)
    out.push_back(pair != nullptr ? pair->apply(in[0][i], in[1][i]) : in[0][i] * in[1][i]);
  return pair != nullptr ? out : Numbers{sum(out)};
}

std::string text_of(const Numbers& numbers) {
  std::vector<std::string> texts;
  for (const double number : numbers) {
    std::string text = fmt::format("{:.2f}", number + 0.0);
    while (text.back() == '0') text.pop_back();
    if (text.back() == '.') text.pop_back();
    texts.push_back(text == "-0" ? "0" : text);
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string line(std::string_view label, std::string_view first, std::string_view second, std::string_view whole) {
  return fmt::format("  {:<16}{:<16}{:<16}{}\n", label, first, second, whole);
}

std::string line_of(std::string_view label, const Vector& v) {
  return line(label, text_of(v.local[0]), text_of(v.local[1]), text_of(v.whole));
}

std::string heading(std::string_view what) {
  return fmt::format("in numbers: {} with two ranks\n{}", what, line("", "rank 0", "rank 1", "whole model"));
}

bool agree(const Numbers& a, const Numbers& b) {
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(), [](double x, double y) { return std::abs(x - y) < 1e-9; });
}

Held how_held(const Walk& walk, const Spread& layout, bool along_last) {
  if (layout.partial != 0) return Held::Term;
  if (layout.dims.empty()) return Held::Whole;
  if (along_last) return is_piece(walk.table.maps, layout.dims.back()) ? Held::Piece : Held::Whole;
  const bool cut =
      std::any_of(layout.dims.begin(), layout.dims.end(), [&](MapId map) { return is_piece(walk.table.maps, map); });
  return cut ? Held::Piece : Held::Whole;
}

// What the ranks have together of what each has made.
Numbers together(const std::vector<Vector>& in, const Numbers (&local)[kRanks], bool reduces) {
  const bool terms = std::any_of(in.begin(), in.end(), [](const Vector& v) { return v.held == Held::Term; });
  const bool all_pieces = std::all_of(in.begin(), in.end(), [](const Vector& v) { return v.held == Held::Piece; });
  Numbers made = local[0];
  if (terms || (all_pieces && reduces && in.size() == 2)) {
    for (size_t i = 0; i < made.size() && i < local[1].size(); ++i) made[i] += local[1][i];
  } else if (all_pieces) {
    made.insert(made.end(), local[1].begin(), local[1].end());
  }
  return made;
}

}  // namespace

std::string operation_example(const Walk& walk, const GraphNode& node, bool crashes) {
  std::string name(walk.graph.strings[node.name]);
  if (name.ends_with('_')) name.pop_back();
  std::vector<Vector> in;
  std::vector<Numbers> whole;
  for (const ValueId value : values_in(walk, node)) {
    const auto first = static_cast<double>(2 * in.size() + 1);
    in.push_back(hold(how_held(walk, walk.table.layouts[walk.layout_of[value]], is_product(name)), {first, first + 1}));
    whole.push_back(in.back().whole);
  }
  const auto right = computed(name, whole);
  if (!right) return {};
  Numbers local[kRanks];
  std::string made[kRanks];
  bool fits = true;
  for (size_t rank = 0; rank < kRanks; ++rank) {
    std::vector<Numbers> own;
    for (const Vector& v : in) own.push_back(v.local[rank]);
    local[rank] = computed(name, own).value_or(Numbers{});
    fits = fits && !local[rank].empty();
    made[rank] = !local[rank].empty()  ? text_of(local[rank])
                 : is_sized_view(name) ? fmt::format("{} of {} there", own[0].size(), kRanks)
                                       : fmt::format("{} meets {}", own[0].size(), own.back().size());
  }
  const Numbers all = together(in, local, is_product(name));
  if (fits == crashes || (fits && agree(all, *right))) return {};
  std::string out = heading(name);
  for (size_t i = 0; i < in.size(); ++i)
    out += line_of(fmt::format("{}{}",
                               in.size() == 1 ? "x"
                               : i == 0       ? "a"
                                              : "b",
                               kHeld[static_cast<size_t>(in[i].held)]),
                   in[i]);
  out += line(name, made[0], made[1], text_of(*right));
  return out + (fits ? fmt::format("  {} where {} belongs\n", text_of(all), text_of(*right))
                     : fmt::format("  no result where {} belongs\n", text_of(*right)));
}

std::string result_example(const Walk& walk, const Spread& layout) {
  const Vector v = hold(how_held(walk, layout, false), {1, 2});
  if (agree(v.local[0], v.whole)) return {};
  return heading("the result") + line_of("returned", v) +
         fmt::format("  rank 0 goes on with {} where {} belongs\n", text_of(v.local[0]), text_of(v.whole));
}

std::string sum_example(Code code) {
  const bool is_missing = code == Code::TP5111, is_gradient = is_missing || code == Code::TP5112;
  if (!is_gradient && code != Code::TP5109) return {};
  const Vector v = is_missing ? hold(Held::Term, {1}) : hold(Held::Whole, {1});
  const double added = v.local[0][0] + v.local[1][0];
  std::string out = heading(is_gradient ? "the gradient" : "the value") + line_of("each has", v);
  if (is_missing)
    return out + fmt::format("  rank 0 steps by {} and rank 1 by {}, where {} + {} = {} belongs\n", text_of(v.local[0]),
                             text_of(v.local[1]), text_of(v.local[0]), text_of(v.local[1]), text_of(v.whole));
  return out + fmt::format("  {} = {} + {} where {} belongs\n", text_of({added}), text_of(v.local[0]),
                           text_of(v.local[1]), text_of(v.whole));
}

}  // namespace tpplan
