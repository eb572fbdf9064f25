#include "exec/load/one_call.h"

#include <spdlog/fmt/fmt.h>

#include "diagnostics/fault.h"
#include "render/render.h"

namespace tpplan {

int store_error(tpplan_load& load, std::string text, int status) {
  load.error = std::move(text);
  load.said = load.error.c_str();
  return status;
}

int store_current_error(tpplan_load& load) {
  try {
    throw;
  } catch (const RequestError& request_error) {
    return store_error(load, fmt::format("tpplan_load: error: {}\n", request_error.text), request_error.status);
  } catch (const StoppedByCallback&) {
    return store_error(load, "tpplan_load: error: a callback stopped the call\n", TPPLAN_LOAD_STOPPED);
  } catch (...) {
    const Fault fault = current_error();
    return store_error(load, render_human(fault, "tpplan_load", {}), exit_status(fault));
  }
}

}  // namespace tpplan
