// TCP sockets for the ranks of a job.
#pragma once

#include <string>

namespace tpplan {

// Returns "[::1]:29500" or "127.0.0.1:29500".
[[nodiscard]] std::string endpoint_text(const std::string& address, int port);

// Opens a socket that listens on `address`, or on all addresses if `address` is not one of this machine. Port 0 selects
// a free port and stores it in `port`. Throws TP8005.
[[nodiscard]] int listen_at(const std::string& address, int& port);

// Connects within `seconds` and returns the socket. Tries all addresses of the name in order; returns -1 with the last
// error in `reason`.
[[nodiscard]] int connect_to(const std::string& address, int port, double seconds, std::string& reason);

// Returns the address of a socket's peer: "10.0.0.7".
[[nodiscard]] std::string peer_text(int socket);

// Accepts the next connection of a listening socket; returns -1 if none is pending. Throws TP8005 if the system cannot
// accept one, for example with too many open files.
[[nodiscard]] int accept_caller(int listener);

// Returns the host name and its boot id, which is equal for all processes of one machine.
[[nodiscard]] std::string host_identity();

}  // namespace tpplan
