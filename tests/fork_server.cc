// Runs the program that it is linked with many times: for each request on standard input it forks a child, which
// executes the program with these arguments, and replies with the child's exit status and output. A child saves the
// start of a new process, which takes 50 to 100 ms with sanitizers. The server ends with its input.
//
// Numbers are 32 bits in native byte order; a text is its length and its bytes.
//   request: directory, standard input, count and arguments, count and environment variables (NAME=value; all that the
//            child has)
//   reply:   exit status, or the negative of a signal; standard output, standard error
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "program.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

namespace {

struct Request {
  std::string directory, input;
  std::vector<std::string> arguments, variables;
};

struct Answer {
  int32_t status = 0;
  std::string output, error;
};

[[noreturn]] void fail_call(const char* what) {
  std::perror(what);
  std::_Exit(EXIT_FAILURE);
}

// Returns false at the end of the input.
bool read_all(char* data, size_t size) {
  while (size > 0) {
    const ssize_t got = read(STDIN_FILENO, data, size);
    if (got < 0) fail_call("fork server: read");
    if (got == 0) return false;
    data += got;
    size -= static_cast<size_t>(got);
  }
  return true;
}

void write_all(const char* data, size_t size) {
  while (size > 0) {
    const ssize_t put = write(STDOUT_FILENO, data, size);
    if (put < 0) fail_call("fork server: write");
    data += put;
    size -= static_cast<size_t>(put);
  }
}

bool read_number(uint32_t& number) { return read_all(reinterpret_cast<char*>(&number), sizeof number); }

bool read_text(std::string& text) {
  uint32_t size = 0;
  if (!read_number(size)) return false;
  text.resize(size);
  return read_all(text.data(), size);
}

bool read_texts(std::vector<std::string>& texts) {
  uint32_t count = 0;
  if (!read_number(count)) return false;
  texts.resize(count);
  for (std::string& text : texts)
    if (!read_text(text)) return false;
  return true;
}

bool read_request(Request& request) {
  return read_text(request.directory) && read_text(request.input) && read_texts(request.arguments) &&
         read_texts(request.variables);
}

void write_text(const std::string& text) {
  const uint32_t size = static_cast<uint32_t>(text.size());
  write_all(reinterpret_cast<const char*>(&size), sizeof size);
  write_all(text.data(), text.size());
}

void write_answer(const Answer& answer) {
  write_all(reinterpret_cast<const char*>(&answer.status), sizeof answer.status);
  write_text(answer.output);
  write_text(answer.error);
}

struct Pipe {
  int read_end = -1, write_end = -1;
};

Pipe make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail_call("fork server: pipe");
  return {ends[0], ends[1]};
}

std::vector<char*> pointers_of(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

int runs = 0;

#ifdef __SANITIZE_ADDRESS__
// A leak check takes as long as a short run: one run of eight has one, and so has every run in a separate process.
constexpr int kRunsPerLeakSearch = 8;

// Runs as the last exit handler of the program. It skips the sanitizers' own teardown, which takes a quarter of a short
// run.
void end_here(int status, void*) {
  if (runs % kRunsPerLeakSearch == 0) __lsan_do_leak_check();
  _exit(status);
}
#endif

// Executes the program in the child, with the pipes as its standard streams and without other descriptors of the
// server.
[[noreturn]] void become_program(Request& request, const Pipe& input, const Pipe& output, const Pipe& error) {
  dup2(input.read_end, STDIN_FILENO);
  dup2(output.write_end, STDOUT_FILENO);
  dup2(error.write_end, STDERR_FILENO);
  for (const Pipe& pipe : {input, output, error}) {
    close(pipe.read_end);
    close(pipe.write_end);
  }
  if (!request.directory.empty() && chdir(request.directory.c_str()) != 0) fail_call("fork server: chdir");
  std::vector<char*> variables = pointers_of(request.variables);
  std::vector<char*> arguments = pointers_of(request.arguments);
  std::signal(SIGPIPE, SIG_DFL);
  environ = variables.data();  // directly before the program: bad_input/failing_calls.cc counts from here
#ifdef __SANITIZE_ADDRESS__
  on_exit(end_here, nullptr);
#endif
  // Not `return`: exit runs the program's exit handlers, including the leak check.
  std::exit(tpplan::program_main(static_cast<int>(request.arguments.size()), arguments.data()));
}

// Sends as much of `input` from `at` on as the pipe accepts. Closes the pipe when all is sent or it has no reader.
void feed(pollfd& to, const std::string& input, size_t& at) {
  const ssize_t put = write(to.fd, input.data() + at, input.size() - at);
  if (put > 0) at += static_cast<size_t>(put);
  if (put < 0 || at == input.size()) {
    close(to.fd);
    to.fd = -1;
  }
}

// Reads the available bytes; closes the pipe at its end.
void drain(pollfd& from, std::string& text) {
  char block[1 << 16];
  const ssize_t got = read(from.fd, block, sizeof block);
  if (got > 0) {
    text.append(block, static_cast<size_t>(got));
    return;
  }
  close(from.fd);
  from.fd = -1;
}

// Serves all three streams of a child at once, so that neither side blocks the other.
void exchange(int to, int out, int err, const std::string& input, Answer& answer) {
  pollfd ends[] = {{to, POLLOUT, 0}, {out, POLLIN, 0}, {err, POLLIN, 0}};
  size_t sent = 0;
  if (input.empty()) {
    close(to);
    ends[0].fd = -1;
  }
  while (ends[0].fd >= 0 || ends[1].fd >= 0 || ends[2].fd >= 0) {
    if (poll(ends, 3, -1) < 0) fail_call("fork server: poll");
    if (ends[0].revents != 0) feed(ends[0], input, sent);
    if (ends[1].revents != 0) drain(ends[1], answer.output);
    if (ends[2].revents != 0) drain(ends[2], answer.error);
  }
}

Answer run(Request& request) {
  const Pipe input = make_pipe(), output = make_pipe(), error = make_pipe();
  ++runs;
  const pid_t child = fork();
  if (child < 0) fail_call("fork server: fork");
  if (child == 0) become_program(request, input, output, error);
  for (const int end : {input.read_end, output.write_end, error.write_end}) close(end);
  // A full pipe must not block the server while it should read the child's output.
  if (fcntl(input.write_end, F_SETFL, O_NONBLOCK) != 0) fail_call("fork server: fcntl");
  Answer answer;
  exchange(input.write_end, output.read_end, error.read_end, request.input, answer);
  int status = 0;
  if (waitpid(child, &status, 0) != child) fail_call("fork server: waitpid");
  answer.status = WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
  return answer;
}

// The first throw of a process sorts the unwind tables, which takes 4 ms in a static program. Children inherit the
// sorted tables.
void throw_once() {
  try {
    throw Request();
  } catch (const Request&) {
  }
}

}  // namespace

int main() {
  std::signal(SIGPIPE, SIG_IGN);
  throw_once();
  Request request;
  while (read_request(request)) write_answer(run(request));
  return EXIT_SUCCESS;
}
