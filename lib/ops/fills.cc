// Constants: one row. Their sizes are those that are asked for; those that are 0, or filled by nobody, fit to open
// sums.
#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "ops/op_rules.h"

namespace tpplan {

void rule_fill(OpCall& call, OpResult& result) {
  const auto target = out_shape(call);
  const std::string_view name = call.name;
  Spread out;
  out.zero = name.find("zero") != std::string_view::npos || name.find("empty") != std::string_view::npos;
  if (name.ends_with("_like") || name == "fill" || name == "zero") {
    const auto x = tensor_at(call, 0);
    if (const auto value = tensor_at(call, 1); value && value->layout->partial)
      make_wrong(result, Code::TP5108, fmt::format("{} with a sum that is still open", name));
    if (!x) return give(result, whole_layout(call.table, target));
    for (size_t dim = 0; dim < x->layout->dims.size(); ++dim)
      out.dims.push_back(any_map(call.table.maps, target[dim], call.table.maps.maps[x->layout->dims[dim]].local,
                                 call.table.maps.maps[x->layout->dims[dim]].axes));
    return give(result, std::move(out));
  }
  if (name == "arange" || name == "linspace" || name == "eye") {
    // The last number that is no step decides over how many there are; a rank's own number gives other values.
    const std::vector<Operand> tensors = tensors_of(call);
    for (size_t i = 0; i < call.args.size(); ++i) {
      const GraphArg& arg = call.graph.args[call.args[i]];
      if (!is_number(&arg)) continue;
      const RankNumber n = number_of(call, arg);
      if (std::all_of(n.local.begin(), n.local.end(), [&](int64_t k) { return k == n.traced; })) continue;
      make_wrong(
          result, Code::TP5113,
          fmt::format("{} counts to a rank's own size {}, and to {} in the whole model", name, n.local[0], n.traced));
      std::vector<int64_t> sizes = n.local;
      for (const int64_t size : target) out.dims.push_back(any_map(call.table.maps, size, sizes, n.axes));
      return give(result, std::move(out));
    }
    return give(result, whole_layout(call.table, target));
  }
  if (name == "tensor" || name == "scalar_tensor") return give(result, whole_layout(call.table, target));
  const bool is_method = name.starts_with("new_");
  std::vector<RankNumber> sizes = numbers_at(call, is_method ? 1 : 0, "size");
  if (sizes.size() != target.size()) return give(result, whole_layout(call.table, target));
  for (size_t dim = 0; dim < target.size(); ++dim)
    out.dims.push_back(any_map(call.table.maps, target[dim], sizes[dim].local, sizes[dim].axes));
  give(result, std::move(out));
}

}  // namespace tpplan
