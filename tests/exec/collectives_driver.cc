// Runs every function of a backend with several groups, sizes and dtypes, and prints a hash of each rank's results. The
// output must be equal for all backends. Arguments: BACKEND DEVICE WORLD DEADLINE.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <tuple>
#include <vector>

#include "exec/device/element_arithmetic.h"
#include "exec/ranks/launch.h"

using namespace tpplan;

namespace {

using Sizes = std::vector<uint64_t>;

struct Memory {
  std::shared_ptr<void> data;
  uint64_t bytes = 0;
};

Memory memory_of(const Device& device, const std::vector<uint8_t>& content) {
  void* data = device.allocate(content.size());
  if (data == nullptr) throw std::bad_alloc();
  if (!content.empty()) device.from_host(data, content.data(), content.size());
  device.synchronize();
  return {{data, device.release}, content.size()};
}

std::string hash_of(const Device& device, const Memory& memory) {
  std::vector<uint8_t> content(memory.bytes);
  if (!content.empty()) device.to_host(content.data(), memory.data.get(), memory.bytes);
  uint64_t hash = 14695981039346656037u;  // FNV-1a
  for (const uint8_t byte : content) hash = (hash ^ byte) * 1099511628211u;
  char text[40];
  std::snprintf(text, sizeof text, "%llu bytes %016llx", static_cast<unsigned long long>(memory.bytes),
                static_cast<unsigned long long>(hash));
  return text;
}

uint64_t total(const Sizes& sizes) {
  uint64_t sum = 0;
  for (const uint64_t size : sizes) sum += size;
  return sum;
}

std::vector<uint8_t> bytes_of(int rank, uint64_t count) {
  std::vector<uint8_t> bytes(count);
  for (uint64_t i = 0; i < count; ++i) bytes[i] = static_cast<uint8_t>(i * 7 + static_cast<uint64_t>(rank) * 31 + 1);
  return bytes;
}

// Returns integers from -2 to 2 in `dtype`; their sums are exact in any order.
std::vector<uint8_t> numbers_of(int rank, uint64_t count, DType dtype) {
  std::vector<uint8_t> bytes(byte_size(dtype, count));
  std::ignore = visit_arithmetic_type(dtypes()[dtype].name, [&](auto zero) {
    using T = decltype(zero);
    for (uint64_t i = 0; i < count; ++i) {
      const int number = static_cast<int>((i * 3 + static_cast<uint64_t>(rank) * 5) % 5) - 2;
      T value;
      if constexpr (std::is_class_v<T>) {
        value = T::of(static_cast<float>(number));
      } else {
        value = static_cast<T>(number);
      }
      std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
    }
  });
  return bytes;
}

// Returns sizes per rank of the group: even, uneven, some empty, all empty.
std::vector<Sizes> patterns(size_t members) {
  std::vector<Sizes> all(4, Sizes(members));
  for (size_t i = 0; i < members; ++i) {
    all[0][i] = 12;
    all[1][i] = 5 + 3 * i;
    all[2][i] = i % 2 == 0 ? 0 : 9;
  }
  return all;
}

struct Job {
  Comm& comm;
  std::string lines;
};

bool note(Job& job, bool fine, const std::string& what, const Memory& memory) {
  if (fine) job.lines += std::to_string(job.comm.rank) + " " + what + ": " + hash_of(*job.comm.device, memory) + "\n";
  return fine;
}

bool move_bytes(Job& job, const Group& group, const std::string& name) {
  const Device& device = *job.comm.device;
  const size_t members = group.ranks.size();
  for (const Sizes& sizes : patterns(members)) {
    begin_step(job.comm, "all_gather over " + name);
    const Memory in = memory_of(device, bytes_of(job.comm.rank, sizes[group.self]));
    const Memory out = memory_of(device, std::vector<uint8_t>(total(sizes)));
    if (!note(job, job.comm.backend->all_gather(job.comm, group, in.data.get(), out.data.get(), sizes),
              job.comm.step.what, out))
      return false;
  }
  for (int pattern = 0; pattern < 4; ++pattern) {  // rank i of the group sends `size(i, j)` bytes to rank j
    const auto size = [&](size_t i, size_t j) {
      return pattern == 0 ? 8u : pattern == 1 ? 1 + i + 2 * j : pattern == 2 ? (i + j) % 2 * 6 : 0;
    };
    Sizes send(members), receive(members);
    for (size_t i = 0; i < members; ++i) {
      send[i] = size(group.self, i);
      receive[i] = size(i, group.self);
    }
    begin_step(job.comm, "all_to_all over " + name);
    const Memory in = memory_of(device, bytes_of(job.comm.rank, total(send)));
    const Memory out = memory_of(device, std::vector<uint8_t>(total(receive)));
    if (!note(job, job.comm.backend->all_to_all(job.comm, group, in.data.get(), send, out.data.get(), receive),
              job.comm.step.what, out))
      return false;
  }
  return true;
}

bool reduce_numbers(Job& job, const Group& group, const std::string& name, DType dtype, ReduceOp op) {
  const Device& device = *job.comm.device;
  const std::string what =
      " of " + std::string(dtypes()[dtype].name) + " by " + std::to_string(static_cast<int>(op)) + " over " + name;
  for (const uint64_t count : {0u, 1u, 37u}) {
    begin_step(job.comm, "all_reduce" + what);
    const Memory data = memory_of(device, numbers_of(job.comm.rank, count, dtype));
    if (!note(job, job.comm.backend->all_reduce(job.comm, group, data.data.get(), count, dtype, op), job.comm.step.what,
              data))
      return false;
  }
  for (const Sizes& sizes : patterns(group.ranks.size())) {
    begin_step(job.comm, "reduce_scatter" + what);
    const Memory in = memory_of(device, numbers_of(job.comm.rank, total(sizes), dtype));
    const Memory out = memory_of(device, std::vector<uint8_t>(byte_size(dtype, sizes[group.self])));
    if (!note(job, job.comm.backend->reduce_scatter(job.comm, group, in.data.get(), out.data.get(), sizes, dtype, op),
              job.comm.step.what, out)) {
      return false;
    }
  }
  return true;
}

bool work(Job& job) {
  const int rank = job.comm.rank, world = job.comm.world;
  for (int kind = 0; kind < 4; ++kind) {  // all ranks, pairs of neighbours, every second rank, each rank alone
    Group group;
    for (int other = 0; other < world; ++other) {
      if (kind == 0 || (kind == 1 && other / 2 == rank / 2) || (kind == 2 && other % 2 == rank % 2) ||
          (kind == 3 && other == rank)) {
        if (other == rank) group.self = group.ranks.size();
        group.ranks.push_back(other);
      }
    }
    const std::string name = kind == 0 ? "all" : kind == 1 ? "neighbours" : kind == 2 ? "every second" : "one";
    if (!move_bytes(job, group, name)) return false;
    for (const char* type : {"float32", "bfloat16", "float16", "float64", "int8", "uint8", "int32", "uint32", "int64",
                             "uint64", "int16", "uint16"}) {
      DType dtype = 0;
      if (!find_dtype(type, dtype)) return false;
      for (const ReduceOp op : {ReduceOp::Sum, ReduceOp::Avg, ReduceOp::Max, ReduceOp::Min}) {
        if (type != std::string("float32") && op == ReduceOp::Min) continue;
        if (!reduce_numbers(job, group, name, dtype, op)) return false;
      }
    }
  }
  return true;
}

// Executes only one reduction of the dtype in TPPLAN_DRIVER_REDUCES, such as float8_e4m3fn.
bool reduce_as_asked(Job& job, const char* type) {
  Group group{.ranks = {}, .self = static_cast<size_t>(job.comm.rank)};
  for (int other = 0; other < job.comm.world; ++other) group.ranks.push_back(other);
  DType dtype = 0;
  return find_dtype(type, dtype) && reduce_numbers(job, group, "all", dtype, ReduceOp::Sum);
}

int body(Comm& comm) {
  Job job{.comm = comm, .lines = {}};
  const char* type = std::getenv("TPPLAN_DRIVER_REDUCES");
  if (!(type != nullptr ? reduce_as_asked(job, type) : work(job))) return 1;
  begin_step(comm, "gather texts");
  const auto join = [](const std::vector<std::string>& texts) {
    std::string lines;
    for (const std::string& text : texts) lines += text;
    return lines;
  };
  std::string all;
  if (!comm.backend->fold_texts(comm, job.lines, join, all)) return 1;
  if (comm.rank == 0) std::fputs(all.c_str(), stdout);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const LaunchOptions options{.backend = argv[1],
                              .device = argv[2],
                              .world = std::atoi(argv[3]),
                              .deadline = std::atof(argv[4]),
                              .start_deadline = std::atof(argv[4]),
                              .agreement = "driver"};
  const JobResult end = run_ranks(options, body);
  if (end.fault) std::fprintf(stderr, "%s\n", to_text(*end.fault).c_str());
  return end.status;
}
