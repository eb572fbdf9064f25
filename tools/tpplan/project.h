// The part of `.tpplan.yaml` about the project: its checks and the required version of tpplan.
#pragma once

#include <string>
#include <vector>

#include "base/source_file.h"
#include "diagnostics/diagnostics.h"
#include "text/yaml_tree.h"

namespace tpplan {

// A text of the settings file, with its location.
struct PlacedText {
  std::string text;
  Span span;
};

// A check of every model with every plan on every mesh (default: the mesh of the plan). Paths are relative to the
// folder of the settings file and can be globs.
struct ProjectCheck {
  std::vector<PlacedText> models, plans, meshes;
};

struct Project {
  SourceFile source;   // the settings file
  std::string folder;  // its folder
  std::string root;    // root of its repository, otherwise the folder: contains each file that the settings name
  std::vector<ProjectCheck> checks;
};

// Reads the list in the field `checks`. Reports TP3002 to TP3004.
void read_checks(const YamlTree& tree, const YamlNode& node, Project& project, Diagnostics& diagnostics);

// Reads a required version: "1.2.3" for exactly this version, or ">=1.2.3". Reports TP3003 if this program has another
// version.
void read_required_version(const YamlTree& tree, const YamlNode& node, Diagnostics& diagnostics);

// Returns the files that match a glob, in alphabetical order; a path without wildcards is returned unchanged. Sets
// `reason` if a folder cannot be read.
[[nodiscard]] std::vector<std::string> files_of(const std::string& pattern, std::string& reason);

// Returns the models and plans of the checks, as paths relative to the working directory. Skips unreadable folders.
[[nodiscard]] std::vector<std::string> project_files(const Project& project);

}  // namespace tpplan
