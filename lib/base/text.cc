#include "base/text.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace tpplan {

size_t edit_distance(std::string_view a, std::string_view b, size_t limit) {
  if (a.size() > b.size()) std::swap(a, b);
  if (b.size() - a.size() > limit) return limit + 1;
  std::vector<size_t> before_last(b.size() + 1), last(b.size() + 1), current(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    current[0] = i;
    size_t best = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = last[j - 1] + (a[i - 1] != b[j - 1]);
      current[j] = std::min({last[j] + 1, current[j - 1] + 1, substituted});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) current[j] = std::min(current[j], before_last[j - 2] + 1);
      best = std::min(best, current[j]);
    }
    if (best > limit) return limit + 1;
    std::swap(before_last, last);
    std::swap(last, current);
  }
  return std::min(last[b.size()], limit + 1);
}

namespace {

bool is_same_but_for_case(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return std::ranges::equal(a, b, [&](char x, char y) { return lower(x) == lower(y); });
}

}  // namespace

std::string_view nearest_name(std::string_view name, std::span<const std::string_view> candidates, uint64_t& budget) {
  size_t best = std::max<size_t>(1, name.size() / 3) + 1;
  std::string_view nearest;
  for (std::string_view candidate : candidates) {
    if (is_same_but_for_case(name, candidate)) return candidate;
    const size_t longer = std::max(name.size(), candidate.size()), shorter = std::min(name.size(), candidate.size());
    if (longer - shorter >= best) continue;
    if (budget < longer || budget / longer < shorter) {
      budget = 0;
      return {};
    }
    budget -= longer * shorter;
    const size_t distance = edit_distance(name, candidate, best - 1);
    if (distance < best) {
      best = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

std::string_view nearest_name(std::string_view name, std::span<const std::string_view> candidates) {
  uint64_t budget = UINT64_MAX;
  return nearest_name(name, candidates, budget);
}

std::string human_seconds(double seconds) {
  if (seconds >= 1) return fmt::format("{:.2f} s", seconds);
  if (seconds >= 1e-3) return fmt::format("{:.1f} ms", seconds * 1e3);
  return fmt::format("{:.1f} us", seconds * 1e6);
}

bool is_word_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

bool is_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::string human_bytes(uint64_t bytes) {
  static constexpr std::string_view units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(units)) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.{}f} {}", value, value < 10 ? 2 : 1, units[unit]);
}

std::string human_bytes_near(double bytes) {
  return human_bytes(static_cast<uint64_t>(std::llround(std::min(bytes, 1e18))));
}

namespace {

struct CodePoints {
  char32_t first, last;
};

// Characters that move the cursor (C1), are invisible, are blanks other than the space, or reorder the text around them
// ("Trojan Source"): Default_Ignorable_Code_Point, Bidi_Control and the blanks of Unicode 15.0, and interlinear
// annotation marks.
constexpr CodePoints kUnseen[] = {
    {0x80, 0xa0},       {0xad, 0xad},       {0x34f, 0x34f},    {0x61c, 0x61c},   {0x115f, 0x1160}, {0x1680, 0x1680},
    {0x17b4, 0x17b5},   {0x180b, 0x180f},   {0x2000, 0x200f},  {0x2028, 0x202f}, {0x205f, 0x206f}, {0x2800, 0x2800},
    {0x3000, 0x3000},   {0x3164, 0x3164},   {0xfe00, 0xfe0f},  {0xfeff, 0xfeff}, {0xffa0, 0xffa0}, {0xfff0, 0xfffb},
    {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff}};

// Returns the code of paint() at the beginning of `text`; empty if there is none.
std::string_view paint_code(std::string_view text) {
  for (const std::string_view code : {kReset, kBold, kRed, kYellow, kBlue, kGreen, kMagenta, kCyan}) {
    if (text.starts_with(code)) return code;
  }
  return {};
}

void append_line(std::string& out, std::string_view line, EscapeOptions look) {
  const size_t start = std::min(line.find_first_not_of(look.is_patch ? " \t" : " "), line.size());
  if (line.substr(start).starts_with("::")) {
    out.append(line, 0, start).append("\\x3a");
    line.remove_prefix(start + 1);
  }
  while (!line.empty()) {
    const size_t next = std::min(line.find_first_of("#\x1b\t"), line.size());
    out += escape_for_terminal(line.substr(0, next));
    line.remove_prefix(next);
    const std::string_view code = look.color ? paint_code(line) : "";
    if (line.starts_with("##["))
      out += "\\x23";
    else if (look.is_patch && line.starts_with('\t'))
      out += '\t';
    else
      out += code.empty() ? escape_for_terminal(line.substr(0, 1)) : code;
    line.remove_prefix(std::min(std::max<size_t>(code.size(), 1), line.size()));
  }
}

}  // namespace

bool is_invisible(char32_t point) {
  return std::any_of(std::begin(kUnseen), std::end(kUnseen),
                     [point](const CodePoints& r) { return point >= r.first && point <= r.last; });
}

size_t count_code_points(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

char32_t code_point(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  char32_t point = character.size() == 1 ? first : first & (0x7fu >> character.size());
  for (const char c : character.substr(1)) point = point << 6 | (static_cast<unsigned char>(c) & 0x3fu);
  return point;
}

std::string paint(std::string_view text, std::string_view code, bool enabled) {
  return enabled ? fmt::format("{}{}{}", code, text, kReset) : std::string(text);
}

std::string escape_lines(std::string_view text, EscapeOptions look) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const bool returns = look.is_patch && end != std::string_view::npos && end > 0 && text[end - 1] == '\r';
    append_line(out, text.substr(0, returns ? end - 1 : end), look);
    if (end == std::string_view::npos) break;
    out += returns ? "\r\n" : "\n";
    text.remove_prefix(end + 1);
  }
  return out;
}

std::string escape_for_terminal(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  const auto is_plain = [](char c) { return c >= 0x20 && c < 0x7f; };
  for (size_t i = 0; i < text.size();) {
    const size_t plain = i;
    while (i < text.size() && is_plain(text[i])) ++i;
    out.append(text, plain, i - plain);
    if (i == text.size()) break;
    const auto byte = static_cast<unsigned char>(text[i]);
    const size_t length = utf8_length(text.substr(i, 4));
    if (byte == '\n') {
      out += "\\n";
    } else if (byte == '\t') {
      out += "\\t";
    } else if (length == 0 || byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else if (const char32_t point = code_point(text.substr(i, length)); byte >= 0x80 && is_invisible(point)) {
      const auto number = static_cast<uint32_t>(point);
      out += number > 0xffff ? fmt::format("\\U{:08x}", number)
             : number < 0xa0 ? fmt::format("\\x{:02x}", number)  // C1 controls
                             : fmt::format("\\u{:04x}", number);
    } else {
      out.append(text, i, length);
    }
    i += std::max<size_t>(length, 1);
  }
  return out;
}

void shorten(std::string& text, size_t shown) {
  if (text.size() <= shown / 6) return;  // an escaped byte takes at most six
  // From either end, as much as fits into half of the limit.
  const auto taken = [shown](std::string_view part, bool from_end) {
    size_t cost = 0, bytes = 0;
    while (bytes < part.size()) {
      size_t from = bytes;
      if (from_end) {
        from = part.size() - bytes - 1;
        while (from > 0 && part.size() - bytes - from < 4 && (static_cast<unsigned char>(part[from]) & 0xc0) == 0x80)
          --from;
      }
      const size_t length =
          from_end ? part.size() - bytes - from : std::max<size_t>(1, utf8_length(part.substr(from, 4)));
      cost += escape_for_terminal(part.substr(from, length)).size();
      if (cost > shown / 2) break;
      bytes += length;
    }
    return bytes;
  };
  const size_t head = taken(text, false);
  if (head == text.size()) return;
  const size_t tail = taken(std::string_view(text).substr(head), true);
  if (head + tail == text.size()) return;
  text.replace(head, text.size() - head - tail, " [...] ");
}

size_t utf8_length(std::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const unsigned first = byte(0), second = byte(1);
  size_t length = 0;
  if (first < 0x80) {
    length = 1;
  } else if (first >= 0xc2 && first <= 0xdf) {
    length = 2;
  } else if (first >= 0xe0 && first <= 0xef) {
    const bool overlong = first == 0xe0 && second < 0xa0, surrogate = first == 0xed && second > 0x9f;
    length = overlong || surrogate ? 0 : 3;
  } else if (first >= 0xf0 && first <= 0xf4) {
    const bool overlong = first == 0xf0 && second < 0x90, too_large = first == 0xf4 && second > 0x8f;
    length = overlong || too_large ? 0 : 4;
  }
  for (size_t k = 1; k < length; ++k) {
    if ((byte(k) & 0xc0u) != 0x80u) return 0;
  }
  return length;
}

size_t find_invalid_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const size_t length = utf8_length(text.substr(i, 4));
    if (length == 0) return i;
    i += length;
  }
  return std::string_view::npos;
}

std::string join(std::span<const std::string> parts, std::string_view separator) {
  return fmt::format("{}", fmt::join(parts, separator));
}

std::string counted(uint64_t count, std::string_view noun) {
  const bool y = noun.ends_with('y') && !noun.ends_with("ey");
  if (count == 1) return fmt::format("1 {}", noun);
  return y ? fmt::format("{} {}ies", count, noun.substr(0, noun.size() - 1)) : fmt::format("{} {}s", count, noun);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0;;) {
    const size_t end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos) return parts;
    begin = end + 1;
  }
}

bool parse_decimal(std::string_view text, int64_t& value) {
  if (text.empty() || (text.size() > 1 && text[0] == '0') || text[0] < '0' || text[0] > '9') return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace tpplan
