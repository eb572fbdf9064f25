#include "report/render_search.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/text.h"
#include "suggest/unit_words.h"
#include "text/json_writer.h"

namespace tpplan {
namespace {

constexpr std::string_view kOutside =
    "pipeline and context parallelism, micro-batches, several axes of tensor parallelism, offloading";

std::string size_words(const SearchMesh& mesh) {
  std::vector<std::string> words;
  const auto add = [&](std::string_view name, int64_t size) {
    if (size > 1) words.push_back(fmt::format("{}={}", name, size));
  };
  add("dp", mesh.dp);
  add("fsdp", mesh.fsdp);
  add("tp", mesh.tp);
  return words.empty() ? "one rank" : join(words, ",");
}

// "21 remat, 11 whole".
std::string layers_text(const SearchSpace& space, const PlanChoice& choice) {
  std::vector<std::pair<std::string, size_t>> kinds;
  for (const LayerChoice& layer : choice.layers) {
    std::string text = choice.mesh.tp == 1                                              ? ""
                       : space.layer_ways[layer.way].state == ResidualState::BySequence ? "by sequence"
                                                                                        : "replicated residual";
    if (layer.remat) text += text.empty() ? "remat" : ", remat";
    if (!layer.sharded && choice.mesh.fsdp > 1) text += text.empty() ? "without fsdp" : ", without fsdp";
    if (text.empty()) text = "plain";
    const auto known = std::ranges::find(kinds, text, &std::pair<std::string, size_t>::first);
    if (known == kinds.end())
      kinds.emplace_back(text, 1);
    else
      ++known->second;
  }
  std::vector<std::string> parts;
  for (const auto& [text, count] : kinds) parts.push_back(fmt::format("{} {}", count, text));
  return join(parts, "; ");
}

std::string bound_text(const SearchReport& report) {
  switch (report.request.objective) {
    case Objective::Memory:
      return human_bytes(static_cast<uint64_t>(report.answer.bound));
    case Objective::Tokens:
      return fmt::format("{} a token", human_seconds(report.answer.bound));
    case Objective::Time:
      break;
  }
  return human_seconds(report.answer.bound);
}

double optimality_gap(const SearchReport& report) {
  const double objective = objective_of(report.request, report.answer.best->figures);
  return report.answer.bound > 0 ? objective / report.answer.bound - 1 : 0;
}

std::string proof_text(const SearchReport& report) {
  if (!report.answer.is_exact)
    return fmt::format("predicted bound {}: plans of the whole model do not cost exactly what their parts do",
                       bound_text(report));
  const double gap = optimality_gap(report);
  return fmt::format("{} in this space: bound {}, gap {}", gap < 1e-9 ? "optimal" : "near the optimum",
                     bound_text(report), gap < 1e-9 ? "0" : fmt::format("{:.2g} %", 100 * gap));
}

void write_mesh(JsonWriter& json, const SearchMesh& mesh) {
  write_key(json, "mesh");
  begin_object(json);
  write_field(json, "dp", mesh.dp);
  write_field(json, "fsdp", mesh.fsdp);
  write_field(json, "tp", mesh.tp);
  end_object(json);
}

void write_figures(JsonWriter& json, const StepFigures& figures) {
  write_exact_field(json, "seconds", figures.seconds);
  write_field(json, "memory_bytes", figures.memory);
  write_field(json, "wire_bytes", figures.wire);
}

void write_priced(JsonWriter& json, std::string_view key, const std::optional<PricedStrategy>& other) {
  write_key(json, key);
  if (!other) return write_value(json, nullptr);
  begin_object(json);
  write_field(json, "strategy", other->strategy);
  write_exact_field(json, "seconds", other->seconds);
  write_field(json, "memory_bytes", other->memory);
  end_object(json);
}

void write_units(JsonWriter& json, const SearchSpace& space, const MeshPlan& plan) {
  write_key(json, "units");
  write_array(json, plan.units, [&](const UnitChoice& unit) {
    begin_object(json);
    write_field(json, "unit", unit_name(space, unit));
    write_key(json, "layers");
    write_array(json, layer_globs(space.stack, unit.layers, space.layers));
    write_field(json, "strategy", unit.strategy);
    write_priced(json, "next", unit.next);
    write_priced(json, "over", unit.over);
    end_object(json);
  });
}

void write_plan_row(JsonWriter& json, const MeshPlan& plan) {
  write_mesh(json, plan.mesh);
  write_field(json, "batch", plan.batch);
  write_field(json, "accumulation", 1);
  write_figures(json, plan.figures);
}

// "0-9, 12".
std::string ranges_text(const std::vector<size_t>& layers) {
  std::vector<std::string> ranges;
  for (size_t at = 0, end = 0; at < layers.size(); at = end) {
    for (end = at + 1; end < layers.size() && layers[end] == layers[end - 1] + 1;) ++end;
    ranges.push_back(end == at + 1 ? std::to_string(layers[at]) : fmt::format("{}-{}", layers[at], layers[end - 1]));
  }
  return join(ranges, ", ");
}

std::string priced_text(std::string_view words, const PricedStrategy& other) {
  return fmt::format("{}, {} a step and {}: {}.", words, human_seconds(other.seconds), human_bytes(other.memory),
                     other.strategy);
}

// Returns why the unit is as it is, and what it costs otherwise.
std::string unit_note(const UnitChoice& unit) {
  std::vector<std::string> sentences;
  if (unit.unit == PlanUnit::Fsdp || unit.unit == PlanUnit::Remat)
    sentences.push_back(unit.layers.empty() ? unit.strategy + "."
                                            : fmt::format("layers {}: {}.", ranges_text(unit.layers), unit.strategy));
  if (unit.over) sentences.push_back(priced_text("Better, but over the limit", *unit.over));
  if (unit.next) sentences.push_back(priced_text("Next best", *unit.next));
  sentences.front().front() = static_cast<char>(std::toupper(static_cast<unsigned char>(sentences.front().front())));
  return join(sentences, " ");
}

PlanNotes notes_of(const std::vector<UnitChoice>& units) {
  PlanNotes notes;
  for (const UnitChoice& unit : units) {
    std::string& note = unit.unit == PlanUnit::Table   ? notes.table
                        : unit.unit == PlanUnit::Head  ? notes.head
                        : unit.unit == PlanUnit::Fsdp  ? notes.fsdp
                        : unit.unit == PlanUnit::Remat ? notes.remat
                                                       : notes.units[{unit.way, unit.index}];
    note += (note.empty() ? "" : " ") + unit_note(unit);
  }
  return notes;
}

}  // namespace

std::string search_plan_text(const SearchReport& report) {
  const MeshPlan& best = *report.answer.best;
  const PlanNotes notes = notes_of(best.units);
  ChosenPlan chosen = plan_of(report.space, best.choice, PlanAxes::Needed, notes);
  std::vector<std::string>& header = chosen.comments.header;
  header = comment_lines_of(
      fmt::format("The best plan of {} that `{}` found.", escape_for_terminal(report.model), report.command));
  header.emplace_back();
  const auto add = [&](const std::string& text) {
    for (std::string& line : comment_lines_of(text)) header.push_back(std::move(line));
  };
  add(fmt::format(
      "Predicted by the topology, not measured: {} a step, {} a rank, {} sent, with batch {} on each data rank.",
      human_seconds(best.figures.seconds), human_bytes(best.figures.memory), human_bytes(best.figures.wire),
      best.batch));
  std::string proof = proof_text(report);
  proof.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(proof.front())));
  add(proof + fmt::format(". Not in it: {}.", kOutside));
  if (chosen.plan.remat.empty() && !notes.remat.empty()) add(notes.remat);
  return write_plan(chosen.plan, chosen.comments);
}

std::string render_search(const SearchReport& report) {
  const SearchAnswer& answer = report.answer;
  std::string out =
      fmt::format("{} on {}, batch {} of all ranks: {}, {} at most, {}\n", escape_for_terminal(report.model),
                  counted(static_cast<uint64_t>(report.request.ranks), "rank"), report.request.batch,
                  answer.tried == 1 ? "1 mesh" : fmt::format("{} meshes", answer.tried),
                  counted(answer.ways, "kind") + " of layers", counted(answer.probes, "plan") + " tried");
  if (!answer.meshes.empty()) {
    size_t width = 4;
    const size_t rows = answer.meshes.size();
    for (size_t i = 0; i < rows; ++i) width = std::max(width, size_words(answer.meshes[i].mesh).size());
    out += fmt::format("  {:<{}}  {:>5}  {:>8}  {:>10}  {:>10}  layers\n", "mesh", width, "batch", "time", "memory",
                       "sent");
    for (size_t i = 0; i < rows; ++i) {
      const MeshPlan& row = answer.meshes[i];
      const bool is_best = answer.best && answer.best->mesh == row.mesh;
      const MeshPlan& shown = is_best ? *answer.best : row;
      out += fmt::format("{} {:<{}}  {:>5}  {:>8}  {:>10}  {:>10}  {}\n", is_best ? '*' : ' ', size_words(row.mesh),
                         width, row.batch, human_seconds(shown.figures.seconds), human_bytes(shown.figures.memory),
                         human_bytes(shown.figures.wire), layers_text(report.space, shown.choice));
    }
  }
  if (report.reference != nullptr)
    out += fmt::format("  yours ({} on {}): {}, {}, {} sent\n", escape_for_terminal(report.reference_name),
                       escape_for_terminal(mesh_option_text(report.reference_mesh)),
                       human_seconds(report.reference->seconds), human_bytes(report.reference->memory),
                       human_bytes(report.reference->wire));
  if (answer.best)
    out += fmt::format("{} (not in it: {})\npredicted by the topology, not measured\n", proof_text(report), kOutside);
  else if (answer.smallest)
    out += fmt::format("no plan fits into {}; smallest: {} on {}, {}\n", human_bytes(report.request.memory.value_or(0)),
                       human_bytes(answer.smallest->figures.memory), size_words(answer.smallest->mesh),
                       layers_text(report.space, answer.smallest->choice));
  else
    out += "no mesh has a plan\n";
  std::map<std::string, std::vector<std::string>> reasons;
  for (const MeshLeftOut& mesh : answer.omitted) reasons[mesh.why].push_back(size_words(mesh.mesh));
  for (const auto& [why, meshes] : reasons)
    out += fmt::format("left out: {}: {}\n", join(meshes, "; "), escape_for_terminal(why));
  return out;
}

std::string search_json(const SearchReport& report) {
  const SearchAnswer& answer = report.answer;
  JsonWriter json;
  begin_object(json);
  write_field(json, "format", kSearchFormat);
  write_key(json, "best");
  if (answer.best) {
    begin_object(json);
    write_plan_row(json, *answer.best);
    if (report.file.empty())
      write_field(json, "file", nullptr);
    else
      write_field(json, "file", report.file);
    write_units(json, report.space, *answer.best);
    end_object(json);
    write_exact_field(json, "bound", answer.bound);
    write_exact_field(json, "gap", optimality_gap(report));
    write_field(json, "exact", answer.is_exact);
  } else {
    write_value(json, nullptr);
  }
  if (answer.smallest) {
    write_key(json, "smallest");
    begin_object(json);
    write_plan_row(json, *answer.smallest);
    end_object(json);
  }
  write_key(json, "meshes");
  write_array(json, answer.meshes, [&](const MeshPlan& row) {
    begin_object(json);
    write_plan_row(json, row);
    end_object(json);
  });
  if (report.reference != nullptr) {
    write_key(json, "yours");
    begin_object(json);
    write_key(json, "mesh");
    begin_object(json);
    for (const MeshAxis& axis : report.reference_mesh.axes) write_field(json, axis.name, axis.size);
    end_object(json);
    write_figures(json, *report.reference);
    end_object(json);
  }
  write_key(json, "left_out");
  write_array(json, answer.omitted, [&](const MeshLeftOut& left) {
    begin_object(json);
    write_mesh(json, left.mesh);
    write_field(json, "reason", left.why);
    end_object(json);
  });
  write_field(json, "tried", answer.tried);
  write_field(json, "plans", answer.probes);
  end_object(json);
  json.out += '\n';
  return std::move(json.out);
}

}  // namespace tpplan
