// What a walk finds out that holds for other plans of the same model, over axes of the same sizes: kept for who judges
// many of them (judge_tables.h).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/keyed_hash.h"
#include "ops/op_call.h"
#include "ops/spread.h"

namespace tpplan {

// What an operation made of its operands: without the slots, so that it holds for each that is alike.
struct MemoEntry {
  std::vector<SpreadId> outs;
  std::vector<Segment> segments;
  bool segments_are_arguments = false, is_write = false, unknown = false;
  std::string crash, wrong;
  Code code{};
};

// More than so many numbers are not kept from one walk to the next: some tens of megabytes.
inline constexpr size_t kMostKeptNumbers = size_t{1} << 21;

// Layouts, sizes and what rules said of them. All of it follows from the graph, the sizes of the axes, and the numbers
// in a key, which stand for the same as long as these tables live: nothing of a plan is in it.
struct WalkTables {
  size_t most = kMostKeptNumbers;  // numbers that may stay for the next walk
  const OpGraph* graph = nullptr;
  std::vector<size_t> axes;  // their sizes, major to minor
  SpreadTable table;
  std::vector<SpreadId> whole_of_shape;  // by shape
  std::vector<SizeNumber> numbers;
  std::map<std::pair<std::vector<int64_t>, AxisMask>, uint32_t> number_index;
  std::vector<uint32_t> traced_numbers;  // by size entry
  TextMap<std::string, MemoEntry> memo;  // by what decides over an operation (walk/operations.h)
  std::vector<uint8_t> as_claimed;       // by layout: 1 where ranks hold what it claims, 2 where not, 0 not asked yet
};

// Makes them those of the graph and of axes of these sizes: what is in them stays where it was of the same, and takes
// no more than `most` numbers.
void use_tables(WalkTables& tables, const OpGraph& graph, std::vector<size_t> axes);

// Numbers are interned: equal ones have one id.
[[nodiscard]] uint32_t number_id(WalkTables& tables, SizeNumber number);

}  // namespace tpplan
