#include "shards/write_safetensors.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <tuple>

#include "base/text.h"
#include "diagnostics/fault.h"
#include "shards/shard_folder.h"
#include "syntax/json_writer.h"

namespace tpplan {

std::string lay_out(std::vector<WriteEntry>& entries, bool are_pieces) {
  std::ranges::sort(entries, {}, [](const WriteEntry& entry) {
    return std::tuple{-static_cast<int>(dtypes()[entry.dtype].bits), entry.name};
  });
  std::string json = "{\"__metadata__\":{", info = "{", tensors;
  uint64_t end = 0;
  for (WriteEntry& entry : entries) {
    const DTypeRow& type = dtypes()[entry.dtype];
    if (type.safetensors.empty())
      throw Fault{.code = Code::TP8033, .message = fmt::format("safetensors has no type for {}", type.name)};
    std::string name;
    append_json_string(name, entry.name);
    info += fmt::format("{}{}:{{\"saved_offsets\":[{}]}}", info.size() == 1 ? "" : ",", name,
                        fmt::join(entry.saved_offsets, ","));
    tensors += fmt::format(",{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}", name, type.safetensors,
                           fmt::join(entry.shape, ","), end, end + entry.bytes);
    entry.offset = end;
    end += entry.bytes;
  }
  if (are_pieces) {
    std::string text;
    append_json_string(text, info + "}");
    if (text.size() > kMaxHeaderText) {  // readers take no more, ours among them
      throw Fault{.code = Code::TP8033,
                  .message = fmt::format("where the pieces of {} begin takes {} of a header, more than {}",
                                         counted(entries.size(), "tensor"), human_bytes(text.size()),
                                         human_bytes(kMaxHeaderText)),
                  .help = "write fewer tensors a file, with --consolidated or more ranks"};
    }
    json += fmt::format("\"{}\":{}", kShardingInfoKey, text);
    json += ",\"DCP_VERSION\":\"1.0\",";
  }
  json += "\"format\":\"pt\"}" + tensors + "}";
  json.resize((json.size() + 7) / 8 * 8, ' ');
  if (json.size() > kMaxHeaderBytes)
    throw Fault{.code = Code::TP8033,
                .message = fmt::format("a header of {} is more than the format's {}", human_bytes(json.size()),
                                       human_bytes(kMaxHeaderBytes))};
  std::string head;
  for (size_t i = 0; i < 8; ++i) head += static_cast<char>(json.size() >> (8 * i) & 0xff);
  head += json;
  for (WriteEntry& entry : entries) entry.offset += head.size();
  return head;
}

}  // namespace tpplan
