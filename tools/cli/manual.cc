#include <spdlog/fmt/fmt.h>

#include "base/text.h"
#include "describe_app.h"

namespace tpplan {
namespace {

// Escapes backslashes, leading dots and quotes, and hyphens, which roff interprets.
std::string roff(const std::string& text) {
  std::string out = text.starts_with('.') || text.starts_with('\'') ? "\\&" : "";
  for (const char c : text) out += c == '\\' ? std::string("\\e") : c == '-' ? std::string("\\-") : std::string(1, c);
  return out;
}

std::string option_entry(const OptionDescription& option) {
  std::string names;
  for (const std::string& name : option.names)
    names += (names.empty() ? "" : ", ") + fmt::format("\\fB{}\\fR", roff(name));
  if (option.takes_value && !option.is_positional)
    names += fmt::format(" \\fI{}\\fR", roff(option.value.empty() ? "VALUE" : option.value));
  std::string text = roff(option.help);
  if (!option.choices.empty()) text += fmt::format(" ({})", roff(fmt::format("{}", fmt::join(option.choices, ", "))));
  if (!option.variable.empty()) text += fmt::format(". Variable: \\fB{}\\fR", roff(option.variable));
  return fmt::format(".TP\n{}\n{}\n", names, text);
}

std::string synopsis(const CommandDescription& program, const CommandDescription& command) {
  std::string line = fmt::format(".B {} {}\n[\\fIoptions\\fR]", roff(program.name), roff(command.name));
  for (const OptionDescription& option : command.options) {
    if (option.is_positional) line += fmt::format(" \\fI{}\\fR", roff(option.names[0]));
  }
  return line + "\n.br\n";
}

std::string upper(std::string text) {
  for (char& c : text) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return text;
}

// Returns the description for apropos: one line without capital and full stop.
std::string summary(const CommandDescription& program) {
  std::string text = program.help;
  if (!text.empty() && text.back() == '.') text.pop_back();
  if (!text.empty() && text[0] >= 'A' && text[0] <= 'Z') text[0] = static_cast<char>(text[0] - 'A' + 'a');
  return text;
}

}  // namespace

std::string manual_page(const CommandDescription& program, const std::string& version, const std::string& footer,
                        const std::string& files) {
  std::string out = fmt::format(".TH {} 1 \"\" \"{}\" \"User Commands\"\n.SH NAME\n{} \\- {}\n.SH SYNOPSIS\n",
                                roff(upper(program.name)), roff(version), roff(program.name), roff(summary(program)));
  for (const CommandDescription& command : program.commands) out += synopsis(program, command);
  out += fmt::format(".SH DESCRIPTION\n{}\n.SH OPTIONS\n", roff(program.help));
  for (const OptionDescription& option : program.options) out += option_entry(option);
  for (const CommandDescription& command : program.commands) {
    out += fmt::format(".SH \"{} {}\"\n{}\n", roff(program.name), roff(command.name), roff(command.help));
    for (const OptionDescription& option : command.options) out += option_entry(option);
  }
  out += ".SH EXIT STATUS\n";
  for (const std::string_view line : split(footer, '\n')) out += roff(std::string(line)) + "\n";
  return files.empty() ? out : out + ".SH FILES\n" + files;
}

}  // namespace tpplan
