#include "exec/ranks/sockets.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <spdlog/fmt/fmt.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>

#include "base/file_limit.h"
#include "base/text.h"
#include "diagnostics/fault.h"

namespace tpplan {
namespace {

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

// Errors of accept that come from the peer or its network; all other errors come from this machine.
constexpr int kCallersErrors[] = {EINTR,  ECONNABORTED, ENETDOWN,   EPROTO,      ENOPROTOOPT, EHOSTDOWN,
                                  ENONET, EHOSTUNREACH, EOPNOTSUPP, ENETUNREACH, EPERM};

Addresses resolve(const char* address, int port, int flags, std::string& reason) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(address, std::to_string(port).c_str(), &hints, &found);
  if (error != 0) reason = error == EAI_SYSTEM ? std::strerror(errno) : gai_strerror(error);
  return {error == 0 ? found : nullptr, freeaddrinfo};
}

// Configures a connected socket. Messages are short and need replies: with Nagle's algorithm each would wait for the
// acknowledgement of the previous one.
void prepare(int socket) {
  const int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
}

// Returns a socket that is bound to an address and listens; -1 with errno.
int listen_on(const addrinfo& address) {
  const int fd = socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, address.ai_protocol);
  if (fd < 0) return -1;
  const int on = 1, off = 0;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  // A socket at `::` accepts IPv4 connections too, so one socket is enough.
  if (address.ai_family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  if (bind(fd, address.ai_addr, address.ai_addrlen) == 0 && listen(fd, 1024) == 0) return fd;
  const int error = errno;
  close(fd);
  errno = error;
  return -1;
}

int port_of(int fd) {
  sockaddr_storage name{};
  socklen_t size = sizeof name;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&name), &size) != 0) return 0;
  return ntohs(name.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&name)->sin6_port
                                          : reinterpret_cast<sockaddr_in*>(&name)->sin_port);
}

// Connects to one address and returns the socket; -1 with errno.
int connect_one(const addrinfo& address, int milliseconds) {
  const int fd = socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, address.ai_protocol);
  if (fd < 0) return -1;
  int error = connect(fd, address.ai_addr, address.ai_addrlen) == 0 ? 0 : errno;
  if (error == EINPROGRESS) {
    pollfd item{.fd = fd, .events = POLLOUT, .revents = 0};
    socklen_t size = sizeof error;
    if (poll(&item, 1, milliseconds) <= 0) {
      error = ETIMEDOUT;
    } else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) {
      error = errno;
    }
  }
  if (error == 0) {
    prepare(fd);
    return fd;
  }
  close(fd);
  errno = error;
  return -1;
}

}  // namespace

std::string endpoint_text(const std::string& address, int port) {
  const std::string name = escape_for_terminal(address);
  return name.find(':') == std::string::npos ? fmt::format("{}:{}", name, port) : fmt::format("[{}]:{}", name, port);
}

int listen_at(const std::string& address, int& port) {
  std::string reason;
  const Addresses addresses = resolve(address.c_str(), port, 0, reason);
  const auto reject = [&](std::string help) {
    return Fault{.code = Code::RendezvousFailed,
                 .message = fmt::format("rank 0 cannot listen at {}: {}", endpoint_text(address, port), reason),
                 .help = std::move(help),
                 .rank = 0};
  };
  if (addresses == nullptr) throw reject("set MASTER_ADDR to this machine's name or address");
  int fd = -1;
  bool is_ours = false;
  for (const addrinfo* one = addresses.get(); one != nullptr && fd < 0; one = one->ai_next) {
    fd = listen_on(*one);
    if (fd < 0) reason = std::strerror(errno);
    is_ours = is_ours || fd >= 0 || errno != EADDRNOTAVAIL;
  }
  if (!is_ours) {  // the name may belong to a router in front of this machine
    const Addresses any = resolve(nullptr, port, AI_PASSIVE, reason);
    for (const addrinfo* one = any.get(); one != nullptr && fd < 0; one = one->ai_next) {
      fd = listen_on(*one);
      if (fd < 0) reason = std::strerror(errno);
    }
  }
  if (fd < 0) throw reject("set MASTER_PORT to a free port: another job, or a second rank 0, may use this one");
  port = port_of(fd);
  return fd;
}

int connect_to(const std::string& address, int port, double seconds, std::string& reason) {
  const Addresses addresses = resolve(address.c_str(), port, 0, reason);
  for (const addrinfo* one = addresses.get(); one != nullptr; one = one->ai_next) {
    const int fd = connect_one(*one, std::max(1, static_cast<int>(std::min(seconds, 1000.0) * 1000)));
    if (fd >= 0) return fd;
    reason = std::strerror(errno);
  }
  return -1;
}

std::string peer_text(int socket) {
  sockaddr_storage name{};
  socklen_t size = sizeof name;
  std::array<char, NI_MAXHOST> host{};
  if (getpeername(socket, reinterpret_cast<sockaddr*>(&name), &size) != 0 ||
      getnameinfo(reinterpret_cast<sockaddr*>(&name), size, host.data(), host.size(), nullptr, 0, NI_NUMERICHOST) != 0)
    return "an unknown address";
  return host.data();
}

int accept_caller(int listener) {
  for (;;) {
    const int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) {
      prepare(fd);
      return fd;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) return -1;
    if (std::ranges::find(kCallersErrors, errno) != std::end(kCallersErrors)) continue;
    throw Fault{.code = Code::RendezvousFailed,
                .message = fmt::format("rank 0 cannot accept another rank: {}", errno_text(errno)),
                .help = "raise this limit on the machine of rank 0, or start fewer ranks there",
                .rank = 0};
  }
}

std::string host_identity() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) name[0] = '\0';
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return std::string(name.data()) + " " + boot;
}

}  // namespace tpplan
