#include "line_errors.h"

#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iterator>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "describe_app.h"

namespace tpplan {
namespace {

// Returns the form of a command line, such as "tpplan check MODEL PLAN".
std::string form_of(const CLI::App& app, const CLI::App& command) {
  std::string form = app.get_name();
  if (&command == &app) return form + " COMMAND";
  form += " " + command.get_name();
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_positional()) form += " " + option->get_name();
  }
  return form;
}

// Words of other tools for a choice.
struct ForeignWord {
  std::string_view option, word, choice;
};
constexpr ForeignWord kForeignWords[] = {
    {"--color", "yes", "always"},         {"--color", "true", "always"},
    {"--color", "on", "always"},          {"--color", "no", "never"},
    {"--color", "false", "never"},        {"--color", "off", "never"},
    {"--from", "hf", "config"},           {"--from", "huggingface", "config"},
    {"--from", "transformers", "config"}, {"--from", "pytorch", "torch"},
    {"--dialect", "hf", "transformers"},  {"--dialect", "huggingface", "transformers"},
    {"--dialect", "pytorch", "torch"},    {"--mode", "inference", "infer"},
    {"--mode", "eval", "infer"},
};

// Returns the choice that is near to a word: a typo, a prefix, or a longer word.
std::string_view meant_choice(std::string_view option, std::string_view word,
                              const std::vector<std::string_view>& choices) {
  const auto has = [&](std::string_view choice) { return std::ranges::find(choices, choice) != choices.end(); };
  for (const ForeignWord& row : kForeignWords) {
    if (row.option == option && row.word == word && has(row.choice)) return row.choice;
  }
  if (const std::string_view nearest = nearest_name(word, choices); !nearest.empty()) return nearest;
  constexpr size_t kTelling = 3;
  const auto begins = [&](std::string_view choice) {
    return std::min(word.size(), choice.size()) >= kTelling && (choice.starts_with(word) || word.starts_with(choice));
  };
  const auto found = std::ranges::find_if(choices, begins);
  return found == choices.end() ? std::string_view{} : *found;
}

// Adds the nearest choice to CLI11's "--format: jsn not in {human,json}"; other texts are unchanged.
std::string value_error(const std::string& text) {
  constexpr std::string_view kNotIn = " not in {";
  const size_t colon = text.find(": "), not_in = text.find(kNotIn);
  if (colon == std::string::npos || not_in == std::string::npos || not_in < colon || !text.ends_with('}')) return text;
  const std::string_view message = text;
  const std::string_view option = message.substr(0, colon), word = message.substr(colon + 2, not_in - colon - 2);
  std::vector<std::string_view> choices;
  const size_t first = not_in + kNotIn.size();
  for (const std::string_view choice : split(message.substr(first, message.size() - first - 1), ','))
    choices.push_back(choice);
  const std::string_view meant = meant_choice(option, word, choices);
  return fmt::format("{}: `{}` is not one of {}{}", option, word, fmt::join(choices, ", "),
                     meant.empty() ? "" : fmt::format(": did you mean `{}`?", meant));
}

// Returns a hint for an unexpected argument; empty if there is none.
std::string meant_argument(const CLI::App& command, std::string_view word) {
  const auto has = [&](const std::string& option) { return command.get_option_no_throw(option) != nullptr; };
  const size_t equals = word.find('=');
  const bool is_axis = equals != std::string_view::npos && equals > 0 && word[0] != '-' &&
                       word.find_first_not_of("0123456789", equals + 1) == std::string_view::npos;
  if (is_axis && has("--mesh")) return fmt::format("did you mean `--mesh {}`?", word);
  const std::string doubled = "-" + std::string(word.substr(0, equals));
  if (word.size() > 2 && word[0] == '-' && word[1] != '-' && has(doubled))
    return fmt::format("did you mean `{}`?", doubled);
  if (word.size() > 2 && word.starts_with("TP") && has("--deny")) return "repeat `--deny` for each code";
  return {};
}

// Rewrites CLI11's "The following arguments were not expected: b a", which has the last word first.
std::string rest_error(const CLI::App& app, const CLI::App& command, const std::string& text) {
  const size_t colon = text.find(": ");
  if (colon == std::string::npos) return text;
  std::vector<std::string_view> rest = split(std::string_view(text).substr(colon + 2), ' ');
  std::ranges::reverse(rest);
  std::string meant;
  for (const std::string_view word : rest) {
    if (meant.empty()) meant = meant_argument(command, word);
  }
  return fmt::format("`{}` {} too many for `{}`{}", fmt::join(rest, " "), rest.size() == 1 ? "is" : "are",
                     form_of(app, command), meant.empty() ? "" : "; " + meant);
}

// Rewrites CLI11's "Could not convert: --rank = tp=3".
std::string conversion_error(const std::string& text) {
  constexpr std::string_view kStart = "Could not convert: ", kEquals = " = ";
  const size_t equals = text.find(kEquals);
  if (!text.starts_with(kStart) || equals == std::string::npos) return text;
  return fmt::format("{} expects a number, not `{}`", text.substr(kStart.size(), equals - kStart.size()),
                     text.substr(equals + kEquals.size()));
}

}  // namespace

std::string describe_parse_error(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<CLI::App*> commands = app.get_subcommands();
  const CLI::App& command = commands.empty() ? app : *commands.front();
  std::string text = error.what();
  const std::string kind = error.get_name();
  if (text.starts_with("The following argument")) {
    text = rest_error(app, command, text);
  } else if (kind == "ConversionError") {
    text = conversion_error(text);
  } else if (kind == "RequiredError" && &command != &app) {
    text += fmt::format(": `{}`", form_of(app, command));
  } else {
    text = value_error(text);
  }
  return fmt::format("{}: error: {}\nRun `{}{} --help` for usage.\n", app.get_name(), escape_for_terminal(text),
                     app.get_name(), &command == &app ? "" : " " + command.get_name());
}

}  // namespace tpplan
