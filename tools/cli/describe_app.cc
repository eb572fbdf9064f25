#include "describe_app.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/text.h"

namespace tpplan {
namespace {

// The names in "{a,b,c}", which CLI::IsMember appends to the type name.
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
    const std::string_view nearest = nearest_name(word, names);
    const std::string hint = nearest.empty() ? "" : ": did you mean `" + std::string(nearest) + "`?";
    return "there is no command `" + escape_for_terminal(word) + "`" + hint + "\nRun `" + app.get_name() +
           " --help` for what there is.";
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
