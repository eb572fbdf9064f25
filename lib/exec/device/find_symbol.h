// Functions of libraries that are found at run time.
#pragma once

#include <dlfcn.h>

#include <string>

namespace tpplan {

// Sets `function` to the library's function of that name. Returns false with the reason if there is none.
template <typename F>
[[nodiscard]] bool find_symbol(void* library, const char* name, F& function, std::string& reason) {
  function = reinterpret_cast<F>(dlsym(library, name));
  if (function == nullptr) reason = std::string("the library has no function ") + name;
  return function != nullptr;
}

}  // namespace tpplan
