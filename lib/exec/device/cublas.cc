#include "exec/device/cublas.h"

#include <dlfcn.h>
#include <spdlog/fmt/fmt.h>

#include <climits>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <vector>

#include "base/text.h"
#include "exec/device/find_symbol.h"

namespace tpplan {
namespace {

// From cublas_api.h; unchanged since cuBLAS 4.
using Handle = struct cublasContext*;
enum Operation : int { kNormal = 0, kTransposed = 1 };
constexpr int kPedanticMath = 2;

struct Functions {
  int (*create)(Handle*);
  int (*destroy)(Handle);
  int (*get_property)(int which, int*);  // 0 major, 1 minor, 2 patch
  int (*set_stream)(Handle, void*);
  int (*set_math_mode)(Handle, int);
  int (*sgemm)(Handle, Operation, Operation, int, int, int, const float*, const float*, int, const float*, int,
               const float*, float*, int);
};

struct Opened {
  CublasLibrary found;
  Functions functions = {};
};

bool find_functions(void* library, Functions& f, std::string& reason) {
  return find_symbol(library, "cublasCreate_v2", f.create, reason) &&
         find_symbol(library, "cublasDestroy_v2", f.destroy, reason) &&
         find_symbol(library, "cublasGetProperty", f.get_property, reason) &&
         find_symbol(library, "cublasSetStream_v2", f.set_stream, reason) &&
         find_symbol(library, "cublasSetMathMode", f.set_math_mode, reason) &&
         find_symbol(library, "cublasSgemm_v2", f.sgemm, reason);
}

Opened open_cublas_library() {
  std::vector<std::string> names = {"libcublas.so.13", "libcublas.so.12", "libcublas.so.11"};
  if (const char* named = std::getenv("TPPLAN_CUBLAS_LIBRARY"); named != nullptr && *named != '\0') names = {named};
  Opened opened;
  for (const std::string& name : names) {
    void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      const char* why = dlerror();
      if (opened.found.reason.empty()) opened.found.reason = escape_for_terminal(why != nullptr ? why : name);
      continue;
    }
    if (!find_functions(library, opened.functions, opened.found.reason)) continue;
    opened.found.library = name;
    opened.found.reason.clear();
    int major = 0, minor = 0, patch = 0;
    opened.functions.get_property(0, &major);
    opened.functions.get_property(1, &minor);
    opened.functions.get_property(2, &patch);
    opened.found.version = fmt::format("{}.{}.{}", major, minor, patch);
    break;
  }
  return opened;
}

const Opened& opened_library() {
  static const Opened opened = open_cublas_library();
  return opened;
}

void check(int status, const char* what) {
  if (status != 0) throw std::runtime_error(fmt::format("cuBLAS failed with status {} in {}", status, what));
}

// The calling thread's handle: a handle belongs to one device.
Handle handle_of(int device_index) {
  struct Release {
    void operator()(Handle handle) const { opened_library().functions.destroy(handle); }
  };
  thread_local std::unique_ptr<cublasContext, Release> handle;
  thread_local int owner = -1;
  if (owner != device_index) {
    Handle created = nullptr;
    check(opened_library().functions.create(&created), "cublasCreate");
    handle.reset(created);
    owner = device_index;
    check(opened_library().functions.set_math_mode(created, kPedanticMath), "cublasSetMathMode");
  }
  return handle.get();
}

}  // namespace

const CublasLibrary& cublas_library() { return opened_library().found; }

bool multiply_by_cublas(void* stream, int device_index, float* y, const float* a, const float* b, const Matmul& p) {
  if (opened_library().found.library.empty() || p.m > INT_MAX || p.n > INT_MAX || p.k > INT_MAX) return false;
  const Functions& functions = opened_library().functions;
  const int m = static_cast<int>(p.m), n = static_cast<int>(p.n), k = static_cast<int>(p.k);
  const float one = 1.0f, beta = p.accumulate ? 1.0f : 0.0f;
  Handle handle = handle_of(device_index);
  check(functions.set_stream(handle, stream), "cublasSetStream");
  // cuBLAS is column major: row major y = a x b is column major y' = b' x a', with the row length as leading dim.
  check(functions.sgemm(handle, p.transpose_b ? kTransposed : kNormal, p.transpose_a ? kTransposed : kNormal, n, m, k,
                        &one, b, p.transpose_b ? k : n, a, p.transpose_a ? m : k, &beta, y, n),
        "cublasSgemm");
  return true;
}

}  // namespace tpplan
