#include "exec/shards/checksums.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <tuple>

#include "base/input_file.h"
#include "base/keyed_hash.h"
#include "base/sha256.h"
#include "base/text.h"
#include "base/write_file.h"
#include "exec/ranks/gather.h"
#include "exec/ranks/ranks_sharing_memory.h"
#include "exec/shards/load_shards.h"
#include "exec/shards/new_folder.h"
#include "exec/shards/work_queue.h"
#include "exec/shards/work_together.h"
#include "text/json_reader.h"
#include "text/json_writer.h"

namespace tpplan {
namespace {

constexpr std::string_view kFormat = "tpplan.checksums/2";
constexpr std::string_view kNoChecksums = "the file does not have the format tpplan.checksums/2";
constexpr uint64_t kHeadBytes = uint64_t{64} << 10;    // of a file that are read first
constexpr uint64_t kMessageBytes = uint64_t{8} << 20;  // of checksums for standard output
constexpr uint64_t kMaxBytes = uint64_t{1} << 30;
constexpr size_t kMaxErrors = 100;
constexpr size_t kDigits = 64;  // of a SHA-256

constexpr std::string_view kEnd = "\n  ]}\n";

std::string head_text(const ChecksumJob& job) {
  JsonWriter json;
  begin_object(json);
  write_field(json, "format", kFormat);
  next_line(json, 1);
  write_field(json, "shardings_sha256", job.shardings_sha256);
  write_field(json, "algorithm", "sha256");
  next_line(json, 1);
  write_key(json, "paths");
  begin_array(json);
  for (size_t t = 0; t < job.omitted.size(); ++t) {
    if (!job.omitted[t]) write_value(json, path_of(*job.manifest, tensor_of(*job.manifest, t)));
  }
  end_array(json);
  next_line(json, 1);
  write_key(json, "ranks");
  begin_array(json);
  return json.out + '\n';
}

// Returns the end of the head: the key before the ranks' lists.
std::string ranks_key() {
  JsonWriter json;
  write_key(json, "ranks");
  begin_array(json);
  return json.out + '\n';
}

// Returns a rank's line. The last one has a space instead of the comma, so that all have one length.
std::string line_text(const std::vector<std::string>& hashes, bool is_last) {
  std::vector<std::string_view> quoted;
  for (const std::string& hash : hashes) {
    if (!hash.empty()) quoted.push_back(hash);
  }
  return fmt::format("    [{}{}{}]{}\n", quoted.empty() ? "" : "\"", fmt::join(quoted, "\", \""),
                     quoted.empty() ? "" : "\"", is_last ? ' ' : ',');
}

uint64_t line_size(size_t paths) { return 8 + (paths == 0 ? 0 : paths * (kDigits + 4) - 2); }

// A message with the lines of some ranks.
struct RankLines {
  std::vector<std::string> lines;
};
auto fields(RankLines& lines) { return std::tie(lines.lines); }

struct RankErrors {
  std::vector<Fault> faults;
};
auto fields(RankErrors& faults) { return std::tie(faults.faults); }

Fault unusable_sums(const std::string& path, std::string why) {
  return {.code = Code::InvalidChecksums,
          .message = std::move(why),
          .help = "pass a file that `verify --write-checksums` wrote",
          .place = path};
}

Fault sum_differs(const std::string& path, std::string message, int rank = -1) {
  return {.code = Code::ChecksumMismatch, .message = std::move(message), .place = path, .rank = rank};
}

std::optional<Fault> header_error(const ChecksumJob& job, std::string_view format, std::string_view written_by) {
  if (format != kFormat) return unusable_sums(job.path, std::string(kNoChecksums));
  if (written_by == job.shardings_sha256) return std::nullopt;
  return Fault{
      .code = Code::OtherManifest,
      .message = fmt::format("the file was written for a manifest with other shardings: SHA-256 {}... instead "
                             "of {}...",
                             escape_for_terminal(written_by.substr(0, 12)), job.shardings_sha256.substr(0, 12)),
      .help = "pass the manifest that `verify --write-checksums` was run with",
      .place = job.path};
}

// Function that is called for each checksum in the file of a rank of this process: index among the job's stores, index
// of the tensor, checksum.
using HashSeen = std::function<void(size_t store, size_t tensor, std::string_view there, std::vector<Fault>& faults)>;

void report_lacking(const ChecksumJob& job, const std::vector<bool>& seen, std::vector<Fault>& faults) {
  for (size_t t = 0; t < seen.size() && faults.size() < kMaxErrors; ++t) {
    if (seen[t] || job.omitted[t]) continue;
    const std::string path = escape_for_terminal(path_of(*job.manifest, tensor_of(*job.manifest, t)));
    faults.push_back(sum_differs(job.path, fmt::format("the file has no checksum of `{}`", path)));
  }
}

// Reads the text before the first rank's list; empty, with the reason, if there is none.
std::string read_head(const InputFile& file, std::string& reason) {
  const std::string key = ranks_key();
  for (uint64_t bytes = kHeadBytes; bytes <= kMaxBytes; bytes *= 4) {
    const ReadResult part = read_part(file, 0, bytes);
    const std::string_view text = part.file.text;
    if (part.fault != ReadError::None) {
      reason = part.reason;
      return "";
    }
    const size_t end = text.find(key);
    if (end != std::string::npos) return std::string(text.substr(0, end + key.size()));
    if (bytes >= size_of(file)) break;
  }
  reason = kNoChecksums;
  return "";
}

// Reads only the lines of the ranks of this process.
std::vector<Fault> read_lines(const ChecksumJob& job, const HashSeen& seen_hash) {
  InputFile file{.name = job.path, .fd = {}, .identity = {}};
  std::string reason = open_input(job.path, file);
  const std::string head = reason.empty() ? read_head(file, reason) : std::string();
  if (head.empty()) return {unusable_sums(job.path, std::move(reason))};
  const SourceFile text{.name = job.path, .text = head + "]}"};
  std::string format, written_by;
  std::vector<std::string> paths;
  std::deque<std::string> strings;
  Diagnostics diagnostics;
  const JsonVisitor visitor{.member = [](std::string_view, Span) { return JsonField::Whole; },
                            .value =
                                [&](std::string_view key, const JsonTree& tree) {
                                  if (key == "format" && tree.nodes[0].kind == JsonKind::String)
                                    format = tree.nodes[0].text;
                                  if (key == "shardings_sha256" && tree.nodes[0].kind == JsonKind::String)
                                    written_by = tree.nodes[0].text;
                                  if (key == "paths" && tree.nodes[0].kind == JsonKind::Array) {
                                    for (uint32_t i = 1; i < tree.nodes[0].end; i = tree.nodes[i].end)
                                      paths.emplace_back(tree.nodes[i].text);
                                  }
                                  return true;
                                }};
  if (!read_json(text, visitor, strings, diagnostics))
    return {
        unusable_sums(job.path, diagnostics.list.empty() ? "cannot parse the file" : diagnostics.list.front().message)};
  if (const std::optional<Fault> fault = header_error(job, format, written_by)) return {*fault};
  const auto ranks = static_cast<uint64_t>(device_count(job.manifest->mesh));
  const uint64_t line = line_size(paths.size());
  if (size_of(file) != head.size() + ranks * line + kEnd.size() - 1)
    return {unusable_sums(
        job.path, fmt::format("the file does not have the {} of checksums for {} of {}", human_bytes(ranks * line),
                              counted(ranks, "rank"), counted(paths.size(), "tensor")))};
  TextMap<std::string_view, size_t> numbers;
  for (size_t t = 0; t < job.omitted.size(); ++t) numbers[path_of(*job.manifest, tensor_of(*job.manifest, t))] = t;
  std::vector<Fault> faults;
  std::vector<bool> seen(job.omitted.size());
  std::vector<size_t> tensors;
  for (const std::string& path : paths) {
    const auto number = numbers.find(path);
    if (number == numbers.end())
      return {sum_differs(job.path, "the file has an entry that is not a tensor of the manifest")};
    tensors.push_back(number->second);
    seen[number->second] = true;
  }
  report_lacking(job, seen, faults);
  for (size_t s = 0; s < job.stores.size() && faults.size() < kMaxErrors; ++s) {
    const int rank = job.stores[s].rank;
    const ReadResult part = read_part(file, head.size() + static_cast<uint64_t>(rank) * line, line);
    if (part.fault != ReadError::None || part.file.text.size() != line)
      return {unusable_sums(job.path,
                            part.fault == ReadError::None ? "the file became shorter while it was read" : part.reason)};
    std::vector<std::string> there;
    for (size_t i = 0; i < paths.size(); ++i) there.push_back(part.file.text.substr(6 + i * (kDigits + 4), kDigits));
    if (line_text(there, static_cast<uint64_t>(rank) + 1 == ranks) != part.file.text)
      return {unusable_sums(job.path, fmt::format("the entry of rank {} is not a list of checksums", rank))};
    for (size_t i = 0; i < paths.size(); ++i) {
      if (!job.omitted[tensors[i]]) seen_hash(s, tensors[i], there[i], faults);
    }
  }
  return faults;
}

}  // namespace

std::string shard_hash(const Shard& shard, const Device& device) {
  std::vector<char> buffer;
  return sha256_hex({host_view(device, shard.data, shard.bytes, buffer), shard.bytes});
}

std::vector<Fault> read_checksums(const ChecksumJob& job, Checksums& checksums) {
  checksums.assign(job.stores.size(), std::vector<std::string>(job.omitted.size()));
  return read_lines(job, [&](size_t store, size_t tensor, std::string_view there, std::vector<Fault>&) {
    checksums[store][tensor] = there;
  });
}

std::optional<Fault> compare_checksum(const ChecksumJob& job, size_t store, size_t tensor, std::string_view mine,
                                      std::string_view there) {
  if (mine == there) return std::nullopt;
  const int rank = job.stores[store].rank;
  return sum_differs(job.path,
                     fmt::format("rank {}: `{}` has SHA-256 {}, but the file has {}", rank,
                                 escape_for_terminal(path_of(*job.manifest, tensor_of(*job.manifest, tensor))), mine,
                                 escape_for_terminal(there.substr(0, kDigits))),
                     rank);
}

Checksums hash_shards(Comm& comm, std::span<const ShardStore> stores, const std::vector<bool>& omitted, int threads) {
  const size_t tensors = omitted.size();
  Checksums mine(stores.size(), std::vector<std::string>(tensors));
  begin_step(comm, "verify: checksums");
  WorkQueue queue;
  queue.count = stores.size() * tensors;
  start_work(queue, stores.empty() ? 0 : working_threads(comm, threads), [&](WorkQueue& work) {
    use_device(comm);
    for (uint64_t number = 0; take_work(work, number);) {
      const size_t tensor = number % tensors;
      const ShardStore& store = stores[number / tensors];
      if (!omitted[tensor]) mine[number / tensors][tensor] = shard_hash(store.shards[tensor], *store.device);
    }
  });
  finish_together(comm, queue);
  return mine;
}

void write_checksums(Comm& comm, const ChecksumJob& job, const Checksums& checksums) {
  const std::string head = head_text(job);
  const auto ranks = static_cast<uint64_t>(comm.world);
  const uint64_t line = line_size(static_cast<size_t>(std::ranges::count(job.omitted, false)));
  const auto line_of = [&](size_t store) {
    return line_text(checksums[store], static_cast<uint64_t>(job.stores[store].rank) + 1 == ranks);
  };
  if (job.path != "-") {
    FolderSteps steps;
    steps.prepare = [&](const std::string& path) {
      const OutputFile file = open_for_writing(path);
      write_at(file, head.data(), head.size(), 0);
      write_at(file, kEnd.data() + 1, kEnd.size() - 1, head.size() + ranks * line);
    };
    steps.write = [&](const std::string& path) {
      if (job.stores.empty()) return;
      const OutputFile file = open_for_writing(path);
      for (size_t s = 0; s < job.stores.size(); ++s) {
        const std::string text = line_of(s);
        write_at(file, text.data(), text.size(), head.size() + static_cast<uint64_t>(job.stores[s].rank) * line);
      }
      sync_file(file);
    };
    write_file_together(comm, job.path, steps);
    return;
  }
  // Each message has the lines of as many ranks as fit.
  std::string text = head;
  const uint64_t at_a_time = std::max<uint64_t>(1, kMessageBytes / line);
  for (uint64_t first = 0; first < ranks; first += at_a_time) {
    RankLines mine;
    for (size_t s = 0; s < job.stores.size(); ++s) {
      const auto rank = static_cast<uint64_t>(job.stores[s].rank);
      if (rank >= first && rank < first + at_a_time) mine.lines.push_back(line_of(s));
    }
    for (const RankLines& lines : gather(comm, mine)) {
      for (const std::string& one : lines.lines) text += one;
    }
  }
  if (comm.rank != 0) return;
  text += kEnd.substr(1);
  const std::string fault = write_output(job.path, [&](const Sink& sink) { return sink(text); });
  if (!fault.empty())
    throw Fault{.code = Code::OutputUnwritable,
                .message = fmt::format("cannot write the checksums: {}", fault),
                .place = job.path};
}

std::vector<Fault> compare_checksums(Comm& comm, const ChecksumJob& job, const Checksums& checksums) {
  RankErrors mine;
  const auto compare = [&] {
    mine.faults = read_lines(job, [&](size_t store, size_t tensor, std::string_view there, std::vector<Fault>& faults) {
      const std::optional<Fault> fault = compare_checksum(job, store, tensor, checksums[store][tensor], there);
      if (fault && faults.size() < kMaxErrors) faults.push_back(*fault);
    });
  };
  work_together(comm, "verify: comparing checksums", job.stores.empty() ? std::function<void()>() : compare);
  return fold(comm, mine,
              [](RankErrors& all, RankErrors more, int) {
                for (Fault& fault : more.faults) {  // all ranks report the same errors of the file
                  const bool is_reported = std::ranges::count(all.faults, fault.message, &Fault::message) != 0;
                  if (!is_reported && all.faults.size() < kMaxErrors) all.faults.push_back(std::move(fault));
                }
              })
      .faults;
}

}  // namespace tpplan
