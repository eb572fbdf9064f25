// The table of the formats of `tpplan check --format`. All print the same diagnostics in the same order, but `github`
// prints errors first.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "render/render.h"
#include "render/render_sarif.h"

namespace tpplan {

// The input of a format's renderer.
struct Report {
  const Diagnostics& diagnostics;
  const Sources& sources;
  RenderOptions look;     // for the human-readable format
  std::string_view tool;  // "NAME VERSION"
  PageOfCode page;
  std::span<const DocumentField> fields{};  // further fields of the JSON document
  std::string_view unchecked{};             // a sentence that names the skipped checks; may be empty
  std::span<const CheckedPlan> checks{};    // all checks of a settings file; empty if one plan is checked
};

struct Format {
  std::string_view name;
  bool is_human;        // a summary can follow the diagnostics
  bool has_more;        // further results, such as costs, can be in the output or follow it
  bool for_repository;  // file names are relative to the root of the repository
  std::string (*render)(const Report& report);
};

[[nodiscard]] std::span<const Format> formats();
// Returns the format called `name`, or nullptr.
[[nodiscard]] const Format* find_format(std::string_view name);
// Returns the names of the formats, in the order of the table.
[[nodiscard]] std::vector<std::string> format_names();

}  // namespace tpplan
