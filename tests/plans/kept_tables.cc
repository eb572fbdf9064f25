// Compares check results of plans that are checked one after another with the same Checker (judge/judge.h) with those
// of a new Checker for each: neighbours and random plans, for all runtimes, with and without gradients, over axes of
// several sizes; also with caches that keep almost nothing. Arguments: MODEL COUNT PLAN..., with COUNT plans drawn from
// each.
#include <cstdio>
#include <string>
#include <vector>

#include "base/read_file.h"
#include "draw_plans.h"
#include "model/read_model.h"
#include "plan/read_plan.h"
#include "seen.h"
#include "walk/runtimes.h"

using namespace tpplan;

namespace {

struct Tally {
  uint32_t checked = 0, wrong = 0, found = 0;  // plans; with an error; whose walk used only cached results
};

// Returns the first difference between the checkers in the results for the plan, with the runtime; empty if there is
// none.
std::string compare(const ModelGraph& graph, const TpPlan& plan, std::vector<Checker*> judges, Tally& tally) {
  for (const PlanRuntime runtime : {PlanRuntime::Transformers, PlanRuntime::Torch, PlanRuntime::Tpplan}) {
    if (runtime != PlanRuntime::Tpplan && runtime != plan.dialect->runtime) continue;
    for (const bool infer : {false, true}) {
      const WalkOptions walk{.runtime = runtime, .infer = infer, .trace = true};
      Checker fresh = make_checker(graph);
      const Seen walked_alone = see(fresh, plan, walk);
      for (Checker* each : judges) {
        const size_t kept = each->walk.tables.memo.size();
        const std::string differs = difference(walked_alone, see(*each, plan, walk));
        if (!differs.empty())
          return std::string(runtime_row(runtime).name) + (infer ? ", infer: " : ": ") + differs +
                 (each == judges[0] ? "" : ", of tables that keep little");
        tally.found += kept > 0 && each->walk.tables.memo.size() == kept;
      }
      ++tally.checked;
      tally.wrong += has_errors(walked_alone.found);
    }
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const SourceFile model_file = read_file(argv[1], uint64_t{1} << 30).file;
  const int plans = std::atoi(argv[2]);
  Diagnostics reading;
  const ModelGraph graph = read_model(model_file, reading);
  if (has_errors(reading)) return 2;
  Checker checker = make_checker(graph), small = make_checker(graph);
  small.walk.tables.most = 2000;
  small.hits.most = 50;
  Tally tally;
  for (int arg = 3; arg < argc; ++arg) {
    SourceFile plan_file = read_file(argv[arg], uint64_t{1} << 30).file;
    plan_file.id = 2;
    Diagnostics of_plan;
    const TpPlan base = read_plan(plan_file, {}, of_plan);
    if (has_errors(of_plan)) continue;
    PlanDraw draw = begin_draw(base, 1);
    std::vector<int> right(base.rules.size(), -1);
    for (int i = 0; i < plans; ++i) {
      // One rule differs from the last correct plan; every fourth plan is independent of it.
      std::vector<int> at = right;
      if (i % 4 == 3)
        for (int& choice : at) choice = draw_choice(draw);
      else if (i > 0 && !at.empty())
        at[any_below(draw, at.size())] = draw_choice(draw);
      const int64_t size = i % 8 == 5 ? 2 : i % 8 == 6 ? 4 : 0;
      TpPlan plan = plan_of(draw, at, size);
      if (i % 5 == 4) plan.blocks.clear();  // keys of the block are then matched in the whole model
      for (PlanRule& rule : plan.rules) rule.block = plan.blocks.empty() ? kNoRule : rule.block;
      const uint32_t wrong = tally.wrong;
      if (const std::string differs = compare(graph, plan, {&checker, &small}, tally); !differs.empty()) {
        std::printf("%s, plan %d, %s\n%s", argv[arg], i, differs.c_str(), dump(plan).c_str());
        return 1;
      }
      if (tally.wrong == wrong) right = std::move(at);
    }
  }
  std::printf("%u judged, %u wrong, %u by what was kept alone\n", tally.checked, tally.wrong, tally.found);
  return 0;
}
