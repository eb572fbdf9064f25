#include "plan/write_plan_syntax.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "plan/place_comments.h"
#include "plan/read_plan.h"

namespace tpplan {
namespace {

// The place of a value, which determines its form.
enum class PlanPlace : uint8_t { Plan, Blocks, Rules, Rule, Other };

PlanPlace place_inside(PlanPlace place, std::string_view name) {
  switch (place) {
    case PlanPlace::Plan:
      return name == "tp_plan" ? PlanPlace::Rules : name == "blocks" ? PlanPlace::Blocks : PlanPlace::Other;
    case PlanPlace::Blocks:
      return PlanPlace::Rules;
    case PlanPlace::Rules:
      return PlanPlace::Rule;
    case PlanPlace::Rule:
    case PlanPlace::Other:
      break;
  }
  return PlanPlace::Other;
}

size_t width_of(std::string_view text) {
  const auto begins = [](char c) { return (static_cast<unsigned char>(c) & 0xc0u) != 0x80u; };
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), begins));
}

bool has_comment(const std::vector<std::string>& lines) {
  return std::any_of(lines.begin(), lines.end(), [](const std::string& line) { return !line.empty(); });
}

// True for unquoted text that is not valid inside brackets.
bool needs_block(const std::string& raw) {
  return raw[0] != '"' && raw[0] != '\'' && raw.find_first_of(",[]{}") != std::string::npos;
}

// True for keys that need `?`: without it YAML requires the colon within 1024 bytes.
bool is_long_key(const PlanEntry& entry) { return entry.key.size() > 1000; }

// Appends the value on one line. Returns false if it has comments, needs a block, or is far too long.
bool append_line(std::string& out, const PlanNode& piece) {
  if (!piece.properties.empty()) out += piece.properties + " ";
  if (piece.kind == SyntaxKind::Scalar) {
    out += piece.raw.empty() ? "null" : piece.raw;
    return !needs_block(piece.raw);
  }
  out += piece.kind == SyntaxKind::Map ? '{' : '[';
  for (const PlanEntry& entry : piece.entries) {
    if (&entry != piece.entries.data()) out += ", ";
    if (!entry.key.empty()) out += entry.key + ": ";
    if (!entry.trailing.empty() || has_comment(entry.leading) || needs_block(entry.key) || is_long_key(entry))
      return false;
    if (!append_line(out, entry.value) || out.size() > 4 * kPlanWidth) return false;
  }
  out += piece.kind == SyntaxKind::Map ? '}' : ']';
  return !has_comment(piece.footer);
}

void write_lines(std::string& out, const std::vector<std::string>& lines, size_t indent) {
  for (const std::string& line : lines) out += line.empty() ? "\n" : fmt::format("{:{}}{}\n", "", indent, line);
}

// Returns the beginning of an entry's line.
std::string head_of(const PlanEntry& entry, size_t indent) {
  if (is_long_key(entry)) return fmt::format("{:{}}? {}\n{:{}}:", "", indent, entry.key, "", indent);
  return fmt::format("{:{}}{}", "", indent, entry.key.empty() ? "-" : entry.key + ":");
}

std::string_view last_line(std::string_view text) { return text.substr(text.rfind('\n') + 1); }

// Returns the value on one line after `head`; nullopt if it needs one line for each entry.
std::optional<std::string> one_line(const PlanNode& piece, PlanPlace place, std::string_view head) {
  std::string line;
  if (piece.kind == SyntaxKind::Scalar) {
    if (!piece.properties.empty()) line = piece.properties + " ";
    return line + piece.raw;
  }
  const bool empty = piece.entries.empty();
  if (!empty && (place == PlanPlace::Plan || place == PlanPlace::Blocks || place == PlanPlace::Rules))
    return std::nullopt;
  if (!empty && place != PlanPlace::Rule && !piece.is_flow) return std::nullopt;
  if (!append_line(line, piece) || (!empty && width_of(last_line(head)) + 1 + width_of(line) > kPlanWidth))
    return std::nullopt;
  return line;
}

void write_block(std::string& out, const PlanNode& piece, PlanPlace place, size_t indent);

// Writes one entry of a block, from its comments to its last line. `indent`: that of the block. `is_open`: the line
// already has the dash of an enclosing item.
void write_entry(std::string& out, const PlanEntry& entry, PlanPlace place, size_t indent, bool is_open) {
  const bool is_item = entry.key.empty();
  const PlanPlace inside = place_inside(place, entry.name);
  const std::string head = head_of(entry, indent);
  const std::string comment =
      entry.trailing.empty() ? "" : fmt::format("{:{}}{}", "", entry.trailing_space, entry.trailing);
  std::string value = one_line(entry.value, inside, head).value_or("");
  const bool on_one_line = entry.value.kind == SyntaxKind::Scalar || !value.empty();
  if (is_item && value.empty() && on_one_line) value = "null";
  if (!is_open) write_lines(out, entry.leading, indent);
  const std::string_view shown = std::string_view(head).substr(is_open ? indent : 0);
  if (on_one_line) {
    out += fmt::format("{}{}{}{}\n", shown, value.empty() ? "" : " ", value, comment);
    return;
  }
  if (!is_item) {
    out += fmt::format("{}{}{}{}\n", shown, entry.value.properties.empty() ? "" : " ", entry.value.properties, comment);
    write_block(out, entry.value, inside, indent + 2);
    return;
  }
  // An item that is a block begins on the line of its dash; lift_comments has moved comments above the dash.
  const std::vector<PlanEntry>& entries = entry.value.entries;
  out += shown;
  if (entry.value.properties.empty())
    out += ' ';
  else
    out += fmt::format(" {}\n", entry.value.properties);
  for (const PlanEntry& inner : entries) {
    const bool on_the_dash = &inner == entries.data() && entry.value.properties.empty();
    write_entry(out, inner, inside, indent + 2, on_the_dash);
  }
  write_lines(out, entry.value.footer, indent + 2);
}

void write_block(std::string& out, const PlanNode& piece, PlanPlace place, size_t indent) {
  for (const PlanEntry& entry : piece.entries) write_entry(out, entry, place, indent, false);
  write_lines(out, piece.footer, indent);
}

// Moves comments of items that become blocks above the dash.
void lift_comments(PlanNode& piece, PlanPlace place, size_t indent) {
  for (PlanEntry& entry : piece.entries) {
    const bool is_item = entry.key.empty();
    const PlanPlace inside = place_inside(place, entry.name);
    lift_comments(entry.value, inside, indent + 2);
    const std::string head = head_of(entry, indent);
    if (!is_item || entry.value.kind == SyntaxKind::Scalar || one_line(entry.value, inside, head)) continue;
    if (!entry.trailing.empty()) entry.leading.push_back(std::move(entry.trailing));
    entry.trailing.clear();
    std::vector<std::string>& above = entry.value.entries[0].leading;
    for (std::string& line : above) {
      if (!line.empty()) entry.leading.push_back(std::move(line));
    }
    above.clear();
  }
}

}  // namespace

std::string write_plan_syntax(PlanSyntax pieces) {
  std::vector<PlanEntry>& entries = pieces.root.entries;
  const auto by_rank = [](const PlanEntry& a, const PlanEntry& b) {
    return plan_key_rank(a.name) < plan_key_rank(b.name);
  };
  std::stable_sort(entries.begin(), entries.end(), by_rank);
  if (!entries.empty() && (pieces.header.empty() || pieces.header.back().empty()))
    strip_leading_blanks(entries[0].leading);
  lift_comments(pieces.root, PlanPlace::Plan, 0);
  std::string out;
  write_lines(out, pieces.header, 0);
  write_block(out, pieces.root, PlanPlace::Plan, 0);
  return out;
}

}  // namespace tpplan
