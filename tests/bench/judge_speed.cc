// How often a second a plan is judged and priced in memory, as a search would do it, and where the time goes: the
// phases by themselves, each with all that stands before it. MODEL PLAN TOPOLOGY [CALLS].
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>

#include "base/read_file.h"
#include "cost/read_speeds.h"
#include "model/read_model.h"
#include "plan/read_plan.h"
#include "price.h"

using namespace tpplan;

namespace {

SourceFile read(const char* path) { return read_file(path, uint64_t{1} << 30).file; }

// Prints the mean of so many calls.
void time_row(const char* name, int calls, const std::function<void()>& work) {
  work();
  const std::clock_t start = std::clock();
  for (int i = 0; i < calls; ++i) work();
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  std::printf("%-44s %9.1f us %9.1f a second\n", name, seconds / calls * 1e6, calls / seconds);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const int calls = argc > 4 ? std::atoi(argv[4]) : 200;
  const SourceFile model_file = read(argv[1]), plan_file = read(argv[2]);
  Diagnostics diagnostics;
  const ModelGraph graph = read_model(model_file, diagnostics);
  const TpPlan plan = read_plan(plan_file, {}, diagnostics);
  const SpeedFile speeds{.file = read(argv[3])};
  const Topology topology = read_speeds({&speeds, 1}, plan.mesh, diagnostics);
  const Recipe& recipe = *find_recipe(kDefaultRecipe);
  if (has_errors(diagnostics)) return 1;
  const ModelTables tables = make_model_tables(graph);
  ModelTables each_layer = tables;
  each_layer.stacks.clear();
  const auto judged = [&](Phase last, bool trace, const ModelTables* of_model) {
    Diagnostics found;
    Judgement j = judge(graph, plan, found, last, {.trace = trace, .tables = of_model});
    if (has_errors(found)) std::exit(1);
    return j;
  };
  Price price;
  const auto priced = [&](const ModelTables* of_model) {
    price = price_plan(graph, plan, judged(Phase::Manifest, true, of_model), {.trace = true}, recipe, &topology);
  };
  time_row("tables of the model", calls, [&] { std::ignore = make_model_tables(graph); });
  time_row("matched", calls, [&] { std::ignore = judged(Phase::Matches, false, &tables); });
  time_row("sharded", calls, [&] { std::ignore = judged(Phase::Shardings, false, &tables); });
  time_row("with boundaries", calls, [&] { std::ignore = judged(Phase::Boundaries, false, &tables); });
  time_row("judged", calls, [&] { std::ignore = judged(Phase::Manifest, false, &tables); });
  time_row("judged and counted", calls, [&] { std::ignore = judged(Phase::Manifest, true, &tables); });
  time_row("the same with price, each layer walked", calls, [&] { priced(&each_layer); });
  time_row("the same with price, tables made each time", calls, [&] { priced(nullptr); });
  time_row("judged and priced: verdict, bytes, memory, time", calls, [&] { priced(&tables); });
  std::printf("memory %llu bytes, sent %llu bytes, %.6f s\n", static_cast<unsigned long long>(price.memory.total),
              static_cast<unsigned long long>(price.sent.wire), price.time.total);
  return price.time.total > 0 ? 0 : 1;
}
