#include <spdlog/fmt/fmt.h>

#include "exec/load/load_state.h"
#include "exec/load/one_call.h"
#include "exec/load/open_load.h"
#include "exec/load/read_targets.h"
#include "exec/load/save_sources.h"
#include "exec/load/tpplan_load.h"

int tpplan_load_version(void) { return 3; }

int tpplan_load_open(const tpplan_load_source* source, tpplan_load** out) {
  if (source == nullptr || out == nullptr) return TPPLAN_LOAD_INPUT;
  *out = nullptr;
  try {
    *out = new tpplan_load;
  } catch (...) {
    return TPPLAN_LOAD_LIMIT;
  }
  tpplan_load& load = **out;
  tpplan::LoadErrors findings;
  const int status = tpplan::catch_errors(load, [&] {
    tpplan::read_source(load, *source);
    findings = tpplan::open_manifest_and_weights(load, *source);
  });
  if (status != TPPLAN_LOAD_OK || load.is_open) return status;
  load.error = std::move(findings.text);
  load.said = load.error.c_str();
  return findings.status;
}

size_t tpplan_load_count(const tpplan_load* load) {
  return load == nullptr || !load->is_open ? 0 : load->store.shards.size();
}

int tpplan_load_describe(tpplan_load* load, size_t number, tpplan_load_tensor* tensor) {
  if (load == nullptr) return TPPLAN_LOAD_LIMIT;
  return tpplan::catch_errors(*load, [&] {
    tpplan::require_open(*load);
    if (tensor == nullptr) throw tpplan::RequestError{"`tensor` is NULL"};
    if (number >= load->store.shards.size()) throw tpplan::RequestError{fmt::format("there is no tensor {}", number)};
    const tpplan::Shard& shard = load->store.shards[number];
    *tensor = {.path = load->paths[number].c_str(),
               .dtype = load->dtypes[number].c_str(),
               .shape = shard.shape.data(),
               .dims = shard.shape.size(),
               .full_shape = shard.layout->shape.data(),
               .bytes = shard.bytes,
               .same_as = tpplan::first_tied(*load, number),
               .is_buffer = number >= load->manifest.parameters.size(),
               .is_stored = !load->source.missing[number]};
  });
}

int tpplan_load_read(tpplan_load* load, const tpplan_load_target* targets, size_t count,
                     const tpplan_load_options* options, tpplan_load_result* result) {
  if (load == nullptr) return TPPLAN_LOAD_LIMIT;
  return tpplan::run_exclusively(*load, [&] {
    if (options != nullptr && options->size != sizeof *options)
      throw tpplan::RequestError{
          "the options are from another version of the library: `size` is not sizeof(tpplan_load_options)"};
    const tpplan_load_result done =
        tpplan::read_targets(*load, targets, count, options == nullptr ? tpplan_load_options{} : *options);
    if (result != nullptr) *result = done;
  });
}

int tpplan_load_save(tpplan_load* load, const char* folder, const tpplan_load_target* sources, size_t count) {
  if (load == nullptr) return TPPLAN_LOAD_LIMIT;
  return tpplan::run_exclusively(*load, [&] { tpplan::save_sources(*load, folder, sources, count); });
}

const char* tpplan_load_error(const tpplan_load* load) {
  return load == nullptr ? tpplan::kNoMemory : load->said.load();
}
const char* tpplan_load_warnings(const tpplan_load* load) { return load == nullptr ? "" : load->warnings.c_str(); }
void tpplan_load_close(tpplan_load* load) {
  if (load == nullptr || !load->is_busy) delete load;
}
