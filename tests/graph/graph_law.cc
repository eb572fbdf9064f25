// `tpplan_graph_law MODEL...`: prints the graph of each model, reads the text back and prints the difference of the two
// graphs or of their texts. Models without a graph are skipped.
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

#include "model/read_model.h"
#include "print_and_read.h"

int main(int argc, char** argv) {
  using namespace tpplan;
  int failures = 0;
  for (int i = 1; i < argc; ++i) {
    std::ifstream in(argv[i]);
    std::stringstream text;
    text << in.rdbuf();
    const SourceFile file{.name = argv[i], .text = text.str()};
    Diagnostics diagnostics;
    const ModelGraph model = read_model(file, diagnostics);
    if (!model.operations.is_there) {
      std::printf("%s: no graph\n", argv[i]);
      continue;
    }
    const std::string broken = broken_law(model);
    failures += !broken.empty();
    std::printf("%s: %s\n", argv[i], broken.empty() ? "holds" : broken.c_str());
  }
  return failures == 0 ? 0 : 1;
}
