#include "describe_app.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/text.h"

namespace tpplan {
namespace {

// Returns the names in "{a,b,c}", which CLI::IsMember appends to the type name.
std::vector<std::string> choices_of(const std::string& type) {
  const size_t open = type.find('{');
  std::vector<std::string> choices;
  if (open == std::string::npos || !type.ends_with('}')) return choices;
  for (size_t begin = open + 1; begin < type.size();) {
    const size_t end = type.find_first_of(",}", begin);
    choices.push_back(type.substr(begin, end - begin));
    begin = end + 1;
  }
  return choices;
}

OptionDescription describe_option(const CLI::Option& option) {
  OptionDescription out;
  out.is_positional = option.get_positional();
  for (const std::string& name : option.get_snames()) out.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) out.names.push_back("--" + name);
  if (out.is_positional) out.names = {option.get_name()};
  const std::string type = option.get_type_name();
  out.takes_value = option.get_items_expected_max() > 0;
  out.value = type.substr(0, type.find(':'));
  out.choices = choices_of(type);
  out.help = option.get_description();
  out.variable = option.get_envname();
  return out;
}

// Options of other launchers and their equivalents.
struct ForeignOption {
  std::string_view name, option, written;
};
constexpr ForeignOption kForeignOptions[] = {{"--tp", "--mesh", "--mesh tp=8"},
                                             {"--tp-size", "--mesh", "--mesh tp=8"},
                                             {"--tensor-parallel-size", "--mesh", "--mesh tp=8"},
                                             {"--json", "--format", "--format json"}};

// Returns a hint for an option that the command lacks: a similar one, or the commands that have it.
std::string option_hint(const CLI::App& app, const CLI::App& command, std::string_view name) {
  for (const ForeignOption& foreign : kForeignOptions) {
    if (name == foreign.name && command.get_option_no_throw(std::string(foreign.option)) != nullptr)
      return ": did you mean `" + std::string(foreign.written) + "`?";
  }
  std::string upper;
  for (const char c : name.substr(std::min(name.find_first_not_of('-'), name.size())))
    upper += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_positional() && option->get_name() == upper)
      return ": write " + upper + " as a positional argument";
  }
  std::vector<std::string> long_names;
  for (const CLI::App* of : {&command, &app}) {
    for (const CLI::Option* option : of->get_options()) {
      for (const std::string& known : option->get_lnames()) long_names.push_back("--" + known);
    }
  }
  const std::vector<std::string_view> names(long_names.begin(), long_names.end());
  const std::string_view nearest = name.size() > 2 ? nearest_name(name, names) : std::string_view{};
  if (!nearest.empty()) return ": did you mean `" + std::string(nearest) + "`?";
  // A prefix of an option, or a letter in the other case.
  std::vector<std::string> begun;
  for (const std::string& known : long_names) {
    if (name.size() > 4 && known.starts_with(name)) begun.push_back(known);
  }
  if (begun.size() == 1) return ": did you mean `" + begun.front() + "`?";
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& known : option->get_snames()) {
      if (name.size() == 2 && (name[1] ^ 0x20) == known[0]) return ": did you mean `-" + known + "`?";
    }
  }
  std::vector<std::string> others;
  for (const CLI::App* other : app.get_subcommands(nullptr)) {
    if (other->get_option_no_throw(std::string(name)) != nullptr) others.push_back("`" + other->get_name() + "`");
  }
  return others.empty() ? "" : "; " + join(others, ", ") + (others.size() == 1 ? " has it" : " have it");
}

std::vector<std::string_view> command_names(const CLI::App& app) {
  std::vector<std::string_view> names;
  for (const CLI::App* command : app.get_subcommands(nullptr)) names.push_back(command->get_name());
  return names;
}

}  // namespace

std::string unknown_command(const CLI::App& app, int argc, const char* const* argv) {
  const std::vector<std::string_view> names = command_names(app);
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word.starts_with('-')) {
      const CLI::Option* option = app.get_option_no_throw(std::string(word));
      i += option != nullptr && option->get_items_expected_max() > 0;
      continue;
    }
    if (std::ranges::find(names, word) != names.end()) return "";
    const std::string_view nearest =
        word == "help" || word == "version" ? std::string_view{} : nearest_name(word, names);
    const std::string hint = word == "help" || word == "version" ? ": did you mean `--" + std::string(word) + "`?"
                             : nearest.empty()                   ? ""
                                                                 : ": did you mean `" + std::string(nearest) + "`?";
    return "there is no command `" + escape_for_terminal(word) + "`" + hint + "\nRun `" + app.get_name() +
           " --help` for usage.";
  }
  return "";
}

std::string unknown_option(const CLI::App& app, int argc, const char* const* argv) {
  const CLI::App* command = nullptr;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--") return "";
    if (!word.starts_with("-") || word == "-") {
      const auto named = [word](const CLI::App* of) { return of->get_name() == word; };
      const std::vector<const CLI::App*> all = app.get_subcommands(nullptr);
      const auto found = std::find_if(all.begin(), all.end(), named);
      if (command == nullptr && found != all.end()) command = *found;
      continue;
    }
    const std::string name(word.substr(0, word.find('=')));
    // One-letter flags can be combined, and a negative number is no option.
    const bool is_short = !word.starts_with("--");
    if (is_short && (word.size() != 2 || (word[1] >= '0' && word[1] <= '9'))) continue;
    const CLI::Option* option = command == nullptr ? nullptr : command->get_option_no_throw(name);
    if (option == nullptr) option = app.get_option_no_throw(name);
    if (option != nullptr) {
      i += option->get_items_expected_max() > 0 && name.size() == word.size();
      continue;
    }
    if (command == nullptr) return "";
    return "there is no option `" + escape_for_terminal(name) + "`" + option_hint(app, *command, name) + "\nRun `" +
           app.get_name() + " " + command->get_name() + " --help` for usage.";
  }
  return "";
}

CommandDescription describe_app(const CLI::App& app) {
  CommandDescription out{.name = app.get_name(), .help = app.get_description(), .options = {}, .commands = {}};
  for (const CLI::Option* option : app.get_options()) out.options.push_back(describe_option(*option));
  for (const CLI::App* command : app.get_subcommands(nullptr)) out.commands.push_back(describe_app(*command));
  return out;
}

}  // namespace tpplan
