#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "styles/derive_boundary.h"
#include "styles/style_table.h"

namespace tpplan {
namespace {

std::string text_of(const BoundaryRow& row) {
  if (!row.used) return "-";
  return to_text(row.from) + " -> " + to_text(row.to) + (row.gradient_is_partial ? ", partial gradient" : "");
}

}  // namespace

TEST_CASE("the steps of all runtimes of a style have the layouts of its boundary") {
  for (const StyleRow& row : style_table()) {
    CAPTURE(row.name);
    const std::vector<std::pair<Steps, Steps>> runtimes = {{row.transformers.input, row.transformers.output},
                                                           {row.torch.input, row.torch.output},
                                                           {row.tpplan.input, row.tpplan.output}};
    size_t found = 0;
    for (const auto& [input, output] : runtimes) {
      if (input.empty() && output.empty()) continue;
      const StyleBoundary boundary = derive_boundary(row, input, output);
      CHECK(text_of(boundary.input) == text_of(row.input));
      CHECK(text_of(boundary.output) == text_of(row.output));
      ++found;
    }
    CHECK_MESSAGE((found > 0 || !(row.input.used || row.output.used)), "a boundary without steps");
    if (!row.transformers.second.empty()) CHECK(derive_boundary(row, row.transformers.second, {}).input == row.input);
    // Each boundary of a style for transformers or torch has steps of that runtime.
    for (const auto& [set, steps] : {std::pair{kTransformersStyles, runtimes[0]}, {kTorchStyles, runtimes[1]}}) {
      if ((row.sets & set) == 0 || !(row.input.used || row.output.used)) continue;
      CHECK(row.input.used == !steps.first.empty());
      CHECK(row.output.used == !steps.second.empty());
    }
  }
}

TEST_CASE("boundaries of styles") {
  const auto boundary = [](std::string_view name, StyleSet set) {
    const StyleRow* row = find_style(name, set);
    REQUIRE(row != nullptr);
    return text_of(row->input) + "; " + text_of(row->output);
  };
  const std::string last = "Shard(-1)", whole = "Replicate", sum = "Partial(sum)";
  const std::string summed = sum + " -> " + whole, gathered = last + " -> " + whole;
  const std::string partial = whole + " -> " + whole + ", partial gradient";
  CHECK(boundary("all_reduce", kTpplanStyles) == "-; " + summed);
  CHECK(boundary("colwise", kTpplanStyles) == partial + "; " + last + " -> " + last);
  CHECK(boundary("colwise_gather_output", kTpplanStyles) == partial + "; " + gathered);
  CHECK(boundary("embedding_colwise", kTpplanStyles) == whole + " -> " + whole + "; " + gathered);
  CHECK(boundary("embedding_rowwise", kTpplanStyles) == whole + " -> " + whole + "; " + summed);
  CHECK(boundary("ep_dispatch_experts", kTpplanStyles) == "-; -");
  CHECK(boundary("mla_kv_a_proj", kTpplanStyles) == "-; -");
  CHECK(boundary("moe_identity_expert", kTpplanStyles) == "-; -");
  CHECK(boundary("moe_tp_experts", kTpplanStyles) == partial + "; " + summed);
  CHECK(boundary("packed_colwise", kTpplanStyles) == partial + "; -");
  CHECK(boundary("packed_rowwise", kTpplanStyles) == "-; -");
  CHECK(boundary("prepare_module_input", kTpplanStyles) == whole + " -> " + whole + "; -");
  CHECK(boundary("prepare_module_output", kTpplanStyles) == "-; " + whole + " -> " + whole);
  CHECK(boundary("replicated_with_grad_allreduce", kTpplanStyles) == "-; -");
  CHECK(boundary("rowwise", kTpplanStyles) == last + " -> " + last + "; " + summed);
  CHECK(boundary("rowwise_split_input", kTpplanStyles) == whole + " -> " + last + "; " + summed);
  for (const StyleSet set : {kTpplanStyles, kTransformersStyles})
    CHECK(boundary("sequence_parallel", set) == "Shard(1) -> Shard(1); Shard(1) -> Shard(1)");
}

}  // namespace tpplan
