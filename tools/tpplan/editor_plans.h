// Plans that are open in an editor: the text as it stands there, and what `tpplan check` says of it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "commands.h"
#include "editor/completion.h"

namespace tpplan {

// What is said of a text: by the runs that the project's settings name, each finding once. What points into a session
// is good as long as this is.
struct EditorAnalysis {
  SourceFile plan{.id = 2};                    // the text, with the name that findings give it
  Diagnostics diagnostics;                     // places are in `plan` and in models
  std::vector<std::string> texts;              // by finding: all that it says, and where, if it is in a model
  std::unique_ptr<Session> session;            // of the first run
  std::string no_model;                        // why the plan was read and nothing more; empty: it was judged
  std::optional<std::vector<PathItem>> paths;  // of its model, once they were asked for
};

struct OpenPlan {
  std::string uri, path;  // the path is empty where the editor's document is no file
  std::string text;
  int64_t version = 0;
  std::unique_ptr<EditorAnalysis> analysis;  // of this text; nullptr: it changed
  bool is_told = false;                      // the editor knows the findings of this text
};

// Whether the document is a plan: it says so, or the project checks it as one.
[[nodiscard]] bool is_plan_document(const OpenPlan& open, const EditorArguments& arguments);

// Judges the text with each model and on each mesh with which `checks` of its project name it; else with the model of
// the arguments, else it is read alone.
[[nodiscard]] std::unique_ptr<EditorAnalysis> analyse(const OpenPlan& open, const EditorArguments& arguments);

// What rules can name in the model of the first run; nothing where there is none that can be read.
[[nodiscard]] const std::vector<PathItem>& paths_of(EditorAnalysis& analysis);

// "file:///a%20b" as a path; empty for what is no file.
[[nodiscard]] std::string path_of_uri(std::string_view uri);

}  // namespace tpplan
