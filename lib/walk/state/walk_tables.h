// Results of walks that stay valid for other plans of the same model on axes of the same sizes. A check of many plans
// shares them (judge/judge.h).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/keyed_hash.h"
#include "ops/op_call.h"
#include "ops/value_layout.h"

namespace tpplan {

// The result of an operation's rule. It has no slots, so that all operations with the same key share it.
struct MemoEntry {
  std::vector<ValueLayoutId> outs;
  std::vector<Segment> segments;
  bool segments_are_arguments = false, is_write = false, unknown = false;
  std::string crash, wrong;
  Code code{};
};

// Tables with more numbers than this are cleared before the next walk: some tens of megabytes.
inline constexpr size_t kMaxCachedNumbers = size_t{1} << 21;

// Interned layouts and sizes, and memoized results of rules. They depend only on the graph, the sizes of the axes and
// the ids in a key, never on a plan. Ids are stable as long as the tables exist.
struct WalkTables {
  size_t most = kMaxCachedNumbers;  // limit of the numbers that are retained for the next walk
  const OpGraph* graph = nullptr;
  std::vector<size_t> axes;                        // their sizes, major to minor
  std::vector<ValueLayoutId> replicated_by_shape;  // by shape
  std::vector<SizeNumber> numbers;
  std::map<std::pair<std::vector<int64_t>, AxisMask>, uint32_t> number_index;
  std::vector<uint32_t> traced_numbers;  // by size entry
  TextMap<std::string, MemoEntry> memo;  // by the key of an operation (walk/operation/operations.h)
  std::vector<uint8_t>
      matches_declared;  // by layout: 1 if the actual layout is the declared one, 2 if not, 0 if unknown
};

// Prepares the tables and the layouts in `table` for a graph and axes of these sizes. Retains the entries if both are
// unchanged and there are at most `most` numbers; clears the tables otherwise.
void prepare_walk_tables(WalkTables& tables, ValueLayoutTable& table, const OpGraph& graph, std::vector<size_t> axes);

// Returns the id of a number; equal numbers have one id.
[[nodiscard]] uint32_t id_of_number(WalkTables& tables, SizeNumber number);

}  // namespace tpplan
