#include "cost/count_work.h"

#include <algorithm>

#include "cost/node_literals.h"
#include "ops/op_row.h"
#include "sharding/tensor_size.h"

namespace tpplan {
namespace {

uint64_t times(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) || product > kMostInTotal ? kMostInTotal : product;
}

uint64_t last(std::span<const int64_t> shape) { return shape.empty() ? 1 : static_cast<uint64_t>(shape.back()); }

// Returns the product of the sizes of labels that the result of an einsum lacks: h in "bsh,eoh->bseo".
uint64_t summed_labels(const StepTrace& trace, const OpGraph& graph, const GraphNode& node,
                       std::span<const uint32_t> ins) {
  const GraphArg* arg = find_literal(graph, node, 0, "equation");
  if (arg == nullptr || arg->kind != ArgKind::Text) return 1;
  const std::string_view equation = graph.texts[arg->id];
  const size_t arrow = equation.find("->");
  const std::string_view left = equation.substr(0, arrow),
                         right = arrow == std::string_view::npos ? std::string_view{} : equation.substr(arrow + 2);
  std::string seen;
  uint64_t product = 1;
  size_t operand = 0, dim = 0;
  for (const char label : left) {
    if (label == ',') {
      ++operand;
      dim = 0;
    } else if (label != ' ' && operand < ins.size()) {
      const auto shape = shape_of(trace, ins[operand]);
      const bool summed = right.find(label) == std::string_view::npos && seen.find(label) == std::string::npos;
      if (summed && dim < shape.size()) product = times(product, static_cast<uint64_t>(shape[dim]));
      seen += label;
      ++dim;
    }
  }
  return product;
}

// Returns the number of multiply-adds.
uint64_t multiplications(const StepTrace& trace, const OpGraph& graph, Contraction product, const GraphNode& node,
                         std::span<const uint32_t> ins, uint32_t out) {
  const auto result = shape_of(trace, out);
  const uint64_t made = elements_of(result);
  switch (product) {
    case Contraction::LastOfFirst:
      return times(made, last(shape_of(trace, ins[0])));
    case Contraction::LastOfSecond:
      return ins.size() < 2 ? 0 : times(made, last(shape_of(trace, ins[1])));
    case Contraction::Window: {
      const auto weight = ins.size() < 2 ? std::span<const int64_t>{} : shape_of(trace, ins[1]);
      return weight.empty() ? 0 : times(made, elements_of(weight.subspan(1)));
    }
    case Contraction::Scatter: {
      const auto weight = ins.size() < 2 ? std::span<const int64_t>{} : shape_of(trace, ins[1]);
      return weight.empty() ? 0 : times(elements_of(shape_of(trace, ins[0])), elements_of(weight.subspan(1)));
    }
    case Contraction::Equation:
      return times(made, summed_labels(trace, graph, node, ins));
    case Contraction::Attention: {
      if (ins.size() < 3 || result.size() < 2) return 0;
      const auto key = shape_of(trace, ins[1]);
      const uint64_t keys = key.size() < 2 ? 1 : static_cast<uint64_t>(key[key.size() - 2]);
      const uint64_t scores = times(elements_of(result.first(result.size() - 1)), keys);
      return times(scores, last(shape_of(trace, ins[0])) + last(result));
    }
    case Contraction::None:
      break;
  }
  return 0;
}

}  // namespace

MatmulWork count_work(const StepTrace& trace, const OpGraph& graph, const TracedOp& op) {
  MatmulWork work;
  const Contraction product = op_row(graph.nodes[op.node].op).product;
  if (product == Contraction::None || op.in_begin == op.in_end || op.out_begin == op.out_end) return work;
  const auto ins = std::span(trace.slots).subspan(op.in_begin, op.in_end - op.in_begin);
  const uint32_t out = trace.slots[op.out_begin];
  work.dtype = dtype_in(trace, out);
  work.forward = times(2, multiplications(trace, graph, product, graph.nodes[op.node], ins, out));
  if (product == Contraction::Attention) {
    const bool any = std::any_of(ins.begin(), ins.end(), [&](uint32_t in) { return trace.values[in].requires_grad; });
    work.backward = any ? times(work.forward, 5) / 2 : 0;
    return work;
  }
  // The first operand of addmm and similar operations is an addend.
  const size_t first = product == Contraction::LastOfSecond ? 1 : 0;
  for (size_t i = first; i < std::min(ins.size(), first + 2); ++i) {
    if (trace.values[ins[i]].requires_grad) work.backward = std::min(kMostInTotal, work.backward + work.forward);
  }
  return work;
}

}  // namespace tpplan
