// The formats of `tpplan check --format`, a row for each: the same findings in the same order (github: errors first).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "render/render.h"
#include "render/render_sarif.h"

namespace tpplan {

// What a format is rendered from.
struct Report {
  const Diagnostics& diagnostics;
  const Sources& sources;
  RenderOptions look;     // of the format for people
  std::string_view tool;  // its name and version, a space between
  PageOfCode page;
  std::span<const DocumentMember> members{};  // of the document, behind the findings
  std::string_view unchecked{};               // a sentence: what was not looked at, and is not among the findings
};

struct Format {
  std::string_view name;
  bool for_people;      // a summary may follow the findings
  bool has_more;        // what is asked for beside the findings can stand in it, or follow it
  bool for_repository;  // places are looked up in a repository: files are named from its root
  std::string (*render)(const Report& report);
};

[[nodiscard]] std::span<const Format> formats();
// The format called `name`, or nullptr.
[[nodiscard]] const Format* find_format(std::string_view name);
// Their names, in the order of the table.
[[nodiscard]] std::vector<std::string> format_names();

}  // namespace tpplan
