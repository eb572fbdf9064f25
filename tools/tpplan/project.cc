#include "project.h"

#include <glob.h>
#include <spdlog/fmt/fmt.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <new>
#include <optional>
#include <string_view>
#include <tuple>

#include "base/path_status.h"
#include "base/text.h"
#include "base/version.h"
#include "commands.h"

namespace tpplan {
namespace {

constexpr std::array<std::string_view, 3> kCheckKeys = {"model", "plan", "mesh"};

// Returns the help with the form of a key's value.
std::string form_help(std::string_view key) {
  if (key == "checks") return "write `checks: [{model: PATH, plan: PATH, mesh: [tp=2, tp=8]}]`";
  if (key == "mesh") return "write it as on the command line, `mesh: dp=2,tp=4`, or several as a list, `[tp=2, tp=8]`";
  return key == "required_version" ? fmt::format("write `required_version: \">={}\"`", TPPLAN_VERSION) : std::string();
}

void report_form(const YamlTree& tree, const YamlNode& node, std::string_view key, std::string_view wanted,
                 Diagnostics& diagnostics) {
  report_message(diagnostics, Code::InvalidPlanValue, span_of(tree.file, node),
                 fmt::format("`{}` is {}, not {}", key, describe(node), wanted), form_help(key));
}

// Reads a text or a list of texts.
std::vector<PlacedText> read_texts(const YamlTree& tree, const YamlNode& node, std::string_view key,
                                   std::string_view wanted, Diagnostics& diagnostics) {
  std::vector<PlacedText> texts;
  const auto add = [&](const YamlNode& item) {
    if (item.kind == YamlKind::Scalar && !item.text.empty())
      texts.push_back({item.text, span_of(tree.file, item)});
    else
      report_form(tree, item, key, wanted, diagnostics);
  };
  if (node.kind == YamlKind::Sequence) {
    for (const YamlId item : node.children) add(tree.nodes[item]);
    if (node.children.empty()) report_form(tree, node, key, wanted, diagnostics);
  } else {
    add(node);
  }
  return texts;
}

void check_meshes(const std::vector<PlacedText>& meshes, Diagnostics& diagnostics) {
  for (const PlacedText& mesh : meshes) {
    MeshSizes sizes;
    const std::string fault = mesh_error({mesh.text}, sizes);
    if (!fault.empty())
      report_message(diagnostics, Code::InvalidPlanValue, mesh.span, fmt::format("`mesh`: {}", fault));
  }
}

void read_check(const YamlTree& tree, const YamlNode& node, Project& project, Diagnostics& diagnostics) {
  if (node.kind != YamlKind::Map)
    return report_form(tree, node, "checks", "a list of {model, plan, mesh}", diagnostics);
  ProjectCheck check;
  std::vector<PlacedText>* const targets[] = {&check.models, &check.plans, &check.meshes};
  bool seen[kCheckKeys.size()] = {};
  bool has_unknown = false;  // a misspelled key is not also reported as missing
  for (size_t i = 0; i + 1 < node.children.size(); i += 2) {
    const YamlNode &key = tree.nodes[node.children[i]], &value = tree.nodes[node.children[i + 1]];
    const auto found = std::find(kCheckKeys.begin(), kCheckKeys.end(), key.text);
    if (found == kCheckKeys.end()) {
      has_unknown = true;
      const std::string_view nearest = nearest_name(key.text, kCheckKeys);
      report_message(
          diagnostics, Code::UnknownPlanKey, span_of(tree.file, key),
          fmt::format("unknown key `{}` in a check", key.text),
          nearest.empty() ? "use one of the keys model, plan and mesh" : fmt::format("did you mean `{}`?", nearest));
      continue;
    }
    const auto index = static_cast<size_t>(found - kCheckKeys.begin());
    seen[index] = true;
    *targets[index] =
        read_texts(tree, value, key.text,
                   index == 2 ? "a mesh such as tp=8, or a list of them" : "a path, or a list of them", diagnostics);
  }
  for (size_t index = 0; index < 2; ++index) {
    if (!seen[index] && !has_unknown)
      report_message(diagnostics, Code::MissingPlanField, span_of(tree.file, node),
                     fmt::format("this check has no `{}`", kCheckKeys[index]),
                     "write the check as {model: PATH, plan: PATH, mesh: [tp=2, tp=8]}");
  }
  check_meshes(check.meshes, diagnostics);
  project.checks.push_back(std::move(check));
}

// Returns a version such as "1.20.3" as numbers.
std::optional<std::array<int64_t, 3>> version_of(std::string_view text) {
  std::array<int64_t, 3> version{};
  const std::vector<std::string_view> parts = split(text, '.');
  if (parts.size() != version.size()) return std::nullopt;
  for (size_t i = 0; i < version.size(); ++i) {
    if (!parse_decimal(parts[i], version[i])) return std::nullopt;
  }
  return version;
}

}  // namespace

void read_checks(const YamlTree& tree, const YamlNode& node, Project& project, Diagnostics& diagnostics) {
  if (node.kind != YamlKind::Sequence)
    return report_form(tree, node, "checks", "a list of {model, plan, mesh}", diagnostics);
  for (const YamlId item : node.children) read_check(tree, tree.nodes[item], project, diagnostics);
}

void read_required_version(const YamlTree& tree, const YamlNode& node, Diagnostics& diagnostics) {
  const bool at_least = node.text.starts_with(">=");
  const auto wanted = version_of(std::string_view(node.text).substr(at_least ? 2 : 0)),
             own = version_of(TPPLAN_VERSION);
  if (node.kind != YamlKind::Scalar || !wanted)
    return report_form(tree, node, "required_version", "a version such as 1.2.3 or >=1.2.3", diagnostics);
  if (at_least ? *own >= *wanted : *own == *wanted) return;
  report_message(diagnostics, Code::InvalidPlanValue, span_of(tree.file, node),
                 fmt::format("the project requires tpplan {}, but this is {}", node.text, TPPLAN_VERSION),
                 "install that version, or change `required_version`");
}

std::vector<std::string> files_of(const std::string& pattern, std::string& reason) {
  if (pattern.find_first_of("*?[") == std::string::npos) return {pattern};
  std::vector<std::string> files;
  glob_t found{};
  static int fault;  // errno of the unreadable folder; static, because glob's callback has no user pointer
  fault = 0;
  const auto note_error = [](const char*, int error) { return is_absence_error(error) ? 0 : (fault = error); };
  const int end = glob(pattern.c_str(), 0, note_error, &found);
  if (end == 0) files.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  if (end == GLOB_NOSPACE || fault == ENOMEM) throw std::bad_alloc();
  if (end == GLOB_ABORTED) reason = std::strerror(fault == 0 ? EIO : fault);
  globfree(&found);
  return files;
}

std::vector<std::string> project_files(const Project& project) {
  const std::filesystem::path folder = project.folder;
  std::vector<std::string> files;
  for (const ProjectCheck& check : project.checks) {
    for (const auto* list : {&check.models, &check.plans}) {
      for (const PlacedText& pattern : *list) {
        std::string ignored;  // check_project reports it
        const std::vector<std::string> found = files_of((folder / pattern.text).string(), ignored);
        files.insert(files.end(), found.begin(), found.end());
      }
    }
  }
  return files;
}

}  // namespace tpplan
