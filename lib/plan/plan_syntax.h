// The syntax of a plan file: its values with comments, blank lines, quotes, anchors and brackets, which TpPlan lacks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tpplan {

enum class SyntaxKind : uint8_t { Scalar, Map, Sequence };

struct PlanEntry;

// A node. Lines are comments, or empty for a blank line.
struct PlanNode {
  SyntaxKind kind = SyntaxKind::Scalar;
  bool is_flow = false;    // in brackets
  size_t column = 0;       // of the entries in the source
  std::string raw;         // Scalar: its output text; an alias; empty: an omitted null
  std::string properties;  // "&anchor"
  std::vector<PlanEntry> entries;
  std::vector<std::string> footer;  // below the last entry
};

struct PlanEntry {
  std::string key;  // its output text; empty in a sequence
  std::string name;
  PlanNode value;
  std::vector<std::string> leading;
  std::string trailing;
  size_t trailing_space = 2;
};

struct PlanSyntax {
  std::vector<std::string> header;  // before the first key
  PlanNode root;
  std::vector<std::string> comments;  // all, in file order
};

}  // namespace tpplan
