#include "shards/checksums.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <stdexcept>
#include <unordered_map>

#include "base/read_file.h"
#include "base/sha256.h"
#include "base/text.h"
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
  const std::string fault = finish_together(comm, queue);
  if (!fault.empty()) throw std::runtime_error(fault);
  // Every rank's text, from the process that holds it: "RANK HASHES", hashes of 64 digits or blanks.
  std::string text;
  for (size_t s = 0; s < stores.size(); ++s) {
    text += fmt::format("{:>10}", stores[s].rank);
    for (const std::string& hash : mine[s]) text += fmt::format("{:>64}", hash);
  }
  std::vector<std::string> all;
  if (!comm.backend->gather_texts(comm, text, all)) throw std::runtime_error(comm.fault);
  Checksums checksums(static_cast<size_t>(comm.world), std::vector<std::string>(tensors));
  const size_t record = 10 + tensors * kDigits;
  for (const std::string& from : all) {
    for (size_t begin = 0; begin + record <= from.size(); begin += record) {
      const size_t rank = std::stoul(from.substr(begin, 10));
      for (size_t t = 0; t < tensors; ++t) {
        const std::string hash = from.substr(begin + 10 + t * kDigits, kDigits);
        if (rank < checksums.size() && hash.front() != ' ') checksums[rank][t] = hash;
      }
    }
  }
  return checksums;
}

std::string checksums_text(const Manifest& manifest, std::string_view manifest_sha256, const Checksums& checksums) {
  std::string text =
      fmt::format("{{\"format\": \"{}\",\n \"manifest_sha256\": \"{}\", \"algorithm\": \"sha256\",\n \"shards\": [",
                  kFormat, manifest_sha256);
  bool first = true;
  for (size_t t = 0; t < checksums.front().size(); ++t) {
    if (checksums.front()[t].empty()) continue;
    text += first ? "\n  {\"path\": " : ",\n  {\"path\": ";
    first = false;
    append_json_string(text, path_of(manifest, tensor_of(manifest, t)));
    text += ", \"ranks\": [";
    for (size_t rank = 0; rank < checksums.size(); ++rank)
      text += fmt::format("{}\"{}\"", rank == 0 ? "" : ", ", checksums[rank][t]);
    text += "]}";
  }
  return text + "]}\n";
}

std::vector<std::string> compare_checksums(const std::string& path, const Manifest& manifest,
                                           std::string_view manifest_sha256, const Checksums& checksums,
                                           bool& unreadable) {
  const std::string shown = escape_for_terminal(path);
  std::vector<std::string> faults;
  const auto unusable = [&](std::string_view why) {
    unreadable = true;
    return std::vector<std::string>{fmt::format("{}: {}", shown, why)};
  };
  const ReadResult result = read_file(path, kMaxBytes);
  if (result.fault != ReadFault::None)
    return unusable(result.fault == ReadFault::TooLarge ? "the file is too large" : result.reason);
  std::unordered_map<std::string_view, size_t> numbers;
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
      faults.push_back(fmt::format("{}: has an entry that is no tensor of the manifest", shown));
      return;
    }
    seen[number->second] = true;
    size_t rank = 0;
    for (uint32_t i = list + 1; i < tree.nodes[list].end; i = tree.nodes[i].end, ++rank) {
      if (rank < checksums.size() && tree.nodes[i].text != checksums[rank][number->second])
        faults.push_back(fmt::format("rank {}: `{}` has SHA-256 {}, and {} says {}", rank,
                                     escape_for_terminal(number->first), checksums[rank][number->second], shown,
                                     escape_for_terminal(tree.nodes[i].text.substr(0, kDigits))));
    }
    if (rank != checksums.size())
      faults.push_back(fmt::format("{}: `{}` has {} there, the mesh {}", shown, escape_for_terminal(number->first),
                                   counted(rank, "rank"), checksums.size()));
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
  if (!read_json(result.file, Source::Model, visitor, strings, diagnostics) && faults.empty())
    return unusable(diagnostics.list.empty() ? "cannot be read" : diagnostics.list.front().message);
  if (format != kFormat) return unusable(fmt::format("is no file of format {}", kFormat));
  if (written_by != manifest_sha256)
    return {fmt::format("{}: was written for another manifest (SHA-256 {}..., this one is {}...)", shown,
                        escape_for_terminal(written_by.substr(0, 12)), manifest_sha256.substr(0, 12))};
  for (size_t t = 0; t < seen.size() && faults.size() < kMaxFaults; ++t) {
    if (!seen[t] && !checksums.front()[t].empty())
      faults.push_back(fmt::format("{}: has no checksum of `{}`", shown,
                                   escape_for_terminal(path_of(manifest, tensor_of(manifest, t)))));
  }
  return faults;
}

}  // namespace tpplan
