// A plan as it is written: its values with the comments, blank lines, quotes, anchors and brackets that TpPlan does not
// know.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tpplan {

enum class PieceKind : uint8_t { Scalar, Map, Sequence };

struct PlanEntry;

// A value. Lines are comments, or empty for a blank line.
struct PlanPiece {
  PieceKind kind = PieceKind::Scalar;
  bool is_flow = false;    // in brackets
  size_t column = 0;       // of the entries in the source
  std::string raw;         // Scalar: as it will be written; an alias; empty: a null that is not written
  std::string properties;  // "&anchor"
  std::vector<PlanEntry> entries;
  std::vector<std::string> footer;  // below the last entry
};

struct PlanEntry {
  std::string key;  // as it will be written; empty in a sequence
  std::string name;
  PlanPiece value;
  std::vector<std::string> leading;
  std::string trailing;
  size_t trailing_space = 2;
};

struct PlanPieces {
  std::vector<std::string> header;  // what stands before the first key
  PlanPiece root;
  std::vector<std::string> comments;  // all, in file order
};

}  // namespace tpplan
