#include "report/render_frame.h"

#include <spdlog/fmt/fmt.h>

#include <string>
#include <vector>

#include "base/text.h"
#include "report/html_text.h"

namespace tpplan {
namespace {

std::string mesh_html(const Mesh& mesh) {
  std::vector<std::string> axes;
  for (const MeshAxis& axis : mesh.axes) axes.push_back(fmt::format("<bdi>{}</bdi> {}", html(axis.name), axis.size));
  return axes.empty() ? "no mesh axes" : join(axes, " × ");
}

}  // namespace

// The content security policy allows only the style sheet, by its hash. The page loads nothing and executes nothing,
// even if a name were to pass as markup.
std::string document_head(std::string_view model, std::string_view kind) {
  std::string out = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n";
  out += fmt::format(
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src &#39;none&#39;; style-src {}; base-uri "
      "&#39;none&#39;; "
      "form-action &#39;none&#39;\">\n",
      html(csp_style_source()));
  out +=
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" "
      "content=\"light dark\">\n";
  out += fmt::format(
      "<meta name=\"generator\" content=\"{}\">\n<title>{}: {}</title>\n<style>{}</style>\n</head>\n<body>\n",
      kToolVersion, html(model), kind, style_sheet());
  return out;
}

std::string head_html(const Manifest& manifest) {
  std::string out = document_head(manifest.model_name, "sharding report");
  out +=
      "<svg class=\"hidden\" aria-hidden=\"true\"><defs><pattern id=\"hatch\" width=\"6\" height=\"6\" "
      "patternUnits=\"userSpaceOnUse\" "
      "patternTransform=\"rotate(45)\">"
      "<rect class=\"hatch-a\" width=\"6\" height=\"6\"/><line class=\"hatch-b\" x1=\"1\" y1=\"0\" x2=\"1\" "
      "y2=\"6\"/></pattern></defs></svg>\n";
  out += fmt::format("<header>\n<p class=\"eyebrow\">Sharding report</p>\n<h1>{}</h1>\n", html(manifest.model_name));
  out += fmt::format("<p class=\"lead\">{}, {}, {} on {}: {}</p>\n", bytes_html(manifest.totals.bytes),
                     grouped(manifest.parameters.size(), "parameter"), grouped(manifest.totals.elements, "element"),
                     grouped(static_cast<uint64_t>(device_count(manifest.mesh)), "rank"), mesh_html(manifest.mesh));
  return out;
}

std::string nav_html(const OptionalSections& sections) {
  return std::string("<nav aria-label=\"Sections\"><a href=\"#model\">Model</a> ") +
         (sections.steps ? "<a href=\"#step\">Step</a> " : "") +
         (sections.changes ? "<a href=\"#changes\">Changes</a> " : "") +
         "<a href=\"#memory\">Memory</a> <a href=\"#replicated\">Replicated</a> <a "
         "href=\"#rules\">Rules</a> <a href=\"#shards\">Shards</a> <a "
         "href=\"#traffic\">Bytes "
         "moved</a> <a href=\"#collectives\">Collectives</a>" +
         (sections.time ? " <a href=\"#time\">Time</a>" : "") + "</nav>\n</header>\n<main>\n";
}

std::string footer_html(const Manifest& manifest) {
  std::string out = fmt::format(
      "</main>\n<footer>\n<p>Written by {} from a manifest of model {} (sha256 {}) and plan (sha256 {}). Uneven "
      "shards: {}.",
      kToolVersion, code(manifest.model_name), code(manifest.model_sha256), code(manifest.plan_sha256),
      manifest.uneven == UnevenPolicy::Torch ? "split as by torch.chunk" : "an error");
  if (manifest.fsdp)
    out +=
        fmt::format(" FSDP: {} over {}, {}.", html(manifest.fsdp->policy),
                    code(manifest.mesh.axes[manifest.fsdp->axis].name), grouped(manifest.fsdp->units.size(), "unit"));
  return out + " Sizes use units of 1024.</p>\n</footer>\n</body>\n</html>\n";
}

}  // namespace tpplan
