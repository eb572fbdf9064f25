// Inputs that a reader opens by their names.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>

#include "fuzz_input.h"

namespace tpplan {

// A folder of this process, in memory where there is some to hold files; removed when the process ends as it should.
inline const std::string& fuzz_folder() {
  struct Folder {
    std::string path =
        (std::filesystem::is_directory("/dev/shm") ? "/dev/shm/" : "/tmp/") + std::string("tpplan-fuzz-XXXXXX");
    Folder() { require(mkdtemp(path.data()) != nullptr, "there is room for the input"); }
    ~Folder() {
      std::error_code ignored;
      std::filesystem::remove_all(path, ignored);
    }
  };
  static const Folder folder;
  return folder.path;
}

inline void put_file(const std::string& path, const uint8_t* data, size_t size) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  require(file != nullptr && std::fwrite(data, 1, size, file) == size && std::fclose(file) == 0,
          "the input is written");
}

}  // namespace tpplan
