#include "search/appraise.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "ops/resize_graph.h"
#include "suggest/price.h"

namespace tpplan {
namespace {

const Topology& topology_of(Appraiser& appraiser, const Mesh& mesh) {
  const auto [at, is_new] = appraiser.topologies.try_emplace(to_text(mesh));
  Diagnostics ignored;  // the command has reported errors of these files
  if (is_new) at->second = read_speeds(appraiser.inputs->speeds, mesh, ignored);
  return at->second;
}

}  // namespace

Appraiser make_appraiser(const ModelGraph& model, const CostInputs& inputs, int64_t batch, int64_t sequence,
                         std::string& why) {
  Appraiser appraiser{.inputs = &inputs, .graph = std::make_unique<ModelGraph>(model), .judge = {}, .topologies = {}};
  Diagnostics diagnostics;
  if (!resize_graph(appraiser.graph->operations, model.file, {.batch = batch, .sequence = sequence}, diagnostics)) {
    const Diagnostic& fault = diagnostics.list.front();
    why = fmt::format("{} ({})", fault.message, kind_of(fault.code).id);
    appraiser.graph.reset();
    return appraiser;
  }
  appraiser.judge.reset(new Judge(make_judge(*appraiser.graph)));
  return appraiser;
}

StepFigures appraise(Appraiser& appraiser, const TpPlan& plan) {
  Diagnostics diagnostics;
  const WalkOptions walk{.infer = appraiser.inputs->infer, .trace = true};
  const CheckResult judgement = check_plan(*appraiser.judge, plan, diagnostics, Phase::Manifest, walk);
  const auto fault = std::ranges::find_if(
      diagnostics.list, [](const Diagnostic& d) { return d.severity == Severity::Error || d.severity == Severity::Warning; });
  StepFigures figures;
  if (fault != diagnostics.list.end()) {
    figures.why = fmt::format("{} ({})", fault->message, kind_of(fault->code).id);
    return figures;
  }
  const Topology& topology = topology_of(appraiser, plan.mesh);
  const Price price = price_plan(*appraiser.graph, plan, judgement, walk, *find_recipe(appraiser.inputs->run.recipe), &topology);
  if (!price.knows_step) {
    figures.why = std::string(to_text(judgement.forecast.gap));
    return figures;
  }
  figures.is_right = true;
  figures.seconds = price.time.total;
  figures.memory = price.memory.total;
  figures.wire = price.sent.wire;
  StepProfile& profile = figures.profile;
  const auto saved = static_cast<int64_t>(price.memory.infer ? 0 : judgement.costs.kept),
             transient = static_cast<int64_t>(price.memory.infer ? 0 : judgement.costs.transient),
             logits = static_cast<int64_t>(price.memory.infer ? 0 : judgement.costs.logits);
  const int64_t count = 4;
  profile.begin = static_cast<int64_t>(price.memory.total) - saved - transient - logits;
  profile.loss = {logits, logits};
  profile.forward.assign(4, {saved / count, saved / count});
  profile.backward.assign(4, {transient, -saved / count});
  return figures;
}

}  // namespace tpplan
