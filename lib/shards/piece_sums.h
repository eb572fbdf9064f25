// Checksums of what stands in files of weights: CRC-32C (RFC 3720) of each tensor's bytes there, kept by the file, and
// held against what is read while it is read, in whatever parts.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ranks/backend.h"
#include "shards/open_weights.h"
#include "shards/plan_reads.h"

namespace tpplan {

// A member of a file's metadata: eight hexadecimal digits for each tensor, in the order in which they stand in the
// file.
inline constexpr std::string_view kSumsKey = "TPPLAN_CRC32C";
inline constexpr size_t kSumDigits = 8;

[[nodiscard]] std::string sum_text(uint32_t sum);

// The checksums of a file's tensors, in the order of its header; none where it keeps none. Throws TP8044 where what it
// keeps is no list of them.
[[nodiscard]] std::vector<uint32_t> read_sums(const WeightsHeader& header);
// Of digits alone; nothing where they are none.
[[nodiscard]] std::optional<std::vector<uint32_t>> read_sums(std::string_view digits, size_t count);

// TP8043 where a piece is not what its checksum says.
[[nodiscard]] std::optional<Fault> sum_fault(uint32_t found, uint32_t kept, std::string_view tensor,
                                             const std::string& file);

// What was read of each piece, by any number of threads.
struct PieceSum {
  std::atomic<uint32_t> sum{0};
  std::atomic<uint64_t> bytes{0};
};
struct PieceSums {
  std::vector<size_t> first;  // by tensor: of its pieces in `of`
  std::vector<PieceSum> of;   // empty: no piece has a checksum
};
[[nodiscard]] PieceSums make_sums(const WeightSource& source);
[[nodiscard]] bool has_sums(const WeightSource& source);

// Adds lines of a piece, `from_stride` apart in memory and `stride` in the file, the first at byte `begin` of the
// piece.
struct PieceLines {
  uint64_t begin = 0, lines = 1, bytes = 0, stride = 0, from_stride = 0;
};
void add_lines(PieceSums& sums, const WeightSource& source, const ReadCell& cell, const PieceLines& lines,
               const char* from);

// Compares of a tensor the pieces that were read whole, and adds their bytes to `checked`. The first that is wrong.
[[nodiscard]] std::optional<Fault> compare_whole_pieces(const PieceSums& sums, const WeightSource& source,
                                                        size_t tensor, std::atomic<uint64_t>& checked);

// Compares what the ranks of `group`, who read no byte twice, have read together of each piece; all of them call it.
// What several have read of one is told to the rank that answers for it.
struct SumsEnd {
  uint64_t checked_bytes = 0;  // that this rank answers for, or read alone
  std::optional<Fault> fault;  // of them, the first
};
[[nodiscard]] SumsEnd compare_sums(Comm& comm, const Group& group, const PieceSums& sums, const WeightSource& source);

}  // namespace tpplan
