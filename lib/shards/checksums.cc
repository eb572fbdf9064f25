#include "shards/checksums.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <tuple>

#include "base/keyed_hash.h"
#include "base/read_file.h"
#include "base/sha256.h"
#include "base/text.h"
#include "ranks/gather.h"
#include "ranks/memory_sharers.h"
#include "shards/load_shards.h"
#include "shards/work_queue.h"
#include "shards/work_together.h"
#include "syntax/json_reader.h"
#include "syntax/json_writer.h"

namespace tpplan {
namespace {

constexpr std::string_view kFormat = "tpplan.checksums/1";
constexpr uint64_t kMaxBytes = uint64_t{1} << 30;
constexpr size_t kMaxFaults = 100;
constexpr size_t kDigits = 64;  // of a SHA-256

std::string hash_of_shard(const Shard& shard, const Device& device) {
  std::vector<char> buffer;
  return sha256_hex({host_view(device, shard.data, shard.bytes, buffer), shard.bytes});
}

// The checksums of a rank, from the process that holds it.
struct RankChecksums {
  int rank = 0;
  std::vector<std::string> hashes;
};
auto members(RankChecksums& checksums) { return std::tie(checksums.rank, checksums.hashes); }

// Of a process: those of its ranks, said by the first of them.
struct ProcessChecksums {
  std::vector<RankChecksums> ranks;
};
auto members(ProcessChecksums& checksums) { return std::tie(checksums.ranks); }

}  // namespace

Checksums hash_shards(Comm& comm, std::span<const ShardStore> stores, const std::vector<bool>& left_out, int threads) {
  const size_t tensors = left_out.size();
  Checksums mine(stores.size(), std::vector<std::string>(tensors));
  begin_step(comm, "verify: checksums");
  WorkQueue queue;
  queue.count = stores.size() * tensors;
  start_work(queue, stores.empty() ? 0 : working_threads(comm, threads), [&](WorkQueue& work) {
    use_device(comm);
    for (uint64_t number = 0; take_work(work, number);) {
      const size_t tensor = number % tensors;
      const ShardStore& store = stores[number / tensors];
      if (!left_out[tensor]) mine[number / tensors][tensor] = hash_of_shard(store.shards[tensor], *store.device);
    }
  });
  finish_together(comm, queue);
  ProcessChecksums own;
  for (size_t s = 0; s < stores.size(); ++s) own.ranks.push_back({stores[s].rank, std::move(mine[s])});
  Checksums checksums(static_cast<size_t>(comm.world), std::vector<std::string>(tensors));
  const std::vector<ProcessChecksums> all = gather(comm, own);
  for (size_t sender = 0; sender < all.size(); ++sender) {
    for (const RankChecksums& of_rank : all[sender].ranks) {
      if (of_rank.rank < 0 || of_rank.rank >= comm.world || of_rank.hashes.size() != tensors)
        throw damaged_message(static_cast<int>(sender));
      checksums[static_cast<size_t>(of_rank.rank)] = of_rank.hashes;
    }
  }
  return checksums;
}

std::string checksums_text(const Manifest& manifest, std::string_view manifest_sha256, const Checksums& checksums) {
  JsonWriter json;
  begin_object(json);
  write_member(json, "format", kFormat);
  next_line(json, 1);
  write_member(json, "manifest_sha256", manifest_sha256);
  write_member(json, "algorithm", "sha256");
  next_line(json, 1);
  write_key(json, "shards");
  begin_array(json);
  for (size_t t = 0; t < checksums.front().size(); ++t) {
    if (checksums.front()[t].empty()) continue;
    next_line(json, 2);
    begin_object(json);
    write_member(json, "path", path_of(manifest, tensor_of(manifest, t)));
    write_key(json, "ranks");
    write_array(json, checksums, [&](const auto& of_rank) { write_value(json, of_rank[t]); });
    end_object(json);
  }
  end_array(json);
  end_object(json);
  return json.out + '\n';
}

std::vector<Fault> compare_checksums(const std::string& path, const Manifest& manifest,
                                     std::string_view manifest_sha256, const Checksums& checksums) {
  std::vector<Fault> faults;
  const auto differs = [&](std::string message, int rank = -1) {
    faults.push_back({.code = Code::TP8043, .message = std::move(message), .place = path, .rank = rank});
  };
  const auto unusable = [&](std::string why) {
    return std::vector<Fault>{{.code = Code::TP8044,
                               .message = std::move(why),
                               .help = "give a file that `verify --write-checksums` wrote",
                               .place = path}};
  };
  const ReadResult result = read_file(path, kMaxBytes);
  if (result.fault != ReadFault::None)
    return unusable(result.fault == ReadFault::TooLarge ? "the file is too large" : result.reason);
  TextMap<std::string_view, size_t> numbers;
  std::vector<bool> seen(checksums.front().size());
  for (size_t t = 0; t < seen.size(); ++t) numbers[path_of(manifest, tensor_of(manifest, t))] = t;
  std::string format, written_by;
  std::deque<std::string> strings;
  Diagnostics diagnostics;
  const auto compare_one = [&](const JsonTree& tree) {
    const uint32_t name = tree.nodes[0].kind == JsonKind::Object ? find_member(tree, 0, "path") : 0,
                   list = name == 0 ? 0 : find_member(tree, 0, "ranks");
    const auto number = list == 0 ? numbers.end() : numbers.find(tree.nodes[name].text);
    if (number == numbers.end() || tree.nodes[list].kind != JsonKind::Array) {
      differs("it has an entry that is no tensor of the manifest");
      return;
    }
    seen[number->second] = true;
    size_t rank = 0;
    for (uint32_t i = list + 1; i < tree.nodes[list].end; i = tree.nodes[i].end, ++rank) {
      if (rank < checksums.size() && tree.nodes[i].text != checksums[rank][number->second])
        differs(
            fmt::format("rank {}: `{}` has SHA-256 {}, and the file says {}", rank, escape_for_terminal(number->first),
                        checksums[rank][number->second], escape_for_terminal(tree.nodes[i].text.substr(0, kDigits))),
            static_cast<int>(rank));
    }
    if (rank != checksums.size())
      differs(fmt::format("`{}` has {} there, the mesh {}", escape_for_terminal(number->first), counted(rank, "rank"),
                          checksums.size()));
  };
  const JsonVisitor visitor{
      .member = [](std::string_view key, Span) { return key == "shards" ? JsonMember::Elements : JsonMember::Whole; },
      .value =
          [&](std::string_view key, const JsonTree& tree) {
            if (key == "shards") compare_one(tree);
            if (key == "format" && tree.nodes[0].kind == JsonKind::String) format = tree.nodes[0].text;
            if (key == "manifest_sha256" && tree.nodes[0].kind == JsonKind::String) written_by = tree.nodes[0].text;
            return faults.size() < kMaxFaults;
          }};
  if (!read_json(result.file, visitor, strings, diagnostics) && faults.empty())
    return unusable(diagnostics.list.empty() ? "cannot be read" : diagnostics.list.front().message);
  if (format != kFormat) return unusable(fmt::format("this is no file of format {}", kFormat));
  if (written_by != manifest_sha256)
    return {{.code = Code::TP8030,
             .message = fmt::format("it was written for another manifest: of SHA-256 {}..., this one is {}...",
                                    escape_for_terminal(written_by.substr(0, 12)), manifest_sha256.substr(0, 12)),
             .place = path}};
  for (size_t t = 0; t < seen.size() && faults.size() < kMaxFaults; ++t) {
    if (!seen[t] && !checksums.front()[t].empty())
      differs(
          fmt::format("it has no checksum of `{}`", escape_for_terminal(path_of(manifest, tensor_of(manifest, t)))));
  }
  return faults;
}

}  // namespace tpplan
