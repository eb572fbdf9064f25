#include "settings.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <new>
#include <system_error>

#include "base/path_status.h"
#include "base/read_file.h"
#include "base/text.h"
#include "manifest/coverage_gate.h"
#include "render/formats.h"
#include "text/yaml_tree.h"

namespace tpplan {
namespace {

constexpr std::string_view kName = ".tpplan.yaml";
constexpr uint64_t kMaxBytes = uint64_t{64} << 10;
constexpr FileId kSettingsFile = 1;  // the only file
constexpr std::array<std::string_view, 10> kKeys = {"strict",   "quiet", "format", "color",  "max_replicated",
                                                    "baseline", "deny",  "allow",  "checks", "required_version"};

void wrong_type(const YamlNode& node, std::string_view key, std::string_view wanted, Diagnostics& diagnostics,
                std::string help = {}) {
  report_message(diagnostics, Code::InvalidPlanValue, span_of(kSettingsFile, node),
                 fmt::format("`{}` is {}, not {}", key, describe(node), wanted), std::move(help));
}

void read_flag(const YamlNode& node, std::string_view key, std::optional<bool>& target, Diagnostics& diagnostics) {
  const bool good = node.kind == YamlKind::Scalar && node.is_plain && (node.text == "true" || node.text == "false");
  if (good)
    target = node.text == "true";
  else
    wrong_type(node, key, "true or false", diagnostics, fmt::format("write `{}: true`, or remove the key", key));
}

// Reads one of `choices`.
void read_word(const YamlNode& node, std::string_view key, const std::vector<std::string>& choices,
               std::optional<std::string>& target, Diagnostics& diagnostics) {
  const bool known = std::find(choices.begin(), choices.end(), node.text) != choices.end();
  if (node.kind == YamlKind::Scalar && known) {
    target = node.text;
  } else {
    const std::vector<std::string_view> names(choices.begin(), choices.end());
    const std::string_view nearest = nearest_name(node.text, names);
    wrong_type(node, key, fmt::format("one of {}", fmt::join(choices, ", ")), diagnostics,
               nearest.empty() ? "write one of these values" : fmt::format("did you mean `{}`?", nearest));
  }
}

// Reads a path relative to the folder of the settings file.
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
      wrong_type(code, key, "the code of a diagnostic", diagnostics,
                 "run `tpplan rules` to list the codes, such as TP4006");
  }
}

// Reads the codes of `allow`. Reports codes of errors, which cannot be allowed.
void read_allowed(const YamlTree& tree, const YamlNode& node, std::string_view key, Settings& settings,
                  Diagnostics& diagnostics) {
  read_codes(tree, node, key, settings.allow, diagnostics);
  if (node.kind != YamlKind::Sequence) return;
  for (const YamlId item : node.children) {
    const YamlNode& code = tree.nodes[item];
    const DiagnosticKind* kind = code.kind == YamlKind::Scalar ? find_kind(code.text) : nullptr;
    if (kind != nullptr && kind->severity != Severity::Warning)
      report_message(diagnostics, Code::InvalidPlanValue, span_of(tree.file, code), not_allowed(*kind));
  }
}

// Reports codes that the file both denies and allows.
void check_opposites(const YamlTree& tree, const YamlNode& root, const Settings& settings, Diagnostics& diagnostics) {
  if (!settings.deny || !settings.allow) return;
  for (size_t i = 0; i + 1 < root.children.size(); i += 2) {
    if (tree.nodes[root.children[i]].text != "allow") continue;
    for (const YamlId item : tree.nodes[root.children[i + 1]].children) {
      const YamlNode& code = tree.nodes[item];
      const bool denied = std::ranges::any_of(
          *settings.deny, [&](const std::string& name) { return find_kind(name) == find_kind(code.text); });
      if (denied)
        report_message(diagnostics, Code::InvalidPlanValue, span_of(tree.file, code),
                       fmt::format("`deny` and `allow` both name {}", code.text), "remove it from one of the two");
    }
  }
}

// Returns the folders from `from` up to the root of its repository; only `from` if the home directory and all folders
// below it are in no repository. Sets `reason` if a lookup fails.
std::vector<std::filesystem::path> folders_of_repository(const std::filesystem::path& from, std::string& reason) {
  const char* home = std::getenv("HOME");
  std::vector<std::filesystem::path> folders;
  for (std::filesystem::path folder = from;; folder = folder.parent_path()) {
    folders.push_back(folder);
    const PathStatus git = stat_path((folder / ".git").string());
    if (git.exists) return folders;
    if (git.error != 0) reason = std::strerror(git.error);
    std::error_code ignored;
    const bool is_home = home != nullptr && std::filesystem::equivalent(folder, home, ignored);
    if (git.error != 0 || is_home || folder == folder.root_path()) return {from};
  }
}

}  // namespace

std::string not_allowed(const DiagnosticKind& error) {
  return fmt::format("{0} is an error, and only warnings can be allowed; `tpplan explain {0}` shows how to fix it",
                     error.id);
}

std::string find_settings_file(std::string& path) {
  std::error_code error;
  path = kName;
  const std::filesystem::path folder = std::filesystem::current_path(error);
  if (error == std::errc::not_enough_memory) throw std::bad_alloc();
  if (error && !is_absence_error(error.value())) return error.message();
  if (!error) return find_settings_file(folder.string(), path);
  path.clear();
  return "";
}

std::string find_settings_file(const std::string& from, std::string& path) {
  std::string reason;
  for (const std::filesystem::path& folder : folders_of_repository(from, reason)) {
    path = (folder / kName).string();
    const PathStatus found = lstat_path(path);
    if (found.exists) return "";
    if (found.error != 0) return std::strerror(found.error);
  }
  if (reason.empty()) path.clear();
  return reason;
}

void report_foreign(const SourceFile& file, std::string_view what, uid_t owner, std::string_view help,
                    Diagnostics& diagnostics) {
  report_message(diagnostics, Code::ForeignFile, {file.id, 0, 0},
                 fmt::format("{} belongs to user {} and is not read: it could hide diagnostics", what, owner),
                 std::string(help));
}

Settings read_settings(const std::string& path, bool is_named, SourceFile& file, Diagnostics& diagnostics) {
  Settings settings;
  ReadResult read = is_named ? read_file(path, kMaxBytes) : read_untrusted_file(path, kMaxBytes);
  file = std::move(read.file);
  const PathStatus found = lstat_path(path);  // a file that was not read has an owner, too
  const bool is_foreign = (found.exists && !is_trusted_owner(found.status.st_uid)) ||
                          (read.fault == ReadError::None && !is_trusted_owner(read.owner));
  if (!is_named && is_foreign) {
    report_foreign(file, "the settings file", found.status.st_uid, "pass it with `--config FILE` if you trust it",
                   diagnostics);
    return settings;
  }
  if (read.fault != ReadError::None) {
    report_message(diagnostics, Code::FileUnreadable, {file.id, 0, 0},
                   fmt::format("cannot read the settings: {}",
                               read.fault == ReadError::TooLarge ? "the file is too large" : read.reason),
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
      report_message(diagnostics, Code::UnknownPlanKey, span_of(tree.file, key),
                     fmt::format("unknown key `{}` in the settings", key.text),
                     key.text == "model" || key.text == "plan" || key.text == "mesh"
                         ? "write models and plans in a list: `checks: [{model: PATH, plan: PATH}]`"
                     : nearest.empty() ? fmt::format("use one of the keys {}", fmt::join(kKeys, ", "))
                                       : fmt::format("did you mean `{}`?", nearest));
    }
  }
  check_opposites(tree, root, settings, diagnostics);
  settings.project.source = file;
  settings.project.folder = std::filesystem::path(path).parent_path().string();
  std::string ignored;  // if a lookup fails, the folder is the root
  std::error_code failed;
  const std::filesystem::path folder =
      std::filesystem::canonical(settings.project.folder.empty() ? "." : settings.project.folder, failed);
  settings.project.root = failed ? "." : folders_of_repository(folder, ignored).back().string();
  return settings;
}

}  // namespace tpplan
