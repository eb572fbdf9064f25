#include "exec/ranks/end_process.h"

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <exception>
#include <future>
#include <new>
#include <string_view>
#include <thread>
#include <utility>

#include "base/temporary_files.h"
#include "render/render.h"

namespace tpplan {
namespace {

void print_last_error(const Fault& fault) {
  const std::string text = render_human(fault, "tpplan-exec", {});
  [[maybe_unused]] const ssize_t put = write(STDERR_FILENO, text.data(), text.size());
}

void (*last_word)(const Fault&) = print_last_error;

constexpr auto kRemovalTime = std::chrono::seconds(1);

// Removes the unfinished files, but waits at most kRemovalTime: the files may be on a disk that does not respond.
void remove_in_time() try {
  std::promise<void> promise;
  const std::future<void> done = promise.get_future();
  std::thread([promise = std::move(promise)]() mutable {
    remove_all_temporary();
    promise.set_value();
  }).detach();
  done.wait_for(kRemovalTime);
} catch (const std::exception&) {  // no thread, or no memory for it
  remove_all_temporary();
}

// Set in advance: the first lookup of the exit status allocates memory.
int status_without_memory = 3;
std::terminate_handler end_as_ever = std::abort;

// Terminate handler for uncaught exceptions. Reports std::bad_alloc without allocating memory; passes every other
// exception to the previous handler.
[[noreturn]] void end_terminated() {
  static constexpr std::string_view kText = "tpplan-exec: error[TP8012]: out of memory\n  = help: check ulimit -v\n";
  try {
    if (std::current_exception() != nullptr) throw;
  } catch (const std::bad_alloc&) {
    [[maybe_unused]] const ssize_t put = write(STDERR_FILENO, kText.data(), kText.size());
    try {
      remove_all_temporary();
    } catch (const std::exception&) {  // no memory for a path: the unfinished file stays, under its temporary name
    }
    _exit(status_without_memory);
  } catch (...) {  // the previous handler reports it: it is still the current exception
    end_as_ever();
  }
  end_as_ever();
  std::abort();
}

}  // namespace

void set_fault_reporter(void (*say)(const Fault& fault)) { last_word = say; }

void end_on_bad_alloc() {
  status_without_memory = exit_status(Fault{.code = Code::OutOfMemory});
  if (const std::terminate_handler before = std::set_terminate(end_terminated); before != end_terminated)
    end_as_ever = before;
}

void end_process(const Fault& fault) {
  last_word(fault);
  remove_in_time();
  _exit(exit_status(fault));
}

}  // namespace tpplan
