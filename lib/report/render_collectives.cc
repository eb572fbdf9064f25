#include "report/render_collectives.h"

#include <spdlog/fmt/fmt.h>

#include "base/text.h"
#include "report/html_text.h"
#include "report/render_call_bars.h"
#include "report/render_costs.h"
#include "sharding/tensor_size.h"

namespace tpplan {
namespace {

// Limits: groups of layers with a table, and rows of one table.
constexpr size_t kMaxLayerTables = 40, kMaxCallRows = 200;

std::string sums_row(std::string_view name, const CallSums& sums) {
  static constexpr std::string_view heads[] = {"Pass", "#Calls", "#Payload", "#Sent by a rank"};
  return row_html(heads, std::vector<std::string>{std::string(name), grouped(sums.calls), bytes_html(sums.payload),
                                                  bytes_html(sums.wire)});
}

std::string totals_table(const CollectiveMeasure& measure) {
  static constexpr std::string_view heads[] = {"Pass", "#Calls", "#Payload", "#Sent by a rank"};
  return table_html("The full step", heads,
                    sums_row("Forward", measure.forward) + sums_row("Backward", measure.backward) +
                        sums_row("Together", measure.total) +
                        (measure.hidden.calls > 0 ? sums_row("Hidden calls of these", measure.hidden) : std::string()));
}

std::string layer_table(const CallGroup& group, const Mesh& mesh) {
  static constexpr std::string_view heads[] = {"@Module", "Pass",   "Collective", "Axis",
                                               "Input",   "#Calls", "#Payload",   "#Sent by a rank"};
  std::string rows;
  size_t count = 0;
  for (const auto* list : {&group.forward, &group.backward}) {
    for (const CallRow& row : *list) {
      if (++count > kMaxCallRows) continue;
      rows += row_html(heads, std::vector<std::string>{
                                  code(modules_text(row.modules)), pass_text(row.call->backward, row.call->hidden),
                                  std::string(to_text(row.call->kind)), code(mesh.axes[row.call->axis].name),
                                  fmt::format("{} {}", shape_text(row.call->shape), html(row.call->dtype)),
                                  grouped(row.sums.calls), bytes_html(row.sums.payload), bytes_html(row.sums.wire)});
    }
  }
  const std::string caption = group.layers.empty()
                                  ? "Outside layers"
                                  : fmt::format("{}: {}, each {}", html(group.layers), grouped(group.count, "layer"),
                                                grouped(group.sums.calls, "call"));
  std::string out = table_html(caption, heads, rows);
  if (count > kMaxCallRows)
    out += fmt::format("<p class=\"more\">And {} more.</p>\n", grouped(count - kMaxCallRows, "row"));
  return out;
}

// Returns a description of the step and of the collectives that the manifest does not list.
std::string step_text(const Manifest& manifest) {
  const ManifestStep& step = manifest.step;
  std::vector<std::string> words;
  if (step.batch > 0)
    words.push_back(
        fmt::format("batch {}{}", step.batch, data_axes_of(manifest).empty() ? "" : " on each rank of the data axes"));
  if (step.sequence > 0) words.push_back(fmt::format("sequence {}", step.sequence));
  std::string out = words.empty() ? "" : fmt::format("<p>For a step with {}.</p>\n", join(words, ", "));
  for (const std::string& missing :
       unlisted_words(manifest.mesh, step.unlisted, !manifest.remat.empty(), units_axis(manifest)))
    out += fmt::format("<p>Not listed: {}.</p>\n", html(missing));
  return out;
}

}  // namespace

std::string collectives_section(const Manifest& manifest, const ManifestMeasure& measure) {
  std::string out = "<section id=\"collectives\">\n<h2>Collectives of a step</h2>\n";
  if (!manifest.has_collectives)
    return out +
           "<p>The manifest does not list them: the model file had no operations, or the runtime of this plan is not "
           "modelled by operation. <code>python -m tpplan.export</code> exports models of torch and transformers with "
           "their operations. JAX and Keras compute on global arrays: a sharding changes no value, and their compiler "
           "chooses the calls.</p>\n</section>\n";
  out += step_text(manifest);
  if (manifest.collectives.empty()) return out + "<p>None.</p>\n</section>\n";
  out +=
      "<p>Every call of one training step on rank 0. The payload is the size as nccl-tests counts it; in a ring a rank "
      "sends 2(n−1)/n of it for all_reduce and (n−1)/n for the others.</p>\n" +
      call_bars_html(measure.collectives, manifest.mesh) + totals_table(measure.collectives);
  const auto& groups = measure.collectives.groups;
  for (size_t i = 0; i < groups.size() && i < kMaxLayerTables; ++i) out += layer_table(groups[i], manifest.mesh);
  if (groups.size() > kMaxLayerTables)
    out +=
        fmt::format("<p class=\"more\">And {} more.</p>\n", grouped(groups.size() - kMaxLayerTables, "kind of layer"));
  return out + "</section>\n";
}

}  // namespace tpplan
