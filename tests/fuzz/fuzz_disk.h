// Input files for readers that open files by name.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>

#include "fuzz_input.h"

namespace tpplan {

// Returns a folder of this process, in memory if possible; removed when the process exits normally.
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
