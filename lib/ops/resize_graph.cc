#include "ops/resize_graph.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <map>
#include <optional>

#include "model/number_signatures.h"
#include "model/size_ops.h"
#include "ops/op_rules.h"
#include "sharding/tensor_size.h"

namespace tpplan {
namespace {

// A step at other sizes is a step on one rank with another number of elements than traced. The rules compute the sizes
// of the results; their errors about values are ignored.
struct Resizing {
  OpGraph& graph;
  FileId file;
  const StepSizes& wanted;
  Diagnostics& diagnostics;
  ValueLayoutTable table;
  std::vector<ValueLayoutId> layout_of;   // by value
  std::vector<SizeNumber> numbers;        // by size entry
  std::vector<uint32_t> size_numbers;     // by size entry: its index once it is evaluated, kNoId before
  std::vector<bool> known;                // by value: its shape is set
  std::vector<std::string_view> modules;  // the current modules, outermost first
  bool failed = false;
};

bool reject(Resizing& r, uint32_t offset, const std::string& reason) {
  if (r.failed) return false;
  r.failed = true;
  const StepSizes& w = r.wanted;
  const int64_t batch = w.batch > 0 ? w.batch : r.graph.batch,
                sequence = w.sequence > 0 ? w.sequence : r.graph.sequence;
  report_message(r.diagnostics, Code::GraphNotResizable, {r.file, offset, 1},
                 fmt::format("at batch {}, sequence {}: {}", batch, sequence, reason),
                 fmt::format("trace the step at these sizes: python -m tpplan.export ... --batch {} --sequence {}",
                             batch, sequence));
  return false;
}

void set_sizes(Resizing& r, ValueId value, std::span<const int64_t> sizes) {
  const auto traced = shape_of(r.graph, value);
  ValueLayout layout;
  for (size_t dim = 0; dim < traced.size(); ++dim)
    layout.dims.push_back(unknown_dim(r.table.maps, traced[dim], {dim < sizes.size() ? sizes[dim] : traced[dim]}));
  r.layout_of[value] = intern(r.table, layout);
  r.known[value] = true;
}

std::vector<int64_t> sizes_of(const Resizing& r, ValueId value) {
  return local_shape(r.table, r.table.layouts[r.layout_of[value]], 0);
}

bool is_as_traced(const Resizing& r, ValueId value) { return r.table.is_plain[r.layout_of[value]] != 0; }

std::optional<int64_t> operand(Resizing& r, const SizeOperand& operand);

// Returns the number of a size; nullopt if its value does not exist yet, or if it has no number.
std::optional<int64_t> size_number(Resizing& r, uint32_t id) {
  if (r.size_numbers[id] != kNoId) return r.numbers[id].local[0];
  const SizeEntry& entry = r.graph.sizes[id];
  std::optional<int64_t> number;
  if (entry.op == SizeOp::Size) {
    const auto value = static_cast<ValueId>(entry.a.number);
    if (r.known[value]) number = sizes_of(r, value)[static_cast<size_t>(entry.b.number)];
  } else {
    const auto a = operand(r, entry.a), b = operand(r, entry.b);
    int64_t result = 0;
    if (a && b && apply_size_op(entry.op, *a, *b, result)) number = result;
  }
  if (!number) return number;
  r.numbers[id] = {{*number}, kAllAxes};
  r.size_numbers[id] = id;
  return number;
}

std::optional<int64_t> operand(Resizing& r, const SizeOperand& operand) {
  if (!operand.is_entry) return operand.number;
  return size_number(r, static_cast<uint32_t>(operand.number));
}

bool compare(GuardOp op, int64_t a, int64_t b) {
  switch (op) {
    case GuardOp::Lt:
      return a < b;
    case GuardOp::Le:
      return a <= b;
    case GuardOp::Gt:
      return a > b;
    case GuardOp::Ge:
      return a >= b;
    case GuardOp::Eq:
      return a == b;
    case GuardOp::Ne:
      return a != b;
  }
  return false;
}

std::string_view sign_of(GuardOp op) {
  constexpr std::string_view kSigns[] = {"<", "<=", ">", ">=", "==", "!="};
  static_assert(std::size(kSigns) == static_cast<size_t>(GuardOp::Ne) + 1);
  return kSigns[static_cast<size_t>(op)];
}

int64_t traced_number(const OpGraph& graph, const SizeOperand& operand) {
  return operand.is_entry ? graph.sizes[static_cast<size_t>(operand.number)].traced : operand.number;
}

// True if the branch of a comparison only expands a dim of size 1 to the size that it was compared with, as in
// `if batch != positions.shape[0]: positions = positions.expand(batch, -1)`. If both are equal, expanding changes
// nothing.
bool only_expands(const OpGraph& graph, const GraphGuard& guard) {
  if (guard.op != GuardOp::Ne || !guard.held || !guard.a.is_entry || !guard.b.is_entry) return false;
  const auto expands = [&](const SizeOperand& from, const SizeOperand& to) {
    const SizeEntry& size = graph.sizes[static_cast<size_t>(from.number)];
    if (size.op != SizeOp::Size || size.traced != 1) return false;
    return std::ranges::any_of(graph.nodes, [&](const GraphNode& node) {
      if (node.kind != NodeKind::Op || node.op != OpId::Expand || node.args_begin == node.args_end) return false;
      const GraphArg& value = graph.args[node.args_begin];
      if (value.kind != ArgKind::Value || value.id != static_cast<ValueId>(size.a.number)) return false;
      return std::any_of(
          graph.args.begin() + node.args_begin, graph.args.begin() + node.args_end,
          [&](const GraphArg& arg) { return arg.kind == ArgKind::Size && arg.id == static_cast<uint32_t>(to.number); });
    });
  };
  return expands(guard.a, guard.b) || expands(guard.b, guard.a);
}

// Checks the comparisons whose sizes are known.
bool check_guards(Resizing& r) {
  for (const GraphGuard& guard : r.graph.guards) {
    const auto a = operand(r, guard.a), b = operand(r, guard.b);
    if (!a || !b || compare(guard.op, *a, *b) == guard.held || only_expands(r.graph, guard)) continue;
    const std::string_view sign = sign_of(guard.op);
    return reject(
        r, guard.offset,
        fmt::format("the model would take another branch: {} {} {} is {}, but was {} in the traced step ({} {} {})", *a,
                    sign, *b, !guard.held, guard.held, traced_number(r.graph, guard.a), sign,
                    traced_number(r.graph, guard.b)));
  }
  return true;
}

// Gives every result of broadcast_tensors the broadcast shape of all operands.
bool broadcast_all(Resizing& r, const GraphNode& node, const OpCall& call) {
  Sizes out;
  const auto operands = tensors_of(call);
  for (const Operand& x : operands) {
    const Sizes sizes = local_shape(r.table, *x.layout, 0);
    if (sizes.size() > out.size()) out.insert(out.begin(), sizes.size() - out.size(), 1);
    for (size_t i = 0; i < sizes.size(); ++i) {
      int64_t& size = out[out.size() - 1 - i];
      if (size == 1) size = sizes[sizes.size() - 1 - i];
    }
  }
  for (uint32_t i = node.out_begin; i < node.out_end; ++i) set_sizes(r, r.graph.outs[i], out);
  return true;
}

std::string shapes_text(const std::vector<std::string>& shapes) {
  return fmt::format("{}", fmt::join(shapes, " and "));
}

// Returns the new and the traced shapes of the operands.
std::string operands_text(const Resizing& r, const OpCall& call) {
  std::vector<std::string> now, traced;
  for (const Operand& x : tensors_of(call)) {
    now.push_back(shape_text(local_shape(r.table, *x.layout, 0)));
    traced.push_back(shape_text(x.shape));
  }
  return fmt::format("{} (traced with {})", shapes_text(now), shapes_text(traced));
}

std::string place_text(const Resizing& r) {
  return r.modules.empty() || r.modules.back().empty() ? std::string("the model")
                                                       : fmt::format("`{}`", r.modules.back());
}

// Evaluates the sizes among the arguments. `same`: all operands and sizes are as traced. Returns false if a size has no
// number.
bool see_args(Resizing& r, const GraphNode& node, bool& same) {
  const OpGraph& graph = r.graph;
  const auto see = [&](uint32_t begin, uint32_t end) {
    for (uint32_t i = begin; i < end; ++i) {
      const GraphArg& arg = graph.args[i];
      if (arg.kind == ArgKind::Value) same = same && is_as_traced(r, arg.id);
      if (arg.kind != ArgKind::Size) continue;
      const auto number = size_number(r, arg.id);
      if (!number)
        return reject(r, node.offset, fmt::format("a size argument of {} is unknown", graph.strings[node.name]));
      same = same && *number == graph.sizes[arg.id].traced;
    }
    return true;
  };
  if (!see(node.args_begin, node.args_end)) return false;
  for (uint32_t k = node.keywords_begin; k < node.keywords_end; ++k) {
    const uint32_t arg = graph.keywords[k].arg;
    if (!see(arg, graph.args[arg].end)) return false;
  }
  return true;
}

// True if a tensor can have these sizes.
bool can_be(const Sizes& sizes) {
  int64_t elements = 1;
  return std::all_of(sizes.begin(), sizes.end(), [&](int64_t size) {
    return size >= 0 && !__builtin_mul_overflow(elements, std::max<int64_t>(1, size), &elements) &&
           elements <= int64_t{1} << 62;
  });
}

bool run_op(Resizing& r, const GraphNode& node) {
  const OpGraph& graph = r.graph;
  bool same = true;
  if (!see_args(r, node, same)) return false;
  if (same) {
    for (uint32_t i = node.out_begin; i < node.out_end; ++i)
      set_sizes(r, graph.outs[i], shape_of(graph, graph.outs[i]));
    return true;
  }
  OpCall call{.graph = graph,
              .node = node,
              .table = r.table,
              .layouts = r.layout_of,
              .numbers = r.numbers,
              .size_numbers = r.size_numbers,
              .name = {},
              .args = {}};
  const OpResult result = run_rule(call);
  if (!result.crash.empty()) {
    if (!check_guards(r)) return false;
    return reject(
        r, node.offset,
        fmt::format("{} in {} fails for these shapes: {}", name_of(call), place_text(r), operands_text(r, call)));
  }
  if (node.op == OpId::BroadcastTensors) return broadcast_all(r, node, call);
  const SizeRule size_rule = op_row(node.op).sizes;
  if (result.unknown && size_rule == nullptr && node.out_begin != node.out_end)
    return reject(r, node.offset,
                  fmt::format("no rule computes the shape of {} in {} for other sizes", name_of(call), place_text(r)));
  const auto operands = tensors_of(call);
  for (uint32_t i = node.out_begin; i < node.out_end; ++i) {
    Sizes sizes = local_shape(r.table, result.outs[i - node.out_begin], 0);
    if (size_rule != nullptr)
      size_rule(call, operands.empty() ? Sizes{} : local_shape(r.table, *operands[0].layout, 0), sizes);
    if (!can_be(sizes))
      return reject(
          r, node.offset,
          fmt::format("{} in {} would return the invalid shape {}", name_of(call), place_text(r), shape_text(sizes)));
    set_sizes(r, graph.outs[i], sizes);
  }
  return true;
}

// Replaces the traced shapes and sizes by the computed ones.
void commit(Resizing& r) {
  OpGraph& graph = r.graph;
  std::map<std::vector<int64_t>, uint32_t> shapes;
  std::vector<GraphShape> list;
  std::vector<int64_t> sizes;
  for (ValueId value = 0; value < graph.values.size(); ++value) {
    std::vector<int64_t> shape = r.known[value] ? sizes_of(r, value) : std::vector<int64_t>{};
    if (!r.known[value]) shape.assign(shape_of(graph, value).begin(), shape_of(graph, value).end());
    const auto [entry, is_new] = shapes.try_emplace(std::move(shape), static_cast<uint32_t>(list.size()));
    if (is_new) {
      list.push_back({static_cast<uint32_t>(sizes.size()), static_cast<uint32_t>(entry->first.size())});
      sizes.insert(sizes.end(), entry->first.begin(), entry->first.end());
    }
    r.layout_of[value] = entry->second;
  }
  for (ValueId value = 0; value < graph.values.size(); ++value) graph.values[value].shape = r.layout_of[value];
  graph.shapes = std::move(list);
  graph.shape_sizes = std::move(sizes);
  for (uint32_t id = 0; id < graph.sizes.size(); ++id) {
    if (r.size_numbers[id] != kNoId) graph.sizes[id].traced = r.numbers[id].local[0];
  }
  if (r.wanted.batch > 0) graph.batch = r.wanted.batch;
  if (r.wanted.sequence > 0) graph.sequence = r.wanted.sequence;
  number_signatures(graph);
}

// Returns the sizes of the traced step: dims 0 and 1 of an input, of the first one if the graph does not specify them.
StepSizes traced_sizes(const OpGraph& graph) {
  StepSizes first;
  for (const GraphLeaf& leaf : graph.leaves) {
    const auto shape = shape_of(graph, leaf.value);
    if (leaf.kind != LeafKind::Input || shape.empty()) continue;
    const StepSizes input_sizes{shape[0], shape.size() > 1 ? shape[1] : 0};
    if (input_sizes.batch == graph.batch && input_sizes.sequence == graph.sequence) return input_sizes;
    if (first.batch == 0 || (first.sequence == 0 && input_sizes.sequence != 0)) first = input_sizes;
  }
  return first;
}

}  // namespace

bool resize_graph(OpGraph& graph, FileId file, const StepSizes& sizes, Diagnostics& diagnostics) {
  if (sizes.batch <= 0 && sizes.sequence <= 0) return true;
  Resizing r{.graph = graph,
             .file = file,
             .wanted = sizes,
             .diagnostics = diagnostics,
             .table = {},
             .layout_of = std::vector<ValueLayoutId>(graph.values.size(), 0),
             .numbers = std::vector<SizeNumber>(graph.sizes.size()),
             .size_numbers = std::vector<uint32_t>(graph.sizes.size(), kNoId),
             .known = std::vector<bool>(graph.values.size(), false),
             .modules = {}};
  if (!graph.is_there) return reject(r, 0, "the model file has no operations, so it has no sizes to change");
  const StepSizes traced = traced_sizes(graph);
  bool has_batch = sizes.batch <= 0, has_sequence = sizes.sequence <= 0;
  for (const GraphLeaf& leaf : graph.leaves) {
    const auto shape = shape_of(graph, leaf.value);
    std::vector<int64_t> leaf_sizes(shape.begin(), shape.end());
    if (leaf.kind == LeafKind::Input) {
      if (sizes.batch > 0 && !leaf_sizes.empty() && leaf_sizes[0] == traced.batch)
        has_batch = true, leaf_sizes[0] = sizes.batch;
      if (sizes.sequence > 0 && leaf_sizes.size() > 1 && leaf_sizes[1] == traced.sequence)
        has_sequence = true, leaf_sizes[1] = sizes.sequence;
    }
    set_sizes(r, leaf.value, leaf_sizes);
  }
  if (!has_batch || !has_sequence)
    return reject(r, graph.offset,
                  fmt::format("no input of the traced step has a dim for its {}", has_batch ? "sequence" : "batch"));
  for (const GraphNode& node : graph.nodes) {
    if (node.kind == NodeKind::Op) {
      if (!run_op(r, node)) return false;
      continue;
    }
    if (node.kind == NodeKind::Enter)
      r.modules.push_back(graph.strings[node.name]);
    else
      r.modules.pop_back();
    for (uint32_t c = node.crossing_begin; c < node.crossing_end; ++c)
      set_sizes(r, graph.crossings[c].to, sizes_of(r, graph.crossings[c].from));
  }
  for (uint32_t id = 0; id < graph.sizes.size(); ++id) size_number(r, id);
  if (!check_guards(r)) return false;
  commit(r);
  return true;
}

}  // namespace tpplan
