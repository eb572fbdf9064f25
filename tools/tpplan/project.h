// What of `.tpplan.yaml` is about the project's own plans: which are checked, and with which version of the program.
#pragma once

#include <string>
#include <vector>

#include "base/source_file.h"
#include "diagnostics/diagnostics.h"
#include "syntax/yaml_tree.h"

namespace tpplan {

// A text of the settings file, with its place.
struct PlacedText {
  std::string text;
  Span span;
};

// Every model with every plan, on every mesh; no mesh: the plan's own. Paths are from the settings file's folder, and
// may be globs.
struct ProjectCheck {
  std::vector<PlacedText> models, plans, meshes;
};

struct Project {
  SourceFile source;   // the settings file
  std::string folder;  // where it stands
  std::vector<ProjectCheck> checks;
};

// Reads the list under `checks`. Reports TP3002 to TP3004.
void read_checks(const YamlTree& tree, const YamlNode& node, Project& project, Diagnostics& diagnostics);

// Reads "1.2.3", which is that version and no other, or ">=1.2.3". Reports TP3003 where this program is not one that
// the project wants.
void read_required_version(const YamlTree& tree, const YamlNode& node, Diagnostics& diagnostics);

// The files that a path or a glob names, in alphabetical order; a path without a star names itself. Where folders
// cannot be looked into, `reason` says why.
[[nodiscard]] std::vector<std::string> files_of(const std::string& pattern, std::string& reason);

}  // namespace tpplan
