#include "search/find_best_plan.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <map>
#include <set>

#include "base/text.h"
#include "cost/peak_memory.h"
#include "search/cut_layers.h"
#include "search/measure_parts.h"
#include "search/sample_plans.h"

namespace tpplan {
namespace {

constexpr uint32_t kFewLayers = 4;
constexpr double kAsPredicted = 1e-9;
constexpr size_t kMostKinds = 3;  // of layers in a simple plan

// A mesh with the costs of its parts, with or without FSDP.
struct MeshWork {
  SearchMesh mesh;
  MeshCosts costs;
  std::optional<Solution> best;  // by the sums of parts
};

struct Searching {
  const ModelGraph& model;
  const SearchSpace& space;
  const CostInputs& inputs;
  const SearchRequest& request;
  std::optional<uint64_t> memory;  // the limit: of the request, or one that is tried
  ModelGraph few, fewer;           // models of few layers; not set if the model has few layers
  bool is_cut = false;
  std::map<int64_t, Appraiser> whole;  // by batch of a data rank
  std::map<int64_t, Prober> probers;
  std::deque<MeshWork> work;
  std::vector<SearchMesh> deferred;         // meshes that are worse than enough others
  std::map<int64_t, double> least_seconds;  // by tp: a lower bound of the step
  SearchAnswer answer;
};

bool is_within(const AxisBounds& bounds, int64_t size) { return size >= bounds.least && size <= bounds.most; }

// Makes the models of few layers, if the layers of the model are alike.
void cut_model(Searching& s) {
  if (s.space.layers <= kFewLayers) return;
  const ModelTables tables = make_model_tables(s.model);
  if (tables.stacks.size() != 1) return;
  const LayerStack& stack = tables.stacks.front();
  if (s.space.layers < stack.count || s.space.layers - stack.count + 2 > kFewLayers) return;
  const auto before = static_cast<uint32_t>(s.space.layers - stack.count);
  s.few = cut_layers(s.model, stack, kFewLayers - before);
  s.fewer = cut_layers(s.model, stack, kFewLayers - 1 - before);
  s.is_cut = true;
}

Appraiser* whole_model(Searching& s, int64_t batch, std::string& why) {
  const auto [at, is_new] = s.whole.try_emplace(batch);
  if (is_new) at->second = make_appraiser(s.model, s.inputs, batch, s.request.sequence, s.space.layers, why);
  return at->second.graph == nullptr ? nullptr : &at->second;
}

Prober* prober_of(Searching& s, int64_t batch, std::string& why) {
  const auto [at, is_new] = s.probers.try_emplace(batch);
  Prober& prober = at->second;
  if (is_new) {
    prober.space = &s.space;
    prober.few_layers = s.is_cut ? kFewLayers : s.space.layers;
    prober.few =
        make_appraiser(s.is_cut ? s.few : s.model, s.inputs, batch, s.request.sequence, prober.few_layers, why);
    if (s.is_cut && prober.few.graph != nullptr)
      prober.fewer = make_appraiser(s.fewer, s.inputs, batch, s.request.sequence, prober.few_layers - 1, why);
  }
  return prober.few.graph == nullptr ? nullptr : &prober;
}

// Puts the layers of one state and kind next to each other where nothing changes by it.
void group_layers(const MeshCosts& costs, Solution& found) {
  Solution grouped = found;
  for (auto begin = grouped.layers.begin(); begin != grouped.layers.end();) {
    const auto end = std::find_if(begin, grouped.layers.end(), [&](uint32_t layer) {
      return costs.layers[layer].state != costs.layers[*begin].state;
    });
    std::sort(begin, end);
    begin = end;
  }
  grouped = sum_of(costs, grouped.end, std::move(grouped.layers));
  if (grouped.memory <= found.memory && grouped.seconds <= found.seconds * (1 + 1e-13)) found = std::move(grouped);
}

size_t kinds_of(const PlanChoice& choice) {
  return std::set<LayerChoice>(choice.layers.begin(), choice.layers.end()).size();
}

SolveLimits limits_of(const Searching& s) {
  SolveLimits limits{.layers = s.space.layers, .memory = {}, .objective = s.request.objective};
  if (s.memory) limits.memory = active_bytes_within(*s.memory);
  return limits;
}

// Returns a plan with the figures of its parts.
MeshPlan plan_of_parts(const Searching& s, const SearchMesh& mesh, const MeshCosts& costs, const Solution& found) {
  MeshPlan plan{.mesh = mesh, .batch = s.request.batch / (mesh.dp * mesh.fsdp)};
  plan.figures.seconds = found.seconds;
  plan.figures.active = found.memory;
  plan.figures.memory = reserved_bytes_for(found.memory);
  plan.choice = choice_of(costs, mesh, found);
  plan.kinds = kinds_of(plan.choice);
  return plan;
}

bool fits(const Searching& s, const MeshPlan& plan) {
  return plan.figures.is_right && (!s.memory || plan.figures.memory <= *s.memory);
}

MeshPlan judge_whole(Searching& s, const SearchMesh& mesh, const MeshCosts& costs, Solution found) {
  group_layers(costs, found);
  MeshPlan plan = plan_of_parts(s, mesh, costs, found);
  std::string why;
  Appraiser* whole = whole_model(s, plan.batch, why);
  if (whole != nullptr) plan.figures = appraise(*whole, plan_of(s.space, plan.choice).plan);
  ++s.answer.probes;
  const StepFigures& f = plan.figures;
  const bool is_as_predicted = std::abs(f.seconds - found.seconds) <= kAsPredicted * f.seconds;
  // Less memory than predicted: the sums may have left out a plan that fits.
  if (f.is_right && (!is_as_predicted || f.active < found.memory)) s.answer.is_exact = false;
  if (fits(s, plan)) plan.units = compare_units(s.space, costs, found, limits_of(s));
  return plan;
}

using SolvedMeshes = std::vector<const MeshWork*>;

double predicted(const Searching& s, const Solution& found) {
  return objective_of(
      s.request, {.is_right = true, .why = {}, .seconds = found.seconds, .memory = reserved_bytes_for(found.memory)});
}

// Returns the bound of a solution as an objective: the solver's are seconds, or bytes that are alive.
double bound_of(const Searching& s, const Solution& found) {
  if (s.request.objective == Objective::Memory)
    return static_cast<double>(reserved_bytes_for(static_cast<uint64_t>(found.bound)));
  return objective_of(s.request, {.is_right = true, .why = {}, .seconds = found.bound});
}

void omit_mesh(Searching& s, const SearchMesh& mesh, std::string why) {
  s.answer.omitted.push_back({mesh, std::move(why)});
}

// Says which data ranks the batch allows.
std::string batch_fault(const Searching& s) {
  std::vector<std::string> sizes;
  for (int64_t size = 1; size <= s.request.ranks; ++size) {
    if (s.request.ranks % size == 0 && s.request.batch % size == 0) sizes.push_back(std::to_string(size));
  }
  return fmt::format("its data ranks do not divide the batch {}: dp x fsdp can be {}", s.request.batch,
                     join(sizes, ", "));
}

std::optional<MeshCosts> measure_mesh(Searching& s, const SearchMesh& mesh, bool has_fsdp) {
  const int64_t data_ranks = mesh.dp * mesh.fsdp;
  if (s.request.batch % data_ranks != 0) {
    omit_mesh(s, mesh, batch_fault(s));
    return std::nullopt;
  }
  std::string why;
  Prober* prober = prober_of(s, s.request.batch / data_ranks, why);
  if (prober == nullptr) {
    omit_mesh(s, mesh, why);
    return std::nullopt;
  }
  s.answer.tried += has_fsdp || mesh.fsdp == 1 ? 1 : 0;
  const size_t before = prober->judged.size();
  MeasuredParts parts = measure_parts(*prober, mesh, has_fsdp);
  s.answer.probes += prober->judged.size() - before;
  if (parts.costs.layers.empty() || parts.costs.ends.empty()) {
    omit_mesh(s, mesh, parts.why);
    return std::nullopt;
  }
  s.answer.ways = std::max(s.answer.ways, parts.costs.layers.size());
  return std::move(parts.costs);
}

// Returns the best plan of a mesh that fits when it is judged whole. If the whole has more memory than its parts, the
// next try has to have as much less.
std::optional<MeshPlan> fitting_plan(Searching& s, const MeshWork& work, size_t most_kinds) {
  constexpr int kMostTries = 16;
  SolveLimits limits = limits_of(s);
  limits.most_kinds = most_kinds;
  for (int tries = 0; tries < kMostTries; ++tries) {
    const auto found = solve_mesh(work.costs, limits);
    if (!found) return std::nullopt;
    MeshPlan plan = judge_whole(s, work.mesh, work.costs, *found);
    if (fits(s, plan)) return plan;
    if (!plan.figures.is_right || !s.memory) return std::nullopt;
    const uint64_t over = plan.figures.active - active_bytes_within(*s.memory);
    if (over >= found->memory) return std::nullopt;
    limits.memory = found->memory - over;
  }
  return std::nullopt;
}

bool is_left_in(const Searching& s, const SearchMesh& mesh) {
  return std::ranges::find(s.answer.omitted, mesh, &MeshLeftOut::mesh) == s.answer.omitted.end();
}

// Returns the plan with the least memory of a mesh.
std::optional<MeshPlan> smallest_plan(Searching& s, const MeshWork& work) {
  SolveLimits limits = limits_of(s);
  limits.memory.reset();
  limits.objective = Objective::Memory;
  const auto found = solve_mesh(work.costs, limits);
  if (!found) return std::nullopt;
  MeshPlan plan = judge_whole(s, work.mesh, work.costs, *found);
  return plan.figures.is_right ? std::optional(std::move(plan)) : std::nullopt;
}

void find_smallest(Searching& s) {
  for (const MeshWork& mesh : s.work) {
    auto plan = smallest_plan(s, mesh);
    const bool is_smaller = plan && (!s.answer.smallest || plan->figures.memory < s.answer.smallest->figures.memory);
    if (is_smaller) s.answer.smallest = std::move(plan);
  }
}

// Measures a mesh, with FSDP and without, and solves it by the sums of its parts.
void solve_parts(Searching& s, const SearchMesh& mesh) {
  for (const bool has_fsdp : {true, false}) {
    if (has_fsdp ? mesh.fsdp == 1 : mesh.fsdp > 1 && !is_left_in(s, mesh)) continue;
    auto costs = measure_mesh(s, mesh, has_fsdp);
    if (!costs) continue;
    s.work.push_back({mesh, std::move(*costs), std::nullopt});
    MeshWork& own = s.work.back();
    own.best = solve_mesh(own.costs, limits_of(s));
    if (own.best) s.answer.bound = std::min(s.answer.bound, bound_of(s, *own.best));
  }
}

SolvedMeshes solved_meshes(const Searching& s) {
  SolvedMeshes solved;
  for (const MeshWork& mesh : s.work) {
    if (mesh.best) solved.push_back(&mesh);
  }
  std::ranges::stable_sort(solved, {}, [&](const MeshWork* mesh) { return predicted(s, *mesh->best); });
  return solved;
}

// True if enough meshes are better than any plan of this one, by a lower bound of its kernels' seconds.
bool can_be_deferred(Searching& s, const SearchMesh& mesh) {
  const int64_t data_ranks = mesh.dp * mesh.fsdp;
  if (s.request.objective == Objective::Memory || s.request.batch % data_ranks != 0) return false;
  std::set<SearchMesh> better;
  double slowest = 0;  // of the best meshes
  for (const MeshWork* solved : solved_meshes(s)) {
    if (better.size() >= s.request.top) break;
    if (better.insert(solved->mesh).second) slowest = solved->best->seconds;
  }
  std::string why;
  Prober* prober = prober_of(s, s.request.batch / data_ranks, why);
  if (better.size() < s.request.top || prober == nullptr) return false;
  const auto [bound, is_new] = s.least_seconds.try_emplace(mesh.tp);
  if (is_new) bound->second = static_cast<double>(s.space.layers) * least_layer_seconds(*prober, mesh, mesh.fsdp > 1);
  return slowest < bound->second;
}

// True if the meshes of the answer are known: this one and all that follow are worse by the sums of their parts.
bool is_listed(Searching& s, const MeshWork& next) {
  if (s.answer.meshes.size() < s.request.top) return false;
  std::ranges::stable_sort(s.answer.meshes, {},
                           [&](const MeshPlan& plan) { return objective_of(s.request, plan.figures); });
  return predicted(s, *next.best) > objective_of(s.request, s.answer.meshes[s.request.top - 1].figures);
}

// Adds a plan of a mesh, or replaces one that is worse.
void add_mesh(Searching& s, MeshPlan plan) {
  const auto known = std::ranges::find(s.answer.meshes, plan.mesh, &MeshPlan::mesh);
  if (known == s.answer.meshes.end())
    s.answer.meshes.push_back(std::move(plan));
  else if (objective_of(s.request, plan.figures) < objective_of(s.request, known->figures))
    *known = std::move(plan);
}

// Replaces the best plan by one with fewer kinds of layers that is within the share.
void simplify(Searching& s, const SolvedMeshes& solved) {
  const double most = s.answer.bound * (1 + s.request.simple);
  for (size_t kinds = 1; kinds < std::min(s.answer.best->kinds, kMostKinds + 1); ++kinds) {
    std::optional<MeshPlan> best;
    for (const MeshWork* mesh : solved) {
      if (predicted(s, *mesh->best) > most) continue;
      auto plan = fitting_plan(s, *mesh, kinds);
      if (!plan || plan->kinds > kinds || objective_of(s.request, plan->figures) > most) continue;
      if (!best || objective_of(s.request, plan->figures) < objective_of(s.request, best->figures))
        best = std::move(plan);
    }
    if (!best) continue;
    s.answer.best = std::move(best);
    return;
  }
}

// Judges the best plans of the solved meshes on the whole model, until the answer has enough.
void judge_best(Searching& s) {
  for (const MeshWork* mesh : solved_meshes(s)) {
    if (is_listed(s, *mesh)) break;
    auto plan = s.request.objective == Objective::Memory ? smallest_plan(s, *mesh) : fitting_plan(s, *mesh, 0);
    if (plan && fits(s, *plan)) add_mesh(s, std::move(*plan));
  }
  std::ranges::stable_sort(s.answer.meshes, {},
                           [&](const MeshPlan& plan) { return objective_of(s.request, plan.figures); });
  if (s.answer.meshes.size() > s.request.top) s.answer.meshes.resize(s.request.top);
}

void add_samples(Searching& s) {
  for (const MeshWork& work : s.work) {
    for (Solution& found : sample_plans(work.costs, limits_of(s))) {
      group_layers(work.costs, found);
      MeshPlan& plan = s.answer.samples.emplace_back(plan_of_parts(s, work.mesh, work.costs, found));
      plan.units = compare_units(s.space, work.costs, found, limits_of(s));
    }
  }
}

}  // namespace

double objective_of(const SearchRequest& request, const StepFigures& figures) {
  switch (request.objective) {
    case Objective::Memory:
      return static_cast<double>(figures.memory);
    case Objective::Tokens:
      return figures.seconds / static_cast<double>(request.batch * request.sequence);
    case Objective::Time:
      break;
  }
  return figures.seconds;
}

std::vector<SearchMesh> meshes_of(const SearchRequest& request) {
  std::vector<SearchMesh> meshes;
  for (int64_t tp = 1; tp <= request.ranks; ++tp) {
    if (request.ranks % tp != 0 || !is_within(request.tp, tp)) continue;
    const int64_t data = request.ranks / tp;
    for (int64_t dp = 1; dp <= data; ++dp) {
      if (data % dp == 0 && is_within(request.dp, dp) && is_within(request.fsdp, data / dp))
        meshes.push_back({dp, data / dp, tp});
    }
  }
  return meshes;
}

SearchAnswer find_best_plan(const ModelGraph& model, const SearchSpace& space, const CostInputs& inputs,
                            const SearchRequest& request) {
  Searching s{.model = model,
              .space = space,
              .inputs = inputs,
              .request = request,
              .memory = request.memory,
              .few = {},
              .fewer = {},
              .whole = {},
              .probers = {},
              .answer = {}};
  cut_model(s);
  s.answer.bound = std::numeric_limits<double>::infinity();
  for (const SearchMesh& mesh : meshes_of(request)) {
    if (can_be_deferred(s, mesh))
      s.deferred.push_back(mesh);
    else
      solve_parts(s, mesh);
  }
  judge_best(s);
  if (s.answer.meshes.size() < request.top && !s.deferred.empty()) {
    for (const SearchMesh& mesh : std::exchange(s.deferred, {})) solve_parts(s, mesh);
    judge_best(s);
  }
  s.answer.tried += s.deferred.size();
  if (request.has_samples) add_samples(s);
  if (s.answer.meshes.empty()) {
    find_smallest(s);
    if (!s.answer.smallest || !fits(s, *s.answer.smallest)) return std::move(s.answer);
    add_mesh(s, *std::exchange(s.answer.smallest, std::nullopt));
  }
  s.answer.best = s.answer.meshes.front();
  // Sums of parts have rounding errors that the whole does not have.
  const double objective = objective_of(request, s.answer.best->figures);
  if (s.answer.bound > objective || std::abs(s.answer.bound - objective) <= kAsPredicted * objective)
    s.answer.bound = objective;
  if (request.simple > 0) simplify(s, solved_meshes(s));
  return std::move(s.answer);
}

}  // namespace tpplan
