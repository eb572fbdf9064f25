#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>

#include "base/keyed_hash.h"
#include "base/starred_path.h"
#include "base/text.h"
#include "commands.h"
#include "cost/measure_collectives.h"
#include "inputs.h"
#include "manifest/coverage_gate.h"
#include "model/read_model.h"
#include "plan/apply_suppressions.h"
#include "resolve/match/lint_dialects.h"
#include "text/json_writer.h"
#include "text/yaml_tree.h"
#include "trace.h"
#include "walk/runtimes.h"

namespace tpplan {
namespace {

bool mesh_has(const Mesh& mesh, const MeshSizes& sizes) {
  for (const auto& [name, size] : sizes) {
    if (find_axis(mesh, name) != kNoAxis) continue;
    usage_error(fmt::format("--mesh {}={}: the plan's mesh {} has no such axis", escape_for_terminal(name), size,
                            to_text(mesh)));
    return false;
  }
  return true;
}

// True if the model and the plan look swapped.
bool is_swapped(const Session& session) {
  const auto starts = [](const SourceFile& file, auto is) {
    const size_t at = file.text.find_first_not_of(" \t\r\n");
    return at != std::string::npos && is(file.text[at]);
  };
  return starts(session.plan, [](char c) { return c == '{'; }) &&
         starts(session.model, [](char c) { return c != '{' && c > ' ' && c <= '~'; });
}

}  // namespace

std::string mesh_error(const std::vector<std::string>& words, MeshSizes& sizes) {
  for (const std::string& word : words) {
    for (const std::string_view part : split(word, ',')) {
      const size_t equals = part.find('=');
      int64_t size = 0;
      if (equals == std::string_view::npos || equals == 0 || !parse_decimal(part.substr(equals + 1), size) ||
          size < 1 || size >= int64_t{1} << 31)
        return fmt::format("{}: expected AXIS=SIZE with a size of at least 1, as in --mesh tp=8",
                           escape_for_terminal(word));
      const std::string_view name = part.substr(0, equals);
      if (std::any_of(sizes.begin(), sizes.end(), [name](const auto& s) { return s.first == name; }))
        return fmt::format("has axis {} twice: give each axis one size", escape_for_terminal(name));
      sizes.emplace_back(name, size);
    }
  }
  return {};
}

bool parse_mesh(const std::vector<std::string>& words, MeshSizes& sizes) {
  const std::string fault = mesh_error(words, sizes);
  if (!fault.empty()) usage_error(fmt::format("--mesh {}", fault));
  return fault.empty();
}

int usage_error(std::string_view message) {
  print(STDERR_FILENO, fmt::format("tpplan: error: {}\n", message));
  return kExitUsage;
}

Sources sources_of(const Session& session) {
  std::vector<const SourceFile*> files{&session.model, &session.plan};
  if (!session.run.name.empty()) files.push_back(&session.run);
  for (const SpeedFile& speeds : session.speeds) files.push_back(&speeds.file);
  return sources_of(files);
}

WalkOptions walk_options(const InputArguments& inputs) {
  WalkOptions walk{.runtime = std::nullopt,
                   .infer = inputs.mode == "infer" || inputs.mode == "decode",
                   .examples = inputs.examples,
                   .trace = inputs.counted};
  for (const RuntimeRow& row : runtimes()) {
    if (row.name == inputs.runtime) walk.runtime = row.runtime;
  }
  return walk;
}

void compile_texts(Session& session, const InputArguments& inputs, const MeshSizes& sizes, Phase last,
                   const CommonArguments& common) {
  if (is_swapped(session)) {
    report_message(session.diagnostics, Code::InvalidJson, {session.model.id, 0, 1},
                   "the model does not start as JSON, but the plan does",
                   "swap the two files: the order is MODEL PLAN");
    return;
  }
  session.compilation =
      compile({.model = session.model,
               .plan = session.plan,
               .mesh_sizes = sizes,
               .last = last,
               .walk = walk_options(inputs),
               .is_known = session.is_known,
               .step = {.batch = inputs.batch, .sequence = inputs.sequence},
               .use = inputs.max_replicated < 1 ? ManifestUse::Read : inputs.use},  // check_replicated needs paths
              session.diagnostics);
  trace(common.verbose, "compile", fmt::format("reached phase {}", to_text(session.compilation.reached)));
  const Mesh& mesh = session.compilation.plan.mesh;
  if (!mesh.axes.empty() && !mesh_has(mesh, sizes)) session.usage = true;
}

void compile_session(Session& session, const InputArguments& inputs, Phase last, const CommonArguments& common) {
  MeshSizes sizes;
  session.usage = true;
  if (inputs.model == "-" && inputs.plan == "-") {
    usage_error("the model and the plan cannot both be standard input: pass a file for one of them");
    return;
  }
  if (!parse_mesh(inputs.mesh, sizes)) return;
  session.usage = false;
  const bool model_read = read_input(inputs.model, kMaxModelBytes, session.model, session.diagnostics, inputs.within);
  const bool plan_read = read_input(inputs.plan, YamlLimits{}.bytes, session.plan, session.diagnostics, inputs.within);
  trace(common.verbose, "read",
        fmt::format("{} and {}", human_bytes(session.model.text.size()), human_bytes(session.plan.text.size())));
  if (model_read && plan_read) compile_texts(session, inputs, sizes, last, common);
  for (const SourceFile* file : {&session.model, &session.plan}) {
    const bool is_known_kind =
        file->text.find("tpplan.model/") != std::string::npos || file->text.find("tpplan.plan/") != std::string::npos;
    if (!inputs.within.empty() && !is_known_kind) hide_content(file->id, session.diagnostics);
  }
}

void check_session(Session& session, const InputArguments& inputs, const std::function<bool(Code)>& is_complete) {
  const Compilation& c = session.compilation;
  if (c.reached > Phase::Plan && !session.usage) apply_suppressions(c.plan, is_complete, session.diagnostics);
  const bool compiled =
      c.reached == Phase::Manifest && !has_errors(session.diagnostics);  // before warnings can become errors
  apply_severity_rules(session.diagnostics, inputs.severity);
  finish_diagnostics(session.diagnostics);
  if (!compiled) return;
  // The diagnostic about replicated parameters comes first, because it is about the complete plan.
  std::optional<Diagnostic> gate = check_replicated(c.manifest, inputs.max_replicated);
  if (!gate) return;
  gate->span = c.plan.rules_span;
  session.diagnostics.list.insert(session.diagnostics.list.begin(), std::move(*gate));
}

void run_session(Session& session, const InputArguments& inputs, Phase last, const CommonArguments& common) {
  compile_session(session, inputs, last, common);
  check_session(session, inputs,
                [&](Code code) { return session.compilation.reached == Phase::Manifest && code != kLintCode; });
}

namespace {

// Returns a summary of hidden collectives. The plan does not show them, and they can be most of the traffic of a step.
std::string hidden_calls_text(const Compilation& c) {
  const std::vector<CollectiveCall>& calls = c.plan_result.forecast.calls;
  if (std::none_of(calls.begin(), calls.end(), [](const CollectiveCall& call) { return call.hidden; })) return {};
  const CollectiveMeasure measure = measure_collectives(calls, c.plan.mesh);
  return fmt::format(
      "{} of the {} of a step {} hidden: DTensor adds them to redistribute mismatched operands, {} of {} that a step "
      "moves\n",
      measure.hidden.calls, counted(measure.total.calls, "collective"), measure.hidden.calls == 1 ? "is" : "are",
      human_bytes(measure.hidden.payload), human_bytes(measure.total.payload));
}

// Returns a verdict such as "no errors: forward and backward pass of 604 operations were checked". Without the walk of
// the operations it is only the number of warnings, or empty.
std::string verdict_text(const Compilation& c, const Diagnostics& diagnostics) {
  const std::string findings = count_diagnostics(diagnostics);
  const Forecast& forecast = c.plan_result.forecast;
  const bool is_forward = forecast.infer || forecast.limit == ForecastLimit::Forward;
  if (has_errors(diagnostics) || (forecast.limit != ForecastLimit::None && !is_forward) || !c.graph.operations.is_there)
    return findings;
  const auto ops = std::ranges::count(c.graph.operations.nodes, NodeKind::Op, &GraphNode::kind);
  return fmt::format("no errors{}{}: {} of {} {} checked", findings.empty() ? "" : ", ", findings,
                     is_forward ? "forward pass" : "forward and backward pass",
                     counted(static_cast<uint64_t>(ops), "operation"), is_forward ? "was" : "were");
}

// Returns a note on plain parameters next to DTensors. The plan is right, but common training code rejects the mixture.
std::string plain_parameters_text(const Compilation& c) {
  if (c.plain.empty()) return {};
  TextSet<std::string> names;  // of parameters, all layers as one
  for (const ParamId id : c.plain) names.insert(starred_path(path_of(c.graph, c.graph.params[id])));
  return fmt::format("clip_grad_norm_, foreach and fused optimizers fail: {} {} plain\n next to DTensors: `{}`{}\n",
                     counted(c.plain.size(), "parameter"), c.plain.size() == 1 ? "stays" : "stay",
                     escape_for_terminal(starred_path(path_of(c.graph, c.graph.params[c.plain.front()]))),
                     names.size() == 1 ? "" : fmt::format(" and {} more", names.size() - 1));
}

// Returns the bytes that XLA sends for the program of a JAX or Keras model, and what the forecast does not cover.
std::string compiled_text(const Forecast& forecast) {
  if (forecast.limit != ForecastLimit::Compiled) return {};
  double wire = 0;
  for (const CompiledCall& call : forecast.compiled) wire += call.wire;
  std::string out = fmt::format("XLA inserts about {} that send {} per rank and step{}\n",
                                counted(forecast.compiled.size(), "collective"),
                                human_bytes(static_cast<uint64_t>(std::min(wire, 1e18))),
                                forecast.compiled.empty() ? "" : "; `tpplan check --costs` lists them");
  if (!forecast.uncovered.empty()) out += fmt::format("not covered: {}\n", escape_for_terminal(forecast.uncovered));
  if (!forecast.advice.empty()) out += fmt::format("cheaper: {}\n", escape_for_terminal(forecast.advice));
  return out;
}

}  // namespace

std::string unchecked_field(std::span<const ForecastLimit> limits) {
  JsonWriter json;
  write_array(json, limits, [&json](ForecastLimit limit) {
    begin_object(json);
    write_field(json, "checks", unchecked_by(limit));
    write_field(json, "reason", to_text(limit));
    write_field(json, "help", fix_of(limit));
    end_object(json);
  });
  return std::move(json.out);
}

std::string summary(const Compilation& c, const Diagnostics& diagnostics) {
  const ManifestTotals& t = c.manifest.totals;
  size_t sharded = 0, by_default = 0, unsharded = 0;  // unsharded: sharded only over axes of size 1
  for (ParamId id = 0; id < c.plan_result.shardings.params.size(); ++id) {
    const PartitionSpec& spec = sharding_of(c.plan_result.shardings, id).spec;
    const bool is_full = is_fully_replicated(spec, c.plan.mesh);
    sharded += !is_full;
    unsharded += is_full && !is_replicated(spec);
    by_default += c.plan_result.shardings.params[id].reason == Reason::Default;
  }
  const size_t replicated = c.plan_result.shardings.params.size() - sharded;
  const auto percent = [](uint64_t part, uint64_t total) {
    return total == 0 ? 100.0 : 100.0 * static_cast<double>(part) / static_cast<double>(total);
  };
  const std::string by_size = unsharded == 0 ? "" : fmt::format(", {} over axes of size 1", unsharded);
  std::string out = fmt::format("{} on {}: {} in {}, {} sharded, {} replicated ({} by default{})\n",
                                escape_for_terminal(c.graph.name), to_text(c.plan.mesh), human_bytes(t.bytes),
                                counted(c.graph.params.size(), "parameter"), sharded, replicated, by_default, by_size);
  out += fmt::format("each rank holds at most {} ({:.1f} % of the ideal {}), {} of it replicated\n",
                     human_bytes(t.max_bytes_per_rank), percent(t.max_bytes_per_rank, t.ideal_bytes_per_rank),
                     human_bytes(t.ideal_bytes_per_rank), human_bytes(t.replicated_bytes_per_rank));
  out += hidden_calls_text(c) + plain_parameters_text(c) + compiled_text(c.plan_result.forecast);
  if (const std::string unchecked = unchecked_text(c.plan_result.forecast.limit); !unchecked.empty())
    out += unchecked + "\n";
  const std::string verdict = verdict_text(c, diagnostics);
  return verdict.empty() ? out : out + verdict + "\n";
}

}  // namespace tpplan
