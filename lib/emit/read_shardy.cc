#include <spdlog/fmt/fmt.h>

#include <optional>
#include <utility>
#include <vector>

#include "base/keyed_hash.h"
#include "base/text.h"
#include "emit/read_specs.h"

namespace tpplan {
namespace {

// A token of an MLIR text: a word, a string or a punctuation mark. White space and comments are skipped.
struct Token {
  std::string_view text;  // as written; a string with its quotes; empty at the end
  size_t offset = 0;
};

struct ShardyReader {
  const SourceFile& file;
  SpecsFile& specs;
  Diagnostics& diagnostics;
  size_t at = 0;
  bool has_mesh = false;
  std::string mesh_name;
  bool in_main = false;                    // inside @main, whose arguments JAX names in `loc`
  std::optional<PartitionSpec> unnamed{};  // sharding of the last argument of @main, if it has no tpplan.path
  std::vector<std::pair<std::string, PartitionSpec>> by_location{};  // `#loc1` and a spec; its name can follow
  TextMap<std::string, std::string> locations{};                     // names of locations
};

constexpr std::string_view kMarks = "{}<>[](),=:?";
constexpr std::string_view kWordEnds = "{}<>[](),=:? \t\r\n\"";

void skip_blank(ShardyReader& in) {
  const std::string_view text = in.file.text;
  for (;;) {
    in.at = std::min(text.find_first_not_of(" \t\r\n", in.at), text.size());
    if (text.substr(in.at, 2) != "//") return;
    in.at = std::min(text.find('\n', in.at), text.size());
  }
}

Token next_token(ShardyReader& in) {
  skip_blank(in);
  const std::string_view text = in.file.text;
  const size_t begin = in.at;
  if (begin == text.size()) return {{}, begin};
  size_t end = begin + 1;
  if (text[begin] == '"') {
    while (end < text.size() && text[end] != '"') end += text[end] == '\\' ? 2 : 1;
    end = std::min(end + 1, text.size());
  } else if (kMarks.find(text[begin]) == std::string_view::npos) {
    end = std::min(text.find_first_of(kWordEnds, end), text.size());
  }
  in.at = end;
  return {text.substr(begin, end - begin), begin};
}

Token peek_token(ShardyReader& in) {
  const size_t at = in.at;
  const Token token = next_token(in);
  in.at = at;
  return token;
}

bool fault(ShardyReader& in, const Token& token, std::string message, std::string help = {}) {
  const auto length = static_cast<uint32_t>(std::max<size_t>(1, token.text.size()));
  return report_specs_error(in.diagnostics, {in.file.id, token.offset, length}, std::move(message), std::move(help));
}

bool take(ShardyReader& in, std::string_view mark) {
  if (peek_token(in).text != mark) return false;
  next_token(in);
  return true;
}

bool expect(ShardyReader& in, std::string_view mark) {
  const Token token = next_token(in);
  return token.text == mark || fault(in, token, fmt::format("expected `{}`, found `{}`", mark, token.text));
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Reads a string with the escapes \n, \t, \\, \" and two hexadecimal digits.
bool read_string(ShardyReader& in, std::string& out) {
  const Token token = next_token(in);
  const std::string_view text = token.text;
  if (text.size() < 2 || text.front() != '"' || text.back() != '"')
    return fault(in, token, fmt::format("expected a string, found `{}`", text));
  out.clear();
  for (size_t i = 1; i + 1 < text.size(); ++i) {
    if (text[i] != '\\') {
      out += text[i];
      continue;
    }
    const char next = text[++i];
    const int high = hex_digit(next), low = i + 2 < text.size() ? hex_digit(text[i + 1]) : -1;
    if (next == 'n' || next == 't')
      out += next == 'n' ? '\n' : '\t';
    else if (next == '\\' || next == '"')
      out += next;
    else if (high >= 0 && low >= 0)
      out += static_cast<char>(high * 16 + low), ++i;
    else
      return fault(in, token, "the string has an unknown escape");
  }
  return find_invalid_utf8(out) == std::string_view::npos || fault(in, token, "the string is not UTF-8");
}

// sdy.mesh @mesh = <["fsdp"=2, "tp"=4]>
bool read_mesh(ShardyReader& in) {
  const Token name = next_token(in);
  if (in.has_mesh) return fault(in, name, "the module has two meshes", "write one file of specs for each mesh");
  in.has_mesh = true;
  in.mesh_name = name.text;
  if (!expect(in, "=") || !expect(in, "<") || !expect(in, "[")) return false;
  while (!take(in, "]")) {
    std::string axis;
    if (!read_string(in, axis) || !expect(in, "=")) return false;
    const Token size = next_token(in);
    int64_t value = 0;
    if (!parse_decimal(size.text, value)) return fault(in, size, fmt::format("`{}` is not an axis size", size.text));
    if (!add_axis(in.specs.mesh, axis, value, {in.file.id, size.offset, 1}, in.diagnostics)) return false;
    if (peek_token(in).text != "]" && !expect(in, ",")) return false;
  }
  const Token end = next_token(in);
  return end.text == ">" ||
         fault(in, end, "the mesh has device ids", "remove them: ranks are numbered row-major over the mesh");
}

// Reads {"tp", "fsdp"}: full axes of a closed dim.
bool read_dim(ShardyReader& in, PartitionSpec& spec) {
  if (!expect(in, "{")) return false;
  spec.emplace_back();
  while (!take(in, "}")) {
    const Token token = peek_token(in);
    std::string axis;
    if (token.text == "?") return fault(in, token, "the dim is open (`?`), so propagation could change its sharding");
    if (!read_string(in, axis) ||
        !add_spec_axis(in.specs.mesh, axis, spec, {in.file.id, token.offset, 1}, in.diagnostics))
      return false;
    const Token after = peek_token(in);
    if (after.text == ":")
      return fault(in, after, fmt::format("parts of axis `{}` are not supported: only full axes are", axis));
    if (after.text != "}" && !expect(in, ",")) return false;
  }
  return true;
}

// Reads <@mesh, [{"tp"}, {}]>. `replicated = {...}` adds nothing to closed dims.
bool read_sharding(ShardyReader& in, PartitionSpec& spec) {
  if (!expect(in, "<")) return false;
  const Token mesh = next_token(in);
  if (!in.has_mesh || mesh.text != in.mesh_name)
    return fault(in, mesh, fmt::format("`{}` is not an earlier mesh of this module", mesh.text));
  if (!expect(in, ",") || !expect(in, "[")) return false;
  while (!take(in, "]")) {
    if (!read_dim(in, spec)) return false;
    const Token after = peek_token(in);
    const bool is_plain = after.text == "," || after.text == "]";
    if (!is_plain) return fault(in, after, fmt::format("`{}` after a dim: priorities are not supported", after.text));
    take(in, ",");
  }
  while (take(in, ",")) {
    const Token word = next_token(in);
    if (word.text != "replicated") return fault(in, word, fmt::format("`{}` is not supported", word.text));
    PartitionSpec axes;
    if (!expect(in, "=") || !read_dim(in, axes)) return false;
  }
  return expect(in, ">");
}

// The attributes of a dictionary so far.
struct Attributes {
  Token path_token;
  std::optional<std::string> path;
  std::optional<PartitionSpec> spec;
};

// Returns the path of a parameter in the name of a JAX argument: `params['up']['kernel']` is up.kernel. The first part
// is the argument of the function. Empty if there are no others: an input.
std::string path_of_argument(std::string_view name) {
  std::string path;
  size_t at = name.find_first_of(".[");
  while (at < name.size()) {
    const bool is_key = name[at] == '[';
    const size_t end = is_key ? name.find(']', at) : name.find_first_of(".[", at + 1);
    std::string_view part = name.substr(at + 1, std::min(end, name.size()) - at - 1);
    if (part.size() > 1 && (part.front() == '\'' || part.front() == '"')) part = part.substr(1, part.size() - 2);
    at = end == std::string_view::npos ? name.size() : is_key ? end + 1 : end;
    if (part == "value" && at == name.size() && !is_key) break;  // of nnx.Variable
    if (!path.empty()) path += '.';
    path += part;
  }
  return path;
}

void add_argument(ShardyReader& in, std::string_view name, const PartitionSpec& spec) {
  std::string path = path_of_argument(name);
  if (!path.empty()) in.specs.specs.push_back({std::move(path), spec});
}

// Reads `loc("params['up']['kernel']")` or `loc(#loc3)` after an argument of @main.
bool read_location(ShardyReader& in) {
  const std::optional<PartitionSpec> spec = std::exchange(in.unnamed, std::nullopt);
  if (!spec || !take(in, "(")) return true;
  const Token token = peek_token(in);
  if (token.text.starts_with('#')) {
    in.by_location.emplace_back(std::string(token.text), *spec);
    return true;
  }
  std::string name;
  if (!token.text.starts_with('"')) return true;
  if (!read_string(in, name)) return false;
  add_argument(in, name, *spec);
  return true;
}

// Reads the name in `#loc3 = loc("params['up']['kernel']")`, if there is one.
bool read_location_name(ShardyReader& in, const Token& location) {
  if (!take(in, "=") || !take(in, "loc") || !take(in, "(") || !peek_token(in).text.starts_with('"')) return true;
  return read_string(in, in.locations[std::string(location.text)]);
}

bool close_attributes(ShardyReader& in, Attributes& attributes) {
  if (!attributes.path) {
    if (in.in_main) in.unnamed = std::move(attributes.spec);
    return true;
  }
  if (!attributes.spec)
    return fault(in, attributes.path_token, fmt::format("parameter `{}` has no sdy.sharding", *attributes.path));
  in.specs.specs.push_back({std::move(*attributes.path), std::move(*attributes.spec)});
  return true;
}

// Reads the module's attribute `tpplan.uneven = "torch"`.
bool read_uneven(ShardyReader& in) {
  std::string value;
  if (!expect(in, "=")) return false;
  const Token word = peek_token(in);
  if (!read_string(in, value)) return false;
  return find_uneven_policy(value, in.specs.uneven) ||
         fault(in, word,
               fmt::format("tpplan.uneven is `{}`, but must be one of {}", value, fmt::join(kUnevenPolicyNames, ", ")));
}

// Treats everything in braces, even function bodies, as a dictionary of attributes and ignores those without
// tpplan.path, so that the rest of the module need not be parsed.
bool read_token(ShardyReader& in, const Token& token, std::vector<Attributes>& open) {
  if (token.text == "{") {
    open.emplace_back();
    return true;
  }
  if (token.text == "}") {
    const bool good = open.empty() || close_attributes(in, open.back());
    if (!open.empty()) open.pop_back();
    return good;
  }
  if (token.text == "loc") return read_location(in);
  in.unnamed.reset();
  if (token.text.starts_with("#loc")) return read_location_name(in, token);
  if (token.text == "func.func") in.in_main = false;
  if (token.text == "@main") in.in_main = true;
  if (token.text == "sdy.mesh") return read_mesh(in);
  if (token.text == "tpplan.uneven") return read_uneven(in);
  if (open.empty()) return true;
  if (token.text == "tpplan.path") {
    open.back().path_token = token;
    return expect(in, "=") && read_string(in, open.back().path.emplace());
  }
  if (token.text != "#sdy.sharding") return true;
  open.back().spec.emplace();
  return read_sharding(in, *open.back().spec);
}

}  // namespace

bool read_shardy_specs(const SourceFile& file, SpecsFile& specs, Diagnostics& diagnostics) {
  ShardyReader in{.file = file, .specs = specs, .diagnostics = diagnostics, .mesh_name = {}};
  std::vector<Attributes> open;
  for (Token token = next_token(in); !token.text.empty(); token = next_token(in)) {
    if (!read_token(in, token, open)) return false;
  }
  for (const auto& [location, spec] : in.by_location) add_argument(in, in.locations[location], spec);
  if (in.has_mesh && specs.specs.empty())
    return report_specs_error(diagnostics, {file.id, 0, 1}, "the module names no parameters",
                              "write it with the names of arguments, `jax.jit(f).lower(...).as_text(debug_info=True)`, "
                              "or with `tpplan export --to shardy`");
  return in.has_mesh || report_specs_error(diagnostics, {file.id, 0, 1}, "the file has no `sdy.mesh`");
}

}  // namespace tpplan
