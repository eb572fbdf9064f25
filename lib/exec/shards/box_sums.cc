#include "exec/shards/box_sums.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "base/crc32c.h"
#include "base/text.h"
#include "exec/ranks/gather.h"
#include "exec/ranks/gather_bytes.h"
#include "exec/ranks/message.h"

namespace tpplan {
namespace {

constexpr uint64_t kManyLines =
    64;  // from this many lines on, a table speeds up the CRC shift over the gap between lines

const StoredBox& box_of(const WeightSource& source, const BoxSums& sums, size_t tensor, size_t number) {
  return source.tensors[tensor].pieces[number - sums.first[tensor]];
}

// Calls visit(tensor, number) for each stored box that has a checksum; `number` is its index in sums.of.
template <typename Visit>
void for_each_summed(const BoxSums& sums, const WeightSource& source, Visit visit) {
  if (sums.of.empty()) return;
  for (size_t tensor = 0; tensor < source.tensors.size(); ++tensor) {
    for (size_t p = 0; p < source.tensors[tensor].pieces.size(); ++p) {
      if (source.tensors[tensor].pieces[p].sum) visit(tensor, sums.first[tensor] + p);
    }
  }
}

std::optional<Fault> box_error(const BoxSums& sums, const WeightSource& source, size_t tensor, size_t number,
                               uint32_t sum) {
  const StoredBox& piece = box_of(source, sums, tensor, number);
  return checksum_error(finish_crc32c(sum, elements_in(piece.box)), *piece.sum, source.tensors[tensor].name,
                        source.weights.files[piece.file].name);
}

// The checksum of the part of a stored box that one rank has read.
struct PartOfBox {
  uint64_t number = 0, bytes = 0;
  uint32_t sum = 0;
};
auto fields(PartOfBox& part) { return std::tie(part.number, part.bytes, part.sum); }
struct PartsOfBoxes {
  std::vector<PartOfBox> parts;
};
auto fields(PartsOfBoxes& parts) { return std::tie(parts.parts); }

}  // namespace

std::string checksum_text(uint32_t sum) { return fmt::format("{:08x}", sum); }

std::optional<std::vector<uint32_t>> read_sums(std::string_view digits, size_t count) {
  if (digits.size() != count * kSumDigits) return std::nullopt;
  std::vector<uint32_t> sums(count);
  for (size_t i = 0; i < digits.size(); ++i) {
    const char digit = digits[i];
    const bool is_number = digit >= '0' && digit <= '9', is_letter = digit >= 'a' && digit <= 'f';
    if (!is_number && !is_letter) return std::nullopt;
    sums[i / kSumDigits] = sums[i / kSumDigits] << 4 | static_cast<uint32_t>(digit - (is_number ? '0' : 'a' - 10));
  }
  return sums;
}

std::vector<uint32_t> read_sums(const WeightsHeader& header) {
  const auto stored = std::ranges::find(header.metadata, kSumsKey, [](const auto& entry) { return entry.first; });
  if (stored == header.metadata.end()) return {};
  if (std::optional<std::vector<uint32_t>> sums = read_sums(stored->second, header.tensors.size())) return *sums;
  throw Fault{.code = Code::InvalidChecksums,
              .message = fmt::format("its {} does not have {} digits for each of {}", kSumsKey, kSumDigits,
                                     counted(header.tensors.size(), "tensor")),
              .help = "copy the file again, or save it again",
              .place = header.source.name};
}

std::optional<Fault> checksum_error(uint32_t found, uint32_t stored, std::string_view tensor, const std::string& file) {
  if (found == stored) return std::nullopt;
  return Fault{.code = Code::ChecksumMismatch,
               .message = fmt::format("`{}` has CRC-32C {}, but the checksum in the file is {}",
                                      escape_for_terminal(tensor), checksum_text(found), checksum_text(stored)),
               .help = "copy the file again, or use another checkpoint: the file was damaged after it was written",
               .place = file};
}

bool has_sums(const WeightSource& source) {
  return std::ranges::any_of(source.tensors, [](const SourceTensor& tensor) {
    return std::ranges::any_of(tensor.pieces, [](const StoredBox& piece) { return piece.sum.has_value(); });
  });
}

BoxSums make_sums(const WeightSource& source) {
  BoxSums sums;
  size_t pieces = 0;
  for (const SourceTensor& tensor : source.tensors) {
    sums.first.push_back(pieces);
    pieces += tensor.pieces.size();
  }
  if (has_sums(source)) sums.of = std::vector<BoxSum>(pieces);
  return sums;
}

void add_lines(BoxSums& sums, const WeightSource& source, const ReadRange& file_range, const BoxLines& lines,
               const char* from) {
  const StoredBox& piece = source.tensors[file_range.tensor].pieces[file_range.piece];
  if (!piece.sum || lines.bytes == 0 || lines.lines == 0) return;
  uint64_t count = lines.lines, bytes = lines.bytes;
  const uint64_t end = lines.begin + (count - 1) * lines.stride + bytes, gap = lines.stride - bytes;
  if (gap == 0 && lines.from_stride == bytes) bytes *= std::exchange(count, 1);
  const bool has_table = gap != 0 && count >= kManyLines;
  const Crc32cShift move = has_table ? crc32c_shift(gap) : Crc32cShift{};
  uint32_t sum = 0;
  for (uint64_t line = 0; line < count; ++line) {
    if (line != 0 && gap != 0) sum = has_table ? crc32c_shifted(sum, move) : crc32c_shifted(sum, gap);
    sum = crc32c_part(from + line * lines.from_stride, bytes, sum);
  }
  BoxSum& of = sums.of[sums.first[file_range.tensor] + file_range.piece];
  of.sum ^= crc32c_shifted(sum, elements_in(piece.box) - end);
  of.bytes += lines.lines * lines.bytes;
}

std::optional<Fault> compare_complete_boxes(const BoxSums& sums, const WeightSource& source, size_t tensor,
                                            std::atomic<uint64_t>& checked) {
  if (sums.of.empty()) return std::nullopt;
  for (size_t p = 0; p < source.tensors[tensor].pieces.size(); ++p) {
    const size_t number = sums.first[tensor] + p;
    const uint64_t bytes = elements_in(source.tensors[tensor].pieces[p].box);
    if (!source.tensors[tensor].pieces[p].sum || bytes == 0 || sums.of[number].bytes != bytes) continue;
    checked += bytes;
    if (std::optional<Fault> fault = box_error(sums, source, tensor, number, sums.of[number].sum)) return fault;
  }
  return std::nullopt;
}

SumsResult compare_sums(Comm& comm, const Group& group, const BoxSums& sums, const WeightSource& source) {
  std::vector<PartsOfBoxes> mine(group.ranks.size());
  std::map<uint64_t, PartOfBox> together;  // boxes that several ranks have read and this rank compares, by number
  SumsResult end;
  const auto compare = [&](size_t tensor, size_t number, uint32_t sum) {
    const std::optional<Fault> fault = box_error(sums, source, tensor, number, sum);
    if (!end.fault && fault) end.fault = fault;
  };
  for_each_summed(sums, source, [&](size_t tensor, size_t number) {
    const BoxSum& of = sums.of[number];
    const uint64_t bytes = elements_in(box_of(source, sums, tensor, number).box);
    if (bytes == 0 || of.bytes == 0) return;
    if (of.bytes == bytes) {
      compare(tensor, number, of.sum);
      end.checked_bytes += bytes;
    } else {
      mine[number % mine.size()].parts.push_back({number, of.bytes, of.sum});
    }
  });
  if (group.ranks.size() <= 1) return end;
  std::vector<std::string> texts;
  for (const PartsOfBoxes& parts : mine) texts.push_back(parts.parts.empty() ? "" : to_message(parts));
  const std::vector<std::string> said = exchange_bytes(comm, group, texts);
  for (size_t i = 0; i < said.size(); ++i) {
    PartsOfBoxes parts;
    if (!said[i].empty() && !from_message(said[i], parts)) throw damaged_message_fault(group.ranks[i]);
    for (const PartOfBox& part : parts.parts) {
      together[part.number].bytes += part.bytes;
      together[part.number].sum ^= part.sum;
    }
  }
  for_each_summed(sums, source, [&](size_t tensor, size_t number) {
    const uint64_t bytes = elements_in(box_of(source, sums, tensor, number).box);
    const auto parts = together.find(number);
    if (parts == together.end() || parts->second.bytes != bytes) return;
    compare(tensor, number, parts->second.sum);
    end.checked_bytes += bytes;
  });
  return end;
}

}  // namespace tpplan
