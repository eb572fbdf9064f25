#include "render/formats.h"

#include <algorithm>

#include "render/render_github.h"
#include "render/render_gitlab.h"
#include "render/render_junit.h"
#include "render/render_markdown.h"

namespace tpplan {
namespace {

constexpr Format kPrintFormats[] = {
    {"human", true, true, false, [](const Report& r) { return render_human(r.diagnostics, r.sources, r.look); }},
    {"json", false, true, false, [](const Report& r) { return render_json(r.diagnostics, r.sources, r.fields); }},
    {"jsonl", false, false, false, [](const Report& r) { return render_jsonl(r.diagnostics, r.sources); }},
    {"sarif", false, false, true,
     [](const Report& r) { return render_sarif(r.diagnostics, r.sources, r.tool, r.page, r.unchecked); }},
    {"github", false, false, true,
     [](const Report& r) { return render_github(r.diagnostics, r.sources, r.unchecked, r.checks); }},
    {"gitlab", false, false, true, [](const Report& r) { return render_gitlab(r.diagnostics, r.sources); }},
    {"markdown", false, false, true,
     [](const Report& r) { return render_markdown(r.diagnostics, r.sources, r.unchecked, r.checks); }},
    {"junit", false, false, true,
     [](const Report& r) { return render_junit(r.diagnostics, r.sources, r.unchecked, r.checks); }},
};

}  // namespace

std::span<const Format> formats() { return kPrintFormats; }

const Format* find_format(std::string_view name) {
  const auto is_it = [name](const Format& format) { return format.name == name; };
  const auto* row = std::find_if(std::begin(kPrintFormats), std::end(kPrintFormats), is_it);
  return row == std::end(kPrintFormats) ? nullptr : row;
}

std::vector<std::string> format_names() {
  std::vector<std::string> names;
  for (const Format& format : kPrintFormats) names.emplace_back(format.name);
  return names;
}

}  // namespace tpplan
