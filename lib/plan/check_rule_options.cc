#include "plan/check_rule_options.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/text.h"
#include "sharding/redistribute.h"

namespace tpplan {
namespace {

struct OptionCheck {
  const PlanRule& rule;
  const OptionSpans& written;
  const DialectRow& dialect;
  Diagnostics& diagnostics;
};

// Reports at `option` if the rule has it, else at the rule's value.
void say(OptionCheck& check, Code code, std::string message, std::string help = {}, std::string_view option = {}) {
  const auto place = check.written.find(option);
  const Span span = place == check.written.end() ? check.rule.value_span : place->second;
  Diagnostic& d = report_message(check.diagnostics, code, span, std::move(message), std::move(help));
  // torch's styles reject lists that do not fit in their constructor, and a shard of a partial value at run time.
  if (check.dialect.runtime == PlanRuntime::Torch) d.fails = kind_of(code).fails;
}

void report_without_effect(OptionCheck& check, std::string_view from_name, std::string_view to_name) {
  say(check, Code::SettingWithoutEffect, fmt::format("`{}` has no effect without `{}`", to_name, from_name),
      fmt::format("write the layouts of the incoming values: `{}`", from_name), to_name);
}

std::string layouts(const auto& list) { return counted(list.size(), "layout"); }

bool can_be_brought(const Placement& from, const Placement& to) {
  return redistribute(std::span(&from, 1), std::span(&to, 1)).has_value();
}

void check_pair(OptionCheck& check, std::string_view from_name, std::string_view to_name,
                const std::optional<std::vector<Layout>>& from, const std::optional<std::vector<Layout>>& to) {
  const auto report_difference = [&](std::string message) {
    say(check, Code::LayoutCountMismatch, std::move(message),
        "write one entry for each value in both lists, `null` for a value that stays unchanged", from_name);
  };
  if (to && !from) return report_without_effect(check, from_name, to_name);
  if (!from) return;
  if (!to) return report_difference(fmt::format("`{}` is set without `{}`", from_name, to_name));
  if (from->size() != to->size()) {
    return report_difference(
        fmt::format("`{}` has {}, but `{}` has {}", from_name, layouts(*from), to_name, layouts(*to)));
  }
  for (size_t i = 0; i < from->size(); ++i) {
    const Layout &comes = (*from)[i], &wanted = (*to)[i];
    if (!comes || !wanted || can_be_brought(*comes, *wanted)) continue;
    say(check, Code::RedistributeToPartial,
        fmt::format(
            "value {} of `{}` would be redistributed from {} to {}: a reduced value cannot become partial again", i,
            to_name, to_text(*comes), to_text(*wanted)),
        "redistribute to Replicate or Shard(d), or write Partial in both lists", to_name);
  }
}

void check_kwargs(OptionCheck& check) {
  const std::optional<KwargLayouts>&from = check.rule.options.input_kwarg_layouts,
        &to = check.rule.options.desired_input_kwarg_layouts;
  if (to && !from) return report_without_effect(check, "input_kwarg_layouts", "desired_input_kwarg_layouts");
  if (!from) return;
  if (!to || from->size() != to->size()) {
    return say(check, Code::LayoutCountMismatch,
               fmt::format("`input_kwarg_layouts` has {}, but `desired_input_kwarg_layouts` has {}", layouts(*from),
                           layouts(to ? *to : KwargLayouts())));
  }
  for (const auto& [name, layout] : *from) {
    const auto wanted = std::find_if(to->begin(), to->end(), [&n = name](const auto& w) { return w.first == n; });
    if (wanted == to->end()) {
      // torch does not change such a value, which stays a DTensor.
      if (check.dialect.runtime == PlanRuntime::Torch) continue;
      say(check, Code::LayoutCountMismatch, fmt::format("kwarg `{}` has no desired layout", name));
    } else if (layout && wanted->second && !can_be_brought(*layout, *wanted->second)) {
      say(check, Code::RedistributeToPartial,
          fmt::format("kwarg `{}` would be redistributed to {}: a reduced value cannot become partial again", name,
                      to_text(*wanted->second)));
    }
  }
}

// Styles that shard parameters accept exactly one layout for their input and one for their output.
void check_single_layouts(OptionCheck& check) {
  const StyleRow& style = *check.rule.style;
  const RuleOptions& options = check.rule.options;
  const std::pair<std::string_view, const std::optional<std::vector<Layout>>&> lists[] = {
      {"input_layouts", options.input_layouts}, {"output_layouts", options.output_layouts}};
  for (const auto& [name, list] : lists) {
    if (list && (list->size() != 1 || !(*list)[0]))
      say(check, Code::LayoutCountMismatch, fmt::format("`{}` of {} needs exactly one layout", name, style.name));
  }
  // The style determines the placement before; only the target can be Partial by mistake.
  if (!style.output.used || !options.output_layouts || options.output_layouts->size() != 1) return;
  const Placement& made = style.output.from;
  const Layout& wanted = (*options.output_layouts)[0];
  if (wanted && !can_be_brought(made, *wanted)) {
    say(check, Code::RedistributeToPartial,
        fmt::format("the output of {} is {} and cannot be redistributed to {}", style.name, to_text(made),
                    to_text(*wanted)),
        "write Replicate or Shard(d), or remove `output_layouts`", "output_layouts");
  }
}

// The prepare_module_* styles accept lists of layouts in pairs.
void check_layout_lists(OptionCheck& check) {
  const StyleRow& style = *check.rule.style;
  const RuleOptions& options = check.rule.options;
  check_pair(check, "input_layouts", "desired_input_layouts", options.input_layouts, options.desired_input_layouts);
  check_pair(check, "output_layouts", "desired_output_layouts", options.output_layouts, options.desired_output_layouts);
  check_kwargs(check);
  const bool is_blank_or_comment = !options.input_layouts && !options.desired_input_layouts &&
                                   !options.input_kwarg_layouts && !options.desired_input_kwarg_layouts &&
                                   !options.output_layouts && !options.desired_output_layouts;
  const bool has_outputs = (style.options & kOutputLayouts) != 0;
  if (is_blank_or_comment && !has_outputs) {
    say(check, Code::SettingWithoutEffect, fmt::format("{} has no effect without layouts", style.name),
        "write `input_layouts` and `desired_input_layouts`, or remove the rule");
  }
  if (has_outputs && !options.output_layouts) {
    say(check, Code::MissingPlanField,
        fmt::format("{} needs `output_layouts` and `desired_output_layouts`", style.name));
  }
}

}  // namespace

void check_rule_options(const PlanRule& rule, const OptionSpans& written, const DialectRow& dialect,
                        Diagnostics& diagnostics) {
  if (rule.style == nullptr) return;
  OptionCheck check{.rule = rule, .written = written, .dialect = dialect, .diagnostics = diagnostics};
  if (rule.style->touches_parameters)
    check_single_layouts(check);
  else
    check_layout_lists(check);
}

}  // namespace tpplan
