// Any bytes from an editor: as a stream in chunks, as one message, and as the text of a plan that is edited at any
// position.
#include "editor/completion.h"
#include "editor/frames.h"
#include "editor/message.h"
#include "editor/positions.h"
#include "fuzz_input.h"
#include "mutate_tree.h"

TPPLAN_MUTATE_AS(tpplan::InputForm::Json)

namespace tpplan {
namespace {

// Returns the bodies in a stream that arrives in chunks of `piece` bytes, and the error that ends it.
std::string bodies_of(std::string_view stream, size_t piece) {
  FrameBuffer buffer;
  std::string all, body;
  for (size_t at = 0; at < stream.size(); at += piece) {
    add_bytes(buffer, stream.substr(at, piece));
    while (take_frame(buffer, body)) all += add_frame_header(body);
  }
  return all + buffer.fault;
}

void complete_everywhere(std::string_view text) {
  const std::vector<CompletionPath> items{
      {.stars = "layers.*.q", .ranged = "layers.{0..3}.q", .type = "Linear", .shape = "[4, 4]", .count = 4},
      {.stars = "layers.*", .ranged = "layers.{0..3}", .type = "Layer", .count = 4, .is_block = true}};
  const TextLines lines = lines_of(text);
  const size_t step = 1 + text.size() / 16;
  for (size_t offset = 0; offset <= text.size(); offset += step) {
    const size_t again = offset_of(lines, position_of(lines, offset));
    require(again <= offset, "a position stands where a character begins, or at the end of its line");
    require(offset_of(lines, position_of(lines, again)) == again, "a place that was told is found again");
    const Completion completion = complete_plan(lines, again, items, '.');
    require(completion.begin <= again, "what is replaced ends at the cursor");
  }
}

}  // namespace
}  // namespace tpplan

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tpplan;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  require(bodies_of(add_frame_header(bytes), 1 + size / 3) == add_frame_header(bytes),
          "a message that was written is taken as it was");
  require(bodies_of(bytes, 1 + size / 5) == bodies_of(bytes, 1 + size), "a stream says the same however it is cut");
  EditorMessage message;
  message.file = fuzz_file("message", bytes);
  if (!read_message(message)) {
    require(message.fault != RpcError{}, "what is no message has a reason");
    return 0;
  }
  JsonWriter id;
  write_id(id, message.id);
  require(!id.out.empty(), "an answer has an id");
  complete_everywhere(string_field(message.params, 0, "text"));
  return 0;
}
