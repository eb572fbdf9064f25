// TCP, as far as a job's ranks need it.
#pragma once

#include <string>

namespace tpplan {

// "[::1]:29500", "127.0.0.1:29500".
std::string endpoint_text(const std::string& address, int port);

// Opens a socket that listens on `address`, or on every address where that is not one of this machine's; port 0: any
// free port, which `port` becomes. Throws TP8005.
int listen_at(const std::string& address, int& port);

// Connects within `seconds`, to one address of the name after the other; -1 with the last reason.
int connect_to(const std::string& address, int port, double seconds, std::string& reason);

// The next caller of a listening socket; -1 when there is none.
int accept_caller(int listener);

// The machine's name and its boot: equal on two processes of one machine.
std::string host_identity();

}  // namespace tpplan
