#include "search/choice.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <map>

#include "suggest/unit_words.h"

namespace tpplan {
namespace {

struct Spelling {
  const SearchSpace& space;
  const PlanChoice& choice;
  const PlanNotes& notes;
  AxisId axis = kNoAxis;  // of tensor parallelism
  ChosenPlan made;
};

ResidualState state_of(const Spelling& s, size_t layer) { return s.space.layer_ways[s.choice.layers[layer].way].state; }

// Returns the state after a layer: that of the next one, or of the head.
ResidualState state_behind(const Spelling& s, size_t layer) {
  return layer + 1 < s.choice.layers.size() ? state_of(s, layer + 1) : s.space.head.ways[s.choice.head].state;
}

void put_rule(Spelling& s, PlanRule rule, std::string key, uint32_t block, std::string& comment) {
  rule.key = std::move(key);
  rule.block = block;
  rule.axis = s.axis;
  s.made.plan.rules.push_back(std::move(rule));
  s.made.comments.rules.push_back(comment.empty() ? std::vector<std::string>{} : comment_lines_of(comment));
  comment.clear();
}

void put_rules(Spelling& s, const std::vector<SpaceRule>& rules, uint32_t block, std::string comment) {
  for (const SpaceRule& rule : rules) {
    if (rule.key.block.empty() == (block == kNoRule)) put_rule(s, rule.rule, rule.key.name, block, comment);
  }
}

// Returns the comment with a note behind it.
std::string with_note(const std::string& comment, const std::string& note) {
  return note.empty() || comment.empty() ? comment + note : comment + " " + note;
}

std::vector<std::string> globs_where(const Spelling& s, const auto& is_wanted) {
  std::vector<size_t> layers;
  for (size_t i = 0; i < s.choice.layers.size(); ++i) {
    if (is_wanted(i)) layers.push_back(i);
  }
  return layer_globs(s.space.stack, layers, s.choice.layers.size());
}

void put_switches(Spelling& s) {
  using enum ResidualState;
  std::string to_sequence = "From here on the residual is sharded over the sequence.",
              to_whole = "Here it is gathered.";
  const auto changes = [&](ResidualState from, ResidualState to) {
    return globs_where(s, [&](size_t i) { return state_of(s, i) == from && state_behind(s, i) == to; });
  };
  for (const std::string& glob : changes(Replicated, BySequence))
    put_rule(s, s.space.to_sequence, glob, kNoRule, to_sequence);
  for (const std::string& glob : changes(BySequence, Replicated))
    put_rule(s, s.space.to_whole, glob, kNoRule, to_whole);
}

void put_layers(Spelling& s) {
  std::map<uint16_t, size_t> order;  // way -> first layer
  for (size_t i = 0; i < s.choice.layers.size(); ++i) order.try_emplace(s.choice.layers[i].way, i);
  std::vector<std::pair<size_t, uint16_t>> kinds;
  for (const auto& [way, first] : order) kinds.emplace_back(first, way);
  std::ranges::sort(kinds);
  for (const auto& [first, kind] : kinds) {
    const auto id = kind;  // clang 14 cannot capture a structured binding
    const LayerWay& way = s.space.layer_ways[id];
    bool is_first = true;
    for (const std::string& glob : globs_where(s, [&](size_t i) { return s.choice.layers[i].way == id; })) {
      const auto block = static_cast<uint32_t>(s.made.plan.blocks.size());
      s.made.plan.blocks.push_back({glob, {}});
      const size_t before = s.made.plan.rules.size();
      put_rules(s, s.space.fixed, block, "Replicated.");
      if (way.state == ResidualState::BySequence)
        put_rules(s, s.space.norms, block, "Between layers each rank has its part of the sequence, also the norms.");
      for (size_t unit = 0; unit < way.ways.size(); ++unit) {
        const SpaceWay& chosen = s.space.units[unit].ways[way.ways[unit]];
        const auto note = is_first ? s.notes.units.find({id, unit}) : s.notes.units.end();
        put_rules(s, chosen.rules, block,
                  note == s.notes.units.end() ? chosen.comment : with_note(chosen.comment, note->second));
      }
      is_first = false;
      if (s.made.plan.rules.size() == before) s.made.plan.blocks.pop_back();
    }
  }
}

void put_tensor_rules(Spelling& s) {
  const SpaceWay &table = s.space.table.ways[s.choice.table], &head = s.space.head.ways[s.choice.head];
  put_rules(s, table.rules, kNoRule, with_note(table.comment, s.notes.table));
  put_rules(s, head.rules, kNoRule, with_note(head.comment, s.notes.head));
  put_rules(s, s.space.fixed, kNoRule, "Replicated.");
  put_switches(s);
  put_layers(s);
  if (head.parallel_loss) {
    PlanLoss& loss = s.made.plan.loss.emplace();
    loss.given.count = TokenCount::Global;
    loss.cross_entropy = CrossEntropy::Parallel;
  }
}

void put_fsdp(Spelling& s, AxisId axis) {
  const auto is_sharded = [&](size_t i) { return s.choice.layers[i].sharded; };
  const std::vector<std::string> layers = globs_where(s, is_sharded);
  const bool all_layers = std::ranges::all_of(s.choice.layers, &LayerChoice::sharded);
  if (layers.empty() && !s.choice.first_sharded && !s.choice.last_sharded) return;
  FsdpSettings& fsdp = s.made.plan.fsdp.emplace();
  fsdp.axis = axis;
  fsdp.policy = &*std::ranges::find(fsdp_policy_table(), std::string_view("dim0"), &FsdpPolicyRow::name);
  fsdp.units = {{s.space.stack + ".*", {}}};
  if (all_layers && s.choice.first_sharded && s.choice.last_sharded) return;
  for (const std::string& glob : layers) fsdp.patterns.push_back({glob.ends_with('*') ? glob : glob + ".*", {}});
  const auto add = [&](bool is_wanted, const std::vector<std::string>& modules) {
    for (const std::string& module : modules) {
      if (is_wanted) fsdp.patterns.push_back({module, {}});
    }
  };
  add(s.choice.first_sharded, s.space.first_modules);
  add(s.choice.last_sharded, s.space.last_modules);
}

}  // namespace

std::vector<std::string> layer_globs(const std::string& stack, const std::vector<size_t>& layers, size_t count) {
  if (layers.size() == count && count > 0) return {stack + ".*"};
  std::vector<std::string> globs;
  for (size_t at = 0; at < layers.size();) {
    size_t end = at + 1;
    while (end < layers.size() && layers[end] == layers[end - 1] + 1 && layers[end] / 10 == layers[at] / 10) ++end;
    const size_t first = layers[at], last = layers[end - 1];
    const std::string tens = first >= 10 ? std::to_string(first / 10) : std::string();
    globs.push_back(first == last ? fmt::format("{}.{}", stack, first)
                                  : fmt::format("{}.{}[{}-{}]", stack, tens, first % 10, last % 10));
    at = end;
  }
  return globs;
}

Mesh whole_mesh(const SearchMesh& mesh) {
  Mesh whole;
  whole.axes = {{"dp", mesh.dp}, {"fsdp", mesh.fsdp}, {"tp", mesh.tp}};
  return whole;
}

ChosenPlan plan_of(const SearchSpace& space, const PlanChoice& choice, PlanAxes axes, const PlanNotes& notes) {
  Spelling s{.space = space, .choice = choice, .notes = notes, .made = {}};
  TpPlan& plan = s.made.plan;
  const SearchMesh& mesh = choice.mesh;
  const bool is_one = mesh.dp * mesh.fsdp * mesh.tp == 1;
  AxisId fsdp = kNoAxis;
  std::vector<AxisId> data;
  const auto add_axis = [&](std::string name, int64_t size) {
    plan.mesh.axes.push_back({std::move(name), size});
    return static_cast<AxisId>(plan.mesh.axes.size() - 1);
  };
  const bool has_all = axes == PlanAxes::All;
  if (mesh.dp > 1 || has_all) data.push_back(add_axis("dp", mesh.dp));
  if (mesh.fsdp > 1 || has_all) data.push_back(fsdp = add_axis("fsdp", mesh.fsdp));
  if (mesh.tp > 1 || is_one || has_all) s.axis = add_axis("tp", mesh.tp);
  plan.axis = s.axis;
  if (!data.empty()) plan.data = DataSharding{.axes = std::move(data)};
  if (mesh.tp > 1) {
    put_tensor_rules(s);
  } else {
    PlanRule rule;
    rule.style = find_style("replicate", plan.dialect->styles);
    std::string comment = mesh.fsdp > 1 ? "FSDP shards the parameters; no rank shares the work of a layer."
                                        : "Every rank has the whole model.";
    put_rule(s, std::move(rule), "*", kNoRule, comment);
  }
  if (mesh.fsdp > 1) put_fsdp(s, fsdp);
  for (std::string& glob : globs_where(s, [&](size_t i) { return choice.layers[i].remat; }))
    plan.remat.push_back({std::move(glob), {}});
  if (plan.fsdp) s.made.comments.fsdp = comment_lines_of(notes.fsdp);
  if (!plan.remat.empty()) s.made.comments.remat = comment_lines_of(notes.remat);
  return std::move(s.made);
}

}  // namespace tpplan
