#include "exec/shards/plan_reads.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

#include "exec/shards/box_index.h"
#include "exec/shards/shard_store.h"

namespace tpplan {
namespace {

// The part of a stored box that one rank needs: [low, high) in each dim of the box. It begins at index `at` of a buffer
// of shape `sizes` on the rank.
struct Want {
  int rank = 0;
  uint32_t shard = 0;
  std::vector<uint64_t> low, high, at, sizes;
};

struct BoxWants {
  std::vector<uint64_t> sizes;  // of the stored box
  std::vector<Want> wants;
};

// The boxes that the ranks hold of every tensor with one layout and stored dtype.
struct Holders {
  std::vector<int> ranks;  // of each box
  std::vector<HeldBox> boxes;
  BoxIndex index;
};

Holders list_holders(const ParamLayout& layout, DType dtype, const Mesh& mesh, std::span<const int> ranks,
                     std::span<const std::vector<int64_t>> coordinates) {
  Holders holders;
  std::vector<Box> boxes;
  for (size_t r = 0; r < ranks.size(); ++r) {
    const std::vector<Intervals> slice = shard_slice(layout.shape, layout.sharding, mesh, coordinates[r]);
    for (HeldBox& held : held_boxes(layout.shape, dtype, slice)) {
      boxes.push_back(held.box);
      holders.ranks.push_back(ranks[r]);
      holders.boxes.push_back(std::move(held));
    }
  }
  holders.index = index_boxes(boxes);
  return holders;
}

BoxWants wants_of(const StoredBox& piece, const Holders& holders, uint32_t shard) {
  BoxWants out;
  const HeldBox there = piece.sizes.empty() ? packed(piece.box) : HeldBox{piece.box, piece.at, piece.sizes};
  out.sizes = there.sizes;
  for (const uint32_t i : boxes_near(holders.index, piece.box)) {
    const HeldBox& held = holders.boxes[i];
    const Box both = intersection(piece.box, held.box);
    if (is_empty(both)) continue;
    Want want{.rank = holders.ranks[i], .shard = shard, .sizes = held.sizes};
    for (size_t d = 0; d < out.sizes.size(); ++d) {
      want.low.push_back(both.begin[d] - piece.box.begin[d] + there.at[d]);
      want.high.push_back(both.end[d] - piece.box.begin[d] + there.at[d]);
      want.at.push_back(both.begin[d] - held.box.begin[d] + held.at[d]);
    }
    out.wants.push_back(std::move(want));
  }
  return out;
}

// Merges each dim that all ranks need completely into the dim before it, so that lines become as long as possible. It
// starts with the last dim, because a merged dim can be merged again.
void merge_full_dims(BoxWants& piece) {
  for (size_t d = piece.sizes.size(); d-- > 1;) {
    const uint64_t size = piece.sizes[d];
    const bool whole = std::ranges::all_of(piece.wants, [&](const Want& want) {
      return want.low[d] == 0 && want.high[d] == size && want.sizes[d] == size;
    });
    if (!whole) continue;
    piece.sizes[d - 1] *= size;
    piece.sizes.erase(piece.sizes.begin() + static_cast<ptrdiff_t>(d));
    for (Want& want : piece.wants) {
      for (auto* list : {&want.low, &want.high, &want.at, &want.sizes}) {
        (*list)[d - 1] *= size;
        list->erase(list->begin() + static_cast<ptrdiff_t>(d));
      }
    }
  }
}

// Returns the indices of a dim at which a want begins or ends, ascending.
std::vector<uint64_t> boundaries_of(const BoxWants& piece, size_t dim) {
  std::vector<uint64_t> cuts;
  for (const Want& want : piece.wants) cuts.insert(cuts.end(), {want.low[dim], want.high[dim]});
  std::ranges::sort(cuts);
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  return cuts;
}

// Returns the bytes between two indices of a dim: the product of the sizes of the later dims (the last counts bytes).
uint64_t stride_of(std::span<const uint64_t> sizes, size_t dim) {
  uint64_t stride = 1;
  for (size_t d = dim + 1; d < sizes.size(); ++d) stride *= sizes[d];
  return stride;
}

ReadTarget target_of(const Want& want, std::span<const uint64_t> start) {
  ReadTarget target{.rank = want.rank, .shard = want.shard};
  const size_t last = start.size() - 1;
  for (size_t d = 0; d <= last; ++d) {
    const uint64_t stride = stride_of(want.sizes, d);
    target.offset += (start[d] - want.low[d] + want.at[d]) * stride;
    if (d + 1 < last) target.outer_strides.push_back(stride);
    if (d + 1 == last) target.line_stride = stride;
  }
  return target;
}

// Groups the segments of a line into file ranges: a long segment gets a separate range, short ones share one. Short
// gaps between segments are read too, because one read of the row costs less than many small ones. A long gap ends a
// range, and gaps at its ends are trimmed.
void add_file_ranges(const ReadRange& form, std::vector<ReadSegment>&& segments, ReadPlan& plan) {
  ReadRange file_range = form;
  const auto close = [&] {
    while (!file_range.segments.empty() && file_range.segments.back().targets.empty()) file_range.segments.pop_back();
    if (!file_range.segments.empty()) {
      const uint64_t start = file_range.segments.front().begin;
      file_range.offset += start;
      for (ReadSegment& segment : file_range.segments) segment.begin -= start;
      file_range.line_bytes = file_range.segments.back().begin + file_range.segments.back().bytes;
      uint64_t outer = 1;
      for (const uint64_t count : file_range.outer_counts) outer *= count;
      plan.planned_bytes += file_range.line_bytes * file_range.lines * outer;
      for (const ReadSegment& segment : file_range.segments)
        plan.needed_bytes += segment.targets.empty() ? 0 : segment.bytes * file_range.lines * outer;
      plan.file_ranges.push_back(std::move(file_range));
    }
    file_range = form;
  };
  for (ReadSegment& segment : segments) {
    const bool is_long = segment.bytes >= kRangeBytes;
    if (is_long) close();
    if (segment.targets.empty() && (is_long || file_range.segments.empty())) continue;
    file_range.segments.push_back(std::move(segment));
    if (is_long) close();
  }
  close();
}

// The boundaries of all wants divide the box into a grid; the bytes of one tile go to the same targets. For each choice
// of an interval in all dims except the last, the intervals of the last dim are the segments of a line. The dim before
// the last counts the lines, earlier dims are the outer counts. So the number of ranges depends on the number of
// shards, not on the size of the tensor.
void plan_box(const StoredBox& source, uint32_t tensor, uint32_t number, BoxWants piece, ReadPlan& plan) {
  if (piece.wants.empty()) return;
  merge_full_dims(piece);
  const size_t last = piece.sizes.size() - 1;
  std::vector<std::vector<uint64_t>> cuts;
  for (size_t d = 0; d <= last; ++d) cuts.push_back(boundaries_of(piece, d));
  std::vector<size_t> at(last);  // for each dim except the last: index of the current interval
  for (;;) {
    std::vector<uint64_t> start;
    std::vector<const Want*> active;
    for (size_t d = 0; d < last; ++d) start.push_back(cuts[d][at[d]]);
    for (const Want& want : piece.wants) {
      bool holds = true;
      for (size_t d = 0; d < last; ++d) holds = holds && want.low[d] <= start[d] && start[d] < want.high[d];
      if (holds) active.push_back(&want);
    }
    if (!active.empty()) {  // else no rank needs these rows
      ReadRange form{.file = source.file, .tensor = tensor, .piece = number, .offset = source.offset};
      for (size_t d = 0; d < last; ++d) {
        const uint64_t stride = stride_of(piece.sizes, d), count = cuts[d][at[d] + 1] - start[d];
        form.offset += start[d] * stride;
        if (d + 1 == last) {
          form.lines = count;
          form.line_stride = stride;
        } else {
          form.outer_counts.push_back(count);
          form.outer_strides.push_back(stride);
        }
      }
      std::vector<ReadSegment> segments;
      start.push_back(0);
      for (size_t i = 0; i + 1 < cuts[last].size(); ++i) {
        start[last] = cuts[last][i];
        ReadSegment& segment = segments.emplace_back(
            ReadSegment{.begin = start[last], .bytes = cuts[last][i + 1] - start[last], .targets = {}});
        for (const Want* want : active) {
          if (want->low[last] <= start[last] && start[last] < want->high[last])
            segment.targets.push_back(target_of(*want, start));
        }
      }
      add_file_ranges(form, std::move(segments), plan);
    }
    size_t d = last;
    while (d > 0 && ++at[d - 1] == cuts[d - 1].size() - 1) at[--d] = 0;
    if (d == 0) return;
  }
}

uint64_t outer_total(const ReadRange& file_range) {
  uint64_t total = 1;
  for (const uint64_t count : file_range.outer_counts) total *= count;
  return total;
}

// Returns, for one outer index, the number of items and the lines of each (0: a line is split into several items).
std::pair<uint64_t, uint64_t> items_of_lines(const ReadRange& file_range, uint64_t block) {
  if (file_range.line_bytes > block) return {file_range.lines * ((file_range.line_bytes + block - 1) / block), 0};
  const uint64_t per_item = std::min(file_range.lines, block / file_range.line_bytes);
  return {(file_range.lines + per_item - 1) / per_item, per_item};
}

uint64_t outer_offset(const ReadItem& item, std::span<const uint64_t> strides) {
  uint64_t offset = 0, rest = item.outer;
  for (size_t d = strides.size(); d-- > 0; rest /= item.file_range->outer_counts[d])
    offset += rest % item.file_range->outer_counts[d] * strides[d];
  return offset;
}

}  // namespace

ReadPlan plan_reads(const Manifest& manifest, const WeightSource& source, std::span<const int> ranks,
                    const std::vector<bool>& omitted) {
  ReadPlan plan;
  const std::vector<uint32_t> first = first_tied_params(manifest);
  std::vector<std::vector<int64_t>> coordinates;
  for (const int rank : ranks) coordinates.push_back(coordinate_of(manifest.mesh, rank));
  // Tensors with one layout and one stored dtype have the same holders.
  std::map<std::pair<const ParamLayout*, DType>, Holders> holders_of;
  for (uint32_t i = 0; i < source.tensors.size(); ++i) {
    if (source.missing[i] || (i < first.size() && first[i] != i) || (i < omitted.size() && omitted[i])) continue;
    const ParamLayout& layout = layout_of(manifest, tensor_of(manifest, i));
    auto [holders, added] = holders_of.try_emplace({&layout, source.tensors[i].dtype});
    if (added) holders->second = list_holders(layout, source.tensors[i].dtype, manifest.mesh, ranks, coordinates);
    const std::vector<StoredBox>& pieces = source.tensors[i].pieces;
    for (uint32_t p = 0; p < pieces.size(); ++p)
      plan_box(pieces[p], i, p, wants_of(pieces[p], holders->second, i), plan);
  }
  // Threads take items in this order, so that each file is read from its beginning to its end.
  std::ranges::stable_sort(plan.file_ranges, {}, [](const ReadRange& file_range) {
    return std::pair{file_range.file, file_range.offset};
  });
  return plan;
}

uint64_t bytes_of(const ReadRange& file_range) {
  return std::accumulate(file_range.outer_counts.begin(), file_range.outer_counts.end(),
                         file_range.lines * file_range.line_bytes, std::multiplies<>());
}

uint64_t item_count(const ReadRange& file_range, uint64_t block) {
  return outer_total(file_range) * items_of_lines(file_range, block).first;
}

ReadItem item_at(const ReadRange& file_range, uint64_t block, uint64_t index) {
  const auto [count, lines] = items_of_lines(file_range, block);
  ReadItem item{.file_range = &file_range, .outer = index / count, .end = file_range.line_bytes};
  const uint64_t part = index % count;
  if (lines != 0) {
    item.line = part * lines;
    item.lines = std::min(lines, file_range.lines - item.line);
    return item;
  }
  const uint64_t per_line = (file_range.line_bytes + block - 1) / block;
  item.line = part / per_line;
  item.begin = part % per_line * block;
  item.end = std::min(item.begin + block, file_range.line_bytes);
  return item;
}

uint64_t file_offset(const ReadItem& item) {
  return item.file_range->offset + outer_offset(item, item.file_range->outer_strides) +
         item.line * item.file_range->line_stride + item.begin;
}

uint64_t target_offset(const ReadItem& item, const ReadSegment& segment, const ReadTarget& target) {
  const uint64_t skipped = std::max(item.begin, segment.begin) - segment.begin;
  return target.offset + outer_offset(item, target.outer_strides) + item.line * target.line_stride + skipped;
}

}  // namespace tpplan
