#include "sharding/param_calls.h"

#include <algorithm>
#include <tuple>

#include "sharding/tensor_size.h"

namespace tpplan {

ParamCalls param_calls(std::span<const int64_t> shape, DType dtype, const Sharding& sharding,
                       std::span<const GradReduce> reductions, std::span<const ParamStep> steps, const Mesh& mesh) {
  ParamCalls calls;
  PartitionSpec gathering = sharding.spec, reducing = spec_before_scatter(sharding.spec, reductions);
  for (const ParamStep& step : steps) {
    const bool reduces = step.part == StepPart::Reduce;
    const Collective& collective = step.step.collective;
    PartitionSpec& spec = reduces ? reducing : gathering;
    std::vector<int64_t> input = rank0_local_shape(shape, sharding, spec, mesh);
    spec = spec_after(std::move(spec), collective);
    const int64_t ranks = mesh.axes[collective.axis].size;
    if (collective.kind == CollectiveKind::LocalSlice || ranks == 1) continue;
    CollectiveCall call{.backward = reduces,
                        .kind = collective.kind,
                        .axis = collective.axis,
                        .module = {},
                        .shape = {},
                        .dtype = std::string(dtypes()[dtype].name),
                        .bytes = 0};
    if (collective.kind == CollectiveKind::AllGather) {
      call.dtype = "uint8";
      call.shape = {static_cast<int64_t>(bytes_of(dtype, input))};
    } else {
      if (collective.kind == CollectiveKind::ReduceScatter) {
        const auto dim = static_cast<std::ptrdiff_t>(collective.dim);
        input[static_cast<size_t>(dim)] =
            ranks * rank0_local_shape(shape, sharding, spec, mesh)[static_cast<size_t>(dim)];
        std::rotate(input.begin(), input.begin() + dim, input.begin() + dim + 1);
      }
      call.shape = std::move(input);
    }
    DType sent{};
    std::ignore = find_dtype(call.dtype, sent);
    call.bytes = static_cast<int64_t>(bytes_of(sent, call.shape));
    (reduces ? calls.backward : calls.forward).push_back(std::move(call));
  }
  return calls;
}

}  // namespace tpplan
