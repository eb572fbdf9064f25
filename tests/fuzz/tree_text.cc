#include "tree_text.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace tpplan {
namespace {

using Kind = TreeNode::Kind;

constexpr size_t kMostValues = 20'000;
constexpr size_t kMostLevels = 64;

// The SAX handler of nlohmann. Unlike its own tree it preserves duplicate keys.
struct JsonEvents : nlohmann::json_sax<nlohmann::json> {
  TreeNode root{.kind = Kind::List};
  std::vector<TreeNode*> open{&root};
  std::string next_key;
  size_t values = 0;

  bool add(Kind kind, bool is_text, std::string text) {
    if (++values > kMostValues || open.size() > kMostLevels) return false;
    open.back()->children.push_back({kind, is_text, std::exchange(next_key, {}), std::move(text), {}});
    if (kind != Kind::Scalar) open.push_back(&open.back()->children.back());
    return true;
  }
  bool close() { return open.pop_back(), true; }

  bool null() override { return add(Kind::Scalar, false, "null"); }
  bool boolean(bool value) override { return add(Kind::Scalar, false, value ? "true" : "false"); }
  bool number_integer(number_integer_t value) override { return add(Kind::Scalar, false, std::to_string(value)); }
  bool number_unsigned(number_unsigned_t value) override { return add(Kind::Scalar, false, std::to_string(value)); }
  bool number_float(number_float_t, const string_t& text) override { return add(Kind::Scalar, false, text); }
  bool string(string_t& value) override { return add(Kind::Scalar, true, value); }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override { return add(Kind::Map, false, {}); }
  bool key(string_t& value) override { return next_key = value, true; }
  bool end_object() override { return close(); }
  bool start_array(size_t) override { return add(Kind::List, false, {}); }
  bool end_array() override { return close(); }
  bool parse_error(size_t, const std::string&, const nlohmann::json::exception&) override { return false; }
};

bool add_yaml(const YAML::Node& node, TreeNode& tree, size_t level, size_t& values) {
  if (++values > kMostValues || level > kMostLevels) return false;
  if (node.IsSequence()) {
    tree.kind = Kind::List;
    for (const YAML::Node& item : node)
      if (!add_yaml(item, tree.children.emplace_back(), level + 1, values)) return false;
  } else if (node.IsMap()) {
    tree.kind = Kind::Map;
    for (const auto& member : node) {
      if (!member.first.IsScalar()) return false;
      if (!add_yaml(member.second, tree.children.emplace_back(), level + 1, values)) return false;
      tree.children.back().key = member.first.Scalar();
    }
  } else if (node.IsScalar()) {
    tree.is_text = node.Tag() == "!";  // the scalar is quoted
    tree.text = node.Scalar();
  } else {
    tree.text = "null";
  }
  return true;
}

// Writes invalid UTF-8 unchanged, because readers must handle it.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      constexpr char kDigits[] = "0123456789abcdef";
      out += c < 0x10 ? "\\u000" : "\\u001";
      out += kDigits[c & 15];
    } else {
      out += c;
    }
  }
  return out + '"';
}

bool is_word(const std::string& text) {
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

// Writes JSON, which is also YAML; YAML can have unquoted words, too.
void write_flow(const TreeNode& node, bool is_yaml, const Chance& chance, std::string& out) {
  if (node.kind == Kind::Scalar) {
    out += node.is_text ? quoted(node.text) : node.text;
    return;
  }
  out += node.kind == Kind::Map ? '{' : '[';
  for (const TreeNode& child : node.children) {
    if (&child != node.children.data()) out += chance(64) ? ",\n " : ", ";
    if (node.kind == Kind::Map) out += (is_yaml && is_word(child.key) ? child.key : quoted(child.key)) + ": ";
    write_flow(child, is_yaml, chance, out);
  }
  out += node.kind == Kind::Map ? '}' : ']';
}

void write_block(const TreeNode& node, size_t indent, const Chance& chance, std::string& out) {
  for (const TreeNode& child : node.children) {
    out.append(indent, ' ');
    out += node.kind == Kind::List ? "- " : (is_word(child.key) ? child.key : quoted(child.key)) + ":";
    if (child.kind != Kind::Scalar && !child.children.empty() && node.kind == Kind::Map && !chance(3)) {
      out += chance(16) ? " # of it\n" : "\n";
      write_block(child, indent + 2, chance, out);
      continue;
    }
    if (node.kind == Kind::Map) out += ' ';
    write_flow(child, true, chance, out);
    out += chance(16) ? "  # beside it\n" : "\n";
  }
}

}  // namespace

std::optional<TreeNode> tree_of_json(std::string_view text) {
  JsonEvents events;
  if (!nlohmann::json::sax_parse(text, &events) || events.root.children.size() != 1) return std::nullopt;
  return std::move(events.root.children[0]);
}

std::optional<TreeNode> tree_of_yaml(std::string_view text) {
  try {
    const YAML::Node node = YAML::Load(std::string(text));
    TreeNode tree;
    size_t values = 0;
    if (!node || !add_yaml(node, tree, 0, values)) return std::nullopt;
    return tree;
  } catch (const YAML::Exception&) {
    return std::nullopt;
  }
}

std::string json_of(const TreeNode& tree, const Chance& chance) {
  std::string out;
  write_flow(tree, false, chance, out);
  return out;
}

std::string yaml_of(const TreeNode& tree, const Chance& chance) {
  std::string out;
  if (tree.kind == Kind::Scalar || tree.children.empty() || chance(16))
    write_flow(tree, true, chance, out);
  else
    write_block(tree, 0, chance, out);
  return out + '\n';
}

}  // namespace tpplan
