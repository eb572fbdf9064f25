#include "settings.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <new>
#include <system_error>

#include "base/presence.h"
#include "base/read_file.h"
#include "base/text.h"
#include "manifest/coverage_gate.h"
#include "render/formats.h"
#include "syntax/yaml_tree.h"

namespace tpplan {
namespace {

constexpr std::string_view kName = ".tpplan.yaml";
constexpr uint64_t kMaxBytes = uint64_t{64} << 10;
constexpr FileId kSettingsFile = 1;  // there is no other
constexpr std::array<std::string_view, 10> kKeys = {"strict",   "quiet", "format", "color",  "max_replicated",
                                                    "baseline", "deny",  "allow",  "checks", "required_version"};

void wrong_type(const YamlNode& node, std::string_view key, std::string_view wanted, Diagnostics& diagnostics,
                std::string help = {}) {
  report_message(diagnostics, Code::TP3003, span_of(kSettingsFile, node),
                 fmt::format("`{}` is {}, not {}", key, describe(node), wanted), std::move(help));
}

void read_flag(const YamlNode& node, std::string_view key, std::optional<bool>& target, Diagnostics& diagnostics) {
  const bool good = node.kind == YamlKind::Scalar && node.is_plain && (node.text == "true" || node.text == "false");
  if (good)
    target = node.text == "true";
  else
    wrong_type(node, key, "true or false", diagnostics, fmt::format("write `{}: true`, or leave it out", key));
}

// One of `choices`.
void read_word(const YamlNode& node, std::string_view key, const std::vector<std::string>& choices,
               std::optional<std::string>& target, Diagnostics& diagnostics) {
  const bool known = std::find(choices.begin(), choices.end(), node.text) != choices.end();
  if (node.kind == YamlKind::Scalar && known) {
    target = node.text;
  } else {
    const std::vector<std::string_view> names(choices.begin(), choices.end());
    const std::string_view nearest = nearest_name(node.text, names);
    wrong_type(node, key, fmt::format("one of {}", fmt::join(choices, ", ")), diagnostics,
               nearest.empty() ? "write one of them" : fmt::format("did you mean `{}`?", nearest));
  }
}

// A path from the folder of the settings file.
void read_path(const YamlNode& node, std::string_view key, const std::string& settings_file,
               std::optional<std::string>& target, Diagnostics& diagnostics) {
  if (node.kind == YamlKind::Scalar && !node.text.empty())
    target = (std::filesystem::path(settings_file).parent_path() / node.text).string();
  else
    wrong_type(node, key, "a path", diagnostics);
}

void read_share(const YamlNode& node, std::string_view key, std::optional<double>& target, Diagnostics& diagnostics) {
  double share = 0;
  if (node.kind == YamlKind::Scalar && parse_share(node.text, share))
    target = share;
  else
    wrong_type(node, key, kShareForm, diagnostics);
}

void read_codes(const YamlTree& tree, const YamlNode& node, std::string_view key,
                std::optional<std::vector<std::string>>& target, Diagnostics& diagnostics) {
  if (node.kind != YamlKind::Sequence)
    return wrong_type(node, key, "a list of codes", diagnostics,
                      fmt::format("write `{}: [{}]`", key, node.kind == YamlKind::Scalar ? node.text : "TP4006"));
  target.emplace();
  for (const YamlId item : node.children) {
    const YamlNode& code = tree.nodes[item];
    if (code.kind == YamlKind::Scalar && find_kind(code.text) != nullptr)
      target->push_back(code.text);
    else
      wrong_type(code, key, "the code of a diagnostic", diagnostics, "`tpplan rules` lists them, such as TP4006");
  }
}

// What is an error cannot be looked away from.
void read_allowed(const YamlTree& tree, const YamlNode& node, std::string_view key, Settings& settings,
                  Diagnostics& diagnostics) {
  read_codes(tree, node, key, settings.allow, diagnostics);
  if (node.kind != YamlKind::Sequence) return;
  for (const YamlId item : node.children) {
    const YamlNode& code = tree.nodes[item];
    const DiagnosticKind* kind = code.kind == YamlKind::Scalar ? find_kind(code.text) : nullptr;
    if (kind != nullptr && kind->severity != Severity::Warning)
      report_message(diagnostics, Code::TP3003, span_of(tree.file, code), not_allowed(*kind));
  }
}

// A code that the file both denies and allows.
void check_opposites(const YamlTree& tree, const YamlNode& root, const Settings& settings, Diagnostics& diagnostics) {
  if (!settings.deny || !settings.allow) return;
  for (size_t i = 0; i + 1 < root.children.size(); i += 2) {
    if (tree.nodes[root.children[i]].text != "allow") continue;
    for (const YamlId item : tree.nodes[root.children[i + 1]].children) {
      const YamlNode& code = tree.nodes[item];
      const bool denied = std::ranges::any_of(
          *settings.deny, [&](const std::string& name) { return find_kind(name) == find_kind(code.text); });
      if (denied)
        report_message(diagnostics, Code::TP3003, span_of(tree.file, code),
                       fmt::format("`deny` and `allow` both name {}", code.text), "keep one of the two");
    }
  }
}

}  // namespace

std::string not_allowed(const DiagnosticKind& error) {
  return fmt::format("{0} is an error, and only warnings can be allowed; `tpplan explain {0}` says how to mend it",
                     error.name);
}

std::string find_settings_file(std::string& path) {
  std::error_code error;
  path = kName;
  const std::filesystem::path folder = std::filesystem::current_path(error);
  if (error == std::errc::not_enough_memory) throw std::bad_alloc();
  if (error && !says_absent(error.value())) return error.message();
  if (!error) return find_settings_file(folder.string(), path);
  path.clear();
  return "";
}

std::string find_settings_file(const std::string& from, std::string& path) {
  std::filesystem::path folder = from;
  for (bool is_last = false; !is_last; folder = folder.parent_path()) {
    path = (folder / kName).string();
    Presence found = presence_of_name(path);
    if (found.is_there) return "";
    if (found.error == 0) found = presence_of_file((folder / ".git").string());
    if (found.error != 0) return std::strerror(found.error);
    is_last = found.is_there || folder == folder.root_path();
  }
  path.clear();
  return "";
}

Settings read_settings(const std::string& path, bool is_named, SourceFile& file, Diagnostics& diagnostics) {
  Settings settings;
  ReadResult read = is_named ? read_file(path, kMaxBytes) : read_found_file(path, kMaxBytes);
  file = std::move(read.file);
  if (read.fault != ReadFault::None) {
    report_message(diagnostics, Code::TP1001, {file.id, 0, 0},
                   fmt::format("cannot read the settings: {}",
                               read.fault == ReadFault::TooLarge ? "the file is too large" : read.reason),
                   is_named ? "" : std::string(kOtherSettings));
    return settings;
  }
  YamlTree tree;
  if (!read_yaml(file, tree, diagnostics) || tree.root == kNoYaml) return settings;
  const YamlNode& root = tree.nodes[tree.root];
  if (root.kind != YamlKind::Map) {
    wrong_type(root, kName, "a mapping", diagnostics);
    return settings;
  }
  for (size_t i = 0; i + 1 < root.children.size(); i += 2) {
    const YamlNode &key = tree.nodes[root.children[i]], &value = tree.nodes[root.children[i + 1]];
    if (key.text == "strict")
      read_flag(value, key.text, settings.strict, diagnostics);
    else if (key.text == "quiet")
      read_flag(value, key.text, settings.quiet, diagnostics);
    else if (key.text == "format")
      read_word(value, key.text, format_names(), settings.format, diagnostics);
    else if (key.text == "color")
      read_word(value, key.text, {"auto", "always", "never"}, settings.color, diagnostics);
    else if (key.text == "max_replicated")
      read_share(value, key.text, settings.max_replicated, diagnostics);
    else if (key.text == "baseline")
      read_path(value, key.text, path, settings.baseline, diagnostics);
    else if (key.text == "deny")
      read_codes(tree, value, key.text, settings.deny, diagnostics);
    else if (key.text == "allow")
      read_allowed(tree, value, key.text, settings, diagnostics);
    else if (key.text == "checks")
      read_checks(tree, value, settings.project, diagnostics);
    else if (key.text == "required_version")
      read_required_version(tree, value, diagnostics);
    else {
      const std::string_view nearest = nearest_name(key.text, kKeys);
      report_message(diagnostics, Code::TP3004, span_of(tree.file, key),
                     fmt::format("unknown key `{}` in the settings", key.text),
                     key.text == "model" || key.text == "plan" || key.text == "mesh"
                         ? "what is checked stands in a list: `checks: [{model: PATH, plan: PATH}]`"
                     : nearest.empty() ? fmt::format("keys are {}", fmt::join(kKeys, ", "))
                                       : fmt::format("did you mean `{}`?", nearest));
    }
  }
  check_opposites(tree, root, settings, diagnostics);
  settings.project.source = file;
  settings.project.folder = std::filesystem::path(path).parent_path().string();
  return settings;
}

}  // namespace tpplan
