// Peer of the executor in bench_load.py. Measures threads that read a file into fresh memory with pread, in blocks
// taken in order, and threads that copy between two buffers. Prints the best GB/s of each.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

namespace {

constexpr uint64_t kBlock = uint64_t{2} << 20;

double seconds_of(int threads, const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::thread> running;
  for (int i = 0; i < threads; ++i) running.emplace_back(work);
  for (std::thread& thread : running) thread.join();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Returns fresh memory, with huge pages if available, like the executor's memory for shards.
char* fresh(uint64_t bytes) {
  void* block = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (block == MAP_FAILED) std::exit(3);
  madvise(block, bytes, MADV_HUGEPAGE);
  return static_cast<char*>(block);
}

double read_once(int fd, uint64_t bytes, int threads) {
  char* to = fresh(bytes);
  std::atomic<uint64_t> next{0};
  const double seconds = seconds_of(threads, [&] {
    for (uint64_t at; (at = next.fetch_add(kBlock)) < bytes;) {
      for (uint64_t done = 0, wanted = std::min(kBlock, bytes - at); done < wanted;) {
        const ssize_t got = pread(fd, to + at + done, wanted - done, static_cast<off_t>(at + done));
        if (got <= 0) std::exit(2);
        done += static_cast<uint64_t>(got);
      }
    }
  });
  munmap(to, bytes);
  return static_cast<double>(bytes) / seconds / 1e9;
}

double copy_once(uint64_t bytes, int threads, char* from, char* to) {
  std::atomic<uint64_t> next{0};
  const double seconds = seconds_of(threads, [&] {
    for (uint64_t at; (at = next.fetch_add(kBlock)) < bytes;)
      std::memcpy(to + at, from + at, std::min(kBlock, bytes - at));
  });
  return static_cast<double>(bytes) / seconds / 1e9;
}

}  // namespace

// Usage: pread_peer FILE THREADS ROUNDS
int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const int fd = open(argv[1], O_RDONLY | O_CLOEXEC), threads = std::atoi(argv[2]), rounds = std::atoi(argv[3]);
  struct stat status {};
  if (fd < 0 || fstat(fd, &status) != 0 || threads < 1) return 2;
  const uint64_t bytes = static_cast<uint64_t>(status.st_size);
  double read = 0, copy = 0;
  for (int i = 0; i < rounds; ++i) read = std::max(read, read_once(fd, bytes, threads));
  const uint64_t part = std::min(bytes, uint64_t{1} << 30);
  char *from = fresh(part), *to = fresh(part);
  std::memset(from, 1, part);
  std::memset(to, 2, part);
  for (int i = 0; i < rounds; ++i) copy = std::max(copy, copy_once(part, threads, from, to));
  std::printf("{\"pread\": %.3f, \"copy\": %.3f}\n", read, copy);
}
