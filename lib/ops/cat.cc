// cat and stack: tensors concatenated along a dim, or along a new one.
#include <spdlog/fmt/fmt.h>

#include "ops/layout_parts.h"
#include "ops/op_rules.h"

namespace tpplan {

void rule_cat(OpCall& call, OpResult& result) {
  std::vector<Operand> parts = tensors_of(call);
  const auto target = out_shape(call);
  const bool stacks = call.node.op == OpId::Stack;
  const size_t dim = dim_index(number_at(call, 1, "dim", 0).traced, target.size());
  if (!stacks)
    std::erase_if(
        parts, [&](const Operand& part) { return part.shape.size() == 1 && part.shape[0] == 0 && target.size() != 1; });
  if (parts.empty() || dim >= target.size()) return append_result(result, replicated_layout(call.table, target));
  ValueLayout out;
  const size_t ndim = parts[0].layout->dims.size();
  std::vector<DimLayoutId> along;
  for (size_t d = 0; d < ndim; ++d) {
    DimLayoutId joined = parts[0].layout->dims[d];
    if (!stacks && d == dim) {
      for (const Operand& part : parts) along.push_back(part.layout->dims[d]);
      const auto map = concat_layouts(call.table.maps, along);
      if (!map) mark_wrong(result, Code::ShardsMismatch, "the joined shards split into too many intervals to track");
      out.dims.push_back(map ? *map : joined);
      continue;
    }
    for (const Operand& part : parts)
      joined = join(call, result, joined, part.layout->dims[d], false, fmt::format("dim {}", d));
    out.dims.push_back(joined);
  }
  if (stacks)
    out.dims.insert(out.dims.begin() + static_cast<std::ptrdiff_t>(dim),
                    replicated_dim(call.table.maps, static_cast<int64_t>(parts.size())));
  combine_partial_sums(call, result, parts, Linearity::Add, false, out);
  int64_t at = 0;
  for (uint32_t part = 0; part < parts.size(); ++part) {
    const int64_t size = stacks ? 1 : parts[part].shape[dim];
    result.segments.push_back({part, static_cast<uint32_t>(dim), at, at + size});
    at += size;
  }
  result.segments_are_arguments = true;
  check_layout(call, result, out);
  append_result(result, std::move(out));
}

}  // namespace tpplan
