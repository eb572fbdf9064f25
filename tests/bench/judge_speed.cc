// Prints how many plans per second are checked and priced in memory, as in a search, and the time of each phase: for a
// phase alone, including the phases before it; for all processors at once, in elapsed time; and for different plans,
// each checked once. Arguments: MODEL PLAN TOPOLOGY [CALLS].
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "../plans/draw_plans.h"
#include "base/read_file.h"
#include "judge/judge.h"
#include "model/read_model.h"
#include "plan/read_plan.h"
#include "suggest/price.h"
#include "topology/read_speeds.h"
#include "walk/layers/model_tables.h"

using namespace tpplan;

namespace {

SourceFile read(const char* path) { return read_file(path, uint64_t{1} << 30).file; }

// Prints the mean time of `calls` calls.
void time_row(const char* name, int calls, const std::function<void()>& work) {
  work();
  const std::clock_t start = std::clock();
  for (int i = 0; i < calls; ++i) work();
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  std::printf("%-48s %9.1f us %9.1f a second\n", name, seconds / calls * 1e6, calls / seconds);
}

// Prints the mean time of calls on `threads` threads at once, which share what they read.
void time_threads(unsigned threads, int calls, const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::thread> running;
  for (unsigned i = 0; i < threads; ++i)
    running.emplace_back([&] {
      for (int call = 0; call < calls; ++call) work();
    });
  for (std::thread& thread : running) thread.join();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  const double all = static_cast<double>(calls) * threads;
  const std::string name = "the same on " + std::to_string(threads) + " processors at once";
  std::printf("%-48s %9.1f us %9.1f a second\n", name.c_str(), seconds.count() / all * 1e6, all / seconds.count());
}

// Drops the cached results of earlier plans, so that the next check is like a first one.
void forget_plans(Checker& checker) {
  checker.hits = {};
  checker.walk = {};
}

struct Searched {
  Checker& checker;
  const Recipe& recipe;
  const Topology& topology;
};

// Computes verdict, bytes, memory and time of a plan; only the verdict if it is wrong.
bool ask(const Searched& search, const TpPlan& plan, bool keeps) {
  if (!keeps) forget_plans(search.checker);
  Diagnostics found;
  const WalkOptions walk{.trace = true};
  CheckResult j = check_plan(search.checker, plan, found, Phase::Manifest, walk);
  if (has_errors(found)) return false;
  std::ignore = price_plan(search.checker.graph, plan, j, walk, search.recipe, &search.topology);
  if (keeps) search.checker.walk.spare_trace = std::move(j.forecast.trace);  // reuses its buffers
  return true;
}

// How plans are drawn: neighbours, each one rule away from the last correct one; only the correct neighbours, which
// take longest; or every rule at random.
enum class Drawn : uint8_t { Neighbours, RightNeighbours, Random };
constexpr const char* kDrawnNames[] = {"neighbours, one rule apart", "right neighbours", "plans drawn at random"};
static_assert(std::size(kDrawnNames) == static_cast<size_t>(Drawn::Random) + 1);

// Returns `count` different plans.
std::vector<TpPlan> draw_plans(const Searched& search, const TpPlan& base, size_t count, Drawn drawn) {
  PlanDraw draw = begin_draw(base, 1);
  std::vector<TpPlan> plans;
  std::vector<int> at(base.rules.size(), -1);
  for (size_t tries = 0; plans.size() < count && tries < 20 * count; ++tries) {
    std::vector<int> next = at;
    if (drawn == Drawn::Random)
      for (int& choice : next) choice = draw_choice(draw);
    else
      next[any_below(draw, next.size())] = draw_choice(draw);
    if (!is_new(draw, next)) continue;
    TpPlan plan = plan_of(draw, next, 0);
    const bool is_right = drawn != Drawn::Random && ask(search, plan, false);
    if (is_right) at = std::move(next);
    if (is_right || drawn != Drawn::RightNeighbours) plans.push_back(std::move(plan));
  }
  return plans;
}

void plans_row(const char* name, const Searched& search, const std::vector<TpPlan>& plans, bool keeps) {
  size_t right = 0;
  const std::clock_t start = std::clock();
  for (const TpPlan& plan : plans) right += ask(search, plan, keeps);
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  const auto count = static_cast<double>(plans.size());
  std::printf("%-48s %9.1f us %9.1f a second, %zu of %zu right\n", name, seconds / count * 1e6, count / seconds, right,
              plans.size());
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
  Checker checker = make_checker(graph), each_layer = make_checker(graph);
  each_layer.tables.stacks.clear();
  const auto checked = [&](Checker& own, Phase last, bool trace) {
    forget_plans(own);
    Diagnostics found;
    CheckResult j = check_plan(own, plan, found, last, {.trace = trace});
    if (has_errors(found)) std::exit(1);
    return j;
  };
  Price price;
  const auto price_with = [&](Checker& own) {
    return price_plan(graph, plan, checked(own, Phase::Manifest, true), {.trace = true}, recipe, &topology);
  };
  const auto fresh = [&] {
    Checker own = make_checker(graph);
    price = price_with(own);
  };
  time_row("tables of the model", calls, [&] { std::ignore = make_checker(graph); });
  time_row("matched", calls, [&] { std::ignore = checked(checker, Phase::Matches, false); });
  time_row("sharded", calls, [&] { std::ignore = checked(checker, Phase::Shardings, false); });
  time_row("with boundaries", calls, [&] { std::ignore = checked(checker, Phase::Boundaries, false); });
  time_row("judged", calls, [&] { std::ignore = checked(checker, Phase::Manifest, false); });
  time_row("judged and counted", calls, [&] { std::ignore = checked(checker, Phase::Manifest, true); });
  time_row("the same with price, each layer walked", calls, [&] { price = price_with(each_layer); });
  time_row("the same with price, tables made each time", calls, fresh);
  time_row("judged and priced: verdict, bytes, memory, time", calls, [&] { price = price_with(checker); });
  time_threads(std::max(1u, std::thread::hardware_concurrency()), calls, [&] {
    thread_local Checker own = make_checker(graph);
    std::ignore = price_with(own);
  });
  const Searched search{checker, recipe, topology};
  for (const Drawn drawn : {Drawn::Neighbours, Drawn::RightNeighbours, Drawn::Random}) {
    const std::string name = kDrawnNames[static_cast<size_t>(drawn)];
    const std::vector<TpPlan> plans = draw_plans(search, plan, static_cast<size_t>(calls), drawn);
    if (plans.empty()) continue;
    plans_row(name.c_str(), search, plans, false);
    forget_plans(checker);
    plans_row((name + ", with caches").c_str(), search, plans, true);
  }
  std::printf("memory %llu bytes, sent %llu bytes, %.6f s\n", static_cast<unsigned long long>(price.memory.total),
              static_cast<unsigned long long>(price.sent.wire), price.time.total);
  return price.time.total > 0 ? 0 : 1;
}
