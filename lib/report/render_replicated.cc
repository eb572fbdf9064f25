#include "report/render_replicated.h"

#include <spdlog/fmt/fmt.h>

#include <vector>

#include "manifest/coverage_gate.h"
#include "report/html_text.h"
#include "report/memory_text.h"

namespace tpplan {
namespace {

constexpr size_t kMaxReplicated = 15;  // patterns shown before a sentence that counts the rest

}  // namespace

std::string replicated_html(const Manifest& manifest) {
  static constexpr std::string_view heads[] = {"@Parameters", "#Names", "#On every rank", "#Of the model"};
  const ManifestTotals& t = manifest.totals;
  std::string out = "<section id=\"replicated\">\n<h2>Replicated parameters</h2>\n";
  const std::vector<ReplicatedGroup> groups = largest_replicated(manifest, SIZE_MAX);
  if (groups.empty()) return out + "<p>Nothing: every parameter is sharded over at least one axis.</p>\n</section>\n";
  std::string rows;
  uint64_t rest = 0;
  for (size_t i = 0; i < groups.size(); ++i) {
    if (i >= kMaxReplicated)
      rest += groups[i].count;
    else
      rows += row_html(heads,
                       std::vector<std::string>{code(groups[i].pattern), grouped(groups[i].count),
                                                bytes_html(groups[i].bytes), percent_text(groups[i].bytes, t.bytes)});
  }
  out += table_html("Largest first", heads, rows);
  if (groups.size() > kMaxReplicated)
    out += fmt::format("<p class=\"more\">And {} in {} more.</p>\n", grouped(rest, "name"),
                       grouped(groups.size() - kMaxReplicated, "pattern"));
  return out + "</section>\n";
}

}  // namespace tpplan
