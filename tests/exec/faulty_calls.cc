// Preloaded library that makes one call of a program hang or fail.
//   FAULTY_CALL=name=pread,path=w.safetensors,number=3,kind=hang
//   name    pread (and preadv), read, pwrite, fsync, open, close, link, accept; page: the bytes that pread has read are
//           unmapped again, and an access to them waits forever
//   path    suffix of the file's path; any file if omitted
//   number  index of the call, from 1; 0: every call
//   kind    hang, slow (0.6 s), or an errno value
//   rank    rank of the process, from its launcher; any if omitted
// FAULTY_CLOCK=SECONDS: the wall clock moves by this many seconds at each query, as if an administrator or NTP set it.
// The monotonic clock is unchanged.
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <string_view>

namespace {

std::string_view value_of(std::string_view list, std::string_view name) {
  for (size_t begin = 0; begin < list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    const std::string_view part = list.substr(begin, end - begin);
    if (part.starts_with(name) && part.size() > name.size() && part[name.size()] == '=')
      return part.substr(name.size() + 1);
    begin = end + 1;
  }
  return "";
}

std::string path_of(int fd) {
  char path[4096];
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t size = readlink(link.c_str(), path, sizeof path);
  return {path, size > 0 ? static_cast<size_t>(size) : 0};
}

bool is_rank(std::string_view wanted) {
  if (wanted.empty()) return true;
  for (const char* name : {"RANK", "OMPI_COMM_WORLD_RANK"}) {
    if (const char* rank = std::getenv(name); rank != nullptr) return wanted == rank;
  }
  return false;
}

// True if the call must fail; a call that must hang does not return from here.
bool is_faulty(std::string_view name, std::string_view path, bool may_hang = true) {
  static std::atomic<int> calls = 0;
  const char* wanted = std::getenv("FAULTY_CALL");
  if (wanted == nullptr || value_of(wanted, "name") != name || !path.ends_with(value_of(wanted, "path")) ||
      !is_rank(value_of(wanted, "rank")))
    return false;
  const int number = std::atoi(std::string(value_of(wanted, "number")).c_str());
  if (++calls != number && number != 0) return false;
  if (!may_hang) return true;
  const std::string kind(value_of(wanted, "kind"));
  if (kind == "slow") return usleep(600'000) < 0;
  if (kind != "hang") {
    errno = std::atoi(kind.c_str());
    return true;
  }
  for (;;) pause();
}

// Discards these pages. A later access waits forever, as for a mapped file of a dead file server.
void take_pages(void* memory, size_t bytes) {
  const int fd = static_cast<int>(syscall(SYS_userfaultfd, UFFD_USER_MODE_ONLY | O_CLOEXEC));
  uffdio_api api{.api = UFFD_API, .features = 0, .ioctls = 0};
  const uintptr_t page = 4096, begin = (reinterpret_cast<uintptr_t>(memory) + page - 1) / page * page,
                  end = (reinterpret_cast<uintptr_t>(memory) + bytes) / page * page;
  if (begin >= end) return;
  if (fd < 0 || ioctl(fd, UFFDIO_API, &api) != 0) _exit(77);
  if (madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED) != 0) _exit(77);
  uffdio_register range{.range = {begin, end - begin}, .mode = UFFDIO_REGISTER_MODE_MISSING, .ioctls = 0};
  if (ioctl(fd, UFFDIO_REGISTER, &range) != 0) _exit(77);
}

template <typename Function>
Function real(Function, const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

ssize_t pread(int fd, void* to, size_t bytes, off_t offset) {
  static const auto call = real(&pread, "pread");
  if (is_faulty("page", path_of(fd), false)) {
    const ssize_t got = call(fd, to, bytes, offset);
    take_pages(to, bytes);
    return got;
  }
  return is_faulty("pread", path_of(fd)) ? -1 : call(fd, to, bytes, offset);
}

ssize_t read(int fd, void* to, size_t bytes) {
  static const auto call = real(&read, "read");
  return is_faulty("read", path_of(fd)) ? -1 : call(fd, to, bytes);
}

int close(int fd) {
  static const auto call = real(&close, "close");
  return is_faulty("close", path_of(fd)) ? -1 : call(fd);
}

ssize_t preadv(int fd, const iovec* to, int count, off_t offset) {
  static const auto call = real(&preadv, "preadv");
  return is_faulty("pread", path_of(fd)) ? -1 : call(fd, to, count, offset);
}

ssize_t pwrite(int fd, const void* from, size_t bytes, off_t offset) {
  static const auto call = real(&pwrite, "pwrite");
  return is_faulty("pwrite", path_of(fd)) ? -1 : call(fd, from, bytes, offset);
}

// Returns FAULTY_HOST as the host name, if it is set, so that a process seems to be on another machine.
int gethostname(char* name, size_t bytes) {
  static const auto call = real(&gethostname, "gethostname");
  const char* host = std::getenv("FAULTY_HOST");
  if (host == nullptr) return call(name, bytes);
  std::string(host).copy(name, bytes - 1);
  name[std::min(bytes - 1, std::strlen(host))] = '\0';
  return 0;
}

// Returns the offset of the wall clock in seconds, which grows with each query.
static long set_by() {
  static std::atomic<long> times = 0;
  const char* seconds = std::getenv("FAULTY_CLOCK");
  return seconds == nullptr ? 0 : ++times * std::atol(seconds);
}

int clock_gettime(clockid_t clock, timespec* now) noexcept {
  const auto status = static_cast<int>(syscall(SYS_clock_gettime, clock, now));
  if (status == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += set_by();
  return status;
}

int gettimeofday(timeval* now, void* zone) noexcept {
  const auto status = static_cast<int>(syscall(SYS_gettimeofday, now, zone));
  if (status == 0) now->tv_sec += set_by();
  return status;
}

time_t time(time_t* now) noexcept {
  timeval time{};
  gettimeofday(&time, nullptr);
  if (now != nullptr) *now = time.tv_sec;
  return time.tv_sec;
}

int fsync(int fd) {
  static const auto call = real(&fsync, "fsync");
  return is_faulty("fsync", path_of(fd)) ? -1 : call(fd);
}

int open(const char* path, int flags, ...) {
  static const auto call = real(&open, "open");
  va_list more;
  va_start(more, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(more, mode_t) : 0;
  va_end(more);
  return is_faulty("open", path) ? -1 : call(path, flags, mode);
}

int link(const char* from, const char* to) {
  static const auto call = real(&link, "link");
  return is_faulty("link", from) ? -1 : call(from, to);
}

int accept4(int fd, sockaddr* address, socklen_t* size, int flags) {
  static const auto call = real(&accept4, "accept4");
  return is_faulty("accept", "") ? -1 : call(fd, address, size, flags);
}

}  // extern "C"
