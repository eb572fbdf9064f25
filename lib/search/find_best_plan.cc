#include "search/find_best_plan.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "cost/peak_memory.h"
#include "search/cut_layers.h"
#include "search/measure_parts.h"

namespace tpplan {
namespace {

constexpr uint32_t kFewLayers = 4;
constexpr double kAsPredicted = 1e-9;
constexpr size_t kMostKinds = 3;  // of layers in a simple plan

struct Searching {
  const ModelGraph& model;
  const SearchSpace& space;
  const CostInputs& inputs;
  const SearchRequest& request;
  ModelGraph few, fewer;              // models of few layers; not set if the model has few layers
  bool is_cut = false;
  std::map<int64_t, Appraiser> whole;  // by batch of a data rank
  std::map<int64_t, Prober> probers;
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
    prober.layers = s.space.layers;
    prober.few_layers = s.is_cut ? kFewLayers : s.space.layers;
    prober.few = make_appraiser(s.is_cut ? s.few : s.model, s.inputs, batch, s.request.sequence, prober.few_layers, why);
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

size_t kinds_of(const PlanChoice& choice) { return std::set<LayerChoice>(choice.layers.begin(), choice.layers.end()).size(); }

MeshPlan judge_whole(Searching& s, const SearchMesh& mesh, const MeshCosts& costs, Solution found) {
  group_layers(costs, found);
  const EndCost& ends = costs.ends[found.end];
  MeshPlan plan{.mesh = mesh, .batch = s.request.batch / (mesh.dp * mesh.fsdp)};
  plan.choice = {.mesh = mesh,
                 .table = ends.table,
                 .head = ends.head,
                 .first_sharded = ends.first_sharded,
                 .last_sharded = ends.last_sharded,
                 .layers = {}};
  for (const uint32_t layer : found.layers) plan.choice.layers.push_back(costs.layers[layer].choice);
  plan.kinds = kinds_of(plan.choice);
  std::string why;
  Appraiser* whole = whole_model(s, plan.batch, why);
  if (whole != nullptr) plan.figures = appraise(*whole, plan_of(s.space, plan.choice).plan);
  ++s.answer.probes;
  const StepFigures& f = plan.figures;
  if (!f.is_right || f.memory != reserved_for(found.memory) || std::abs(f.seconds - found.seconds) > kAsPredicted * f.seconds)
    s.answer.is_exact = false;
  if (getenv("DBG")) fprintf(stderr,"mesh %ld %ld %ld pred %.12g %lu got %.12g %lu active %lu right %d\n",mesh.dp,mesh.fsdp,mesh.tp,found.seconds,found.memory,f.seconds,f.memory,active_of(f.profile),f.is_right);
  return plan;
}

// A mesh with the costs of its parts.
struct MeshWork {
  SearchMesh mesh;
  MeshCosts costs;
  Solution best;
};

// Returns the most bytes that can be alive if the allocator holds at most `reserved`.
uint64_t most_active(uint64_t reserved) {
  uint64_t low = 0, high = reserved;  // reserved_for(low) <= reserved
  while (low < high) {
    const uint64_t middle = low + (high - low + 1) / 2;
    if (reserved_for(middle) <= reserved)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

SolveLimits limits_of(const Searching& s) {
  return {.layers = s.space.layers, 
          .memory = s.request.memory ? std::optional(most_active(*s.request.memory)) : std::nullopt,
          .objective = s.request.objective};
}

double predicted(const Searching& s, const Solution& found) {
  return objective_of(s.request, {.is_right = true, .why = {}, .seconds = found.seconds, .memory = reserved_for(found.memory)});
}

// Returns the bound of a solution as an objective: the solver's are seconds, or bytes that are alive.
double bound_of(const Searching& s, const Solution& found) {
  if (s.request.objective == Objective::Memory)
    return static_cast<double>(reserved_for(static_cast<uint64_t>(found.bound)));
  return objective_of(s.request, {.is_right = true, .why = {}, .seconds = found.bound});
}

void leave_out(Searching& s, const SearchMesh& mesh, std::string why) { s.answer.left_out.push_back({mesh, std::move(why)}); }

std::optional<MeshCosts> measure_mesh(Searching& s, const SearchMesh& mesh) {
  const int64_t data_ranks = mesh.dp * mesh.fsdp;
  if (s.request.batch % data_ranks != 0) {
    leave_out(s, mesh, fmt::format("batch {} is not divisible by its data ranks", s.request.batch));
    return std::nullopt;
  }
  std::string why;
  Prober* prober = prober_of(s, s.request.batch / data_ranks, why);
  if (prober == nullptr) {
    leave_out(s, mesh, why);
    return std::nullopt;
  }
  ++s.answer.tried;
  const uint64_t before = prober->probes;
  MeasuredParts parts = measure_parts(*prober, mesh);
  s.answer.probes += prober->probes - before;
  if (parts.costs.layers.empty() || parts.costs.ends.empty()) {
    leave_out(s, mesh, parts.why);
    return std::nullopt;
  }
  s.answer.ways = std::max(s.answer.ways, parts.costs.layers.size());
  return std::move(parts.costs);
}

// Finds the plan with the least memory of all meshes.
void find_smallest(Searching& s, const std::vector<MeshWork>& work) {
  SolveLimits limits = limits_of(s);
  limits.memory.reset();
  limits.objective = Objective::Memory;
  const MeshWork* least = nullptr;
  Solution found;
  for (const MeshWork& mesh : work) {
    auto solution = solve_mesh(mesh.costs, limits);
    if (!solution || (least != nullptr && solution->memory >= found.memory)) continue;
    least = &mesh;
    found = std::move(*solution);
  }
  if (least != nullptr) s.answer.smallest = judge_whole(s, least->mesh, least->costs, std::move(found));
}

// Replaces the best plan by one with fewer kinds of layers that is within the share.
void simplify(Searching& s, const std::vector<MeshWork>& work) {
  const double most = s.answer.bound * (1 + s.request.simple);
  for (size_t kinds = 1; kinds < std::min(s.answer.best->kinds, kMostKinds + 1); ++kinds) {
    SolveLimits limits = limits_of(s);
    limits.most_kinds = kinds;
    const MeshWork* best = nullptr;
    Solution found;
    for (const MeshWork& mesh : work) {
      if (predicted(s, mesh.best) > most) continue;
      auto solution = solve_mesh(mesh.costs, limits);
      if (!solution || predicted(s, *solution) > most) continue;
      if (best != nullptr && predicted(s, *solution) >= predicted(s, found)) continue;
      best = &mesh;
      found = std::move(*solution);
    }
    if (best == nullptr) continue;
    MeshPlan plan = judge_whole(s, best->mesh, best->costs, std::move(found));
    const bool fits = plan.figures.is_right && (!s.request.memory || plan.figures.memory <= *s.request.memory);
    if (!fits) continue;
    s.answer.best = std::move(plan);
    return;
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
              .few = {},
              .fewer = {},
              .whole = {},
              .probers = {},
              .answer = {}};
  cut_model(s);
  std::vector<MeshWork> work;
  for (const SearchMesh& mesh : meshes_of(request)) {
    if (auto costs = measure_mesh(s, mesh)) work.push_back({mesh, std::move(*costs), {}});
  }
  std::vector<size_t> order;  // of the meshes with a plan
  for (size_t i = 0; i < work.size(); ++i) {
    if (auto found = solve_mesh(work[i].costs, limits_of(s))) {
      work[i].best = std::move(*found);
      order.push_back(i);
    }
  }
  std::ranges::stable_sort(order, {}, [&](size_t i) { return predicted(s, work[i].best); });
  for (const size_t i : order) {
    MeshPlan plan = judge_whole(s, work[i].mesh, work[i].costs, work[i].best);
    if (!plan.figures.is_right)
      leave_out(s, plan.mesh, plan.figures.why);
    else if (!request.memory || plan.figures.memory <= *request.memory)
      s.answer.meshes.push_back(std::move(plan));
  }
  std::ranges::stable_sort(s.answer.meshes, {}, [&](const MeshPlan& plan) { return objective_of(request, plan.figures); });
  if (s.answer.meshes.empty()) {
    find_smallest(s, work);
    return std::move(s.answer);
  }
  s.answer.best = s.answer.meshes.front();
  s.answer.bound = std::numeric_limits<double>::infinity();
  for (const size_t i : order) {
    s.answer.bound = std::min(s.answer.bound, bound_of(s, work[i].best));
  }
  // Sums of parts have rounding errors that the whole does not have.
  const double objective = objective_of(request, s.answer.best->figures);
  if (std::abs(s.answer.bound - objective) <= kAsPredicted * objective) s.answer.bound = objective;
  std::vector<MeshWork> solved;
  for (const size_t i : order) solved.push_back(std::move(work[i]));
  if (request.simple > 0) simplify(s, solved);
  return std::move(s.answer);
}

}  // namespace tpplan
