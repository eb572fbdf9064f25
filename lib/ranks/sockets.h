// TCP, as far as a job's ranks need it.
#pragma once

#include <string>

namespace tpplan {

// "[::1]:29500", "127.0.0.1:29500".
[[nodiscard]] std::string endpoint_text(const std::string& address, int port);

// Opens a socket that listens on `address`, or on every address where that is not one of this machine's; port 0: any
// free port, which `port` becomes. Throws TP8005.
[[nodiscard]] int listen_at(const std::string& address, int& port);

// Connects within `seconds`, to one address of the name after the other; -1 with the last reason.
[[nodiscard]] int connect_to(const std::string& address, int port, double seconds, std::string& reason);

// The next caller of a listening socket; -1 when there is none. Throws TP8005 where the system cannot take one in: too
// many files are open, or memory is short.
[[nodiscard]] int accept_caller(int listener);

// The machine's name and its boot: equal on two processes of one machine.
[[nodiscard]] std::string host_identity();

}  // namespace tpplan
