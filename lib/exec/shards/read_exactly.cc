#include "exec/shards/read_exactly.h"

#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/long_calls.h"
#include "base/text.h"

namespace tpplan {
void check_unchanged(const WeightSource& source) {
  for (const InputFile& file : source.weights.files) {
    if (is_unchanged(file)) continue;
    throw Fault{.code = Code::WeightsChanged,
                .message = "the file changed while it was read",
                .help = "run again when no process writes the file",
                .place = file.name};
  }
}

void read_exactly(const InputFile& file, uint64_t offset, void* to, uint64_t bytes, std::string_view tensor) {
  for (uint64_t done = 0; done < bytes;) {
    const ssize_t got = make_registered_call("a read", file.name, offset + done, [&] {
      return pread(*file.fd, static_cast<char*>(to) + done, std::min(bytes - done, kBytesACall),
                   static_cast<off_t>(offset + done));
    });
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      throw Fault{.code = Code::WeightsUnreadable,
                  .message = fmt::format("cannot read `{}` at byte {}: {}", escape_for_terminal(tensor), offset + done,
                                         std::strerror(errno)),
                  .place = file.name};
    if (got == 0) {
      struct stat now {};  // this read can begin after the end
      const uint64_t end = fstat(*file.fd, &now) == 0 ? static_cast<uint64_t>(now.st_size) : offset + done;
      throw Fault{.code = Code::WeightsChanged,
                  .message = fmt::format(
                      "the file was truncated while it was read: `{}` extends to byte {}, the file ends at {}",
                      escape_for_terminal(tensor), offset + bytes, end),
                  .help = "copy the file again",
                  .place = file.name};
    }
    done += static_cast<uint64_t>(got);
  }
}

}  // namespace tpplan
