#include "remedy/find_remedies.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <tuple>
#include <vector>

#include "diagnostics/text_edits.h"
#include "draft/rule_place.h"
#include "judge.h"
#include "plan/dialects.h"
#include "remedy/fitting_lengths.h"

namespace tpplan {
namespace {

// A plan of eighty layers is judged some sixty times at most: half a second, and only where the plan is wrong.
constexpr uint64_t kMostOperations = 500'000;
constexpr uint64_t kMostTrials = 200;
constexpr size_t kMostFindings = 3;
constexpr size_t kMostSums = 8;
constexpr std::string_view kSumsGradients = "replicated_with_grad_allreduce";

// A plan that is tried, in words, and as edits of the file; none where it cannot be said so.
struct Change {
  TpPlan plan;
  std::string words;
  std::vector<Edit> edits;
};

struct Search {
  const ModelGraph& graph;
  const TpPlan& plan;
  const WalkOptions& walk;
  const SourceFile& file;
  const MeshSizes& sizes;
  uint64_t trials_left = 0;
  std::vector<Edit> offered;  // by the findings before
};

bool is_at(const Span& a, const Span& b) {
  return b.length != 0 && a.file == b.file && a.offset == b.offset && a.length == b.length;
}

RuleId rule_at(const TpPlan& plan, const Span& span) {
  for (RuleId id = 0; id < plan.rules.size(); ++id) {
    if (is_at(span, plan.rules[id].value_span) || is_at(span, plan.rules[id].key_span)) return id;
  }
  return kNoRule;
}

bool cuts(const PlanRule& rule) { return rule.style == nullptr || !rule.style->cut_dim.empty(); }

// Other styles of the dialect for a rule. What experts are for does little or nothing to other modules: as a remedy it
// would only hide what is wrong. Those that cut the same dim come first: they change the least.
std::vector<Change> other_styles(const Search& search, RuleId id) {
  const PlanRule& rule = search.plan.rules[id];
  std::vector<Change> edits;
  if (rule.style == nullptr) return edits;
  std::vector<const StyleRow*> rows;
  for (const StyleRow& row : style_table()) {
    const bool is_own = (row.sets & search.plan.dialect->styles) != 0;
    const bool fits = rule.style->is_for_experts || !row.is_for_experts;
    if (is_own && fits && row.name != rule.style->name && cuts(rule) != row.cut_dim.empty()) rows.push_back(&row);
  }
  std::stable_partition(rows.begin(), rows.end(),
                        [&](const StyleRow* row) { return row->cut_dim == rule.style->cut_dim; });
  for (const StyleRow* row : rows) {
    Change edit{search.plan, fmt::format("write `{}` for `{}`", row->name, rule.key), {}};
    edit.plan.rules[id].style = row;
    edit.plan.rules[id].options = {};
    if (rule.value_span.length == rule.style->name.size())  // nothing but the style
      edit.edits.push_back({.span = rule.value_span, .text = std::string(row->name)});
    edits.push_back(std::move(edit));
  }
  return edits;
}

// Values in the type that they have.
std::vector<Change> without_sent_dtype(const Search& search, RuleId id) {
  const std::optional<SentDtype>& sent = search.plan.rules[id].options.forward_dtype;
  if (!sent) return {};
  Change edit{search.plan, fmt::format("leave `forward_dtype` of `{}` out", search.plan.rules[id].key), {}};
  edit.edits.push_back({.span = sent->span, .text = {}, .is_entry = true});
  edit.plan.rules[id].options.forward_dtype.reset();
  return {std::move(edit)};
}

std::vector<Change> without_rule(const Search& search, RuleId id) {
  if (cuts(search.plan.rules[id])) return {};
  Change edit{search.plan, fmt::format("leave the rule `{}` out", search.plan.rules[id].key), {}};
  edit.edits.push_back({.span = search.plan.rules[id].key_span, .text = {}, .is_entry = true});
  edit.plan.rules.erase(edit.plan.rules.begin() + id);
  return {std::move(edit)};
}

// The module that a finding names first: "model.layers.0.mlp: ...".
std::string_view module_of(const ModelGraph& graph, const Diagnostic& finding) {
  const std::string_view path = std::string_view(finding.message).substr(0, finding.message.find(": "));
  const ModuleId id = find_module(graph, path);
  return id == kNone ? std::string_view{} : graph.modules[id].path;
}

// "model.layers.*.self_attn.q_norm": the key that names a module in all blocks.
std::string key_for(const ModelGraph& graph, std::string_view path) {
  std::string key;
  const char dot = separator(graph.framework);
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find(dot, begin), path.size());
    const std::string_view atom = path.substr(begin, end - begin);
    const bool number =
        !atom.empty() && std::all_of(atom.begin(), atom.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (!key.empty()) key += dot;
    key += number ? std::string_view("*") : atom;
    begin = end + 1;
  }
  return key;
}

// The rule in the plan's file, below those of whole paths.
std::vector<Edit> written(const Search& search, const PlanRule& rule) {
  std::vector<TextEdit> texts;
  add_rule_text(search.file, search.plan, place_of_path(search.plan, search.graph, rule.key), rule.style->name, {},
                texts);
  std::vector<Edit> edits;
  for (TextEdit& edit : texts)
    edits.push_back(
        {.span = {.file = search.file.id, .offset = edit.offset, .length = 0}, .text = std::move(edit.text)});
  return edits;
}

// A rule more, for a module that has none.
std::vector<Change> with_rule(const Search& search, std::string_view path) {
  if (path.empty() || search.plan.rules.empty() || search.plan.dialect->keys != KeySyntax::Glob) return {};
  // Over the axis of the plan's other styles; a plan without any says none.
  AxisId axis = kNoAxis;
  for (const PlanRule& rule : search.plan.rules) axis = rule.axis != kNoAxis ? rule.axis : axis;
  if (axis == kNoAxis) return {};
  const ModuleId module = find_module(search.graph, path);
  const bool has_experts = module != kNone && search.graph.modules[module].kind == ModuleKind::Experts;
  std::vector<Change> edits;
  for (const StyleRow& row : style_table()) {
    if ((row.sets & search.plan.dialect->styles) == 0 || row.name == search.plan.dialect->keep_whole) continue;
    if (row.is_for_experts && !has_experts) continue;
    PlanRule rule;
    rule.key = key_for(search.graph, path);
    rule.style = &row;
    rule.axis = axis;
    Change edit{search.plan, fmt::format("add `\"{}\": {}`", rule.key, row.name), written(search, rule)};
    edit.plan.rules.push_back(std::move(rule));
    edits.push_back(std::move(edit));
  }
  std::stable_partition(edits.begin(), edits.end(),
                        [](const Change& e) { return e.plan.rules.back().style->cut_dim.empty(); });
  return edits;
}

// A rule more, for a layer in the module that has none, with a style that the plan has for others.
std::vector<Change> with_rule_below(const Search& search, std::string_view path) {
  std::vector<Change> edits;
  if (path.empty()) return edits;
  const std::string above = key_for(search.graph, path) + separator(search.graph.framework);
  std::vector<std::string> keys;
  for (const Module& module : search.graph.modules) {
    if (module.param_count == 0 || !is_below(search.graph, module.path, path)) continue;
    std::string key = key_for(search.graph, module.path);
    const bool has_rule = std::any_of(search.plan.rules.begin(), search.plan.rules.end(), [&](const PlanRule& rule) {
      return rule.key == key || rule.key.starts_with(key + ".");
    });
    if (key.starts_with(above) && !has_rule && std::find(keys.begin(), keys.end(), key) == keys.end())
      keys.push_back(std::move(key));
  }
  for (const std::string& key : keys) {
    for (const Change& edit : with_rule(search, key)) {
      const StyleRow* style = edit.plan.rules.back().style;
      const bool is_known = std::any_of(search.plan.rules.begin(), search.plan.rules.end(),
                                        [style](const PlanRule& rule) { return rule.style == style; });
      if (is_known) edits.push_back(edit);
    }
  }
  return edits;
}

// A rule more for each module that a finding of gradients names, which sums them: norms of queries and of keys need one
// each.
Change with_sums(const Search& search, const Diagnostics& diagnostics) {
  Change edit{search.plan, {}, {}};
  std::vector<std::string> keys;
  for (const Diagnostic& finding : diagnostics.list) {
    if (finding.fails != "gradient" || keys.size() == kMostSums) continue;
    for (const Change& one : with_rule(search, module_of(search.graph, finding))) {
      const PlanRule& rule = one.plan.rules.back();
      if (rule.style->name != kSumsGradients || std::find(keys.begin(), keys.end(), rule.key) != keys.end()) continue;
      keys.push_back(rule.key);
      edit.plan.rules.push_back(rule);
      if (edit.edits.empty())
        edit.edits = one.edits;
      else if (!one.edits.empty())
        edit.edits.front().text += one.edits.front().text;
      edit.words += fmt::format("{}`\"{}\": {}`", edit.words.empty() ? "add " : " and ", rule.key, rule.style->name);
    }
  }
  return edit;
}

// A rule for a parameter whose gradient nobody sums: what stands beside layers, in a module that cannot have a rule.
std::vector<Change> with_sum_of_parameter(const Search& search, const Diagnostic& finding) {
  constexpr std::string_view kBefore = "gradient of `";
  const size_t begin = finding.message.find(kBefore);
  if (finding.fails != "gradient" || begin == std::string::npos) return {};
  const size_t from = begin + kBefore.size();
  const std::string path = finding.message.substr(from, finding.message.find('`', from) - from);
  std::vector<Change> edits = with_rule(search, path);
  std::erase_if(edits, [](const Change& edit) { return edit.plan.rules.back().style->name != kSumsGradients; });
  return edits;
}

bool mends(Search& search, const Change& edit) {
  if (search.trials_left == 0) return false;
  --search.trials_left;
  Diagnostics trial;
  std::ignore = judge(search.graph, edit.plan, trial, Phase::Operations, search.walk);
  return !has_errors(trial);
}

bool is_same(const std::vector<Edit>& a, const std::vector<Edit>& b) {
  return std::ranges::equal(a, b, [](const Edit& x, const Edit& y) {
    return x.span.offset == y.span.offset && x.span.length == y.span.length && x.text == y.text;
  });
}

// Offers what the change is in the plan's file, where the file with it is right. Two findings may have a remedy each
// that is enough by itself: both together are another plan, so that one of them is offered.
void offer(Search& search, Change change, Diagnostic& finding) {
  if (!search.offered.empty() && !is_same(search.offered, change.edits)) return;
  finding.edits = std::move(change.edits);
  const std::vector<TextEdit> edits = text_edits(search.file, finding);
  const SourceFile file{.name = search.file.name, .text = with_edits(search.file.text, edits), .id = search.file.id};
  Diagnostics trial;
  const TpPlan plan = read_plan(file, search.sizes, trial);
  if (!edits.empty() && !has_errors(trial))
    std::ignore = judge(search.graph, plan, trial, Phase::Operations, search.walk);
  if (edits.empty() || has_errors(trial)) finding.edits.clear();
  if (search.offered.empty()) search.offered = finding.edits;
}

bool try_edits(Search& search, const std::vector<Change>& edits, Diagnostic& finding) {
  const auto found = std::find_if(edits.begin(), edits.end(), [&](const Change& edit) { return mends(search, edit); });
  if (found == edits.end()) return false;
  finding.help = fmt::format("{}: with this change alone the plan is right", found->words);
  offer(search, *found, finding);
  return true;
}

// Other styles for a rule that cut the same dim.
std::vector<Change> alike_styles(const Search& search, RuleId id) {
  const StyleRow* own = search.plan.rules[id].style;
  std::vector<Change> edits = other_styles(search, id);
  std::erase_if(edits, [&](const Change& edit) {
    const StyleRow* style = edit.plan.rules[id].style;
    return style->cut_dim != own->cut_dim ||
           (style->modules == StyleModules::EmbeddingOnly && own->modules != style->modules);
  });
  return edits;
}

// Another style for the rule, and one for the rule that fails then: code that holds sizes of the whole model wants what
// a layer gives gathered, and what the next one takes cut again.
bool try_two_styles(Search& search, RuleId rule, Diagnostic& finding) {
  for (const Change& first : alike_styles(search, rule)) {
    if (search.trials_left == 0) return false;
    --search.trials_left;
    Diagnostics trial;
    std::ignore = judge(search.graph, first.plan, trial, Phase::Operations, search.walk);
    const auto next = std::ranges::find_if(trial.list, [](const Diagnostic& other) { return !other.fails.empty(); });
    const RuleId other = next == trial.list.end() ? kNoRule : rule_at(first.plan, next->span);
    if (other == kNoRule || other == rule) continue;
    Search behind{search.graph, first.plan, search.walk, search.file, search.sizes, search.trials_left, {}};
    for (Change& second : alike_styles(behind, other)) {
      const bool is_right = mends(behind, second);
      search.trials_left = behind.trials_left;
      if (!is_right) continue;
      finding.help = fmt::format("{}, and {}: with these changes the plan is right", first.words, second.words);
      const bool are_edits = !first.edits.empty() && !second.edits.empty();
      second.edits.insert(second.edits.begin(), first.edits.begin(), first.edits.end());
      if (!are_edits) second.edits.clear();
      offer(search, std::move(second), finding);
      return true;
    }
  }
  return false;
}

// Lengths of the sequence with which the plan is right as it stands, on as many ranks.
bool try_lengths(Search& search, Diagnostic& finding) {
  const RuleId id = rule_at(search.plan, finding.span);
  const AxisId axis = id == kNoRule ? kNoAxis : search.plan.rules[id].axis;
  if (axis == kNoAxis || search.trials_left < kMostLengths) return false;
  search.trials_left -= kMostLengths;
  const std::vector<int64_t> lengths =
      fitting_lengths(search.graph, search.plan, search.walk, search.plan.mesh.axes[axis].size);
  if (lengths.empty()) return false;
  finding.help =
      fmt::format("with sequences of {} this plan is right as it stands (`--sequence`)", fmt::join(lengths, " or "));
  return true;
}

// Sizes of the axis with which the plan is right as it stands.
void try_sizes(Search& search, Diagnostic& finding) {
  constexpr int64_t kMostRanks = 1024;
  const RuleId id = rule_at(search.plan, finding.span);
  const AxisId axis = id == kNoRule ? kNoAxis : search.plan.rules[id].axis;
  if (axis == kNoAxis || search.plan.mesh.axes[axis].size > kMostRanks) return;
  const MeshAxis& own = search.plan.mesh.axes[axis];
  // What ranks can share out evenly they can by the primes of its size, too: sizes of the form 2^a 3^b.
  std::vector<int64_t> sizes;
  for (int64_t two = 1; two < own.size; two *= 2) {
    for (int64_t size = two; size < own.size; size *= 3) sizes.push_back(size);
  }
  std::sort(sizes.begin(), sizes.end());
  std::vector<std::string> fitting;
  for (const int64_t size : sizes) {
    Change edit{search.plan, {}, {}};
    edit.plan.mesh.axes[axis].size = size;
    if (mends(search, edit)) fitting.push_back(fmt::format("{}", size));
  }
  if (fitting.size() > 1)  // on one rank every plan is right
    finding.help = fmt::format("with `{}` = {} this plan is right as it stands", own.name, fmt::join(fitting, ", "));
}

// The first edit that mends is offered, so they go from the smallest change to the largest: an option less, a rule
// less, another style, a rule more, two other styles, another length of the sequence, another mesh.
void find_remedy(Search& search, Diagnostic& finding) {
  std::vector<RuleId> rules{rule_at(search.plan, finding.span)};
  for (const Note& note : finding.notes) rules.push_back(rule_at(search.plan, note.span));
  for (const RuleId rule : rules) {
    if (rule == kNoRule) continue;
    if (try_edits(search, without_sent_dtype(search, rule), finding) ||
        try_edits(search, without_rule(search, rule), finding) ||
        try_edits(search, other_styles(search, rule), finding))
      return;
  }
  const std::string_view module = module_of(search.graph, finding);
  if (try_edits(search, with_rule(search, module), finding)) return;
  if (try_edits(search, with_rule_below(search, module), finding)) return;
  if (try_edits(search, with_sum_of_parameter(search, finding), finding)) return;
  for (const RuleId rule : rules) {
    if (rule != kNoRule && try_two_styles(search, rule, finding)) return;
  }
  if (try_lengths(search, finding)) return;
  try_sizes(search, finding);
}

// Where gradients alone are wrong, and several modules need a rule: all of them at once.
bool try_sums(Search& search, Diagnostics& diagnostics) {
  const auto first = std::find_if(diagnostics.list.begin(), diagnostics.list.end(),
                                  [](const Diagnostic& finding) { return !finding.fails.empty(); });
  if (first == diagnostics.list.end() || first->fails != "gradient") return false;
  const Change edit = with_sums(search, diagnostics);
  if (edit.plan.rules.size() < search.plan.rules.size() + 2 || !mends(search, edit)) return false;
  first->help = fmt::format("{}: with these changes the plan is right", edit.words);
  offer(search, edit, *first);
  return true;
}

}  // namespace

void find_remedies(const ModelGraph& graph, const TpPlan& plan, const SourceFile& file, const MeshSizes& mesh_sizes,
                   const WalkOptions& walk, Diagnostics& diagnostics) {
  const uint64_t operations = std::max<uint64_t>(graph.operations.nodes.size(), 1);
  Search search{.graph = graph,
                .plan = plan,
                .walk = walk,
                .file = file,
                .sizes = mesh_sizes,
                .trials_left = std::min(kMostTrials, kMostOperations / operations)};
  size_t asked = 0;
  if (try_sums(search, diagnostics)) return;
  for (Diagnostic& finding : diagnostics.list) {
    if (finding.fails.empty() || ++asked > kMostFindings) continue;
    find_remedy(search, finding);
  }
}

}  // namespace tpplan
