// Any bytes as a safetensors file.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <vector>

#include "fuzz_input.h"
#include "mutate_tree.h"
#include "weights/safetensors_header.h"

TPPLAN_MUTATE_AS(tpplan::InputForm::Safetensors)

namespace {

// Properties of an accepted header: tensors are inside the file, have the size of their dtype and shape, and fill the
// file.
void check(const tpplan::WeightsHeader& header) {
  using tpplan::require;
  const uint64_t there = header.file_bytes - header.data_begin;
  uint64_t together = 0;
  for (const tpplan::WeightTensor& tensor : header.tensors) {
    require(tensor.begin <= tensor.end && tensor.end <= there, "a tensor lies in the file");
    uint64_t bits = tpplan::dtypes()[tensor.dtype].bits;
    for (const uint64_t size : tpplan::shape_of(header, tensor)) bits *= size;
    require(bits / 8 == tensor.end - tensor.begin, "a tensor has the bytes of its type and shape");
    together += tensor.end - tensor.begin;
  }
  require(together == there, "the tensors fill the file");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tpplan;
  static const int fd = memfd_create("fuzz.safetensors", MFD_CLOEXEC);
  static const std::string path = "/proc/self/fd/" + std::to_string(fd);
  require(fd >= 0 && ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == static_cast<ssize_t>(size),
          "the input stands in memory");
  WeightsHeader header;
  Diagnostics diagnostics;
  InputFile file{.name = path, .fd = {}, .identity = {}};
  require(open_input(path, file).empty(), "the input opens");
  header.source.name = path;
  const bool good = read_safetensors_header(file, header, diagnostics);
  require(good != has_errors(diagnostics), "a refused header has a reason, an accepted one has no error");
  if (good) check(header);
  show(diagnostics, sources_of(header.source));
  return 0;
}
