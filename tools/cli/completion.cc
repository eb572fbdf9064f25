#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "describe_app.h"

namespace tpplan {
namespace {

std::string words(const std::vector<std::string>& list) { return fmt::format("{}", fmt::join(list, " ")); }

std::vector<std::string> flag_names(const CommandDescription& command) {
  std::vector<std::string> names;
  for (const OptionDescription& option : command.options) {
    if (!option.is_positional) names.insert(names.end(), option.names.begin(), option.names.end());
  }
  return names;
}

std::vector<std::string> command_names(const CommandDescription& program) {
  std::vector<std::string> names;
  for (const CommandDescription& command : program.commands) names.push_back(command.name);
  return names;
}

// Quotes a text for a shell.
std::string shell_quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

// The commands with which each shell completes a path.
struct PathKind {
  std::string_view value, bash, zsh, fish;
};

constexpr PathKind kPathKinds[] = {
    {"FILE", "compgen -f", "_files", "-r -F"},
    {"PATH", "compgen -f", "_files", "-r -F"},
    {"DIR", "compgen -d", "_files -/", "-x -a '(__fish_complete_directories)'"},
};

const PathKind* path_kind(const OptionDescription& option) {
  const auto* found = std::ranges::find(kPathKinds, option.value, &PathKind::value);
  return found == std::end(kPathKinds) ? nullptr : found;
}

// Returns `case` arms with the completions of options with a value.
std::string bash_values(const CommandDescription& command) {
  std::string out;
  for (const OptionDescription& option : command.options) {
    if (option.is_positional || !option.takes_value) continue;
    const std::string reply =
        !option.choices.empty()
            ? fmt::format("COMPREPLY=($(compgen -W {} -- \"$word\"))", shell_quoted(words(option.choices)))
        : path_kind(option) != nullptr ? fmt::format("COMPREPLY=($({} -- \"$word\"))", path_kind(option)->bash)
                                       : "COMPREPLY=()";
    out += fmt::format("        {}:{}) {}; return ;;\n", command.name,
                       fmt::join(option.names, fmt::format("|{}:", command.name)), reply);
  }
  return out;
}

std::string bash_script(const CommandDescription& program) {
  std::string values, flags;
  for (const CommandDescription& command : program.commands) {
    values += bash_values(command);
    flags += fmt::format("        {}) flags={} ;;\n", command.name, shell_quoted(words(flag_names(command))));
  }
  return fmt::format(R"(# bash completion for {0}
_{0}() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} command= flags= i
    for ((i = 1; i < COMP_CWORD; i++)); do
        case " {1} " in *" ${{COMP_WORDS[i]}} "*) command=${{COMP_WORDS[i]}}; break ;; esac
    done
    COMPREPLY=()
    if [[ -z $command ]]; then
        COMPREPLY=($(compgen -W {2} -- "$word"))
        return
    fi
    case "$command:$previous" in
{3}    esac
    case "$command" in
{4}    esac
    if [[ $word == -* ]]; then
        COMPREPLY=($(compgen -W "$flags" -- "$word"))
    else
        COMPREPLY=($(compgen -f -- "$word"))
    fi
}}
complete -o filenames -F _{0} {0}
)",
                     program.name, words(command_names(program)),
                     shell_quoted(words(command_names(program)) + " " + words(flag_names(program))), values, flags);
}

// Escapes brackets and colons, which are special in zsh's _arguments.
std::string zsh_text(std::string text) {
  for (const char c : std::string("[]:")) {
    for (size_t at = text.find(c); at != std::string::npos; at = text.find(c, at + 2)) text.insert(at, 1, '\\');
  }
  return text;
}

std::string zsh_option(const OptionDescription& option) {
  std::string out;
  const std::string value = !option.takes_value
                                ? ""
                                : fmt::format(":{}:{}", zsh_text(option.value.empty() ? "value" : option.value),
                                              !option.choices.empty() ? fmt::format("({})", words(option.choices))
                                              : path_kind(option) != nullptr ? path_kind(option)->zsh
                                                                             : " ");
  if (option.is_positional)
    return fmt::format("            {} \\\n", shell_quoted(fmt::format("*:{}:_files", zsh_text(option.help))));
  for (const std::string& name : option.names)
    out +=
        fmt::format("            {} \\\n", shell_quoted(fmt::format("*{}[{}]{}", name, zsh_text(option.help), value)));
  return out;
}

std::string zsh_script(const CommandDescription& program) {
  std::string commands, arms;
  for (const CommandDescription& command : program.commands) {
    commands += fmt::format("        {}\n", shell_quoted(command.name + ":" + zsh_text(command.help)));
    std::string options;
    bool has_positional = false;
    for (const OptionDescription& option : command.options) {
      if (option.is_positional && std::exchange(has_positional, true)) continue;
      options += zsh_option(option);
    }
    arms += fmt::format("        {})\n            _arguments \\\n{}            && return ;;\n", command.name, options);
  }
  return fmt::format(R"(#compdef {0}
_{0}() {{
    local -a commands
    commands=(
{1}    )
    if (( CURRENT == 2 )); then
        _describe command commands
        return
    fi
    local command=$words[2]
    shift words
    (( CURRENT-- ))
    case $command in
{2}    esac
}}
if [[ $funcstack[1] == _{0} ]]; then _{0} "$@"; else compdef _{0} {0}; fi
)",
                     program.name, commands, arms);
}

std::string fish_script(const CommandDescription& program) {
  std::string out = fmt::format("# fish completion for {}\n", program.name);
  const std::string all = words(command_names(program));
  for (const CommandDescription& command : program.commands) {
    out += fmt::format("complete -c {} -f -n 'not __fish_seen_subcommand_from {}' -a {} -d {}\n", program.name, all,
                       command.name, shell_quoted(command.help));
    for (const OptionDescription& option : command.options) {
      if (option.is_positional) continue;
      out += fmt::format("complete -c {} -n '__fish_seen_subcommand_from {}'", program.name, command.name);
      for (const std::string& name : option.names)
        out += name.starts_with("--") ? fmt::format(" -l {}", name.substr(2)) : fmt::format(" -s {}", name.substr(1));
      const PathKind* path = path_kind(option);
      if (option.takes_value)
        out += !option.choices.empty() ? fmt::format(" -x -a {}", shell_quoted(words(option.choices)))
               : path != nullptr       ? fmt::format(" {}", path->fish)
                                       : " -x";
      out += fmt::format(" -d {}\n", shell_quoted(option.help));
    }
  }
  return out;
}

}  // namespace

std::string completion_script(const CommandDescription& program, const std::string& shell) {
  return shell == "bash"   ? bash_script(program)
         : shell == "zsh"  ? zsh_script(program)
         : shell == "fish" ? fish_script(program)
                           : "";
}

}  // namespace tpplan
