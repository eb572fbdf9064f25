// Folders of shards, in the form of torch's distributed checkpoint for Hugging Face (torch 2.13,
// torch/distributed/checkpoint/_hf_utils.py). Several safetensors files have shards of the same tensor, and the
// metadata of a file has their offsets: "DCP_SHARDING_INFO": {"NAME": {"saved_offsets": [row, column]}}. tpplan adds a
// note, `tpplan.json`, with the mesh and the hash of the shardings (manifest/shardings_digest.h).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/keyed_hash.h"
#include "sharding/mesh.h"
#include "weights/weight_files.h"

namespace tpplan {

inline constexpr std::string_view kShardingInfoKey = "DCP_SHARDING_INFO";
inline constexpr std::string_view kFolderNote = "tpplan.json";
inline constexpr size_t kMaxShardFiles = 100000;

// The offset of each shard of a file in its tensor, by name.
using SavedOffsets = TextMap<std::string, std::vector<uint64_t>>;

// Returns the path of a file of `folder`, of its target if it is a symbolic link. Throws TP8021 if the link leads out
// of the folder or nowhere.
[[nodiscard]] std::string shard_path(const std::string& folder, const std::string& name);

// Reads the headers of the files `names` of `folder`, and the offsets of their shards, by file. Returns false if a
// header is invalid; files.diagnostics has the errors. Throws TP8021 if this is not a valid folder of shards.
[[nodiscard]] bool read_shard_headers(const std::string& folder, std::span<const std::string> names, WeightFiles& files,
                                      std::vector<SavedOffsets>& offsets);

// Returns "shard-00002-model-00001-of-00001.safetensors" for file `part` of `parts` of a rank. Indices in names start
// at 1, as in torch.
[[nodiscard]] std::string shard_file_name(int rank, size_t part, size_t parts);

// write_note writes the folder's note and throws TP8032. read_note returns the hash of the shardings from it; empty if
// the folder has no note, as after a save by torch. It throws TP8021 if the note is invalid.
void write_note(const std::string& folder, std::string_view shardings_sha256, const Mesh& mesh);
[[nodiscard]] std::string read_note(const std::string& folder);

}  // namespace tpplan
