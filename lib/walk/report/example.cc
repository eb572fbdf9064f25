#include "walk/report/example.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <optional>
#include <utility>

#include "base/text.h"
#include "walk/state/node_args.h"
#include "walk/state/slots.h"

namespace tpplan {
namespace {

using Numbers = std::vector<double>;
constexpr size_t kRanks = 2;
constexpr size_t kLineWidth = 80;

enum class Held : uint8_t { Replicated, Shard, Partial };
constexpr std::string_view kHeld[] = {"", ", shards", ", partial"};  // by Held
static_assert(std::size(kHeld) == static_cast<size_t>(Held::Partial) + 1);

// The elements of a value along its sharded dim.
struct Vector {
  Held held = Held::Replicated;
  Numbers global;
  Numbers local[kRanks];
};

// What each rank holds when a reduction is missing (Held::Partial) or is one too many (Held::Replicated).
struct SumExample {
  Code code;
  std::string_view subject;
  Held held;
};
constexpr SumExample kSumExamples[] = {{Code::ReplicatedValueReduced, "the value", Held::Replicated},
                                       {Code::GradientNotReduced, "the gradient", Held::Partial},
                                       {Code::ReplicatedGradientReduced, "the gradient", Held::Replicated}};

// Returns the values on two ranks: shards of one element, or different partial values whose sum is the value.
Vector hold(Held held, Numbers global) {
  Vector v{.held = held, .global = std::move(global), .local = {}};
  for (size_t i = 0; i < v.global.size(); ++i) {
    if (held == Held::Shard) v.local[i % kRanks].push_back(v.global[i]);
    for (size_t rank = 0; held != Held::Shard && rank < kRanks; ++rank)
      v.local[rank].push_back(held == Held::Replicated ? v.global[i] : rank == 0 ? v.global[i] + 2 : -2);
  }
  return v;
}

double relu(double x) { return std::max(x, 0.0); }
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double silu(double x) { return x * sigmoid(x); }
double gelu(double x) { return x / 2 * (1 + std::erf(x / std::sqrt(2.0))); }

constexpr auto kElements = by_op<double (*)(double)>({
    {OpId::Relu, relu},
    {OpId::Silu, silu},
    {OpId::Gelu, gelu},
    {OpId::Sigmoid, sigmoid},
    {OpId::Tanh, [](double x) { return std::tanh(x); }},
    {OpId::Exp, [](double x) { return std::exp(x); }},
    {OpId::Abs, [](double x) { return std::abs(x); }},
    {OpId::Cos, [](double x) { return std::cos(x); }},
    {OpId::Sin, [](double x) { return std::sin(x); }},
});

constexpr auto kPairs = by_op<double (*)(double, double)>({
    {OpId::Add, [](double a, double b) { return a + b; }},
    {OpId::Sub, [](double a, double b) { return a - b; }},
    {OpId::Mul, [](double a, double b) { return a * b; }},
    {OpId::Div, [](double a, double b) { return a / b; }},
});

Numbers softmax(const Numbers& x) {
  Numbers y;
  double sum = 0;
  for (const double each : x) sum += std::exp(each);
  for (const double each : x) y.push_back(std::exp(each) / sum);
  return y;
}
double sum(const Numbers& x) { return std::accumulate(x.begin(), x.end(), 0.0); }

Numbers largest(const Numbers& x) { return {*std::max_element(x.begin(), x.end())}; }

// Operations along a full dim.
constexpr auto kDims = by_op<Numbers (*)(const Numbers&)>({
    {OpId::Softmax, softmax},
    {OpId::Mean, [](const Numbers& x) { return Numbers{sum(x) / static_cast<double>(x.size())}; }},
    {OpId::Max, largest},
    {OpId::Amax, largest},
    {OpId::Min, [](const Numbers& x) { return Numbers{*std::min_element(x.begin(), x.end())}; }},
    {OpId::Cumsum,
     [](const Numbers& x) {
       Numbers y(x.size());
       std::partial_sum(x.begin(), x.end(), y.begin());
       return y;
     }},
});

// Views with global sizes.
bool is_sized_view(OpId op) { return op == OpId::View || op == OpId::Reshape; }
// Matmuls over a dim of both operands.
bool is_matmul(OpId op) { return op == OpId::Linear || op == OpId::Matmul; }

// Evaluates the operation on vectors. Returns nullopt if its arithmetic is unknown here, and an empty vector if the
// sizes do not fit.
std::optional<Numbers> computed(OpId op, const std::vector<Numbers>& in) {
  Numbers out;
  if (const auto apply = kElements[index_of(op)]; apply != nullptr && in.size() == 1) {
    for (const double x : in[0]) out.push_back(apply(x));
    return out;
  }
  if (const auto apply = kDims[index_of(op)]; apply != nullptr && in.size() == 1) return apply(in[0]);
  if (is_sized_view(op) && in.size() == 1) return in[0].size() == kRanks ? in[0] : out;
  if (in.size() != 2) return std::nullopt;
  const auto pair = kPairs[index_of(op)];
  if (pair == nullptr && !is_matmul(op)) return std::nullopt;
  if (in[0].size() != in[1].size()) return out;
  for (size_t i = 0; i < in[0].size(); ++i)
    out.push_back(pair != nullptr ? pair(in[0][i], in[1][i]) : in[0][i] * in[1][i]);
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

ExampleRow row_of(std::string_view name, const Vector& v) {
  return {std::string(name), {{v.local[0], {}}, {v.local[1], {}}}, {v.global, {}}};
}

Example begin_example(std::string_view operation) {
  Example example;
  example.operation = operation;
  return example;
}

bool agree(const Numbers& a, const Numbers& b) {
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(), [](double x, double y) { return std::abs(x - y) < 1e-9; });
}

Held how_held(const Walk& walk, const ValueLayout& layout, bool along_last) {
  if (layout.partial != 0) return Held::Partial;
  if (layout.dims.empty()) return Held::Replicated;
  if (along_last)
    return differs_from_global(walk.memory.table.maps, layout.dims.back()) ? Held::Shard : Held::Replicated;
  const bool has_shards = std::any_of(layout.dims.begin(), layout.dims.end(), [&](DimLayoutId map) {
    return differs_from_global(walk.memory.table.maps, map);
  });
  return has_shards ? Held::Shard : Held::Replicated;
}

// Returns the combined result of the ranks: the sum of partial values, the concatenation of shards, or that of rank 0.
Numbers together(const std::vector<Vector>& in, const Numbers (&local)[kRanks], bool reduces) {
  const bool has_partial = std::any_of(in.begin(), in.end(), [](const Vector& v) { return v.held == Held::Partial; });
  const bool all_shards = std::all_of(in.begin(), in.end(), [](const Vector& v) { return v.held == Held::Shard; });
  Numbers made = local[0];
  if (has_partial || (all_shards && reduces && in.size() == 2)) {
    for (size_t i = 0; i < made.size() && i < local[1].size(); ++i) made[i] += local[1][i];
  } else if (all_shards) {
    made.insert(made.end(), local[1].begin(), local[1].end());
  }
  return made;
}

// Evaluates the operation on two ranks. Returns no rows if its arithmetic is unknown, or if it shows no error.
Example number_example(const Walk& walk, const GraphNode& node, bool crashes) {
  const std::string name(plain_op(walk.in.graph.strings[node.name]));
  std::vector<Vector> in;
  std::vector<Numbers> inputs;
  for (const ValueId value : input_values(walk, node)) {
    const auto first = static_cast<double>(2 * in.size() + 1);
    in.push_back(hold(how_held(walk, walk.memory.table.layouts[walk.memory.layout_of[value]], is_matmul(node.op)),
                      {first, first + 1}));
    inputs.push_back(in.back().global);
  }
  const auto right = computed(node.op, inputs);
  if (!right) return {};
  Numbers local[kRanks];
  ExampleRow made{.name = name, .ranks = {}, .global = {*right, {}}};
  bool fits = true;
  for (size_t rank = 0; rank < kRanks; ++rank) {
    std::vector<Numbers> operands;
    for (const Vector& v : in) operands.push_back(v.local[rank]);
    local[rank] = computed(node.op, operands).value_or(Numbers{});
    fits = fits && !local[rank].empty();
    made.ranks[rank].numbers = local[rank];
    if (local[rank].empty())
      made.ranks[rank].text = is_sized_view(node.op)
                                  ? fmt::format("{} of {} elements", operands[0].size(), kRanks)
                                  : fmt::format("sizes {} and {}", operands[0].size(), operands.back().size());
  }
  const Numbers all = together(in, local, is_matmul(node.op));
  if (fits == crashes || (fits && agree(all, *right))) return {};
  Example example = begin_example(name);
  for (size_t i = 0; i < in.size(); ++i) {
    const std::string_view letter = in.size() == 1 ? "x" : i == 0 ? "a" : "b";
    example.rows.push_back(row_of(fmt::format("{}{}", letter, kHeld[static_cast<size_t>(in[i].held)]), in[i]));
  }
  example.rows.push_back(std::move(made));
  example.conclusion = fits ? fmt::format("got {}, expected {}", text_of(all), text_of(*right))
                            : fmt::format("no result, expected {}", text_of(*right));
  return example;
}

// ---- shapes ----

Numbers numbers_of(std::span<const int64_t> sizes) { return {sizes.begin(), sizes.end()}; }

// Returns the first rank whose shard differs from that of rank 0; 0 if there is none.
size_t other_rank(const Walk& walk, const ValueLayout& layout) {
  for (size_t rank = 1; rank < walk.in.ranks; ++rank) {
    for (const DimLayoutId id : layout.dims) {
      const DimLayout& map = walk.memory.table.maps.maps[id];
      if (map.local[rank] != map.local[0] || (!map.intervals.empty() && map.intervals[rank] != map.intervals[0]))
        return rank;
    }
  }
  return 0;
}

void add_value(const Walk& walk, std::string name, ValueId value, const ValueLayout& layout, Example& example) {
  ExampleRow row{.name = std::move(name), .ranks = {}, .global = {numbers_of(shape_of(walk.in.graph, value)), {}}};
  if (layout.is_dtensor) row.name += ", DTensor";
  for (size_t i = 0; i < kRanks; ++i)
    row.ranks[i].numbers = numbers_of(local_shape(walk.memory.table, layout, example.ranks[i]));
  example.rows.push_back(std::move(row));
}

// Adds the sizes that the operation requests, as each rank computes them; nothing if it has none.
void add_requested(Walk& walk, const GraphNode& node, Example& example) {
  ExampleRow row{.name = "requested", .ranks = {}, .global = {}};
  each_arg(walk.in.graph, node, [&](const GraphArg& arg) {
    if (arg.kind != ArgKind::Int && arg.kind != ArgKind::Size) return;
    const bool is_size = arg.kind == ArgKind::Size;
    row.global.numbers.push_back(static_cast<double>(is_size ? walk.in.graph.sizes[arg.id].traced : arg.integer));
    for (size_t i = 0; i < kRanks; ++i)
      row.ranks[i].numbers.push_back(static_cast<double>(
          is_size ? walk.memory.tables.numbers[evaluate_size(walk, arg.id)].local[example.ranks[i]] : arg.integer));
  });
  if (!row.global.numbers.empty()) example.rows.push_back(std::move(row));
}

}  // namespace

std::string example_text(const Example& example) {
  const auto cell_text = [&](const ExampleCell& cell) {
    if (!cell.text.empty()) return cell.text;
    return example.in_shapes ? fmt::format("[{}]", text_of(cell.numbers)) : text_of(cell.numbers);
  };
  std::vector<std::array<std::string, 4>> lines{
      {{"", fmt::format("rank {}", example.ranks[0]), fmt::format("rank {}", example.ranks[1]), "unsharded"}}};
  for (const ExampleRow& row : example.rows)
    lines.push_back({row.name, cell_text(row.ranks[0]), cell_text(row.ranks[1]), cell_text(row.global)});
  size_t widths[3] = {16, 16, 16};
  for (const auto& line : lines) {
    for (size_t i = 0; i < 3; ++i) widths[i] = std::max(widths[i], line[i].size() + 2);
  }
  std::string out = fmt::format("{}: {}: in {}: {} ", kind_of(example.code).id, example.path,
                                example.in_shapes ? "shapes" : "numbers", example.operation);
  out += example.mesh.empty() ? "with two ranks" : fmt::format("on {}", example.mesh);
  if (example.batch > 0) out += fmt::format(", batch {}, sequence {}", example.batch, example.sequence);
  out += '\n';
  for (const auto& line : lines) {
    out += fmt::format("  {:<{}}{:<{}}{:<{}}{}\n", line[0], widths[0], line[1], widths[1], line[2], widths[2], line[3]);
  }
  std::string last;
  for (const std::string_view word : split(example.conclusion, ' ')) {
    if (!last.empty() && last.size() + 3 + word.size() > kLineWidth)
      out += fmt::format("  {}\n", std::exchange(last, {}));
    last += last.empty() ? word : fmt::format(" {}", word);
  }
  return out + fmt::format("  {}\n", last);
}

Example operation_example(const Walk& walk, const GraphNode& node, bool crashes) {
  return number_example(walk, node, crashes);
}

Example crash_example(Walk& walk, const GraphNode& node, const std::string& reason) {
  const bool is_operation = node.kind == NodeKind::Op;
  Example example = begin_example(walk.in.graph.strings[node.name]);
  if (!is_operation) example.operation = node.kind == NodeKind::Enter ? "inputs" : "outputs";
  example.in_shapes = true;
  std::vector<std::pair<std::string, ValueId>> values;
  if (is_operation) {
    for (const ValueId value : input_values(walk, node))
      values.emplace_back(std::string(1, static_cast<char>('a' + values.size() % 26)), value);
    if (values.size() == 1) values.front().first = "x";
  }
  for (uint32_t i = node.crossing_begin; !is_operation && i < node.crossing_end; ++i) {
    const Crossing& crossing = walk.in.graph.crossings[i];
    values.emplace_back(
        crossing.key.empty() ? fmt::format("value {}", std::max(crossing.position, 0)) : std::string(crossing.key),
        crossing.from);
  }
  for (const auto& [name, value] : values) {
    const SlotId slot = walk.memory.slot_of[value];
    if (slot != kNoId && example.ranks[1] <= 1)
      example.ranks[1] = std::max<size_t>(1, other_rank(walk, layout_of(walk, slot)));
  }
  for (const auto& [name, value] : values) {
    const SlotId slot = walk.memory.slot_of[value];
    if (slot != kNoId && !shape_of(walk.in.graph, value).empty())
      add_value(walk, name, value, layout_of(walk, slot), example);
  }
  if (is_operation && is_sized_view(node.op)) add_requested(walk, node, example);
  if (is_operation && node.out_begin < node.out_end && !example.rows.empty()) {
    ExampleRow row{.name = "result", .ranks = {{{}, "none"}, {{}, "none"}}, .global = {}};
    row.global.numbers = numbers_of(shape_of(walk.in.graph, walk.in.graph.outs[node.out_begin]));
    example.rows.push_back(std::move(row));
  }
  example.conclusion = reason;
  return example;
}

Example result_example(const Walk& walk, const ValueLayout& layout) {
  const Vector v = hold(how_held(walk, layout, false), {1, 2});
  if (agree(v.local[0], v.global)) return {};
  Example example = begin_example("the result");
  example.rows.push_back(row_of("returned", v));
  example.conclusion = fmt::format("rank 0 continues with {}, expected {}", text_of(v.local[0]), text_of(v.global));
  return example;
}

Example sum_example(Code code) {
  const auto* row = std::ranges::find(kSumExamples, code, &SumExample::code);
  if (row == std::end(kSumExamples)) return {};
  const bool is_missing = row->held == Held::Partial;
  const Vector v = hold(row->held, {1});
  const double added = v.local[0][0] + v.local[1][0];
  Example example = begin_example(row->subject);
  example.rows.push_back(row_of("each rank", v));
  example.conclusion =
      is_missing ? fmt::format("rank 0 updates by {} and rank 1 by {}, expected {} + {} = {}", text_of(v.local[0]),
                               text_of(v.local[1]), text_of(v.local[0]), text_of(v.local[1]), text_of(v.global))
                 : fmt::format("{} = {} + {}, expected {}", text_of({added}), text_of(v.local[0]), text_of(v.local[1]),
                               text_of(v.global));
  return example;
}

}  // namespace tpplan
