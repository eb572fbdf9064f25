// The transformers dialect: distributed/tensor_parallel.py of transformers 5.23.
#include <string>
#include <unordered_map>

#include "match/dialects.h"

namespace tpplan {
namespace {

// Python's re.sub(r"\.\d+(\.|$)", r".*\1", name): a part that is all digits becomes `*`. The dot behind it is consumed,
// so that of consecutive numeric parts every second one stays.
std::string normalised(std::string_view name) {
  std::string out;
  for (size_t i = 0; i < name.size();) {
    size_t digits = i + 1;
    while (name[i] == '.' && digits < name.size() && name[digits] >= '0' && name[digits] <= '9') ++digits;
    const bool numeric = name[i] == '.' && digits > i + 1 && (digits == name.size() || name[digits] == '.');
    if (!numeric) {
      out += name[i++];
      continue;
    }
    out += ".*";
    i = digits;
    if (i < name.size()) out += name[i++];
  }
  return out;
}

using RulesByKey = std::unordered_map<std::string_view, RuleId>;

}  // namespace

void match_transformers(const TpPlan& plan, const ModelGraph& graph, MatchTable& table, Diagnostics& diagnostics) {
  const RuleScopes scopes = rule_scopes(plan, graph, diagnostics);
  std::vector<RulesByKey> keys(scopes.list.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    for (const RuleId id : scopes.list[i].rules) {
      if (!plan.rules[id].key.empty()) keys[i].emplace(plan.rules[id].key, id);  // the empty key is dropped there too
    }
  }
  const auto look_up = [&](size_t scope, std::string_view name) {
    const auto found = keys[scope].find(name);
    return found == keys[scope].end() ? kNoRule : found->second;
  };
  std::vector<EnclosingScope> enclosing;
  std::string path;
  for (ModuleId id = 0; id < graph.modules.size(); ++id) {
    const Module& module = graph.modules[id];
    enclosing_scopes(scopes, id, enclosing);
    for (const EnclosingScope at : enclosing) {
      const size_t scope = at.scope;
      const std::string module_name = normalised(relative_path(graph, at, module.path));
      const RuleId module_rule = look_up(scope, module_name);
      for (ParamId param = module.first_param; param < module.first_param + module.param_count; ++param) {
        assign_path(path, graph, graph.params[param]);
        const std::string name = normalised(relative_path(graph, at, path));
        RuleId rule = look_up(scope, name);
        const bool exact = rule != kNoRule;
        const size_t dot = name.rfind('.');
        if (!exact && dot != std::string::npos) rule = look_up(scope, std::string_view(name).substr(0, dot));
        if (rule == kNoRule) continue;
        ++table.rules[rule].parameters;
        table.rules[rule].addressed = true;
        const RuleId earlier = table.params[param].rule;
        if (earlier != kNoRule && earlier != rule) {
          report_clash(plan, earlier, rule, path, same_treatment(plan.rules[earlier], plan.rules[rule]), diagnostics);
          continue;
        }
        ++table.rules[rule].governed;
        table.params[param] = {.rule = rule, .by_module = !exact};
      }
      if (module_rule == kNoRule) continue;
      table.rules[module_rule].addressed = true;
      ++table.rules[module_rule].modules;
      table.boundaries.push_back({id, module_rule});
    }
  }
}

}  // namespace tpplan
