#include "walk/report_cause.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/keyed_hash.h"
#include "base/text.h"
#include "walk/example.h"

namespace tpplan {
namespace {

// Layers of one kind are one: numbers in a path are `*`.
std::string kind_of_path(std::string_view path) {
  std::string out;
  for (size_t i = 0; i < path.size();) {
    const size_t end = std::min(path.find('.', i), path.size());
    const std::string_view atom = path.substr(i, end - i);
    const bool number =
        !atom.empty() && std::all_of(atom.begin(), atom.end(), [](char c) { return c >= '0' && c <= '9'; });
    out += out.empty() ? "" : ".";
    out += number ? std::string_view("*") : atom;
    i = end + 1;
  }
  return out;
}

// What a module is under the plan, as text that is equal for modules that are alike: rules and shapes, below it too.
void append_module(const Walk& walk, const Module& module, std::string_view below, std::string& key) {
  key += fmt::format("{} {} {}\n", below, module.type,
                     walk.rule_of_module[static_cast<size_t>(&module - walk.model.modules.data())]);
  for (const Param& param : params_of(walk.model, module)) {
    key += fmt::format("{} {}", param.name,
                       walk.matches.params[static_cast<size_t>(&param - walk.model.params.data())].rule);
    for (const int64_t size : shape_of(walk.model, param)) key += fmt::format(" {}", size);
    key += '\n';
  }
}

// Modules in other layers that are as this one: a run that fails in one fails in all, and would go on to say so.
uint64_t count_alike(const Walk& walk, ModuleId id) {
  const std::string_view path = walk.model.modules[id].path;
  const std::string kind = kind_of_path(path);
  if (kind == path) return 1;  // in no layer
  TextMap<std::string_view, std::string> alike;
  for (const Module& module : walk.model.modules) {
    if (kind_of_path(module.path) == kind) alike.emplace(module.path, "");
  }
  for (ModuleId at = 0; at < walk.model.modules.size(); ++at) {
    const Module& module = walk.model.modules[at];
    for (ModuleId above = at; above != kNone; above = parent_of(walk.model, above)) {
      const std::string_view prefix = walk.model.modules[above].path;
      if (const auto found = alike.find(prefix); found != alike.end())
        append_module(walk, module, module.path.substr(prefix.size()), found->second);
    }
  }
  const std::string own = alike[path];
  return static_cast<uint64_t>(
      std::count_if(alike.begin(), alike.end(), [&](const auto& other) { return other.second == own; }));
}

// The attention that a module is or is part of, where the ranks cannot share out its heads; empty elsewhere.
std::string heads_note(const Walk& walk, ModuleId id) {
  for (; id != kNone; id = parent_of(walk.model, id)) {
    const Module& module = walk.model.modules[id];
    if (module.attributes == kNone) continue;
    const ModuleAttributes& a = walk.model.attributes[module.attributes];
    if (a.num_heads == 0) continue;
    const int64_t kv = a.num_kv_heads > 0 ? a.num_kv_heads : a.num_heads;
    for (const AxisId axis : walk.axes) {
      const MeshAxis& own = walk.plan.mesh.axes[axis];
      if (a.num_heads % own.size != 0 || kv % own.size != 0)
        return fmt::format("`{}` has {} heads and {} kv heads, and `{}` is {}", module.path, a.num_heads, kv, own.name,
                           own.size);
    }
    return {};
  }
  return {};
}

}  // namespace

void report_cause(Walk& walk, const Cause& cause, std::string_view fails) {
  ++walk.reports;
  const bool in_model = cause.module == kNone || walk.model.modules[cause.module].path.empty();
  const std::string path = in_model ? std::string("the model") : std::string(walk.model.modules[cause.module].path);
  const auto place = [&](RuleId rule) { return rule == kNoRule ? Span{} : walk.plan.rules[rule].value_span; };
  const RuleId rule = cause.rule != kNoRule ? cause.rule : cause.partner;
  const std::string group = fmt::format("{}/{}/{}/{}/{}/{}", fmt::join(walk.axes, ","), rule, cause.partner,
                                        kind_of_path(path), cause.op, fails);
  // A gradient is seen in each parameter that it reaches: every layer counts once.
  FoundCause& found = walk.found[group];
  const bool is_new_module = found.modules.insert(cause.module).second;
  if (found.modules.size() > 1 || !is_new_module) {
    if (is_new_module && found.index < walk.diagnostics.list.size()) {
      Diagnostic& d = walk.diagnostics.list[found.index];
      d.count = std::max<uint64_t>(d.count, found.modules.size());
    }
    return;
  }
  Diagnostic* d = report(walk.diagnostics, cause.code, place(rule), group);
  if (d == nullptr) return;
  found.index = static_cast<size_t>(d - walk.diagnostics.list.data());
  d->message = fmt::format("{}: {}", path, cause.reason);
  d->counted = "layer";
  d->count = in_model ? 1 : count_alike(walk, cause.module);
  d->fails = cause.unknown ? std::string_view{} : fails;
  if (!cause.layouts.empty()) d->notes.push_back({cause.layouts, {}});
  if (!in_model) {
    if (std::string heads = heads_note(walk, cause.module); !heads.empty()) d->notes.push_back({std::move(heads), {}});
  }
  if (cause.partner != kNoRule && cause.partner != rule)
    d->notes.push_back({"meets what this rule makes", place(cause.partner)});
  if (walk.examples != nullptr) {
    Example example = cause.example.rows.empty() ? sum_example(cause.code) : cause.example;
    example.code = cause.code;
    example.path = path;
    if (!example.rows.empty()) walk.examples->push_back(std::move(example));
  }
  if (cause.code == Code::TP5123)
    d->help = "leave out `forward_dtype`, or let the model cast its value before the product";
  if (cause.unknown)
    d->help =
        fmt::format("add a row for `{}` to lib/ops, or a rule string under \"rules\" of the model's graph", cause.op);
}

}  // namespace tpplan
