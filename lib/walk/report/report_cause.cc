#include "walk/report/report_cause.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/keyed_hash.h"
#include "base/starred_path.h"
#include "base/text.h"
#include "walk/report/example.h"

namespace tpplan {
namespace {

// Appends the rules and shapes of a module under the plan, as text that is equal for identical modules. Called for its
// submodules too.
void append_module(const Walk& walk, const Module& module, std::string_view below, std::string& key) {
  key += fmt::format("{} {} {}\n", below, module.type,
                     walk.memory.rule_of_module[static_cast<size_t>(&module - walk.in.model.modules.data())]);
  for (const Param& param : params_of(walk.in.model, module)) {
    key += fmt::format("{} {}", param.name,
                       walk.in.matches.params[static_cast<size_t>(&param - walk.in.model.params.data())].rule);
    for (const int64_t size : shape_of(walk.in.model, param)) key += fmt::format(" {}", size);
    key += '\n';
  }
}

// Returns the number of layers in which the module is identical: a run that fails in one would fail in all of them.
uint64_t count_identical(const Walk& walk, ModuleId id) {
  const std::string_view path = walk.in.model.modules[id].path;
  const std::string kind = starred_path(path);
  if (kind == path) return 1;  // not in a layer
  TextMap<std::string_view, std::string> repeats;
  for (const Module& module : walk.in.model.modules) {
    if (starred_path(module.path) == kind) repeats.emplace(module.path, "");
  }
  for (ModuleId at = 0; at < walk.in.model.modules.size(); ++at) {
    const Module& module = walk.in.model.modules[at];
    for (ModuleId above = at; above != kNone; above = parent_of(walk.in.model, above)) {
      const std::string_view prefix = walk.in.model.modules[above].path;
      if (const auto found = repeats.find(prefix); found != repeats.end())
        append_module(walk, module, module.path.substr(prefix.size()), found->second);
    }
  }
  const std::string config = repeats[path];
  return static_cast<uint64_t>(
      std::count_if(repeats.begin(), repeats.end(), [&](const auto& other) { return other.second == config; }));
}

// Returns a note if the heads of the module's attention do not divide by an axis; empty otherwise.
std::string heads_note(const Walk& walk, ModuleId id) {
  for (; id != kNone; id = parent_of(walk.in.model, id)) {
    const Module& module = walk.in.model.modules[id];
    if (module.attributes == kNone) continue;
    const ModuleAttributes& a = walk.in.model.attributes[module.attributes];
    if (a.num_heads == 0) continue;
    const int64_t kv = a.num_kv_heads > 0 ? a.num_kv_heads : a.num_heads;
    for (const AxisId axis : walk.in.axes) {
      const MeshAxis& mesh_axis = walk.in.plan.mesh.axes[axis];
      if (a.num_heads % mesh_axis.size != 0 || kv % mesh_axis.size != 0)
        return fmt::format("`{}` has {} heads and {} kv heads, and `{}` is {}", module.path, a.num_heads, kv,
                           mesh_axis.name, mesh_axis.size);
    }
    return {};
  }
  return {};
}

}  // namespace

void report_cause(Walk& walk, const Cause& cause, FirstFailure fails) {
  ++walk.out.reports;
  const bool in_model = cause.module == kNone || walk.in.model.modules[cause.module].path.empty();
  const std::string path = in_model ? std::string("the model") : std::string(walk.in.model.modules[cause.module].path);
  const auto place = [&](RuleId rule) { return rule == kNoRule ? Span{} : walk.in.plan.rules[rule].value_span; };
  const RuleId rule = cause.rule != kNoRule ? cause.rule : cause.partner;
  const std::string group = fmt::format("{}/{}/{}/{}/{}/{}", fmt::join(walk.in.axes, ","), rule, cause.partner,
                                        starred_path(path), cause.op, to_text(fails));
  // A gradient is seen at each parameter that it reaches, but every layer counts only once.
  ReportedCause& found = walk.out.found[group];
  const bool is_new_module = found.modules.insert(cause.module).second;
  if (found.modules.size() > 1 || !is_new_module) {
    if (is_new_module && found.index < walk.out.diagnostics.list.size()) {
      Diagnostic& d = walk.out.diagnostics.list[found.index];
      d.count = std::max<uint64_t>(d.count, found.modules.size());
    }
    return;
  }
  Diagnostic* d = report(walk.out.diagnostics, cause.code, place(rule), group);
  if (d == nullptr) return;
  found.index = static_cast<size_t>(d - walk.out.diagnostics.list.data());
  d->message = fmt::format("{}: {}", path, cause.reason);
  if (!in_model) d->module = path;
  d->parameter = cause.parameter;
  d->counted = "layer";
  d->count = in_model ? 1 : count_identical(walk, cause.module);
  d->fails = cause.unknown ? FirstFailure::None : fails;
  if (!cause.layouts.empty()) d->notes.push_back({cause.layouts, {}});
  if (!in_model) {
    if (std::string heads = heads_note(walk, cause.module); !heads.empty()) d->notes.push_back({std::move(heads), {}});
  }
  if (cause.partner != kNoRule && cause.partner != rule)
    d->notes.push_back({"this rule produces the other value", place(cause.partner)});
  if (walk.out.examples != nullptr) {
    Example example = cause.example.rows.empty() ? sum_example(cause.code) : cause.example;
    example.code = cause.code;
    example.path = path;
    if (!example.rows.empty()) walk.out.examples->push_back(std::move(example));
  }
  if (!cause.help.empty()) d->help = cause.help;
}

}  // namespace tpplan
