#include "report/render_search.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/text.h"
#include "report/render_step.h"
#include "suggest/unit_words.h"
#include "text/json_writer.h"

namespace tpplan {
namespace {

constexpr std::string_view kOutside =
    "pipeline and context parallelism, micro-batches, several axes of tensor parallelism, offloading";

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

std::string phase_words(std::string_view phase) {
  return phase == "optimizer" ? "the optimizer's step" : fmt::format("the {} pass", phase);
}

// Returns the terms of the smallest plan's memory, and what was tried that fits.
std::string shortage_text(const SearchReport& report) {
  const Shortage& shortage = *report.shortage;
  std::string out = fmt::format("over the limit by {}", human_bytes(shortage.over));
  if (shortage.memory.peak) out += fmt::format("; the peak is in {}", phase_words(shortage.memory.peak->phase));
  out += "\n";
  out += memory_lines(shortage.memory, {});
  if (!shortage.memory.infer)
    out += shortage.is_recomputed ? "it recomputes every layer already\n" : "to recompute more layers saves nothing\n";
  for (const TriedStep& step : shortage.fits)
    out += step.ranks > report.request.ranks ? fmt::format("fits on {} ranks: {} on {}\n", step.ranks,
                                                           human_bytes(step.memory), search_mesh_text(step.mesh))
                                             : fmt::format("fits with --recipe {}: {} on {}\n", step.recipe,
                                                           human_bytes(step.memory), search_mesh_text(step.mesh));
  if (shortage.fits.empty() || shortage.fits.front().ranks == report.request.ranks)
    out += shortage.most_ranks == 0
               ? "no mesh of more ranks has a plan for this batch on these axes\n"
               : fmt::format("does not fit on up to {} ranks that share the batch\n", shortage.most_ranks);
  return out;
}

void write_mesh(JsonWriter& json, const SearchMesh& mesh) {
  write_key(json, "mesh");
  begin_object(json);
  write_field(json, "dp", mesh.dp);
  write_field(json, "fsdp", mesh.fsdp);
  write_field(json, "tp", mesh.tp);
  end_object(json);
}

void write_shortage(JsonWriter& json, const Shortage& shortage) {
  write_field(json, "over_bytes", shortage.over);
  write_key(json, "terms");
  write_array(json, shortage.memory.terms, [&](const MemoryTerm& term) {
    begin_object(json);
    write_field(json, "name", term.name);
    write_field(json, "bytes", term.bytes);
    write_field(json, "is_part", term.is_part);
    end_object(json);
  });
  write_key(json, "fits");
  write_array(json, shortage.fits, [&](const TriedStep& step) {
    begin_object(json);
    write_field(json, "ranks", step.ranks);
    write_field(json, "recipe", step.recipe);
    write_mesh(json, step.mesh);
    write_field(json, "memory_bytes", step.memory);
    end_object(json);
  });
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

// @pre `text` is not empty
std::string capitalized(std::string text) {
  text.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(text.front())));
  return text;
}

std::string priced_text(std::string_view words, const PricedStrategy& other, double seconds) {
  return fmt::format("{}, {} a step ({:+.2g} %) and {}: {}.", words, human_seconds(other.seconds),
                     100 * (other.seconds / seconds - 1), human_bytes(other.memory), other.strategy);
}

// Returns why the unit is as it is, and what it costs otherwise.
std::string unit_note(const SearchReport& report, const UnitChoice& unit) {
  const MeshPlan& best = *report.answer.best;
  std::vector<std::string> sentences;
  if (unit.unit == PlanUnit::Fsdp || unit.unit == PlanUnit::Remat)
    sentences.push_back(unit.layers.empty() ? unit.strategy + "."
                        : unit.layers.size() == best.choice.layers.size()
                            ? fmt::format("all layers: {}.", unit.strategy)
                            : fmt::format("layers {}: {}.", layer_ranges_text(unit.layers), unit.strategy));
  if (unit.over) sentences.push_back(priced_text("Better, but over the limit", *unit.over, best.figures.seconds));
  if (unit.next) sentences.push_back(priced_text("Next best", *unit.next, best.figures.seconds));
  return capitalized(join(sentences, " "));
}

PlanNotes notes_of(const SearchReport& report) {
  PlanNotes notes;
  for (const UnitChoice& unit : report.answer.best->units) {
    std::string& note = unit.unit == PlanUnit::Table   ? notes.table
                        : unit.unit == PlanUnit::Head  ? notes.head
                        : unit.unit == PlanUnit::Fsdp  ? notes.fsdp
                        : unit.unit == PlanUnit::Remat ? notes.remat
                                                       : notes.units[{unit.way, unit.index}];
    note += (note.empty() ? "" : " ") + unit_note(report, unit);
  }
  return notes;
}

}  // namespace

std::string search_mesh_text(const SearchMesh& mesh) {
  std::vector<std::string> words;
  const auto add = [&](std::string_view name, int64_t size) {
    if (size > 1) words.push_back(fmt::format("{}={}", name, size));
  };
  add("dp", mesh.dp);
  add("fsdp", mesh.fsdp);
  add("tp", mesh.tp);
  return words.empty() ? "one rank" : join(words, ",");
}

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

std::string layer_ranges_text(const std::vector<size_t>& layers) {
  std::vector<std::string> ranges;
  for (size_t at = 0, end = 0; at < layers.size(); at = end) {
    for (end = at + 1; end < layers.size() && layers[end] == layers[end - 1] + 1;) ++end;
    ranges.push_back(end == at + 1 ? std::to_string(layers[at]) : fmt::format("{}-{}", layers[at], layers[end - 1]));
  }
  return join(ranges, ", ");
}

std::string search_plan_text(const SearchReport& report) {
  const MeshPlan& best = *report.answer.best;
  const PlanNotes notes = notes_of(report);
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
  add(capitalized(proof_text(report)) + fmt::format(". Not in it: {}.", kOutside));
  if (chosen.plan.remat.empty() && !notes.remat.empty()) add(notes.remat);
  return write_plan(chosen.plan, chosen.comments);
}

std::string render_search_answer(const SearchReport& report) {
  const SearchAnswer& answer = report.answer;
  if (answer.best)
    return fmt::format("{} (not in it: {})\npredicted by the topology, not measured\n", proof_text(report), kOutside);
  if (!answer.smallest) return "no mesh has a plan\n";
  std::string out =
      fmt::format("no plan fits into {}; smallest: {} on {}, {}\n", human_bytes(report.request.memory.value_or(0)),
                  human_bytes(answer.smallest->figures.memory), search_mesh_text(answer.smallest->mesh),
                  layers_text(report.space, answer.smallest->choice));
  return report.shortage == nullptr ? out : out + shortage_text(report);
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
    for (size_t i = 0; i < rows; ++i) width = std::max(width, search_mesh_text(answer.meshes[i].mesh).size());
    out += fmt::format("  {:<{}}  {:>5}  {:>8}  {:>10}  {:>10}  layers\n", "mesh", width, "batch", "time", "memory",
                       "sent");
    for (size_t i = 0; i < rows; ++i) {
      const MeshPlan& row = answer.meshes[i];
      const bool is_best = answer.best && answer.best->mesh == row.mesh;
      const MeshPlan& shown = is_best ? *answer.best : row;
      out +=
          fmt::format("{} {:<{}}  {:>5}  {:>8}  {:>10}  {:>10}  {}\n", is_best ? '*' : ' ', search_mesh_text(row.mesh),
                      width, row.batch, human_seconds(shown.figures.seconds), human_bytes(shown.figures.memory),
                      human_bytes(shown.figures.wire), layers_text(report.space, shown.choice));
    }
  }
  if (report.reference != nullptr)
    out += fmt::format("  yours ({} on {}): {}, {}, {} sent\n", escape_for_terminal(report.reference_name),
                       escape_for_terminal(mesh_option_text(report.reference_mesh)),
                       human_seconds(report.reference->seconds), human_bytes(report.reference->memory),
                       human_bytes(report.reference->wire));
  out += render_search_answer(report);
  std::map<std::string, std::vector<std::string>> reasons;
  for (const MeshLeftOut& mesh : answer.omitted) reasons[mesh.why].push_back(search_mesh_text(mesh.mesh));
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
    if (report.shortage != nullptr) write_shortage(json, *report.shortage);
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
