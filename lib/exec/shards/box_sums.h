// Checksums in weight files: the CRC-32C (RFC 3720) of each stored tensor. Readers compare it with the bytes that they
// read, in any order and by any number of threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exec/ranks/backend.h"
#include "exec/shards/plan_reads.h"
#include "exec/shards/weight_source.h"

namespace tpplan {

// The key in a file's metadata: eight hexadecimal digits for each tensor, in file order.
inline constexpr std::string_view kSumsKey = "TPPLAN_CRC32C";
inline constexpr size_t kSumDigits = 8;

[[nodiscard]] std::string checksum_text(uint32_t sum);

// Returns the checksums of a file's tensors, in header order; empty if it has none. Throws TP8044 if the list is
// invalid.
[[nodiscard]] std::vector<uint32_t> read_sums(const WeightsHeader& header);
// Parses the digits of `count` checksums; nullopt if they are invalid.
[[nodiscard]] std::optional<std::vector<uint32_t>> read_sums(std::string_view digits, size_t count);

// Returns TP8043 if the checksum of stored bytes is wrong.
[[nodiscard]] std::optional<Fault> checksum_error(uint32_t found, uint32_t stored, std::string_view tensor,
                                                  const std::string& file);

// The checksum so far of one stored box, which any number of threads update.
struct BoxSum {
  std::atomic<uint32_t> sum{0};
  std::atomic<uint64_t> bytes{0};
};
struct BoxSums {
  std::vector<size_t> first;  // by tensor: index of its first box in `of`
  std::vector<BoxSum> of;     // empty if no box has a checksum
};
[[nodiscard]] BoxSums make_sums(const WeightSource& source);
[[nodiscard]] bool has_sums(const WeightSource& source);

// Lines of a stored box, `from_stride` bytes apart in memory and `stride` in the file, the first at byte `begin` of the
// box. add_lines adds them to the checksums.
struct BoxLines {
  uint64_t begin = 0, lines = 1, bytes = 0, stride = 0, from_stride = 0;
};
void add_lines(BoxSums& sums, const WeightSource& source, const ReadRange& file_range, const BoxLines& lines,
               const char* from);

// Compares the boxes of a tensor that were read completely, and adds their bytes to `checked`. Returns the first error.
[[nodiscard]] std::optional<Fault> compare_complete_boxes(const BoxSums& sums, const WeightSource& source,
                                                          size_t tensor, std::atomic<uint64_t>& checked);

// Compares the boxes that the ranks of `group` have read together, no byte twice. All ranks of the group call it. If
// several ranks have read parts of a box, they send their checksums to one rank, which compares it.
struct SumsResult {
  uint64_t checked_bytes = 0;  // bytes that this rank has compared
  std::optional<Fault> fault;  // the first wrong checksum among them
};
[[nodiscard]] SumsResult compare_sums(Comm& comm, const Group& group, const BoxSums& sums, const WeightSource& source);

}  // namespace tpplan
