// Plans that are open in an editor: their text, and the diagnostics of `tpplan check`.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "commands.h"
#include "editor/completion.h"

namespace tpplan {

// The diagnostics of a text from all `checks` of its project, each once. It owns the session into which its fields
// point.
struct EditorAnalysis {
  SourceFile plan{.id = 2};                          // the text, with its name for diagnostics
  Diagnostics diagnostics;                           // located in `plan` or in models
  std::vector<std::string> texts;                    // full text by diagnostic, with the location if it is in a model
  std::unique_ptr<Session> session;                  // of the first check
  std::string no_model;                              // why the plan was only parsed; empty if it was checked
  std::optional<std::vector<CompletionPath>> paths;  // cache of paths_of
};

struct OpenPlan {
  std::string uri, path;  // `path` is empty if the document is not a file
  std::string text;
  int64_t version = 0;
  std::unique_ptr<EditorAnalysis> analysis;  // of this text; nullptr after a change
  bool is_notified = false;                  // the diagnostics of this text were sent
};

// True if the document is a plan: it contains the plan format, or `checks` of its project name it.
[[nodiscard]] bool is_plan_document(const OpenPlan& open, const EditorArguments& arguments);

// Checks the text with each model and mesh that `checks` of its project combine it with. Without such checks it uses
// the model of the arguments. Without a model it only parses the plan.
[[nodiscard]] std::unique_ptr<EditorAnalysis> analyse(const OpenPlan& open, const EditorArguments& arguments);

// Returns the paths that rules can name in the model of the first check; empty without a readable model.
[[nodiscard]] const std::vector<CompletionPath>& paths_of(EditorAnalysis& analysis);

// Returns a URI such as "file:///a%20b" as a path; empty if it is not a file.
[[nodiscard]] std::string path_of_uri(std::string_view uri);

}  // namespace tpplan
