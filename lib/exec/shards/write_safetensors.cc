#include "exec/shards/write_safetensors.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "base/text.h"
#include "diagnostics/fault.h"
#include "exec/shards/box_sums.h"
#include "exec/shards/shard_folder.h"
#include "text/json_writer.h"

namespace tpplan {
namespace {

// Returns the offset of each stored box in its tensor, as the JSON text that torch's distributed checkpoint puts into
// the metadata.
std::string pieces_text(const std::vector<WriteEntry>& entries) {
  JsonWriter json{.is_tight = true};
  begin_object(json);
  for (const WriteEntry& entry : entries) {
    write_key(json, entry.name);
    begin_object(json);
    write_key(json, "saved_offsets");
    write_array(json, entry.saved_offsets);
    end_object(json);
  }
  end_object(json);
  std::string text = json_text(json.out);
  if (text.size() <= kMaxHeaderText) return text;  // readers accept no more, ours included
  throw Fault{
      .code = Code::UnsavableTensors,
      .message = fmt::format("the shard offsets of {} need {} of the header, more than {}",
                             counted(entries.size(), "tensor"), human_bytes(text.size()), human_bytes(kMaxHeaderText)),
      .help = "write fewer tensors per file: use --consolidated or more ranks"};
}

void write_metadata(JsonWriter& json, const std::vector<WriteEntry>& entries, bool are_shards) {
  begin_object(json);
  if (are_shards) {
    write_field(json, kSumsKey, std::string(entries.size() * kSumDigits, '0'));
    write_key(json, kShardingInfoKey);
    write_json(json, pieces_text(entries));
    write_field(json, "DCP_VERSION", "1.0");
  }
  write_field(json, "format", "pt");
  end_object(json);
}

// Sets the offset of each entry, counted from the end of the header, and returns the header.
std::string header_text(std::vector<WriteEntry>& entries, bool are_shards) {
  JsonWriter json{.is_tight = true};
  begin_object(json);
  write_key(json, "__metadata__");
  write_metadata(json, entries, are_shards);
  uint64_t end = 0;
  for (WriteEntry& entry : entries) {
    const DTypeRow& type = dtypes()[entry.dtype];
    if (type.safetensors.empty())
      throw Fault{.code = Code::UnsavableTensors, .message = fmt::format("safetensors has no type for {}", type.name)};
    entry.offset = end;
    end += entry.bytes;
    write_key(json, entry.name);
    begin_object(json);
    write_field(json, "dtype", type.safetensors);
    write_key(json, "shape");
    write_array(json, entry.shape);
    write_key(json, "data_offsets");
    write_array(json, std::array{entry.offset, end});
    end_object(json);
  }
  end_object(json);
  return std::move(json.out);
}

}  // namespace

std::string lay_out_entries(std::vector<WriteEntry>& entries, bool are_shards) {
  std::ranges::sort(entries, {}, [](const WriteEntry& entry) {
    return std::tuple{-static_cast<int>(dtypes()[entry.dtype].bits), entry.name};
  });
  std::string json = header_text(entries, are_shards);
  json.resize((json.size() + 7) / 8 * 8, ' ');
  if (json.size() > kMaxHeaderBytes)
    throw Fault{.code = Code::UnsavableTensors,
                .message = fmt::format("a header of {} exceeds the format's limit of {}", human_bytes(json.size()),
                                       human_bytes(kMaxHeaderBytes))};
  std::string head;
  for (size_t i = 0; i < 8; ++i) head += static_cast<char>(json.size() >> (8 * i) & 0xff);
  head += json;
  for (WriteEntry& entry : entries) entry.offset += head.size();
  return head;
}

}  // namespace tpplan
