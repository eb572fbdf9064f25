// lstm, gru, rnn_tanh and rnn_relu: sequential steps over all features.
#include <spdlog/fmt/fmt.h>

#include "ops/op_rules.h"

namespace tpplan {
namespace {

bool is_full_sum(const OpCall& call, const ValueLayout& layout) {
  for (const DimLayoutId map : layout.dims) {
    if (!is_fully_replicated(call.table.maps, map)) return false;
  }
  return layout.partial == 0;
}

}  // namespace

void rule_recurrent(OpCall& call, OpResult& result) {
  const auto x = tensor_at(call, 0, "input");
  // A packed sequence has the batch sizes as second tensor.
  const size_t weights_at = 2, batch_first_at = 8;
  uint32_t index = 0;
  const GraphArg* weights = find_arg(call, weights_at, "params", &index);
  if (!x || x->shape.size() != 3 || weights == nullptr || weights->kind != ArgKind::Tuple || call.args.size() < 9)
    return;
  const DimLayoutTable& maps = call.table.maps;
  const std::vector<Operand> operands = tensors_of(call);
  const bool batch_first = bool_at(call, batch_first_at, "batch_first", false);
  const size_t batch = batch_first ? 0 : 1, step = 1 - batch;
  for (size_t i = 1; i < operands.size(); ++i) {
    // States [layers, batch, size] must have the layout of the batch. Sharded weights are not supported.
    ValueLayout layout = *operands[i].layout;
    if (operands[i].shape.size() == 3) {
      static_cast<void>(join(call, result, x->layout->dims[batch], layout.dims[1], false, "batch"));
      layout.dims[1] = replicated_dim(call.table.maps, operands[i].shape[1]);
    }
    if (is_full_sum(call, layout)) continue;
    result.unknown = true;
    return;
  }
  if (differs_from_global(maps, x->layout->dims[2]))
    crash(result, Code::OperandSizesDiffer,
          fmt::format("{} expects {} features, but the ranks hold {}", name_of(call), x->shape[2],
                      dim_layout_text(maps, x->layout->dims[2])));
  for (const size_t dim : {step, size_t{2}}) {
    if (!is_fully_replicated(maps, x->layout->dims[dim])) report_sharded_dim(call, result, dim, x->layout->dims[dim]);
  }
  if (x->layout->partial)
    mark_wrong(result, Code::PartialUsedAsFull,
               fmt::format("{} uses a pending partial sum as the full sum", name_of(call)));
  for (size_t out = 0; out < static_cast<size_t>(call.node.out_end - call.node.out_begin); ++out) {
    ValueLayout made;
    for (const int64_t size : out_shape(call, out)) made.dims.push_back(replicated_dim(call.table.maps, size));
    if (made.dims.size() == 3) made.dims[out == 0 ? batch : 1] = x->layout->dims[batch];
    check_layout(call, result, made);
    append_result(result, std::move(made));
  }
}

}  // namespace tpplan
