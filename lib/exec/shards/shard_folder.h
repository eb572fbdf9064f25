// Folders of shards, in the form of torch's distributed checkpoint for Hugging Face (torch 2.13,
// torch/distributed/checkpoint/_hf_utils.py): several safetensors files hold pieces of the same tensor, and each file's
// metadata says where its pieces stand: "DCP_SHARDING_INFO": {"NAME": {"saved_offsets": [row, column]}}.
// Beside them `tpplan.json` says which manifest the folder was written by.
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

// Where the pieces of a file begin, by tensor.
using SavedOffsets = TextMap<std::string, std::vector<uint64_t>>;

// Returns the path of a file of `folder`, of its target if it is a symbolic link. Throws TP8021 if the link leads out
// of the folder or nowhere.
[[nodiscard]] std::string shard_path(const std::string& folder, const std::string& name);

// Reads the headers of these files of `folder`, and of each where its pieces begin. False when a header is wrong: see
// files.diagnostics. Throws TP8021 for a folder that cannot be used as one of shards.
[[nodiscard]] bool read_shard_headers(const std::string& folder, std::span<const std::string> names, WeightFiles& files,
                                      std::vector<SavedOffsets>& offsets);

// "shard-00002-model-00001-of-00001.safetensors": file `part` of `parts` of a rank; torch counts all of them from 1.
[[nodiscard]] std::string shard_file_name(int rank, size_t part, size_t parts);

// Writes the note; throws TP8032. Reads its manifest hash back: empty where a folder has no note, as torch writes them;
// throws TP8021.
void write_note(const std::string& folder, std::string_view shardings_sha256, const Mesh& mesh);
[[nodiscard]] std::string read_note(const std::string& folder);

}  // namespace tpplan
