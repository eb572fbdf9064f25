// The state of the language server.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "editor/frames.h"
#include "editor_plans.h"

namespace tpplan {

enum class ServerState : uint8_t { New, Running, ShutDown, Ended };

struct Server {
  EditorArguments arguments;
  ServerState state = ServerState::New;
  FrameBuffer input;
  std::map<std::string, OpenPlan, std::less<>> open;  // by URI
};

}  // namespace tpplan
