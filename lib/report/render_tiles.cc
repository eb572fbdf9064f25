#include "report/render_tiles.h"

#include <spdlog/fmt/fmt.h>

#include "base/text.h"
#include "cost/measure_training.h"
#include "report/html_text.h"
#include "report/memory_text.h"

namespace tpplan {
namespace {

std::string tile(std::string_view term, const std::string& big, const std::string& sub, bool warn = false) {
  return fmt::format("<div><dt>{}</dt><dd class=\"big{}\">{}</dd><dd class=\"sub\">{}</dd></div>\n", term,
                     warn ? " warn" : "", big, sub);
}

std::string above_ideal(uint64_t held, uint64_t ideal) {
  if (held <= ideal) return "0 %";
  return ideal / 10000 > held - ideal ? "&lt; 0.01 %" : percent_text(held - ideal, ideal);
}

std::string peak_tile(const StepPicture& picture) {
  const auto device = static_cast<uint64_t>(picture.topology.gpu.memory_bytes);
  const std::string how = fmt::format("at the peak of a step, on rank 0, by {}", picture.memory.recipe->name);
  return tile("In training", bytes_html(picture.memory.total),
              device == 0 ? how : fmt::format("{}; the device has {}", how, bytes_html(device)),
              device > 0 && picture.memory.total > device);
}

}  // namespace

std::string tiles_html(const Manifest& manifest, const ManifestMeasure& measure, const StepPicture* picture) {
  const ManifestTotals& t = manifest.totals;
  uint64_t replicated = 0;
  for (const ManifestParam& param : manifest.parameters)
    replicated += is_fully_replicated(layout_of(manifest, param).sharding.spec, manifest.mesh);
  const auto ranks = static_cast<uint64_t>(device_count(manifest.mesh));
  std::string out = "<dl class=\"tiles\">\n";
  out += tile(
      measure.memory.ranks.size() == 1 && measure.memory.ranks_listed ? "Each rank holds" : "The fullest rank holds",
      bytes_html(t.max_bytes_per_rank), "of parameters");
  out += tile("Above the ideal", above_ideal(t.max_bytes_per_rank, t.ideal_bytes_per_rank),
              fmt::format("the ideal is {}, the model divided by {}", bytes_html(t.ideal_bytes_per_rank),
                          grouped(ranks, "rank")),
              t.max_bytes_per_rank > t.ideal_bytes_per_rank + t.ideal_bytes_per_rank / 20);
  out += tile("Replicated", bytes_html(t.replicated_bytes_per_rank),
              fmt::format("{} of the model, {} of {}", percent_text(t.replicated_bytes_per_rank, t.bytes),
                          grouped(replicated), grouped(manifest.parameters.size(), "parameter")),
              ranks > 1 && t.replicated_bytes_per_rank > t.bytes / 20);
  if (picture != nullptr && picture->memory.peak) return out + peak_tile(*picture) + "</dl>\n";
  const Recipe& recipe = *measure.memory.recipe;
  const bool trains = recipe.gradient != ElementDtype::None;
  const TrainingMemory step = measure_training(manifest, recipe);
  const bool has_step = trains && step.has_step && !step.overflow;
  out += tile(trains ? "In training" : "Without training",
              bytes_html(has_step ? step.total : measure.memory.fullest.total),
              has_step ? fmt::format("by {}, on rank 0, with the activations of a step", recipe.name)
              : trains ? fmt::format("by {}, on the fullest rank; activations are unknown", recipe.name)
                       : std::string("only parameters and buffers"));
  return out + "</dl>\n";
}

}  // namespace tpplan
