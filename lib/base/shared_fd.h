// A file descriptor with shared ownership.
#pragma once

#include <unistd.h>

#include <memory>

namespace tpplan {

// Takes ownership of an open descriptor. The last copy closes it.
[[nodiscard]] inline std::shared_ptr<int> share_fd(int fd) {
  return {new int(fd), [](int* open_fd) {
            close(*open_fd);
            delete open_fd;
          }};
}

}  // namespace tpplan
