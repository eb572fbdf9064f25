#include "exec/shards/weights_identity.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/sha256.h"
#include "exec/shards/read_exactly.h"

namespace tpplan {
namespace {

constexpr uint64_t kSampleBytes = 4096;
constexpr size_t kMostSamples = 1024;  // tensors of a checkpoint to sample, at even distances

}  // namespace

std::string weights_identity(const WeightSource& source) {
  Sha256 headers = begin_sha256(), blocks = begin_sha256();
  uint64_t bytes = 0;
  for (const SourceFile* text : source_files_of(source.weights)) add(headers, text->text);
  for (const InputFile& file : source.weights.files) bytes += size_of(file);
  const size_t step = std::max<size_t>(1, source.tensors.size() / kMostSamples);
  std::string block;
  for (size_t i = 0; i < source.tensors.size(); i += step) {
    for (const StoredBox& piece : source.tensors[i].pieces) {
      // From the middle: the first rows of an embedding are those that training changes least.
      const uint64_t size = elements_in(piece.box), take = std::min(size, kSampleBytes);
      block.resize(take);
      if (take == 0) continue;
      read_exactly(source.weights.files[piece.file], piece.offset + (size - take) / 2, block.data(), take,
                   source.tensors[i].name);
      add(blocks, block);
      break;  // one box of a folder of shards is enough
    }
  }
  return fmt::format("weights: {} files, {} bytes, headers {}, samples {}", source.weights.files.size(), bytes,
                     hex_of(headers).substr(0, 16), hex_of(blocks).substr(0, 16));
}

}  // namespace tpplan
