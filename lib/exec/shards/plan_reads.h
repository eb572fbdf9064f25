// Plans which bytes of which file are read, in which order, and where they go. Each byte is read once.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "exec/shards/weight_source.h"
#include "manifest/manifest.h"

namespace tpplan {

// The target of a segment of a line: byte `offset` of a rank's shard, for the first line.
struct ReadTarget {
  int rank = 0;
  uint32_t shard = 0;  // into ShardStore::shards
  uint64_t offset = 0;
  uint64_t line_stride = 0;
  std::vector<uint64_t> outer_strides;
};

// Bytes [begin, begin + bytes) of a line, which all targets need; a gap if there are no targets.
struct ReadSegment {
  uint64_t begin = 0, bytes = 0;
  std::vector<ReadTarget> targets;
};

// Lines of a file with the same segments: `lines` lines of `line_bytes` bytes, `line_stride` apart, for every index
// into `outer_counts` (outermost first, mostly empty). The segments fill a line.
struct ReadRange {
  uint32_t file = 0;
  uint32_t tensor = 0;  // index of the tensor
  uint32_t piece = 0;   // index of its stored box
  uint64_t offset = 0;  // of the first line
  uint64_t lines = 1, line_bytes = 0, line_stride = 0;
  std::vector<uint64_t> outer_counts, outer_strides;
  std::vector<ReadSegment> segments;
};

struct ReadPlan {
  std::vector<ReadRange> file_ranges;  // by file and offset
  uint64_t needed_bytes = 0;           // bytes of the files that some rank needs, each once
  uint64_t planned_bytes = 0;          // including gaps that are cheaper to read than to skip
};

// A range of at least this many bytes is read separately; shorter ones are read as full rows, including gaps.
inline constexpr uint64_t kRangeBytes = uint64_t{64} << 10;

// Plans the reads of the ranks. Tensors that the source lacks or that are left out are skipped. Tied names are read
// once; for them the first name decides. Throws if a shard boundary is inside a byte (held_boxes).
[[nodiscard]] ReadPlan plan_reads(const Manifest& manifest, const WeightSource& source, std::span<const int> ranks,
                                  const std::vector<bool>& omitted = {});

// The part of a file range that one read covers: lines [line, line + lines) of one outer index, or bytes [begin, end)
// of one line.
struct ReadItem {
  const ReadRange* file_range = nullptr;
  uint64_t outer = 0;  // row-major index into outer_counts
  uint64_t line = 0, lines = 1;
  uint64_t begin = 0, end = 0;  // bytes of each line; the full line if there are several
};

[[nodiscard]] uint64_t bytes_of(const ReadRange& file_range);

// item_count returns the number of items of at most `block` bytes in a file range; item_at returns item `index`.
[[nodiscard]] uint64_t item_count(const ReadRange& file_range, uint64_t block);
[[nodiscard]] ReadItem item_at(const ReadRange& file_range, uint64_t block, uint64_t index);

// Returns the offset of an item in its file.
[[nodiscard]] uint64_t file_offset(const ReadItem& item);
// Returns the offset in the target's shard of the item's first line, at byte `item.begin` or at the segment's first
// byte if that is later.
[[nodiscard]] uint64_t target_offset(const ReadItem& item, const ReadSegment& segment, const ReadTarget& target);

}  // namespace tpplan
