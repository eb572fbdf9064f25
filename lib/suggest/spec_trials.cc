#include "suggest/spec_trials.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/text.h"
#include "diagnostics/text_edits.h"
#include "programs/recorded_program.h"
#include "suggest/price.h"

namespace tpplan {
namespace {

// Limit of operations that trials propagate: five or six for the 17,000 of an unrolled model of 32 layers.
constexpr uint64_t kMostPropagated = 100'000;
constexpr uint64_t kMostSpecTrials = 100;

StepBytes bytes_of(const SpecTrials& t, const TpPlan& plan, const CheckResult& result) {
  const std::vector<CompiledCall>& calls = result.forecast.compiled;
  const double sent = std::accumulate(calls.begin(), calls.end(), 0.0,
                                      [](double sum, const CompiledCall& call) { return sum + call.wire; });
  return {.sent = sent, .held = largest_parameter_bytes(t.in.graph, plan, result, t.walk)};
}

// Returns the range of the spec in the value of a rule, with its brackets; empty if the value has none.
Span spec_span(const std::string& file, const PlanRule& rule) {
  const std::string_view value = std::string_view(file).substr(rule.value_span.offset, rule.value_span.length);
  const size_t key = value.starts_with('[') ? 0 : value.find("spec");
  const size_t open = key == std::string_view::npos ? key : value.find('[', key);
  int depth = 0;
  for (size_t i = open; i < value.size(); ++i) {
    depth += value[i] == '[' ? 1 : value[i] == ']' ? -1 : 0;
    if (depth == 0)
      return {.file = rule.value_span.file,
              .offset = rule.value_span.offset + open,
              .length = static_cast<uint32_t>(i + 1 - open)};
  }
  return {};
}

// Changes a rule, and returns the edit of its value; an edit without a length if it is not known.
Edit change_rule(const SourceFile& file, const Mesh& mesh, const PartitionSpec& spec, PlanRule& rule) {
  Edit edit{.span = rule.value_span, .text = rule.of_dim ? to_text(spec.front(), mesh) : to_text(spec, mesh)};
  if (rule.style != nullptr)
    edit.text = fmt::format("{{spec: {}}}", edit.text);
  else if (!rule.of_dim)
    edit.span = spec_span(file.text, rule);
  rule.spec = SpecTemplate{.before = spec, .after = {}, .has_ellipsis = false};
  if (rule.style != nullptr) {
    rule.style = nullptr;
    rule.options = {};
    rule.axis = kNoAxis;
  }
  return edit;
}

PlanChange change_of(const SpecTrials& t, const NewSpecs& specs) {
  PlanChange change{t.in.plan, {}, {}};
  std::map<std::string, std::vector<std::string>> keys;  // by the value that they get
  bool are_edits = true;
  for (const auto& [id, spec] : specs) {
    Edit edit = change_rule(t.in.file, t.in.plan.mesh, spec, change.plan.rules[id]);
    keys[edit.text].push_back(fmt::format("`{}`", t.in.plan.rules[id].key));
    are_edits = are_edits && edit.span.length > 0;
    change.edits.push_back(std::move(edit));
  }
  for (const auto& [text, of_text] : keys) {
    const std::string_view before = change.words.empty() ? "write " : ", ";
    const size_t most = 3;
    const std::string others = of_text.size() > most ? fmt::format(" and {} more", of_text.size() - most) : "";
    const std::vector<std::string> named(of_text.begin(), of_text.begin() + std::min(most, of_text.size()));
    change.words += fmt::format("{}`{}` for {}{}", before, text, join(named, ", "), others);
  }
  if (!are_edits) change.edits.clear();
  return change;
}

}  // namespace

SpecTrials make_spec_trials(Checker& checker, const TpPlan& plan, const CheckResult& result, const SourceFile& file,
                            const MeshSizes& sizes, const WalkOptions& walk) {
  SpecTrials t{.checker = checker,
               .in = {.graph = checker.graph, .plan = plan, .matches = result.matches, .file = file},
               .sizes = sizes,
               .walk = walk};
  const uint64_t operations = checker.graph.program->program.recorded_operations;
  t.left = std::min(kMostSpecTrials, kMostPropagated / std::max<uint64_t>(operations, 1));
  t.before = bytes_of(t, plan, result);
  return t;
}

std::optional<SpecTrial> try_specs(SpecTrials& t, const NewSpecs& specs) {
  if (t.left == 0 || specs.empty()) return std::nullopt;
  --t.left;
  SpecTrial trial{.change = change_of(t, specs)};
  Diagnostics diagnostics;
  const CheckResult result = check_plan(t.checker, trial.change.plan, diagnostics, Phase::Operations, t.walk);
  if (has_new_errors(diagnostics, t.checker.is_known) || result.forecast.limit != ForecastLimit::Compiled)
    return std::nullopt;
  trial.bytes = bytes_of(t, trial.change.plan, result);
  return trial;
}

bool fits_memory(const SpecTrials& t, const SpecTrial& trial) {
  return static_cast<double>(trial.bytes.held) <= 1.01 * static_cast<double>(t.before.held);
}

void keep_better(const SpecTrials& t, std::optional<SpecTrial> trial, std::optional<SpecTrial>& best) {
  if (!trial || trial->bytes.sent >= t.before.sent) return;
  const bool is_first = !best || (fits_memory(t, *trial) && !fits_memory(t, *best));
  const bool is_cheaper =
      best && fits_memory(t, *trial) == fits_memory(t, *best) && trial->bytes.sent < best->bytes.sent;
  if (is_first || is_cheaper) best = std::move(trial);
}

std::string trial_text(const SpecTrials& t, const SpecTrial& trial) {
  const double saved = 100 * (1 - trial.bytes.sent / t.before.sent);
  std::string text = fmt::format("{}: a step then sends about {} instead of {} ({:.0f} % less)", trial.change.words,
                                 human_bytes_near(trial.bytes.sent), human_bytes_near(t.before.sent), saved);
  if (trial.bytes.held > t.before.held)
    text += fmt::format(", and a rank holds {} more", human_bytes(trial.bytes.held - t.before.held));
  return text;
}

void offer_trial(const SpecTrials& t, const SpecTrial& trial, Diagnostic& finding) {
  finding.help = trial_text(t, trial);
  if (!fits_memory(t, trial)) return;  // less memory for fewer bytes is a decision
  finding.edits = trial.change.edits;
  const std::vector<TextEdit> edits = text_edits(t.in.file, finding);
  const SourceFile edited{.name = t.in.file.name, .text = with_edits(t.in.file.text, edits), .id = t.in.file.id};
  Diagnostics ignored;
  if (edits.empty() || !same_plan(read_plan(edited, t.sizes, ignored), trial.change.plan) || has_errors(ignored))
    finding.edits.clear();
}

}  // namespace tpplan
