// Compares a walk that repeats the results of identical layers with a walk of each layer: for a plan and for each plan
// with one rule less, for all runtimes, with and without gradients, with and without a trace. Arguments: MODEL PLAN
// [AXIS=SIZE,...].
#include <cstdio>
#include <string>
#include <utility>

#include "base/read_file.h"
#include "model/read_model.h"
#include "plan/read_plan.h"
#include "seen.h"
#include "walk/runtimes.h"

using namespace tpplan;

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const SourceFile model_file = read_file(argv[1], uint64_t{1} << 30).file;
  SourceFile plan_file = read_file(argv[2], uint64_t{1} << 30).file;
  plan_file.id = 2;
  Diagnostics reading;
  const ModelGraph graph = read_model(model_file, reading);
  const TpPlan plan = read_plan(plan_file, argc > 3 ? sizes_of(argv[3]) : MeshSizes{}, reading);
  if (has_errors(reading)) return 2;
  uint32_t repeated = 0, repeated_backward = 0, checked = 0, wrong = 0;
  for (size_t omitted = 0; omitted <= plan.rules.size(); ++omitted) {
    TpPlan tried = plan;
    if (omitted < plan.rules.size()) tried.rules.erase(tried.rules.begin() + static_cast<std::ptrdiff_t>(omitted));
    for (const PlanRuntime runtime : {PlanRuntime::Transformers, PlanRuntime::Torch, PlanRuntime::Tpplan}) {
      if (runtime != PlanRuntime::Tpplan && runtime != plan.dialect->runtime) continue;
      for (const auto& [infer, trace] : {std::pair(false, true), {true, true}, {false, false}, {true, false}}) {
        const WalkOptions walk{.runtime = runtime, .infer = infer, .trace = trace};
        Checker checker = make_checker(graph), each_layer = make_checker(graph);
        each_layer.tables.stacks.clear();
        const Seen folded = see(checker, tried, walk);
        const Seen whole = see(each_layer, tried, walk);
        if (const std::string differs = difference(folded, whole); !differs.empty()) {
          std::printf("without rule %zu, %s%s: %s\n", omitted, std::string(runtime_row(runtime).name).c_str(),
                      infer   ? ", infer"
                      : trace ? ""
                              : ", without a trace",
                      differs.c_str());
          return 1;
        }
        repeated += folded.plan_result.forecast.repeated;
        repeated_backward += folded.plan_result.forecast.repeated_backward;
        ++checked;
        wrong += has_errors(folded.found);
      }
    }
  }
  std::printf("%u judged, %u wrong: %u layers repeated, %u on the way back\n", checked, wrong, repeated,
              repeated_backward);
  return 0;
}
