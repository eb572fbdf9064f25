#include "mutate_tree.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <random>
#include <utility>

#include "tree_text.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace tpplan {
namespace {

using Kind = TreeNode::Kind;
using Random = std::minstd_rand;

constexpr std::string_view kSeparator = "\n%%\n";

size_t below(Random& random, size_t n) { return n == 0 ? 0 : random() % n; }

// ---- the tree's nodes as lists ----

void list_nodes(TreeNode& node, std::vector<TreeNode*>& all) {
  all.push_back(&node);
  for (TreeNode& child : node.children) list_nodes(child, all);
}

// Returns the names of the document: all keys and texts. A mutation writes references with these names.
std::vector<std::string> names_of(const std::vector<TreeNode*>& nodes) {
  std::vector<std::string> names;
  for (const TreeNode* node : nodes) {
    if (!node->key.empty()) names.push_back(node->key);
    if (node->kind == Kind::Scalar && node->is_text) names.push_back(node->text);
  }
  return names;
}

std::string any_name(Random& random, const std::vector<TreeNode*>& nodes) {
  const std::vector<std::string> names = names_of(nodes);
  return names.empty() ? "tp" : names[below(random, names.size())];
}

// ---- mutations of one node, with access to all other nodes ----

using Mutation = void (*)(TreeNode& node, const std::vector<TreeNode*>& all, Random& random);

void put_number(TreeNode& node, const std::vector<TreeNode*>&, Random& random) {
  constexpr std::string_view kNumbers[] = {"0",
                                           "1",
                                           "2",
                                           "3",
                                           "4",
                                           "7",
                                           "8",
                                           "-1",
                                           "16",
                                           "63",
                                           "64",
                                           "65",
                                           "1023",
                                           "65536",
                                           "65537",
                                           "2147483647",
                                           "2147483648",
                                           "4294967296",
                                           "9007199254740993",
                                           "9223372036854775807",
                                           "9223372036854775808",
                                           "18446744073709551615",
                                           "-9223372036854775808",
                                           "0.5",
                                           "1e3",
                                           "1e999",
                                           "-0"};
  node = {.key = node.key, .text = std::string(kNumbers[below(random, std::size(kNumbers))])};
}

void put_scalar(TreeNode& node, const std::vector<TreeNode*>&, Random& random) {
  constexpr std::string_view kWords[] = {"null", "true", "false", "\"\"", "{}", "[]", "\"*\"", "\"\\u0000\"", "[null]"};
  node = {.key = node.key, .text = std::string(kWords[below(random, std::size(kWords))])};
}

void change_number(TreeNode& node, const std::vector<TreeNode*>& all, Random& random) {
  char* end = nullptr;
  const long long value = std::strtoll(node.text.c_str(), &end, 10);
  if (node.kind != Kind::Scalar || node.is_text || node.text.empty() || *end != '\0')
    return put_number(node, all, random);
  const unsigned long long bits = static_cast<unsigned long long>(value);
  const unsigned long long changed[] = {
      bits + 1, bits - 1, bits * 2, bits / 2, bits * 3, -bits, bits ^ (1ULL << below(random, 64))};
  node.text = std::to_string(static_cast<long long>(changed[below(random, std::size(changed))]));
}

void put_name(TreeNode& node, const std::vector<TreeNode*>& all, Random& random) {
  node = {.is_text = true, .key = node.key, .text = any_name(random, all)};
}

void change_text(TreeNode& node, const std::vector<TreeNode*>& all, Random& random) {
  if (node.kind != Kind::Scalar || !node.is_text) return put_name(node, all, random);
  constexpr std::string_view kPieces[] = {
      "*",  "**",           ".", "..", "?", "[",          "]", "{0,999}", "\\d", "(a|b)", "\xc3\xa9", "\xff", "\x1b[2J",
      "\n", "\xe2\x80\xae", "0", "_",  "/", "::error ::", "$", "^",       "~",   "`",     "-"};
  const std::string_view piece = kPieces[below(random, std::size(kPieces))];
  const size_t at = below(random, node.text.size() + 1);
  switch (below(random, 4)) {
    case 0:
      node.text.insert(at, piece);
      break;
    case 1:
      node.text.erase(at, 1 + below(random, 8));
      break;
    case 2:
      node.text += node.text.substr(0, 4096);
      break;
    default:
      node.text.replace(at, 1, piece);
  }
}

void rename_key(TreeNode& node, const std::vector<TreeNode*>& all, Random& random) {
  if (!node.key.empty()) node.key = any_name(random, all);
}

void put_copy(TreeNode& node, const std::vector<TreeNode*>& all, Random& random) {
  TreeNode copy = *all[below(random, all.size())];
  copy.key = node.key;
  node = std::move(copy);
}

// Replaces a node by one with the same key elsewhere: its value has the right kind, but is rarely correct here.
void put_namesake(TreeNode& node, const std::vector<TreeNode*>& all, Random& random) {
  std::vector<const TreeNode*> same;
  for (const TreeNode* other : all)
    if (other != &node && other->key == node.key) same.push_back(other);
  if (same.empty()) return put_copy(node, all, random);
  TreeNode copy = *same[below(random, same.size())];
  node = std::move(copy);
}

void drop_child(TreeNode& node, const std::vector<TreeNode*>&, Random& random) {
  if (node.children.empty()) return;
  node.children.erase(node.children.begin() + static_cast<ptrdiff_t>(below(random, node.children.size())));
}

void repeat_child(TreeNode& node, const std::vector<TreeNode*>&, Random& random) {
  if (node.children.empty()) return;
  const TreeNode child = node.children[below(random, node.children.size())];
  const size_t times = below(random, 8) == 0 ? 1 + below(random, 60) : 1;
  node.children.insert(node.children.begin() + static_cast<ptrdiff_t>(below(random, node.children.size() + 1)), times,
                       child);
}

void swap_children(TreeNode& node, const std::vector<TreeNode*>&, Random& random) {
  const size_t count = node.children.size();
  if (count < 2) return;
  std::swap(node.children[below(random, count)], node.children[below(random, count)]);
}

void add_child(TreeNode& node, const std::vector<TreeNode*>& all, Random& random) {
  if (node.kind == Kind::Scalar) return;
  TreeNode child = *all[below(random, all.size())];
  if (node.kind == Kind::Map && (child.key.empty() || below(random, 4) == 0)) child.key = any_name(random, all);
  node.children.push_back(std::move(child));
}

void wrap(TreeNode& node, const std::vector<TreeNode*>&, Random& random) {
  TreeNode inner = node;
  node = {.kind = below(random, 2) == 0 ? Kind::List : Kind::Map, .key = inner.key};
  node.children.push_back(std::move(inner));
}

void unwrap(TreeNode& node, const std::vector<TreeNode*>&, Random& random) {
  if (node.children.empty()) return;
  TreeNode child = std::move(node.children[below(random, node.children.size())]);
  child.key = node.key;
  node = std::move(child);
}

void empty(TreeNode& node, const std::vector<TreeNode*>&, Random&) { node.children.clear(); }

constexpr Mutation kMutations[] = {put_number,   put_scalar,    change_number, change_number, put_name,   change_text,
                                   rename_key,   put_copy,      put_namesake,  put_namesake,  drop_child, drop_child,
                                   repeat_child, swap_children, add_child,     wrap,          unwrap,     empty};

// A copied node may contain the changed node, so sizes are bounded only when the text is written.
void mutate_tree(TreeNode& tree, Random& random) {
  for (size_t rounds = 1 + below(random, 4); rounds-- > 0;) {
    std::vector<TreeNode*> all;
    list_nodes(tree, all);
    if (all.size() > 50'000) return;
    kMutations[below(random, std::size(kMutations))](*all[below(random, all.size())], all, random);
  }
}

// ---- forms ----

struct Parts {
  InputForm form = InputForm::Json;  // Json or Yaml
  TreeNode tree;
};

std::optional<Parts> read_document(InputForm form, std::string_view text) {
  if (form != InputForm::Yaml)
    if (std::optional<TreeNode> tree = tree_of_json(text)) return Parts{InputForm::Json, std::move(*tree)};
  if (form != InputForm::Json)
    if (std::optional<TreeNode> tree = tree_of_yaml(text); tree && tree->kind != Kind::Scalar)
      return Parts{InputForm::Yaml, std::move(*tree)};
  return std::nullopt;
}

Chance chance_of(Random& random) {
  return [&random](unsigned n) { return below(random, n) == 0; };
}

std::string write_document(const Parts& parts, Random& random) {
  return parts.form == InputForm::Json ? json_of(parts.tree, chance_of(random))
                                       : yaml_of(parts.tree, chance_of(random));
}

using Change = void (*)(TreeNode& tree, const TreeNode* other, Random& random);

std::optional<std::string> changed_document(InputForm form, std::string_view text, std::string_view other,
                                            Change change, Random& random) {
  std::optional<Parts> parts = read_document(form, text);
  if (!parts) return std::nullopt;
  const std::optional<Parts> others = read_document(form, other);
  change(parts->tree, others ? &others->tree : nullptr, random);
  return write_document(*parts, random);
}

// Returns the end of the data that the header describes, if it is small enough to write.
size_t data_bytes(const TreeNode& header, size_t otherwise) {
  size_t most = 0;
  for (const TreeNode& tensor : header.children)
    for (const TreeNode& member : tensor.children)
      if (member.key == "data_offsets" && !member.children.empty())
        most = std::max<size_t>(most, std::strtoull(member.children.back().text.c_str(), nullptr, 10));
  return most > 4096 ? otherwise : most;
}

// Changes the header, and adjusts the length before it and the data after it, except one time in sixteen.
std::optional<std::string> changed_safetensors(std::string_view text, std::string_view other, Change change,
                                               Random& random) {
  const auto header_of = [](std::string_view file) -> std::string_view {
    uint64_t length = 0;
    if (file.size() < sizeof length) return {};
    std::memcpy(&length, file.data(), sizeof length);
    return length > file.size() - sizeof length ? std::string_view{} : file.substr(sizeof length, length);
  };
  const std::string_view header = header_of(text);
  std::optional<TreeNode> tree = tree_of_json(header);
  if (!tree) return std::nullopt;
  const std::optional<TreeNode> others = tree_of_json(header_of(other));
  change(*tree, others ? &*others : nullptr, random);
  const std::string written = json_of(*tree, chance_of(random));
  const uint64_t length = written.size() + (below(random, 16) == 0 ? below(random, 9) - 4 : 0);
  std::string data(text.substr(8 + header.size()));
  if (below(random, 16) != 0) data.resize(data_bytes(*tree, data.size()));
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + written + data;
}

std::optional<std::string> changed_input(InputForm form, std::string_view text, std::string_view other, Change change,
                                         Random& random) {
  if (form == InputForm::Safetensors) return changed_safetensors(text, other, change, random);
  if (form != InputForm::JsonAndYaml) return changed_document(form, text, other, change, random);
  const auto halves = [](std::string_view both) -> std::pair<std::string_view, std::string_view> {
    const size_t at = both.find(kSeparator);
    if (at == std::string_view::npos) return {};
    return {both.substr(0, at), both.substr(at + kSeparator.size())};
  };
  const auto [model, plan] = halves(text);
  const auto [other_model, other_plan] = halves(other);
  std::string first(model), second(plan);
  const size_t which = below(random, 4);  // the plan, the model, or both
  if (which != 0) {
    const std::optional<std::string> changed = changed_document(InputForm::Yaml, plan, other_plan, change, random);
    if (!changed) return std::nullopt;
    second = *changed;
  }
  if (which < 2) {
    const std::optional<std::string> changed = changed_document(InputForm::Json, model, other_model, change, random);
    if (!changed) return std::nullopt;
    first = *changed;
  }
  return first + std::string(kSeparator) + second;
}

// Replaces a node of one tree by a node of the other: one with the same key, or any.
void cross(TreeNode& tree, const TreeNode* other, Random& random) {
  if (other == nullptr) return;
  TreeNode copy = *other;
  std::vector<TreeNode*> given, own, same;
  list_nodes(copy, given);
  list_nodes(tree, own);
  const TreeNode& gift = *given[below(random, given.size())];
  for (TreeNode* node : own)
    if (node->key == gift.key && !gift.key.empty()) same.push_back(node);
  TreeNode& place = same.empty() ? *own[below(random, own.size())] : *same[below(random, same.size())];
  const std::string key = place.key;
  place = gift;
  place.key = key;
}

std::optional<size_t> append_result(const std::optional<std::string>& text, uint8_t* out, size_t max_size) {
  if (!text || text->size() > max_size) return std::nullopt;
  std::memcpy(out, text->data(), text->size());
  return text->size();
}

}  // namespace

// A third of all mutations are libFuzzer's, for invalid documents and words of its dictionary.
size_t mutate_input(InputForm form, uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  Random random(seed);
  random.discard(2);
  if (below(random, 3) == 0) return LLVMFuzzerMutate(data, size, max_size);
  const std::string text(reinterpret_cast<const char*>(data), size);
  const Change change = [](TreeNode& tree, const TreeNode*, Random& any) { mutate_tree(tree, any); };
  const std::optional<size_t> given = append_result(changed_input(form, text, {}, change, random), data, max_size);
  return given ? *given : LLVMFuzzerMutate(data, size, max_size);
}

size_t cross_inputs(InputForm form, std::string_view one, std::string_view other, uint8_t* out, size_t max_size,
                    unsigned seed) {
  Random random(seed);
  random.discard(2);
  return append_result(changed_input(form, one, other, cross, random), out, max_size).value_or(0);
}

}  // namespace tpplan
