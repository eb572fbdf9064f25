// Whether a walk that writes alike layers again writes what a walk of each layer writes: for a plan and for each that
// lacks one of its rules, whoever runs it, with gradients and without. MODEL PLAN [AXIS=SIZE,...].
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/read_file.h"
#include "judge.h"
#include "model/read_model.h"
#include "plan/read_plan.h"
#include "walk/runtimes.h"

using namespace tpplan;

namespace {

struct Seen {
  Judgement judgement;
  Diagnostics found;
};

Seen see(const ModelGraph& graph, const TpPlan& plan, const WalkOptions& walk) {
  Seen seen;
  seen.judgement = judge(graph, plan, seen.found, Phase::Manifest, walk);
  return seen;
}

bool same_trace(const StepTrace& a, const StepTrace& b) {
  const auto same_value = [](const TracedValue& x, const TracedValue& y) {
    return x.value == y.value && x.shape == y.shape && x.from == y.from && x.param == y.param &&
           x.is_leaf == y.is_leaf && x.requires_grad == y.requires_grad && x.memory == y.memory;
  };
  const auto same_op = [](const TracedOp& x, const TracedOp& y) {
    return x.kind == y.kind && x.node == y.node && x.module == y.module && x.in_begin == y.in_begin &&
           x.in_end == y.in_end && x.out_begin == y.out_begin && x.out_end == y.out_end;
  };
  const auto same_shape = [](const GraphShape& x, const GraphShape& y) {
    return x.begin == y.begin && x.ndim == y.ndim;
  };
  return a.is_there == b.is_there && a.sizes == b.sizes && a.slots == b.slots && a.outputs == b.outputs &&
         std::equal(a.values.begin(), a.values.end(), b.values.begin(), b.values.end(), same_value) &&
         std::equal(a.ops.begin(), a.ops.end(), b.ops.begin(), b.ops.end(), same_op) &&
         std::equal(a.shapes.begin(), a.shapes.end(), b.shapes.begin(), b.shapes.end(), same_shape);
}

bool same_findings(const Diagnostics& a, const Diagnostics& b) {
  return std::equal(a.list.begin(), a.list.end(), b.list.begin(), b.list.end(),
                    [](const Diagnostic& x, const Diagnostic& y) {
                      return x.code == y.code && x.message == y.message && x.count == y.count && x.fails == y.fails &&
                             x.help == y.help && x.span.offset == y.span.offset;
                    });
}

// The first thing that differs; empty: nothing does.
std::string difference(const Seen& a, const Seen& b) {
  const Forecast &x = a.judgement.forecast, &y = b.judgement.forecast;
  if (x.gap != y.gap || x.broken_at != y.broken_at || x.unlisted != y.unlisted) return "how far the walk went";
  if (x.calls != y.calls) return "calls";
  if (!same_trace(x.trace, y.trace)) return "the trace";
  if (!(a.judgement.costs == b.judgement.costs)) return "costs";
  if (!same_findings(a.found, b.found)) return "findings";
  return {};
}

MeshSizes sizes_of(std::string text) {
  MeshSizes sizes;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(',', at), text.size()), equal = text.find('=', at);
    sizes.emplace_back(text.substr(at, equal - at), std::atoi(text.c_str() + equal + 1));
    at = end + 1;
  }
  return sizes;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const SourceFile model_file = read_file(argv[1], uint64_t{1} << 30).file;
  SourceFile plan_file = read_file(argv[2], uint64_t{1} << 30).file;
  plan_file.id = 2;
  Diagnostics reading;
  const ModelGraph graph = read_model(model_file, reading);
  const TpPlan plan = read_plan(plan_file, argc > 3 ? sizes_of(argv[3]) : MeshSizes{}, reading);
  if (has_errors(reading)) return 2;
  const ModelTables tables = make_model_tables(graph);
  ModelTables each_layer = tables;
  each_layer.stacks.clear();
  uint32_t repeated = 0, repeated_back = 0, judged = 0, wrong = 0;
  for (size_t left_out = 0; left_out <= plan.rules.size(); ++left_out) {
    TpPlan tried = plan;
    if (left_out < plan.rules.size()) tried.rules.erase(tried.rules.begin() + static_cast<std::ptrdiff_t>(left_out));
    for (const PlanRuntime runtime : {PlanRuntime::Transformers, PlanRuntime::Torch, PlanRuntime::Tpplan}) {
      if (runtime != PlanRuntime::Tpplan && runtime != plan.dialect->runtime) continue;
      for (const bool infer : {false, true}) {
        WalkOptions walk{.runtime = runtime, .infer = infer, .trace = true, .tables = &tables};
        const Seen folded = see(graph, tried, walk);
        walk.tables = &each_layer;
        const Seen whole = see(graph, tried, walk);
        if (const std::string differs = difference(folded, whole); !differs.empty()) {
          std::printf("without rule %zu, %s%s: %s\n", left_out, std::string(runtime_row(runtime).name).c_str(),
                      infer ? ", infer" : "", differs.c_str());
          return 1;
        }
        repeated += folded.judgement.forecast.repeated;
        repeated_back += folded.judgement.forecast.repeated_back;
        ++judged;
        wrong += has_errors(folded.found);
      }
    }
  }
  std::printf("%u judged, %u wrong: %u layers repeated, %u on the way back\n", judged, wrong, repeated, repeated_back);
  return 0;
}
