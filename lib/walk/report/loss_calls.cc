#include "walk/report/loss_calls.h"

#include <algorithm>

#include "sharding/dtype.h"
#include "walk/report/append_call.h"
#include "walk/state/declared_placements.h"
#include "walk/state/slots.h"

namespace tpplan {

void append_loss_calls(Walk& walk, SlotId logits, ModuleId module) {
  const ValueLayout& layout = layout_of(walk, logits);
  DType type{};
  const std::string_view logits_dtype = dtype_of(walk, logits);
  const bool is_half = find_dtype(logits_dtype, type) && dtypes()[type].bits < 32;
  std::vector<int64_t> shape = local_shape(walk.memory.table, layout, 0);
  shape.back() = 1;
  const auto axis = static_cast<size_t>(
      std::find(layout.declared.begin(), layout.declared.end(), shard_of(shape.size() - 1)) - layout.declared.begin());
  for (const std::string_view dtype :
       {is_half ? "float32" : logits_dtype, is_half ? "float32" : logits_dtype, logits_dtype})
    append_call(walk, false, CollectiveKind::AllReduce, axis, module, shape, dtype, true);
}

}  // namespace tpplan
