#include "suggest/check_program_dims.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/text.h"
#include "judge/forecast_program.h"
#include "model/name_subject.h"
#include "programs/dim_roles.h"
#include "programs/recorded_program.h"
#include "programs/write_propagation.h"

namespace tpplan {
namespace {

using programs::ArgumentDim;
using programs::DimRole;

// A dim of a parameter that a rule shards, with what the program does with the parameter's dims.
struct ShardedDim {
  RuleId rule = kNoRule;
  ParamId param = kNone;
  size_t dim = 0;
  PartitionSpec spec;  // by the rule
  const std::vector<ArgumentDim>* dims = nullptr;
};

struct DimSearch {
  SpecTrials& trials;
  const CheckResult& result;
  Diagnostics& diagnostics;
  std::vector<std::vector<ArgumentDim>> roles;  // by argument of the program
};

const programs::RecordedProgram& recorded(const DimSearch& s) { return *s.trials.in.graph.program; }

// Lists the sharded dims with a role, one for each rule.
std::vector<ShardedDim> sharded_dims(const DimSearch& s, DimRole role) {
  const TpPlan& plan = s.trials.in.plan;
  std::vector<ShardedDim> found;
  for (size_t i = 0; i < s.roles.size(); ++i) {
    const ParamId param = find_param(s.trials.in.graph, recorded(s).arguments[i].path);
    if (s.roles[i].empty() || param == kNone) continue;
    const Sharding sharding = sharding_by_rule(s.result.shardings, plan, param);
    const ParamMatch& match = s.result.matches.params[param];
    for (size_t d = 0; d < sharding.spec.size() && d < s.roles[i].size(); ++d) {
      if (s.roles[i][d].role != role || shard_count(sharding.spec[d], plan.mesh) == 1) continue;
      const RuleId rule = rule_of_dim(s.result.matches, match, d);
      const bool is_known = std::ranges::any_of(found, [&](const ShardedDim& f) { return f.rule == rule; });
      if (rule == kNoRule || is_known || !segments_of(sharding, d).empty()) continue;
      found.push_back({rule, param, d, sharding.spec, &s.roles[i]});
    }
  }
  return found;
}

// Adds the specs with the axes of the sharded dim at dim `to`, or nowhere if the parameter has no such free dim.
void move_axes(const DimSearch& s, const ShardedDim& from, size_t to, NewSpecs& specs) {
  const PlanRule& rule = s.trials.in.plan.rules[from.rule];
  PartitionSpec spec = from.spec;
  const DimAxes axes = std::exchange(spec[from.dim], {});
  if (rule.of_dim) specs[from.rule] = {{}};
  if (to < spec.size() && spec[to].empty()) {
    const RuleId other = rule_of_dim(s.result.matches, s.result.matches.params[from.param], to);
    if (rule.of_dim && other != kNoRule) specs[other] = {axes};
    spec[to] = axes;
  }
  if (!rule.of_dim) specs[from.rule] = std::move(spec);
}

// Tries the moves of all these dims together: to dim 0, 1 and so on, to the heads, one dim on, and nowhere.
std::optional<SpecTrial> best_move(DimSearch& s, const std::vector<ShardedDim>& dims) {
  std::optional<SpecTrial> best;
  std::vector<NewSpecs> tried;
  const auto try_them = [&](const auto& add) {
    NewSpecs specs;
    for (const ShardedDim& dim : dims) add(dim, specs);
    if (std::ranges::find(tried, specs) != tried.end()) return;
    keep_better(s.trials, try_specs(s.trials, specs), best);
    tried.push_back(std::move(specs));
  };
  size_t most = 0;
  for (const ShardedDim& dim : dims) most = std::max(most, dim.spec.size());
  if (dims.front().dims->at(dims.front().dim).role == DimRole::HeadDim) {
    try_them([&](const ShardedDim& dim, NewSpecs& specs) {
      const auto heads = std::ranges::find(*dim.dims, DimRole::Heads, &ArgumentDim::role);
      move_axes(s, dim, static_cast<size_t>(heads - dim.dims->begin()), specs);
    });
  } else {
    try_them([&](const ShardedDim& dim, NewSpecs& specs) {  // as for one layer
      if (dim.spec.back().empty() && !s.trials.in.plan.rules[dim.rule].of_dim) {
        specs[dim.rule] = dim.spec;
        std::rotate(specs[dim.rule].begin() + static_cast<ptrdiff_t>(dim.dim), specs[dim.rule].end() - 1,
                    specs[dim.rule].end());
      } else {
        move_axes(s, dim, dim.spec.size(), specs);
      }
    });
    for (size_t to = 0; to < most; ++to)
      try_them([&](const ShardedDim& dim, NewSpecs& specs) { move_axes(s, dim, to, specs); });
  }
  try_them([&](const ShardedDim& dim, NewSpecs& specs) { move_axes(s, dim, dim.spec.size(), specs); });
  return best;
}

std::string axis_names(const TpPlan& plan, const DimAxes& axes) {
  std::vector<std::string> names;
  for (const AxisId axis : axes) names.push_back(fmt::format("`{}`", plan.mesh.axes[axis].name));
  return join(names, " and ");
}

// Reports the rules of these dims as one diagnostic. `message` follows the rule, the dim and its axes.
Diagnostic& report_dims(DimSearch& s, Code code, const std::vector<ShardedDim>& dims, std::string_view message) {
  const SpecTrials& t = s.trials;
  const ShardedDim& first = dims.front();
  const Param& param = t.in.graph.params[first.param];
  const auto text_of = [&](const ShardedDim& dim) {
    return fmt::format("`{}` shards dim {} of `{}` over {}", t.in.plan.rules[dim.rule].key, dim.dim,
                       path_of(t.in.graph, t.in.graph.params[dim.param]), axis_names(t.in.plan, dim.spec[dim.dim]));
  };
  Diagnostic& d = report_message(
      s.diagnostics, code, t.in.plan.rules[first.rule].value_span,
      fmt::format("{}, {}; a step sends about {}", text_of(first), message, human_bytes_near(t.before.sent)));
  name_subject(d, t.in.graph, param);
  for (size_t i = 1; i < dims.size(); ++i)
    d.notes.push_back({.text = text_of(dims[i]), .span = t.in.plan.rules[dims[i].rule].value_span});
  return d;
}

void check_head_dims(DimSearch& s) {
  const std::vector<ShardedDim> dims = sharded_dims(s, DimRole::HeadDim);
  const std::optional<SpecTrial> best = dims.empty() ? std::nullopt : best_move(s, dims);
  if (!best) return;
  offer_trial(s.trials, *best,
              report_dims(s, Code::HeadDimSharded, dims,
                          "its head_dim: attention sums over it, so XLA reshards queries and keys or sums scores"));
}

void check_layers(DimSearch& s) {
  std::vector<ShardedDim> dims = sharded_dims(s, DimRole::Layers);
  std::erase_if(dims, [&](const ShardedDim& dim) {
    const Span at = s.trials.in.plan.rules[dim.rule].value_span;
    return std::ranges::any_of(s.diagnostics.list, [&](const Diagnostic& d) {
      return d.code == Code::StackedDimSharded && d.span.offset == at.offset;
    });
  });
  const std::optional<SpecTrial> best = dims.empty() ? std::nullopt : best_move(s, dims);
  if (!best) return;
  offer_trial(
      s.trials, *best,
      report_dims(s, Code::StackedLayersSharded, dims,
                  "which stacks its layers: a loop reads one layer in each turn, so XLA sends it to all ranks"));
}

// Returns the bytes that XLA sends where the program splits these dims.
double bytes_at_splits(const DimSearch& s, const std::vector<ShardedDim>& dims) {
  const SpecTrials& t = s.trials;
  size_t ignored_constraints = 0;
  Diagnostics ignored;
  const ResolvedPlan resolved{t.in.plan, t.in.graph, s.result.matches, s.result.shardings, s.result.boundaries};
  const programs::Propagation propagation =
      programs::propagate_program(place_model_program(resolved, ignored_constraints), ignored);
  std::vector<programs::ProgramCollective> at_splits;
  for (const programs::ProgramCollective& c : propagation.xla) {
    if (std::ranges::any_of(dims, [&](const ShardedDim& dim) {
          return std::ranges::count(dim.dims->at(dim.dim).slices, c.operation) > 0;
        }))
      at_splits.push_back(c);
  }
  return programs::sent_bytes(at_splits);
}

void check_parts(DimSearch& s) {
  const std::vector<ShardedDim> dims = sharded_dims(s, DimRole::Parts);
  const double sent = dims.empty() ? 0 : bytes_at_splits(s, dims);
  if (sent == 0) return;
  const ShardedDim& first = dims.front();
  const int64_t size = shape_of(s.trials.in.graph, s.trials.in.graph.params[first.param])[first.dim];
  const int64_t shard = size / shard_count(first.spec[first.dim], s.trials.in.plan.mesh);
  std::vector<std::string> splits;
  for (const int64_t split : first.dims->at(first.dim).splits) splits.push_back(fmt::format("{}", split));
  const std::optional<SpecTrial> best = best_move(s, dims);
  Diagnostic& d = report_dims(
      s, Code::FusedPartsSplit, dims,
      fmt::format("{} in each shard, but the program splits it at {}: the parts are on other ranks than they are used, "
                  "so XLA sends about {} at the splits",
                  shard, join(splits, ", "), human_bytes_near(sent)));
  if (best) offer_trial(s.trials, *best, d);
  if (best && fits_memory(s.trials, *best)) return;
  constexpr std::string_view kOtherModel =
      "write a parameter for each part into the model, or order the elements so that each shard has all parts";
  d.help = best ? fmt::format("{}; or {}", kOtherModel, d.help) : std::string(kOtherModel);
}

bool shards_over(const TpPlan& plan, const PlanRule& rule, AxisId axis) {
  const auto has = [axis](const std::vector<DimAxes>& dims) {
    return std::ranges::any_of(dims, [axis](const DimAxes& axes) { return std::ranges::count(axes, axis) > 0; });
  };
  const bool is_in_spec = rule.spec && (has(rule.spec->before) || has(rule.spec->after));
  return plan.mesh.axes[axis].size > 1 && (rule.axis == axis || is_in_spec);
}

// Lists the rules with another axis instead of `from`. A style's rule shards over the default axis of the plan, so it
// cannot be changed in its place.
NewSpecs with_other_axis(const TpPlan& plan, AxisId from, AxisId to) {
  NewSpecs specs;
  for (RuleId id = 0; id < plan.rules.size(); ++id) {
    const PlanRule& rule = plan.rules[id];
    if (!shards_over(plan, rule, from)) continue;
    if (!rule.spec || rule.spec->has_ellipsis) return {};
    specs[id] = rule.spec->before;
    for (DimAxes& axes : specs[id]) std::ranges::replace(axes, from, to);
  }
  return specs;
}

void check_swapped_axes(DimSearch& s) {
  const TpPlan& plan = s.trials.in.plan;
  const std::vector<ShardedDim> hidden = sharded_dims(s, DimRole::Hidden);
  // FSDP shards parameters over the axis of the batch, too, along the hidden dim.
  const auto is_fsdp = [&](AxisId axis) {
    return std::ranges::any_of(
        hidden, [axis](const ShardedDim& dim) { return std::ranges::count(dim.spec[dim.dim], axis) > 0; });
  };
  const auto is_idle = [&](AxisId axis) {
    return plan.mesh.axes[axis].size > 1 && !is_data_axis(plan, axis) &&
           std::ranges::none_of(plan.rules, [&](const PlanRule& rule) { return shards_over(plan, rule, axis); });
  };
  for (AxisId idle = 0; plan.data && idle < plan.mesh.axes.size(); ++idle) {
    for (const AxisId axis : plan.data->axes) {
      if (!is_idle(idle) || is_fsdp(axis)) continue;
      const NewSpecs specs = with_other_axis(plan, axis, idle);
      std::optional<SpecTrial> best;
      keep_better(s.trials, try_specs(s.trials, specs), best);
      if (!best) continue;
      const std::string name = plan.mesh.axes[axis].name, other = plan.mesh.axes[idle].name;
      Diagnostic& d = report_message(
          s.diagnostics, Code::MeshAxesSwapped, plan.rules[specs.begin()->first].value_span,
          fmt::format("{} {} parameters over `{}`, which shards the batch, and nothing is sharded over `{}`: XLA "
                      "gathers or sums what has the axis twice; a step sends about {}",
                      counted(specs.size(), "rule"), specs.size() == 1 ? "shards" : "shard", name, other,
                      human_bytes_near(s.trials.before.sent)));
      offer_trial(s.trials, *best, d);
      return;
    }
  }
}

}  // namespace

void check_program_dims(SpecTrials& trials, const CheckResult& result, Diagnostics& diagnostics) {
  const programs::RecordedProgram& program = *trials.in.graph.program;
  std::vector<bool> is_param;
  for (const programs::ProgramArgument& argument : program.arguments)
    is_param.push_back(argument.kind == programs::ArgumentKind::Param);
  DimSearch s{.trials = trials,
              .result = result,
              .diagnostics = diagnostics,
              .roles = programs::find_dim_roles(program.program, is_param)};
  check_swapped_axes(s);
  check_head_dims(s);
  check_layers(s);
  check_parts(s);
}

}  // namespace tpplan
