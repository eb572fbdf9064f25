#include "exec/shards/moved_sums.h"

#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "exec/ranks/gather.h"
#include "exec/ranks/gather_bytes.h"

namespace tpplan {
namespace {

// A message with the checksum of one box that was read or written.
struct PartWords {
  bool is_written = false;
  uint64_t file = 0;
  uint32_t run = 0, tensor = 0, sum = 0, kept = 0;
  uint64_t bytes = 0, all = 0;
};
auto fields(PartWords& part) {
  return std::tie(part.is_written, part.file, part.run, part.tensor, part.sum, part.kept, part.bytes, part.all);
}
struct PartList {
  std::vector<PartWords> parts;
};
auto fields(PartList& list) { return std::tie(list.parts); }

}  // namespace

void add_run(RunSum& sum, const void* bytes, uint64_t count, uint64_t offset) {
  const uint64_t gap = sum.bytes == 0 ? 0 : offset - sum.end;
  if (gap != 0 && gap != sum.gap) {
    sum.gap = gap;
    sum.shift = crc32c_shift(gap);
  }
  if (gap != 0) sum.sum = crc32c_shifted(sum.sum, sum.shift);
  sum.sum = crc32c_part(bytes, count, sum.sum);
  sum.end = offset + count;
  sum.bytes += count;
}

void add_part(MovedPart& part, uint32_t sum, uint64_t bytes) {
  part.sum ^= sum;
  part.bytes += bytes;
}

void add_parts(MovedParts& to, const MovedParts& from) {
  for (const auto& [key, part] : from) {
    MovedPart& there = to[key];
    add_part(there, part.sum, part.bytes);
    there.all = part.all;
    there.kept = part.kept;
  }
}

void exchange_parts(Comm& comm, MovedSums& sums) {
  if (comm.process.size() == static_cast<size_t>(comm.world)) return;
  const uint64_t world = static_cast<uint64_t>(comm.world);
  std::vector<PartList> lists(world);
  for (const bool is_written : {false, true}) {
    for (const auto& [key, part] : is_written ? sums.written : sums.read)
      lists[key.file % world].parts.push_back(
          {is_written, key.file, key.run, key.tensor, part.sum, part.kept, part.bytes, part.all});
  }
  std::vector<std::string> texts;
  for (const PartList& list : lists) texts.push_back(list.parts.empty() ? "" : to_message(list));
  Group everyone{.ranks = std::vector<int>(world), .self = static_cast<size_t>(comm.rank)};
  std::iota(everyone.ranks.begin(), everyone.ranks.end(), 0);
  texts = exchange_bytes(comm, everyone, texts);
  sums.read.clear();
  sums.written.clear();
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    PartList list;
    if (!texts[rank].empty() && !from_message(texts[rank], list)) throw damaged_message_fault(static_cast<int>(rank));
    for (const PartWords& part : list.parts)
      add_parts(part.is_written ? sums.written : sums.read,
                {{{part.file, part.run, part.tensor}, {part.sum, part.bytes, part.all, part.kept}}});
  }
}

}  // namespace tpplan
