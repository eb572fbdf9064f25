#include "walk/run/sequence_exchange.h"

#include <algorithm>

#include "sharding/tensor_size.h"
#include "walk/report/append_call.h"
#include "walk/state/node_args.h"
#include "walk/state/slots.h"

namespace tpplan {
namespace {

// Returns the axis over which the sequence is exchanged; kNoAxis if there is none, or if its calls are not listed.
// context_parallel() has a mesh of one axis.
AxisId exchange_axis(const Walk& walk) {
  const std::optional<DataSharding>& data = walk.in.plan.data;
  if (!data || data->attention == SequenceAttention::Local || data->axes.size() != 1) return kNoAxis;
  const bool is_listed = std::ranges::count(walk.in.data_axes, data->axes.front()) > 0;
  return is_listed ? data->axes.front() : kNoAxis;
}

void append(Walk& walk, const SequenceExchange& exchange, CollectiveKind kind, int64_t elements,
            std::string_view dtype) {
  DType type{};
  const int64_t shape[] = {elements};
  const uint64_t bytes = find_dtype(dtype, type) ? bytes_of(type, shape) : 0;
  append_call(walk,
              {.backward = exchange.backward,
               .kind = kind,
               .axis = exchange_axis(walk),
               .module = {},
               .shape = {elements},
               .dtype = std::string(dtype),
               .bytes = static_cast<int64_t>(bytes)},
              exchange.module);
}

}  // namespace

// Keys and values travel as one flat tensor: gathered once (`ring`, the default of set_rotate_method), or sent to the
// next rank until each rank had all (`all_to_all`). Their gradients go once around, always by all_to_all and in
// float32.
void list_sequence_exchange(Walk& walk, const SequenceExchange& exchange) {
  const AxisId axis = exchange_axis(walk);
  if (axis == kNoAxis) return;
  int64_t elements = 0;
  for (const SlotId slot : {exchange.key, exchange.value}) {
    int64_t of_slot = 1;
    for (const int64_t size : local_shape(walk.memory.table, layout_of(walk, slot), 0)) of_slot *= size;
    elements += of_slot;
  }
  const int64_t ranks = walk.in.plan.mesh.axes[axis].size;
  const bool is_gathered = walk.in.plan.data->attention == SequenceAttention::Ring;
  for (int64_t i = 0; i < ranks; ++i) {
    const bool sends = i + 1 < ranks && (i == 0 || !is_gathered);
    if (sends)
      append(walk, exchange, is_gathered ? CollectiveKind::AllGather : CollectiveKind::AllToAll, elements,
             dtype_of(walk, exchange.key));
    if (exchange.backward) append(walk, exchange, CollectiveKind::AllToAll, elements, "float32");
  }
}

void list_sequence_exchange(Walk& walk, const GraphNode& node) {
  if (op_row(node.op).rule != rule_attention || exchange_axis(walk) == kNoAxis) return;
  const std::vector<ValueId> operands = input_values(walk, node);
  if (operands.size() < 3) return;
  list_sequence_exchange(walk, {.module = current_module(walk),
                                .key = walk.memory.slot_of[operands[1]],
                                .value = walk.memory.slot_of[operands[2]]});
}

}  // namespace tpplan
