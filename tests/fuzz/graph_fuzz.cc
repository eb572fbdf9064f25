// A model with operations and a plan, separated by a line `%%`. A graph that prove_graph rejects is not checked, and an
// accepted graph is printed and read back as the same graph.
#include <tuple>

#include "../graph/print_and_read.h"
#include "fuzz_input.h"
#include "judge/judge.h"
#include "model/prove_graph.h"
#include "model/read_model.h"
#include "mutate_tree.h"
#include "plan/read_plan.h"

TPPLAN_MUTATE_AS(tpplan::InputForm::JsonAndYaml)

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tpplan;
  const std::optional<ModelAndPlan> files = split_input(data, size);
  if (!files) return 0;
  const auto& [model_file, plan_file] = *files;
  const Sources sources = sources_of(*files);
  Diagnostics diagnostics;
  ModelGraph model = read_model(model_file, diagnostics);
  if (has_errors(diagnostics)) {
    require(!model.operations.is_there, "a graph that was refused is not there to be judged");
    show(diagnostics, sources);
    return 0;
  }
  Diagnostics again;
  OpGraph copy = model.operations;
  require(!copy.is_there || prove_graph(copy, model, again), "a graph that is there can be proven");
  if (copy.is_there) require(broken_law(model).empty(), "a printed graph is read back as the same graph");
  const TpPlan plan = read_plan(plan_file, {}, diagnostics);
  if (has_errors(diagnostics)) return 0;
  for (const bool infer : {false, true}) {
    Diagnostics found;
    Checker checker = make_checker(model);
    const CheckResult plan_result =
        check_plan(checker, plan, found, Phase::Boundaries, {.runtime = {}, .infer = infer});
    require(plan_result.forecast.limit != ForecastLimit::None || model.operations.is_there,
            "a forecast comes from a graph");
    for (const CollectiveCall& call : plan_result.forecast.calls)
      require(call.bytes >= 0 && call.axis < plan.mesh.axes.size(), "a forecast call has bytes and an axis");
    show(found, sources);
  }
  return 0;
}
