// A plan in memory, without source positions, has the same check result as its file.
#include "judge/judge.h"

#include <doctest/doctest.h>

#include <filesystem>

#include "base/read_file.h"
#include "model/read_model.h"
#include "plan/read_plan.h"
#include "resolve/match/match_plan.h"

using namespace tpplan;

namespace {

// Removes the source positions, like in a plan that a program builds.
void forget_places(TpPlan& plan) {
  plan.axis_spans.clear();
  plan.rules_span = {};
  for (PlanRule& rule : plan.rules) {
    rule.key_span = rule.value_span = {};
    rule.line = 0;
    for (auto* sent : {&rule.options.forward_dtype, &rule.options.backward_dtype}) {
      if (*sent) (*sent)->span = {};
    }
  }
  for (std::vector<ModulePattern>* patterns : {&plan.blocks, &plan.remat}) {
    for (ModulePattern& pattern : *patterns) pattern.span = {};
  }
  if (plan.data) plan.data->dim_span = {};
  if (plan.loss) plan.loss->span = {};
  if (plan.fsdp) {
    plan.fsdp->span = {};
    for (std::vector<ModulePattern>* patterns : {&plan.fsdp->patterns, &plan.fsdp->units}) {
      for (ModulePattern& pattern : *patterns) pattern.span = {};
    }
  }
  for (LocalAttributes& attributes : plan.local_attributes) {
    attributes.pattern.span = {};
    for (ModulePattern& name : attributes.names) name.span = {};
  }
  for (InitEntry& entry : plan.init) entry.pattern.span = {};
  for (Suppression& suppression : plan.suppressions) suppression.span = {};
}

std::string products(const CheckResult& plan_result, const TpPlan& plan, const ModelGraph& graph) {
  std::string text(to_text(plan_result.reached));
  if (plan_result.reached >= Phase::Matches) text += dump(plan_result.matches, plan, graph);
  if (plan_result.reached >= Phase::Shardings) text += dump(plan_result.shardings, plan, graph);
  if (plan_result.reached >= Phase::Boundaries) text += dump(plan_result.boundaries, plan, graph);
  return text;
}

std::vector<std::string> findings(const Diagnostics& diagnostics) {
  std::vector<std::string> texts;
  for (const Diagnostic& d : diagnostics.list)
    texts.push_back(std::string(kind_of(d.code).id) + " x" + std::to_string(d.count) + ": " + d.message);
  return texts;
}

SourceFile read(const std::filesystem::path& path) {
  ReadResult result = read_file(path.string(), uint64_t{1} << 30);
  REQUIRE(result.fault == ReadError::None);
  return std::move(result.file);
}

}  // namespace

TEST_CASE("in-memory plans match their files in every golden case") {
  size_t checked = 0, with_errors = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(TPPLAN_TEST_DATA "/golden")) {
    if (entry.path().filename() != "plan.yaml") continue;
    const SourceFile model_file = read(entry.path().parent_path() / "model.json");
    SourceFile plan_file = read(entry.path());
    plan_file.id = 2;
    Diagnostics reading;
    const ModelGraph graph = read_model(model_file, reading);
    TpPlan plan = read_plan(plan_file, {}, reading);
    if (has_errors(reading)) continue;
    Checker checker = make_checker(graph);
    Diagnostics of_file, of_memory;
    const std::string from_file = products(check_plan(checker, plan, of_file), plan, graph);
    forget_places(plan);
    const std::string from_memory = products(check_plan(checker, plan, of_memory), plan, graph);
    INFO(entry.path().string());
    CHECK(from_memory == from_file);
    CHECK(findings(of_memory) == findings(of_file));
    for (const Diagnostic& d : of_memory.list) CHECK(d.span.file != plan_file.id);
    ++checked;
    with_errors += has_errors(of_file);
  }
  CHECK(checked > 60);
  CHECK(with_errors > 20);
}

TEST_CASE("memory and work of a step are counted only on request") {
  const std::filesystem::path folder = TPPLAN_TEST_DATA "/golden/manifest/saved-activations-under-tp";
  const SourceFile model_file = read(folder / "model.json"), plan_file = read(folder / "plan.yaml");
  Diagnostics diagnostics;
  const ModelGraph graph = read_model(model_file, diagnostics);
  const TpPlan plan = read_plan(plan_file, {}, diagnostics);
  Checker checker = make_checker(graph);
  const CheckResult plain = check_plan(checker, plan, diagnostics, Phase::Manifest);
  CHECK(!plain.costs.is_there);
  CHECK(plain.forecast.trace.ops.capacity() == 0);
  CHECK(plain.forecast.trace.values.capacity() == 0);
  const CheckResult counted = check_plan(checker, plan, diagnostics, Phase::Manifest, {.trace = true});
  CHECK(counted.costs.saved > 0);
  CHECK(counted.forecast.calls == plain.forecast.calls);
  CHECK(!has_errors(diagnostics));
}
