#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "base/read_file.h"
#include "base/sha256.h"
#include "base/text.h"
#include "diagnostics/fault.h"
#include "load/tpplan_load.h"
#include "manifest/read_manifest.h"
#include "ranks/deadline.h"
#include "render/render.h"
#include "sharding/tensor_size.h"
#include "shards/cast_elements.h"
#include "shards/checksums.h"
#include "shards/load_shards.h"
#include "shards/open_weights.h"
#include "shards/plan_reads.h"
#include "shards/read_cells.h"
#include "shards/read_exactly.h"
#include "shards/save_shards.h"
#include "shards/shard_folder.h"
#include "shards/shard_store.h"

using tpplan::Code;
using tpplan::Fault;

// Views point from one member into those before it: it stays where it was made.
struct tpplan_load {
  tpplan::SourceFile file;
  tpplan::Manifest manifest;
  std::string sha256;
  tpplan::WeightSource source;
  tpplan::ShardStore store;  // data: while something is read
  std::vector<uint32_t> first;
  std::vector<std::string> paths, dtypes;  // that end with a zero byte
  bool is_open = false, has_weights = false;
  bool has_own_types = false;  // in memory: not the manifest's
  int device_number = 0;
  std::string error, warnings;
  std::atomic<const char*> said = "";  // the error, or a text that takes no memory
  std::atomic<bool> is_busy = false;   // a call reads or writes
};

namespace tpplan {
namespace {

constexpr const char* kNoMemory = "tpplan_load: error[TP8012]: out of memory\n";
constexpr const char* kBusy = "tpplan_load: error: another call reads or writes by it, and has not come back\n";
constexpr double kSecondsALook = 0.002, kSecondsAProgress = 0.1;

// What a caller asked for and cannot have: no finding about a file, so that it has no code.
struct Refusal {
  std::string text;
  int status = TPPLAN_LOAD_INPUT;
};

// A callback has asked for the end.
struct Stopped {};

int keep_error(tpplan_load& load, std::string text, int status) {
  load.error = std::move(text);
  load.said = load.error.c_str();
  return status;
}

// Runs a call's work: what it throws becomes its status and text.
template <typename Work>
int guarded(tpplan_load& load, Work work) noexcept {
  load.said = "";
  try {
    try {
      work();
      load.said = "";  // a call that came meanwhile may have been refused
      return TPPLAN_LOAD_OK;
    } catch (const Refusal& refusal) {
      return keep_error(load, fmt::format("tpplan_load: error: {}\n", refusal.text), refusal.status);
    } catch (const Stopped&) {
      return keep_error(load, "tpplan_load: error: a callback has stopped the reading\n", TPPLAN_LOAD_STOPPED);
    } catch (...) {
      const Fault fault = current_fault();
      return keep_error(load, render_human(fault, "tpplan_load", {}), exit_status(fault));
    }
  } catch (...) {  // no memory to say what was wrong
    load.said = kNoMemory;
    return TPPLAN_LOAD_LIMIT;
  }
}

// Of what reads or writes one call is under way at a time: another one, from a callback or a thread, is refused, and
// finds what it says in a text that is nobody's.
template <typename Work>
int alone(tpplan_load& load, Work work) noexcept {
  if (load.is_busy.exchange(true)) {
    load.said = kBusy;
    return TPPLAN_LOAD_INPUT;
  }
  const int status = guarded(load, std::move(work));
  load.is_busy = false;
  return status;
}

// Several findings at once.
struct Findings {
  std::string text;
  int status = TPPLAN_LOAD_WRONG;
};

void add_finding(tpplan_load& load, Findings& findings, const Fault& fault) {
  const int status = exit_status(fault);
  (status == 0 ? load.warnings : findings.text) += render_human(fault, "tpplan_load", {});
  findings.status = std::max(findings.status, status);
}

void add_findings(tpplan_load& load, Findings& findings, Diagnostics& diagnostics, const Sources& sources) {
  finish_diagnostics(diagnostics);
  (has_errors(diagnostics) ? findings.text : load.warnings) += render_human(diagnostics, sources, {});
  findings.status = std::max(findings.status, exit_status(diagnostics));
}

void read_text(tpplan_load& load, const char* path) {
  ReadResult result = read_file(path, kMaxManifestBytes);
  if (result.fault != ReadFault::None)
    throw Fault{.code = result.fault == ReadFault::TooLarge ? Code::TP1002 : Code::TP1001,
                .message = result.fault == ReadFault::TooLarge
                               ? fmt::format("the manifest is larger than {}", human_bytes(kMaxManifestBytes))
                               : fmt::format("cannot read the manifest: {}", result.reason),
                .place = path};
  load.file = std::move(result.file);
}

Rename rename_of(const tpplan_load_source& source) {
  if (source.rename == nullptr) return {};
  return [&source](std::string_view stored) -> std::optional<std::string> {
    const std::string given(stored);  // into which the name may point
    const char* name = source.rename(source.user, given.c_str());
    return name == nullptr ? std::nullopt : std::optional<std::string>(name);
  };
}

// Memory in other types than the manifest's: as a manifest would say that was compiled for them.
void take_dtype(tpplan_load& load, std::string_view dtype) {
  if (dtype == "manifest") return;
  DType wanted = 0;
  if (!find_dtype(dtype, wanted) || !is_model_type(wanted))
    throw Refusal{fmt::format("`{}` is no type of floating point of 16 bits or more", escape_for_terminal(dtype))};
  for (ParamLayout& layout : load.manifest.layouts) {
    if (!can_cast(layout.dtype, wanted)) continue;
    load.has_own_types |= layout.dtype != wanted;
    layout.dtype = wanted;
  }
}

bool is_empty_name(const char* name) { return name == nullptr || *name == '\0'; }

PlaceOptions options_of(const tpplan_load_source& source) {
  PlaceOptions options{.rename = rename_of(source), .fuse = {}, .cast = source.dtype != nullptr};
  if (source.fuse == nullptr && source.fuse_count != 0) throw Refusal{"no rules for fused tensors are given"};
  for (size_t i = 0; i < source.fuse_count; ++i) {
    const tpplan_load_fuse& rule = source.fuse[i];
    if (is_empty_name(rule.fused) || rule.parts == nullptr || rule.count < 2)
      throw Refusal{fmt::format("rule {} for fused tensors has no name, or fewer than two parts", i)};
    FuseRule& out = options.fuse.emplace_back(
        FuseRule{.fused = rule.fused, .parts = {}, .groups = std::max<uint64_t>(rule.groups, 1)});
    for (size_t p = 0; p < rule.count; ++p) {
      if (is_empty_name(rule.parts[p])) throw Refusal{fmt::format("a part of `{}` has no name", out.fused)};
      out.parts.emplace_back(rule.parts[p]);
    }
  }
  return options;
}

const Device& find_device(const char* name) {
  if (name == nullptr) return cpu_device();
  for (const DeviceRow& row : device_rows()) {
    if (row.name != name) continue;
    std::string reason;
    const Device* device = row.find(reason);
    if (device == nullptr) throw Refusal{fmt::format("{}: {}", name, reason)};
    return *device;
  }
  throw Refusal{fmt::format("there is no device `{}`", escape_for_terminal(name))};
}

bool is_cast(const tpplan_load& load, size_t tensor) {
  return load.source.tensors[tensor].dtype != load.store.shards[tensor].layout->dtype;
}

// Says of how many tensors the values change.
void warn_of_loss(tpplan_load& load) {
  size_t count = 0, first = 0;
  for (size_t t = 0; t < load.source.tensors.size(); ++t) {
    if (load.source.missing[t] || !loses_by_cast(load.source.tensors[t].dtype, load.store.shards[t].layout->dtype))
      continue;
    if (count++ == 0) first = t;
  }
  if (count == 0) return;
  const Shard& shard = load.store.shards[first];
  load.warnings +=
      fmt::format("tpplan_load: warning: {} {} precision by a cast: `{}` is {} in the weights, {} in memory\n",
                  counted(count, "tensor"), count == 1 ? "loses" : "lose", escape_for_terminal(shard.path),
                  dtypes()[load.source.tensors[first].dtype].name, dtypes()[shard.layout->dtype].name);
}

Findings open_text(tpplan_load& load, const tpplan_load_source& source) {
  const int rank = source.rank;
  Findings findings;
  Diagnostics diagnostics;
  load.manifest = read_manifest(load.file, diagnostics);
  load.sha256 = sha256_hex(load.file.text);
  add_findings(load, findings, diagnostics, sources_of(load.file));
  if (!findings.text.empty()) return findings;
  const int64_t ranks = device_count(load.manifest.mesh);
  if (rank < 0 || rank >= ranks)
    throw Refusal{fmt::format("rank {} of a mesh of {}: ranks are counted from 0", rank,
                              counted(static_cast<uint64_t>(ranks), "rank"))};
  const Device& device = find_device(source.device);
  load.device_number = source.device_number;
  if (source.dtype != nullptr) take_dtype(load, source.dtype);
  if (source.weights != nullptr) {
    const bool good = open_weights(source.weights, load.manifest, load.source, options_of(source));
    add_findings(load, findings, load.source.weights.diagnostics, sources_of(texts_of(load.source.weights)));
    for (const Fault& fault : load.source.findings) add_finding(load, findings, fault);
    if (!good || !findings.text.empty()) return findings;
  } else {
    check_packing(load.manifest);
    load.source.missing.resize(load.manifest.parameters.size() + load.manifest.buffers.size());
  }
  load.has_weights = source.weights != nullptr;
  load.store = describe_shards(load.manifest, rank);
  load.store.device = &device;
  load.first = first_of_tied(load.manifest);
  for (const Shard& shard : load.store.shards) {
    load.paths.emplace_back(shard.path);
    load.dtypes.emplace_back(tpplan::dtypes()[shard.layout->dtype].name);
  }
  if (load.has_weights) warn_of_loss(load);
  load.is_open = true;
  return findings;
}

void read_source(tpplan_load& load, const tpplan_load_source& source) {
  if (source.size != sizeof source)
    throw Refusal{"the source is of another version of the library: `size` is not that of its struct"};
  if ((source.manifest == nullptr) == (source.text == nullptr))
    throw Refusal{"the manifest is given by its path or by its text"};
  if (source.manifest != nullptr) return read_text(load, source.manifest);
  load.file.name = "manifest";
  load.file.text.assign(source.text, source.length);
}

uint32_t first_of(const tpplan_load& load, size_t tensor) {
  return tensor < load.first.size() ? load.first[tensor] : static_cast<uint32_t>(tensor);
}

void need_open(const tpplan_load& load) {
  if (!load.is_open) throw Refusal{"it was not opened"};
}

// The targets of one reading. Tied names share bytes: those are read into the first of them that is asked for, and
// copied on.
struct Targets {
  std::vector<std::vector<size_t>> of;  // by tensor, of tied ones by the first: numbers of targets
  std::vector<bool> left_out;           // by tensor: nobody asked for it, under this name
};

Targets check_targets(const tpplan_load& load, const tpplan_load_target* targets, size_t count) {
  if (targets == nullptr && count != 0) throw Refusal{"no targets are given"};
  const size_t tensors = load.store.shards.size();
  Targets out{.of = std::vector<std::vector<size_t>>(tensors), .left_out = std::vector<bool>(tensors, true)};
  for (size_t i = 0; i < count; ++i) {
    const size_t tensor = targets[i].tensor;
    if (tensor >= tensors)
      throw Refusal{fmt::format("target {} is for tensor {}: there are {}, counted from 0", i, tensor, tensors)};
    const Shard& shard = load.store.shards[tensor];
    const std::string path = escape_for_terminal(shard.path);
    if (!out.left_out[tensor]) throw Refusal{fmt::format("`{}` has two targets", path)};
    if (load.source.missing[tensor])
      throw Refusal{fmt::format("buffer `{}` is not in the weights", path), TPPLAN_LOAD_WRONG};
    if (targets[i].bytes != shard.bytes)
      throw Refusal{fmt::format("`{}`: its target has {}, and rank {} holds {} of it", path,
                                counted(targets[i].bytes, "byte"), load.store.rank, counted(shard.bytes, "byte")),
                    TPPLAN_LOAD_WRONG};
    if (targets[i].data == nullptr && shard.bytes != 0) throw Refusal{fmt::format("`{}`: its target is NULL", path)};
    out.left_out[tensor] = false;
    out.of[first_of(load, tensor)].push_back(i);
  }
  return out;
}

// The checksums that the rank's shards are held against.
struct Sums {
  ChecksumJob job;
  Checksums wanted;
};

// One reading under way. Threads count down what is left of each tensor; who comes to nothing finishes it.
struct Reading {
  tpplan_load& load;
  const tpplan_load_target* targets;
  Targets asked;
  std::optional<Sums> sums;
  std::vector<std::atomic<uint64_t>> left;      // items, by tensor
  std::vector<std::once_flag> begun;            // by tensor, of those that are cast:
  std::vector<std::unique_ptr<char[]>> stored;  // what is read of it, while it is
  std::mutex mutex;                             // guards filled
  std::vector<size_t> filled;                   // tensors, not told yet
};

void read_sums(Reading& reading, const char* path) {
  Sums& sums = reading.sums.emplace();
  sums.job.manifest = &reading.load.manifest;
  sums.job.manifest_sha256 = reading.load.sha256;
  sums.job.path = path;
  sums.job.stores = {&reading.load.store, 1};
  sums.job.left_out = reading.asked.left_out;
  const std::vector<Fault> faults = read_checksums(sums.job, sums.wanted);
  if (!faults.empty()) throw Fault(faults.front());
}

uint64_t elements_of(const Shard& shard) { return shard.bytes * 8 / dtypes()[shard.layout->dtype].bits; }

// Memory for what the weights have of a tensor that is cast.
void begin_cast(Reading& reading, size_t tensor) {
  std::call_once(reading.begun[tensor], [&] {
    Shard& shard = reading.load.store.shards[tensor];
    reading.stored[tensor].reset(new char[byte_size(reading.load.source.tensors[tensor].dtype, elements_of(shard))]);
    shard.data = reading.stored[tensor].get();
  });
}

void finish_cast(Reading& reading, size_t tensor) {
  Shard& shard = reading.load.store.shards[tensor];
  void* target = reading.targets[reading.asked.of[tensor].front()].data;
  if (shard.bytes != 0)
    cast_elements(target, shard.layout->dtype, shard.data, reading.load.source.tensors[tensor].dtype,
                  elements_of(shard));
  reading.stored[tensor].reset();
  shard.data = target;
}

// Compares with the checksum, copies to the names that are tied to it, and notes that it can be told.
void finish_tensor(Reading& reading, size_t tensor) {
  const tpplan_load& load = reading.load;
  if (is_cast(load, tensor)) finish_cast(reading, tensor);
  const Shard& shard = load.store.shards[tensor];
  const std::vector<size_t>& targets = reading.asked.of[tensor];
  if (reading.sums) {
    const std::string hash = hash_of_shard(shard, *load.store.device);
    for (const size_t target : targets) {
      const size_t name = reading.targets[target].tensor;
      if (const std::optional<Fault> fault =
              compare_checksum(reading.sums->job, 0, name, hash, reading.sums->wanted[0][name]))
        throw Fault(*fault);
    }
  }
  for (const size_t target : targets) {
    void* data = reading.targets[target].data;
    if (data == shard.data || shard.bytes == 0) continue;
    load.store.device->copy(data, shard.data, shard.bytes);
    load.store.device->synchronize();
  }
  const std::lock_guard lock(reading.mutex);
  for (const size_t target : targets) reading.filled.push_back(reading.targets[target].tensor);
}

void tell_filled(Reading& reading, const tpplan_load_options& options) {
  std::vector<size_t> filled;
  {
    const std::lock_guard lock(reading.mutex);
    filled.swap(reading.filled);
  }
  for (const size_t tensor : filled) {
    if (options.on_tensor != nullptr && options.on_tensor(options.user, tensor) != 0) throw Stopped{};
  }
}

// Waits for the threads, and meanwhile tells what is filled and how far they are.
void watch(Reading& reading, WorkQueue& queue, uint64_t total, const tpplan_load_options& options) {
  const Clock::time_point start = Clock::now();
  double shown = 0;
  const auto show = [&] {
    if (options.on_progress != nullptr && options.on_progress(options.user, queue.done_bytes, total) != 0)
      throw Stopped{};
  };
  for (bool busy = true; busy;) {
    busy = !wait_for_work(queue, kSecondsALook);
    tell_filled(reading, options);
    if (busy && seconds_since(start) < shown + kSecondsAProgress) continue;
    shown = seconds_since(start);
    show();
  }
}

ReadTo stores_of(tpplan_load& load) {
  ReadTo to{.manifest = &load.manifest, .source = &load.source, .stores = {}, .device = load.store.device, .begin = {}};
  to.stores.resize(static_cast<size_t>(device_count(load.manifest.mesh)));
  to.stores[static_cast<size_t>(load.store.rank)] = &load.store;
  return to;
}

tpplan_load_result read_targets(tpplan_load& load, const tpplan_load_target* targets, size_t count,
                                const tpplan_load_options& options) {
  need_open(load);
  if (!load.has_weights) throw Refusal{"no weights are named"};
  const uint64_t staging = options.staging == 0 ? LoadOptions{}.staging : options.staging;
  if (staging < kMinStaging)
    throw Refusal{fmt::format("{} of staging: give at least {}", human_bytes(staging), human_bytes(kMinStaging))};
  const size_t tensors = load.store.shards.size();
  Reading reading{.load = load,
                  .targets = targets,
                  .asked = check_targets(load, targets, count),
                  .sums = {},
                  .left = std::vector<std::atomic<uint64_t>>(tensors),
                  .begun = std::vector<std::once_flag>(tensors),
                  .stored = std::vector<std::unique_ptr<char[]>>(tensors)};
  for (size_t t = 0; t < tensors; ++t) {
    if (reading.asked.of[t].empty() || !is_cast(load, t)) continue;
    const std::string path = escape_for_terminal(load.store.shards[t].path);
    if (options.checksums != nullptr) throw Refusal{fmt::format("`{}` is cast: its checksum is of another type", path)};
    if (!load.store.device->is_host_memory)
      throw Refusal{fmt::format("`{}` is cast, which is done in host memory alone", path)};
  }
  if (options.checksums != nullptr) read_sums(reading, options.checksums);
  std::vector<bool> left_out(tensors);
  for (size_t t = 0; t < tensors; ++t) {
    left_out[t] = reading.asked.of[t].empty();
    load.store.shards[t].data = left_out[t] ? nullptr : targets[reading.asked.of[t].front()].data;
  }
  const int ranks[] = {load.store.rank};
  const ReadPlan plan = plan_reads(load.manifest, load.source, ranks, left_out);
  const ReadPace pace = pace_of(options.threads > 0 ? options.threads : own_processors(), staging);
  std::vector<const ReadCell*> cells;
  for (const ReadCell& cell : plan.cells) {
    cells.push_back(&cell);
    reading.left[cell.tensor] += item_count(cell, pace.block);
  }
  // What is cast has memory of its own while it is read: one tensor after the other, not one file.
  std::ranges::stable_sort(
      cells, {}, [&](const ReadCell* cell) { return is_cast(load, cell->tensor) ? int64_t{cell->tensor} : -1; });
  const CellList list = list_items(std::move(cells), pace.block);
  ReadTo to = stores_of(load);
  to.begin = [&](uint32_t tensor) {
    if (is_cast(load, tensor)) begin_cast(reading, tensor);
  };
  for (size_t t = 0; t < tensors; ++t) {
    if (!left_out[t] && reading.left[t] == 0) finish_tensor(reading, t);
  }

  WorkQueue queue;
  queue.count = list.items;
  try {
    start_work(queue, static_cast<int>(std::min<uint64_t>(static_cast<uint64_t>(pace.threads), list.items)),
               [&](WorkQueue& work) {
                 load.store.device->use(load.device_number);
                 read_cells(to, list, work, [&](const ReadItem& item) {
                   if (--reading.left[item.cell->tensor] == 0) finish_tensor(reading, item.cell->tensor);
                 });
               });
    watch(reading, queue, list.bytes, options);
  } catch (...) {
    stop_work(queue);
    join_work(queue);
    throw;
  }
  join_work(queue);
  if (queue.fault) throw Fault(*queue.fault);
  check_unchanged(load.source);
  return {.read_bytes = queue.done_bytes, .needed_bytes = plan.needed_bytes};
}

void save_sources(tpplan_load& load, const char* folder, const tpplan_load_target* sources, size_t count) {
  need_open(load);
  if (folder == nullptr) throw Refusal{"no folder is named"};
  if (load.has_own_types)
    throw Refusal{"it was opened with a `dtype`: what it would write is no folder of the manifest"};
  const Targets asked = check_targets(load, sources, count);
  for (size_t t = 0; t < load.store.shards.size(); ++t) {
    if (asked.left_out[t])
      throw Refusal{fmt::format("`{}` is not given: a folder has all", escape_for_terminal(load.store.shards[t].path))};
  }
  for (size_t i = 0; i < count; ++i) load.store.shards[sources[i].tensor].data = sources[i].data;
  std::ignore = write_own_files(load.store, folder, {}, SaveOptions{}.staging);
  if (load.store.rank == 0) write_note(folder, load.sha256, load.manifest.mesh);
}

}  // namespace
}  // namespace tpplan

int tpplan_load_version(void) { return 2; }

int tpplan_load_open(const tpplan_load_source* source, tpplan_load** out) {
  if (source == nullptr || out == nullptr) return TPPLAN_LOAD_INPUT;
  *out = nullptr;
  try {
    *out = new tpplan_load;
  } catch (...) {
    return TPPLAN_LOAD_LIMIT;
  }
  tpplan_load& load = **out;
  tpplan::Findings findings;
  const int status = tpplan::guarded(load, [&] {
    tpplan::read_source(load, *source);
    findings = tpplan::open_text(load, *source);
  });
  if (status != TPPLAN_LOAD_OK || load.is_open) return status;
  load.error = std::move(findings.text);
  load.said = load.error.c_str();
  return findings.status;
}

size_t tpplan_load_count(const tpplan_load* load) {
  return load == nullptr || !load->is_open ? 0 : load->store.shards.size();
}

int tpplan_load_describe(tpplan_load* load, size_t number, tpplan_load_tensor* tensor) {
  if (load == nullptr) return TPPLAN_LOAD_LIMIT;
  return tpplan::guarded(*load, [&] {
    tpplan::need_open(*load);
    if (tensor == nullptr) throw tpplan::Refusal{"no place for what is said of the tensor is given"};
    if (number >= load->store.shards.size()) throw tpplan::Refusal{fmt::format("there is no tensor {}", number)};
    const tpplan::Shard& shard = load->store.shards[number];
    *tensor = {.path = load->paths[number].c_str(),
               .dtype = load->dtypes[number].c_str(),
               .shape = shard.shape.data(),
               .dims = shard.shape.size(),
               .full_shape = shard.layout->shape.data(),
               .bytes = shard.bytes,
               .same_as = tpplan::first_of(*load, number),
               .is_buffer = number >= load->manifest.parameters.size(),
               .is_stored = !load->source.missing[number]};
  });
}

int tpplan_load_read(tpplan_load* load, const tpplan_load_target* targets, size_t count,
                     const tpplan_load_options* options, tpplan_load_result* result) {
  if (load == nullptr) return TPPLAN_LOAD_LIMIT;
  return tpplan::alone(*load, [&] {
    if (options != nullptr && options->size != sizeof *options)
      throw tpplan::Refusal{"options are of another version of the library: `size` is not that of its struct"};
    const tpplan_load_result done =
        tpplan::read_targets(*load, targets, count, options == nullptr ? tpplan_load_options{} : *options);
    if (result != nullptr) *result = done;
  });
}

int tpplan_load_save(tpplan_load* load, const char* folder, const tpplan_load_target* sources, size_t count) {
  if (load == nullptr) return TPPLAN_LOAD_LIMIT;
  return tpplan::alone(*load, [&] { tpplan::save_sources(*load, folder, sources, count); });
}

const char* tpplan_load_error(const tpplan_load* load) {
  return load == nullptr ? tpplan::kNoMemory : load->said.load();
}
const char* tpplan_load_warnings(const tpplan_load* load) { return load == nullptr ? "" : load->warnings.c_str(); }
void tpplan_load_close(tpplan_load* load) {
  if (load == nullptr || !load->is_busy) delete load;
}
