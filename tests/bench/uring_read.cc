// Reads a file like bench_direct.py, on one thread with DEPTH calls in flight, by io_uring:
//
//     uring_read FILE DEPTH direct|cached registered|plain
//
// Prints elapsed and CPU seconds. Exits with 1 and a message if the kernel rejects a call.
#include <fcntl.h>
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

namespace {

constexpr uint64_t kCall = 2 << 20;

[[noreturn]] void fail(const char* what, int error) {
  std::fprintf(stderr, "uring_read: %s: %s\n", what, std::strerror(error));
  std::exit(1);
}

// The rings that this thread shares with the kernel (io_uring_setup(2)).
struct Ring {
  int fd = -1;
  unsigned *sq_tail = nullptr, *sq_mask = nullptr, *sq_array = nullptr;
  unsigned *cq_head = nullptr, *cq_tail = nullptr, *cq_mask = nullptr;
  io_uring_sqe* calls = nullptr;
  io_uring_cqe* ends = nullptr;
};

Ring make_ring(unsigned depth) {
  io_uring_params params{};
  Ring ring;
  ring.fd = static_cast<int>(syscall(SYS_io_uring_setup, depth, &params));
  if (ring.fd < 0) fail("io_uring_setup", errno);
  const auto map = [&](uint64_t bytes, off_t what) {
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring.fd, what);
    if (memory == MAP_FAILED) fail("mmap", errno);
    return static_cast<char*>(memory);
  };
  char* sq = map(params.sq_off.array + params.sq_entries * sizeof(unsigned), IORING_OFF_SQ_RING);
  char* cq = map(params.cq_off.cqes + params.cq_entries * sizeof(io_uring_cqe), IORING_OFF_CQ_RING);
  const auto at = [](char* base, unsigned offset) { return reinterpret_cast<unsigned*>(base + offset); };
  ring.sq_tail = at(sq, params.sq_off.tail);
  ring.sq_mask = at(sq, params.sq_off.ring_mask);
  ring.sq_array = at(sq, params.sq_off.array);
  ring.cq_head = at(cq, params.cq_off.head);
  ring.cq_tail = at(cq, params.cq_off.tail);
  ring.cq_mask = at(cq, params.cq_off.ring_mask);
  ring.ends = reinterpret_cast<io_uring_cqe*>(cq + params.cq_off.cqes);
  ring.calls = reinterpret_cast<io_uring_sqe*>(map(params.sq_entries * sizeof(io_uring_sqe), IORING_OFF_SQES));
  return ring;
}

// A call in flight.
struct Slot {
  void* buffer = nullptr;
  uint64_t place = 0, bytes = 0;
};

void add_call(Ring& ring, int file, const std::vector<Slot>& slots, unsigned number, bool is_registered) {
  const unsigned tail = *ring.sq_tail, index = tail & *ring.sq_mask;
  io_uring_sqe& call = ring.calls[index] = {};
  call.opcode = is_registered ? IORING_OP_READ_FIXED : IORING_OP_READ;
  call.fd = file;
  call.addr = reinterpret_cast<uint64_t>(slots[number].buffer);
  call.len = static_cast<uint32_t>(slots[number].bytes);
  call.off = slots[number].place;
  call.buf_index = is_registered ? static_cast<uint16_t>(number) : uint16_t{0};
  call.user_data = number;
  ring.sq_array[index] = index;
  std::atomic_ref(*ring.sq_tail).store(tail + 1, std::memory_order_release);
}

double processor_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](timeval t) { return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6; };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

}  // namespace

int main(int count, char** words) {
  if (count != 5) fail("FILE DEPTH direct|cached registered|plain", EINVAL);
  const bool is_direct = std::string_view(words[3]) == "direct",
             is_registered = std::string_view(words[4]) == "registered";
  const auto depth = static_cast<unsigned>(std::atoi(words[2]));
  const int file = open(words[1], O_RDONLY | (is_direct ? O_DIRECT : 0));
  if (file < 0) fail(words[1], errno);
  const auto size = static_cast<uint64_t>(lseek(file, 0, SEEK_END));
  Ring ring = make_ring(depth);
  std::vector<Slot> slots(depth);
  std::vector<iovec> registered;
  for (Slot& slot : slots) {
    slot.buffer = mmap(nullptr, kCall, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (slot.buffer == MAP_FAILED) fail("mmap", errno);
    registered.push_back({slot.buffer, kCall});
  }
  if (is_registered && syscall(SYS_io_uring_register, ring.fd, IORING_REGISTER_BUFFERS, registered.data(), depth) < 0)
    fail("io_uring_register", errno);

  const double used = processor_seconds();
  const auto start = std::chrono::steady_clock::now();
  uint64_t next = 0, total = 0;
  unsigned waiting = 0, fresh = 0;  // calls in flight; those that were not submitted yet
  const auto begin = [&](unsigned number) {
    if (next >= size) return;
    slots[number].place = next;
    slots[number].bytes = kCall;  // past the end of the file, because O_DIRECT requires full blocks
    next += kCall;
    add_call(ring, file, slots, number, is_registered);
    ++waiting;
    ++fresh;
  };
  for (unsigned number = 0; number < depth; ++number) begin(number);
  while (waiting > 0) {
    if (syscall(SYS_io_uring_enter, ring.fd, fresh, 1, IORING_ENTER_GETEVENTS, nullptr, 0) < 0)
      fail("io_uring_enter", errno);
    fresh = 0;
    unsigned head = *ring.cq_head;
    const unsigned tail = std::atomic_ref(*ring.cq_tail).load(std::memory_order_acquire);
    for (; head != tail; ++head) {
      const io_uring_cqe& end = ring.ends[head & *ring.cq_mask];
      if (end.res < 0) fail("read", -end.res);
      const auto number = static_cast<unsigned>(end.user_data);
      Slot& slot = slots[number];
      const auto got = static_cast<uint64_t>(end.res);
      --waiting;
      total += got;
      if (slot.place + got < size && got < slot.bytes) {  // a short read: reads the rest
        slot.place += got;
        slot.bytes -= got;
        add_call(ring, file, slots, number, is_registered);
        ++waiting;
        ++fresh;
      } else {
        begin(number);
      }
    }
    std::atomic_ref(*ring.cq_head).store(head, std::memory_order_release);
  }
  if (total != size) fail(words[1], EIO);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::printf("%.6f %.6f\n", seconds.count(), processor_seconds() - used);
}
