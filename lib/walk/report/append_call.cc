#include "walk/report/append_call.h"

#include "sharding/dtype.h"
#include "sharding/tensor_size.h"
#include "walk/report/list_operations.h"

namespace tpplan {

void append_call(Walk& walk, bool backward, CollectiveKind kind, size_t axis, ModuleId module,
                 std::vector<int64_t> shape, std::string_view dtype, bool hidden) {
  CollectiveCall call{.backward = backward,
                      .kind = kind,
                      .axis = walk.in.axes[axis],
                      .module = {},
                      .shape = std::move(shape),
                      .dtype = std::string(dtype),
                      .bytes = 0,
                      .hidden = hidden};
  DType type{};
  call.bytes =
      static_cast<int64_t>(find_dtype(call.dtype, type) ? bytes_of(type, call.shape) : elements_of(call.shape));
  append_call(walk, std::move(call), module);
}

void append_call(Walk& walk, CollectiveCall call, ModuleId module) {
  if (module != kNone) call.module = walk.in.model.modules[module].path;
  list_call(walk, call);
  walk.out.calls.push_back(std::move(call));
  walk.out.call_modules.push_back(module);
}

}  // namespace tpplan
