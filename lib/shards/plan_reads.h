// Which bytes of which file are read, in what order, and where they go: each byte that is needed once.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "manifest/manifest.h"
#include "shards/open_weights.h"

namespace tpplan {

// A place that a segment of a line goes to: byte `offset` of a rank's shard, for the first line.
struct ReadTarget {
  int rank = 0;
  uint32_t shard = 0;  // into ShardStore::shards
  uint64_t offset = 0;
  uint64_t line_stride = 0;
  std::vector<uint64_t> outer_strides;
};

// Bytes [begin, begin + bytes) of a line, which all of the targets want; without targets a gap that nobody wants.
struct ReadSegment {
  uint64_t begin = 0, bytes = 0;
  std::vector<ReadTarget> targets;
};

// Lines of a file that are cut alike: `lines` lines of `line_bytes` bytes, `line_stride` apart, and that for every
// index of `outer_counts` (outermost first, empty nearly always). The segments fill a line.
struct ReadCell {
  uint32_t file = 0;
  uint32_t tensor = 0;  // whose bytes these are,
  uint32_t piece = 0;   // and of which of its pieces
  uint64_t offset = 0;  // of the first line
  uint64_t lines = 1, line_bytes = 0, line_stride = 0;
  std::vector<uint64_t> outer_counts, outer_strides;
  std::vector<ReadSegment> segments;
};

struct ReadPlan {
  std::vector<ReadCell> cells;  // by file and offset
  uint64_t needed_bytes = 0;    // of the files, each byte once
  uint64_t planned_bytes = 0;   // with gaps that are cheaper read than skipped
};

// A run of at least this many bytes is read by itself; what is thinner comes as whole rows, gaps and all.
inline constexpr uint64_t kRangeBytes = uint64_t{64} << 10;

// What the ranks need of the source, without the tensors that it lacks or that are left out (of tied names the first
// counts). Tied names are read once. Throws as held_boxes does.
[[nodiscard]] ReadPlan plan_reads(const Manifest& manifest, const WeightSource& source, std::span<const int> ranks,
                                  const std::vector<bool>& left_out = {});

// A part of a cell that is read in one go: lines [line, line + lines) of one outer index, or bytes [begin, end) of one
// line.
struct ReadItem {
  const ReadCell* cell = nullptr;
  uint64_t outer = 0;  // row-major index into outer_counts
  uint64_t line = 0, lines = 1;
  uint64_t begin = 0, end = 0;  // of each line: all of it when there are several
};

[[nodiscard]] uint64_t bytes_of(const ReadCell& cell);

// How many items of at most `block` bytes a cell has, and item number `index` of them.
[[nodiscard]] uint64_t item_count(const ReadCell& cell, uint64_t block);
[[nodiscard]] ReadItem item_of(const ReadCell& cell, uint64_t block, uint64_t index);

// Where an item begins in its file, and its bytes from first to last (less than that when lines stand apart).
[[nodiscard]] uint64_t file_offset(const ReadItem& item);
// Where the item's first line goes in a target's shard, for byte `item.begin` or the segment's first byte if that is
// later.
[[nodiscard]] uint64_t target_offset(const ReadItem& item, const ReadSegment& segment, const ReadTarget& target);

}  // namespace tpplan
