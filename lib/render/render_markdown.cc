#include "render/render_markdown.h"

#include <spdlog/fmt/fmt.h>

#include <vector>

#include "base/markdown.h"
#include "base/text.h"
#include "render/render_parts.h"

namespace tpplan {
namespace {

constexpr MarkdownLimits kDiagnosticsLimits = {.rows = 100, .bytes = 45'000};
constexpr MarkdownLimits kChecksLimits = {.rows = 100, .bytes = 10'000};

// The maximum number of bytes shown of one text, because names can be as long as a file.
constexpr size_t kMostOfText = 1'000;

std::string sentence(std::string text) {
  shorten(text, kMostOfText);
  return markdown_text(valid_utf8(text));
}

std::vector<std::string> diagnostic_row(const Diagnostic& d, const Sources& sources) {
  std::string what = sentence(d.label.empty() ? d.message : fmt::format("{} ({})", d.message, d.label));
  for (const Remark& remark : remarks_of(d, sources))
    what += fmt::format("<br>{}: {}", remark.kind, sentence(remark.text));
  std::string place = place_text(d.span, sources);
  shorten(place, kMostOfText);
  return {std::string(severity_name(d.severity)), std::string(kind_of(d.code).id), markdown_code(valid_utf8(place)),
          what};
}

// Returns a table of the checks; empty without checks.
std::string checks_table(std::span<const CheckedPlan> checks) {
  static constexpr std::string_view heads[] = {"check", "result"};
  std::vector<std::vector<std::string>> rows;
  for (const CheckedPlan& check : checks) {
    std::string name = check_name(check);
    shorten(name, kMostOfText);
    rows.push_back({markdown_code(valid_utf8(name)), sentence(check_result(check))});
  }
  return rows.empty() ? "" : "\n" + markdown_table(heads, rows, kChecksLimits);
}

}  // namespace

std::string render_markdown(const Diagnostics& diagnostics, const Sources& sources, std::string_view unchecked,
                            std::span<const CheckedPlan> checks) {
  static constexpr std::string_view heads[] = {"", "code", "where", "what"};
  std::string plan = sources.files.empty() ? "" : plan_of(sources)->name;
  shorten(plan, kMostOfText);
  const std::string about = !checks.empty() ? fmt::format(" in {}", counted(checks.size(), "check"))
                            : plan.empty()  ? ""
                                            : " in " + markdown_code(valid_utf8(plan));
  const std::string behind =
      checks_table(checks) + (unchecked.empty() ? "" : fmt::format("\n{}\n", sentence(std::string(unchecked))));
  if (diagnostics.list.empty()) return fmt::format("### tpplan: no diagnostics{}\n", about) + behind;
  const Sources located = locate(diagnostics, sources);
  std::vector<std::vector<std::string>> rows;
  for (const Diagnostic& d : diagnostics.list) rows.push_back(diagnostic_row(d, located));
  return fmt::format("### tpplan: {}{}\n\n", count_diagnostics(diagnostics), about) +
         markdown_table(heads, rows, kDiagnosticsLimits) + behind;
}

}  // namespace tpplan
