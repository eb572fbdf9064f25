// Linked into the program in front of the C library: counts calls by kind, and makes one of them fail.
//   FAILING_CALL=write,3,28      the third call of the kind `write` fails with errno 28
//   FAILING_CALL=memory,7,gone   the seventh call and all later ones fail, as if memory were exhausted
//   FAILING_CALL=read,2,short    the call does half of its work
//   CALLS_TO=FILE                at exit, writes the number of calls of each kind to FILE: "write 3"
// A kind is the name of a function, or one name for several functions that do the same (kKinds). Only calls into the C
// library count, not the calls inside it, such as the close of an fopen'ed file. Counting restarts when `environ`
// becomes another array.
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <glob.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

// The C library's own allocator, under its internal names.
extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* old, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
}

namespace {

enum Kind {
  Memory,
  Open,
  OpenFolder,
  ReadFolder,
  Read,
  Write,
  Sync,
  Rename,
  Close,
  Stat,
  ReadLink,
  RealPath,
  Access,
  MakeTemporary,
  SetMode,
  Terminal,
  Seek,
  Event,
  Thread,
  Random,
  CurrentFolder,
  ChangeFolder,
  Glob,
  Spawn,
  Pipe,
  MemoryFile,
  Wait,
  Map,
  kKinds
};

constexpr const char* kNames[kKinds] = {
    "memory", "open",   "opendir",     "readdir",  "read",           "write",     "fsync",
    "rename", "close",  "stat",        "readlink", "realpath",       "access",    "mkstemp",
    "fchmod", "isatty", "lseek",       "eventfd",  "pthread_create", "getrandom", "getcwd",
    "chdir",  "glob",   "posix_spawn", "pipe",     "memfd_create",   "waitpid",   "mmap",
};

constexpr int kShort = -1, kGone = -2;

std::atomic<int> calls[kKinds];
char** seen = nullptr;  // the environment that was last read
int wanted_kind = kKinds, wanted_number = 0, wanted_way = 0;

void look() {
  seen = environ;
  wanted_kind = kKinds;
  for (std::atomic<int>& count : calls) count = 0;
  const char* text = std::getenv("FAILING_CALL");
  if (text == nullptr) return;
  const char* number = std::strchr(text, ',');
  const char* way = number == nullptr ? nullptr : std::strchr(number + 1, ',');
  if (way == nullptr) return;
  for (int kind = 0; kind < kKinds; ++kind) {
    if (std::strlen(kNames[kind]) == static_cast<size_t>(number - text) &&
        std::strncmp(kNames[kind], text, number - text) == 0)
      wanted_kind = kind;
  }
  wanted_number = std::atoi(number + 1);
  wanted_way = std::strcmp(way + 1, "short") == 0  ? kShort
               : std::strcmp(way + 1, "gone") == 0 ? kGone
                                                   : std::atoi(way + 1);
}

enum class Fate { Whole, Half, Failed };

// Returns the fate of the current call, and sets errno if it fails.
Fate fate(Kind kind) {
  if (environ != seen) look();
  const int number = ++calls[kind];
  if (kind != wanted_kind || number < wanted_number || (number > wanted_number && wanted_way != kGone))
    return Fate::Whole;
  if (wanted_way == kShort) return Fate::Half;
  errno = wanted_way == kGone ? ENOMEM : wanted_way;
  return Fate::Failed;
}

// Returns half of the bytes, at least one.
size_t bytes_of(Fate fate, size_t bytes) { return fate == Fate::Half ? (bytes + 1) / 2 : bytes; }

__attribute__((destructor)) void write_counts() {
  const char* path = std::getenv("CALLS_TO");
  if (path == nullptr) return;
  int counted[kKinds];
  for (int kind = 0; kind < kKinds; ++kind) counted[kind] = calls[kind];
  std::FILE* file = std::fopen(path, "w");
  if (file == nullptr) std::abort();
  for (int kind = 0; kind < kKinds; ++kind) std::fprintf(file, "%s %d\n", kNames[kind], counted[kind]);
  std::fclose(file);
}

template <typename Function>
Function next(Function, const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

}  // namespace

// Defines a function that fails, or passes its call on unchanged.
#define PASS(kind, result, failed, name, parameters, ...)           \
  result name parameters {                                          \
    static const auto call = next(&name, #name);                    \
    return fate(kind) == Fate::Failed ? failed : call(__VA_ARGS__); \
  }

// Defines an open function, whose last argument is optional.
#define PASS_OPEN(name, parameters, ...)                                                   \
  int name parameters {                                                                    \
    static const auto call = next(&name, #name);                                           \
    va_list more;                                                                          \
    va_start(more, flags);                                                                 \
    const mode_t mode = (flags & (O_CREAT | __O_TMPFILE)) != 0 ? va_arg(more, mode_t) : 0; \
    va_end(more);                                                                          \
    return fate(Open) == Fate::Failed ? -1 : call(__VA_ARGS__, mode);                      \
  }

extern "C" {

void* malloc(size_t bytes) noexcept { return fate(Memory) == Fate::Failed ? nullptr : __libc_malloc(bytes); }

void* calloc(size_t count, size_t bytes) noexcept {
  return fate(Memory) == Fate::Failed ? nullptr : __libc_calloc(count, bytes);
}

void* realloc(void* old, size_t bytes) noexcept {
  return fate(Memory) == Fate::Failed ? nullptr : __libc_realloc(old, bytes);
}

void* aligned_alloc(size_t alignment, size_t bytes) noexcept {
  return fate(Memory) == Fate::Failed ? nullptr : __libc_memalign(alignment, bytes);
}

void* memalign(size_t alignment, size_t bytes) noexcept { return aligned_alloc(alignment, bytes); }

int posix_memalign(void** to, size_t alignment, size_t bytes) noexcept {
  *to = aligned_alloc(alignment, bytes);
  return *to == nullptr ? ENOMEM : 0;
}

ssize_t read(int fd, void* to, size_t bytes) {
  static const auto call = next(&read, "read");
  const Fate own = fate(Read);
  return own == Fate::Failed ? -1 : call(fd, to, bytes_of(own, bytes));
}

ssize_t pread(int fd, void* to, size_t bytes, off_t offset) {
  static const auto call = next(&pread, "pread");
  const Fate own = fate(Read);
  return own == Fate::Failed ? -1 : call(fd, to, bytes_of(own, bytes), offset);
}

ssize_t write(int fd, const void* from, size_t bytes) {
  static const auto call = next(&write, "write");
  const Fate own = fate(Write);
  return own == Fate::Failed ? -1 : call(fd, from, bytes_of(own, bytes));
}

ssize_t writev(int fd, const iovec* from, int count) {
  static const auto call = next(&writev, "writev");
  return fate(Write) == Fate::Failed ? -1 : call(fd, from, count);
}

PASS_OPEN(open, (const char* path, int flags, ...), path, flags)
PASS_OPEN(open64, (const char* path, int flags, ...), path, flags)
PASS_OPEN(openat, (int folder, const char* path, int flags, ...), folder, path, flags)
PASS_OPEN(openat64, (int folder, const char* path, int flags, ...), folder, path, flags)
PASS(Open, FILE*, nullptr, fopen, (const char* path, const char* how), path, how)
PASS(Open, FILE*, nullptr, fopen64, (const char* path, const char* how), path, how)
PASS(OpenFolder, DIR*, nullptr, opendir, (const char* path), path)
PASS(OpenFolder, DIR*, nullptr, fdopendir, (int fd), fd)
PASS(ReadFolder, dirent*, nullptr, readdir, (DIR * folder), folder)
PASS(ReadFolder, dirent64*, nullptr, readdir64, (DIR * folder), folder)
PASS(Sync, int, -1, fsync, (int fd), fd)
PASS(Sync, int, -1, fdatasync, (int fd), fd)
PASS(Rename, int, -1, rename, (const char* from, const char* to) noexcept, from, to)
PASS(Stat, int, -1, stat, (const char* path, struct stat* to) noexcept, path, to)
PASS(Stat, int, -1, stat64, (const char* path, struct stat64* to) noexcept, path, to)
PASS(Stat, int, -1, lstat, (const char* path, struct stat* to) noexcept, path, to)
PASS(Stat, int, -1, lstat64, (const char* path, struct stat64* to) noexcept, path, to)
PASS(Stat, int, -1, fstat, (int fd, struct stat* to) noexcept, fd, to)
PASS(Stat, int, -1, fstat64, (int fd, struct stat64* to) noexcept, fd, to)
PASS(Stat, int, -1, fstatat, (int folder, const char* path, struct stat* to, int flags) noexcept, folder, path, to,
     flags)
PASS(Stat, int, -1, fstatat64, (int folder, const char* path, struct stat64* to, int flags) noexcept, folder, path, to,
     flags)
PASS(ReadLink, ssize_t, -1, readlink, (const char* path, char* to, size_t bytes) noexcept, path, to, bytes)
PASS(RealPath, char*, nullptr, realpath, (const char* path, char* to) noexcept, path, to)
PASS(Access, int, -1, access, (const char* path, int how) noexcept, path, how)
PASS(MakeTemporary, int, -1, mkstemp, (char* path), path)
PASS(MakeTemporary, int, -1, mkstemp64, (char* path), path)
PASS(SetMode, int, -1, fchmod, (int fd, mode_t mode) noexcept, fd, mode)
PASS(Terminal, int, 0, isatty, (int fd) noexcept, fd)
PASS(Seek, off_t, -1, lseek, (int fd, off_t to, int from) noexcept, fd, to, from)
PASS(Seek, off64_t, -1, lseek64, (int fd, off64_t to, int from) noexcept, fd, to, from)
PASS(Event, int, -1, eventfd, (unsigned count, int flags) noexcept, count, flags)
PASS(Random, ssize_t, -1, getrandom, (void* to, size_t bytes, unsigned flags), to, bytes, flags)
PASS(CurrentFolder, char*, nullptr, getcwd, (char* to, size_t bytes) noexcept, to, bytes)
PASS(ChangeFolder, int, -1, chdir, (const char* path) noexcept, path)
PASS(Pipe, int, -1, pipe2, (int* ends, int flags) noexcept, ends, flags)
PASS(MemoryFile, int, -1, memfd_create, (const char* name, unsigned flags) noexcept, name, flags)
PASS(Wait, pid_t, -1, waitpid, (pid_t process, int* status, int flags), process, status, flags)
PASS(Map, void*, MAP_FAILED, mmap, (void* at, size_t bytes, int how, int flags, int fd, off_t offset) noexcept, at,
     bytes, how, flags, fd, offset)

// Closes the descriptor even if the call fails, as Linux does.
int close(int fd) {
  static const auto call = next(&close, "close");
  const Fate own = fate(Close);
  const int error = errno, done = call(fd);
  if (own != Fate::Failed) return done;
  errno = error;
  return -1;
}

// Functions that return the error number.
PASS(Thread, int, errno, pthread_create,
     (pthread_t * to, const pthread_attr_t* how, void* (*run)(void*), void* with) noexcept, to, how, run, with)
PASS(Spawn, int, errno, posix_spawnp,
     (pid_t * process, const char* file, const posix_spawn_file_actions_t* actions, const posix_spawnattr_t* how,
      char* const words[], char* const variables[]),
     process, file, actions, how, words, variables)
PASS(Glob, int, (errno == ENOMEM ? GLOB_NOSPACE : GLOB_ABORTED), glob,
     (const char* pattern, int flags, int (*fault)(const char*, int), glob_t* to), pattern, flags, fault, to)

}  // extern "C"
