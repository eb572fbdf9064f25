#include "exec/shards/read_item.h"

#include <spdlog/fmt/fmt.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <memory>
#include <stdexcept>

#include "base/long_calls.h"
#include "base/text.h"
#include "exec/shards/read_exactly.h"

namespace tpplan {
namespace {

constexpr uint64_t kThinBytes = 512;  // below it a copy costs less than an entry of preadv

std::string_view tensor_name(const ReadTo& to, const ReadItem& item) {
  return to.source->tensors[item.file_range->tensor].name;
}

char* place(const ReadTo& to, const ReadItem& item, const ReadSegment& segment, const ReadTarget& target) {
  return static_cast<char*>(to.stores[static_cast<size_t>(target.rank)]->shards[target.shard].data) +
         target_offset(item, segment, target);
}

// Fills the entries from `offset` on. Consumes `vectors`.
void read_vectors(const ReadTo& to, const ReadItem& item, uint64_t offset, std::vector<iovec>& vectors) {
  const InputFile& file = to.source->weights.files[item.file_range->file];
  for (size_t next = 0; next < vectors.size();) {
    const int count = static_cast<int>(std::min<size_t>(vectors.size() - next, IOV_MAX));
    ssize_t got = make_registered_call("a read", file.name, offset, [&] {
      return preadv(*file.fd, &vectors[next], count, static_cast<off_t>(offset));
    });
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {  // throws the reason; continues if the file has grown
      read_exactly(file, offset, vectors[next].iov_base, vectors[next].iov_len, tensor_name(to, item));
      got = static_cast<ssize_t>(vectors[next].iov_len);
    }
    offset += static_cast<uint64_t>(got);
    for (; got > 0 && next < vectors.size(); next += vectors[next].iov_len == 0) {
      const size_t taken = std::min(static_cast<size_t>(got), vectors[next].iov_len);
      vectors[next].iov_base = static_cast<char*>(vectors[next].iov_base) + taken;
      vectors[next].iov_len -= taken;
      got -= static_cast<ssize_t>(taken);
    }
    while (next < vectors.size() && vectors[next].iov_len == 0) ++next;
  }
  vectors.clear();
}

void add_vector(std::vector<iovec>& vectors, char* to, uint64_t bytes) {
  const bool continues = !vectors.empty() && static_cast<char*>(vectors.back().iov_base) + vectors.back().iov_len == to;
  if (continues)
    vectors.back().iov_len += bytes;
  else
    vectors.push_back({to, bytes});
}

// Adds an item to the checksums, segment by segment: `place_of` returns the address of a segment's first line and the
// stride of its lines. Gaps are not counted.
template <typename PlaceOf>
void note_sums(const ReadTo& to, const ReadItem& item, PlaceOf place_of) {
  if (to.sums == nullptr || to.sums->of.empty()) return;
  const ReadRange& file_range = *item.file_range;
  const uint64_t start = file_offset(item) - to.source->tensors[file_range.tensor].pieces[file_range.piece].offset;
  const uint64_t stride = item.lines == 1 ? item.end - item.begin : file_range.line_stride;
  for (const ReadSegment& segment : file_range.segments) {
    const uint64_t begin = std::max(segment.begin, item.begin), end = std::min(segment.begin + segment.bytes, item.end);
    if (begin >= end || segment.targets.empty()) continue;
    const auto [from, from_stride] = place_of(segment, begin - item.begin);
    BoxLines lines{.begin = start + begin - item.begin, .lines = item.lines, .bytes = end - begin, .stride = stride};
    lines.from_stride = from_stride;
    if (lines.lines == 1) lines.stride = lines.from_stride = lines.bytes;
    add_lines(*to.sums, *to.source, file_range, lines, from);
  }
}

// Adds an item with packed lines to the checksums; as one segment if it has no gaps.
void note_packed_sums(const ReadTo& to, const ReadItem& item, const char* packed) {
  if (to.sums == nullptr || to.sums->of.empty()) return;
  const ReadRange& file_range = *item.file_range;
  const uint64_t line = item.end - item.begin;
  if (std::ranges::none_of(file_range.segments, [](const ReadSegment& segment) { return segment.targets.empty(); })) {
    const uint64_t start = file_offset(item) - to.source->tensors[file_range.tensor].pieces[file_range.piece].offset;
    const uint64_t stride = item.lines == 1 ? line : file_range.line_stride;
    add_lines(*to.sums, *to.source, file_range,
              {.begin = start, .lines = item.lines, .bytes = line, .stride = stride, .from_stride = line}, packed);
    return;
  }
  note_sums(to, item,
            [&](const ReadSegment&, uint64_t begin) { return std::pair<const char*, uint64_t>(packed + begin, line); });
}

}  // namespace

uint64_t read_packed(const ReadTo& to, const ReadItem& item, void* memory) {
  const InputFile& file = to.source->weights.files[item.file_range->file];
  const uint64_t line = item.end - item.begin, offset = file_offset(item), bytes = packed_bytes(item);
  if (item.lines == 1 || line == item.file_range->line_stride) {
    read_exactly(file, offset, memory, bytes, tensor_name(to, item));
    note_packed_sums(to, item, static_cast<const char*>(memory));
    return bytes;
  }
  for (uint64_t i = 0; i < item.lines; ++i)
    read_exactly(file, offset + i * item.file_range->line_stride, static_cast<char*>(memory) + i * line, line,
                 tensor_name(to, item));
  note_packed_sums(to, item, static_cast<const char*>(memory));
  return bytes;
}

bool can_scatter(const ReadItem& item) {
  return item.file_range->segments.size() == 1 ||
         item.file_range->line_bytes >= kThinBytes * item.file_range->segments.size();
}

// The entries of preadv read needed bytes directly into the shard of their first target and gaps into unused memory, so
// that adjacent lines are one call. Further targets of the same bytes are copied from the first.
uint64_t scatter(const ReadTo& to, const ReadItem& item) {
  std::unique_ptr<char[]> skipped_bytes;  // allocated at the first gap; longer gaps are not read
  struct Part {
    char* memory = nullptr;  // nullptr for a gap
    uint64_t bytes = 0, stride = 0;
  };
  std::vector<Part> parts;
  for (const ReadSegment& segment : item.file_range->segments) {
    const uint64_t begin = std::max(segment.begin, item.begin), end = std::min(segment.begin + segment.bytes, item.end);
    if (begin >= end) continue;
    if (!segment.targets.empty()) {
      parts.push_back({place(to, item, segment, segment.targets[0]), end - begin, segment.targets[0].line_stride});
      continue;
    }
    if (skipped_bytes == nullptr) skipped_bytes.reset(new char[kRangeBytes]);
    parts.push_back({nullptr, end - begin, 0});
  }
  const bool has_full_rows = item.end - item.begin == item.file_range->line_stride;
  uint64_t offset = file_offset(item), pending = 0;
  std::vector<iovec> vectors;
  const auto flush = [&](uint64_t skip) {
    read_vectors(to, item, offset, vectors);
    offset += pending + skip;
    pending = 0;
  };
  for (uint64_t line = 0; line < item.lines; ++line) {
    for (const Part& part : parts) {
      add_vector(vectors, part.memory == nullptr ? skipped_bytes.get() : part.memory + line * part.stride, part.bytes);
      pending += part.bytes;
      if (vectors.size() == IOV_MAX) flush(0);
    }
    if (!has_full_rows) flush(item.file_range->line_stride - (item.end - item.begin));
  }
  flush(0);
  note_sums(to, item, [&](const ReadSegment& segment, uint64_t) {
    const ReadTarget& target = segment.targets[0];
    return std::pair<const char*, uint64_t>(place(to, item, segment, target), target.line_stride);
  });
  for_each_target(item, [&](const ReadSegment& segment, const ReadTarget& target, uint64_t, uint64_t bytes) {
    const ReadTarget& first = segment.targets[0];
    if (&target == &first) return;
    to.device->copy_strided(place(to, item, segment, target), place(to, item, segment, first),
                            {.run_bytes = bytes,
                             .counts = {item.lines},
                             .from_strides = {first.line_stride},
                             .to_strides = {target.line_stride}});
  });
  return packed_bytes(item);
}

void copy_to_targets(const ReadTo& to, const ReadItem& item, const void* packed) {
  const uint64_t line = item.end - item.begin;
  for_each_target(item, [&](const ReadSegment& segment, const ReadTarget& target, uint64_t begin, uint64_t bytes) {
    if (to.stores[static_cast<size_t>(target.rank)] == nullptr) return;
    to.device->copy_strided(
        place(to, item, segment, target), static_cast<const char*>(packed) + begin,
        {.run_bytes = bytes, .counts = {item.lines}, .from_strides = {line}, .to_strides = {target.line_stride}});
  });
}

}  // namespace tpplan
