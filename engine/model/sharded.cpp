#include "model/sharded.hpp"

#include "base/json.hpp"

#include <fmt/format.h>
#include <set>

namespace hekla::model {

Result<ShardIndex> read_shard_index(const std::filesystem::path& path) {
    const std::string where = path.string();
    HK_ASSIGN(const std::string text, read_file(path, kIndexSizeLimit));
    HK_ASSIGN(const nlohmann::json json, parse_json_object(text, where));
    const auto map = json.find("weight_map");
    if (map == json.end() || !map->is_object())
        return corrupt(where + ": has no \"weight_map\" object, which an index of shards must have");
    const std::string_view ending = where.ends_with(".bin.index.json") ? ".bin" : ".safetensors";
    ShardIndex index;
    std::set<std::string> files;
    for (const auto& [tensor, file] : map->items()) {
        if (!file.is_string())
            return corrupt(fmt::format("{}: weight_map: {} is {}, a file name was expected", where, in_quotes(tensor),
                                       file.type_name()));
        const auto& name = file.get_ref<const std::string&>();
        if (!is_plain_file_name(name) || !name.ends_with(ending))
            return corrupt(
                fmt::format("{}: weight_map: {} is in {}, the name of a {} file in the same folder was expected", where,
                            in_quotes(tensor), in_quotes(name), ending));
        index.weight_map.emplace(tensor, name);
        files.insert(name);
    }
    index.files.assign(files.begin(), files.end());
    return index;
}

Status check_shards(const ShardIndex& index, std::span<const OpenedShard> opened, const std::string& where) {
    std::set<std::string_view> seen;
    for (const OpenedShard& file : opened) {
        const std::string& name = file.name;
        for (const TensorView& tensor : file.tensors) {
            const auto entry = index.weight_map.find(tensor.name);
            if (entry == index.weight_map.end())
                return corrupt(
                    fmt::format("{}: tensor {} of {} is not in the index", where, in_quotes(tensor.name), name));
            if (entry->second != name)
                return corrupt(fmt::format("{}: tensor {} is in {}, the index has {}", where, in_quotes(tensor.name),
                                           name, in_quotes(entry->second)));
            seen.insert(tensor.name);
        }
    }
    for (const auto& [tensor, file] : index.weight_map)
        if (!seen.contains(tensor))
            return corrupt(fmt::format("{}: tensor {} is not in {}, where the index has it", where, in_quotes(tensor),
                                       in_quotes(file)));
    return {};
}

namespace {

struct Shard {
    std::size_t first;
    std::size_t count;
};

Result<std::vector<Shard>> cut(std::span<const TensorSource> tensors, uint64_t max_shard_bytes, uint64_t& total) {
    std::vector<Shard> shards{{0, 0}};
    uint64_t filled = 0;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        const auto bytes = byte_count(tensors[i].dtype, tensors[i].dims);
        if (!bytes.ok()) return bytes.status().with_context("tensor " + in_quotes(tensors[i].name));
        const auto size = static_cast<uint64_t>(bytes.value());
        if (shards.back().count != 0 && (filled >= max_shard_bytes || size > max_shard_bytes - filled)) {
            shards.push_back({i, 0});
            filled = 0;
        }
        ++shards.back().count;
        filled += size;
        total += size;
    }
    return shards;
}

} // namespace

Result<std::vector<FileRecord>> write_sharded(const std::filesystem::path& folder, const std::string& stem,
                                              std::span<const TensorSource> tensors, const Metadata& metadata,
                                              uint64_t max_shard_bytes) {
    if (!is_plain_file_name(stem)) return invalid_argument(in_quotes(stem) + " cannot begin a file's name");
    uint64_t total = 0;
    HK_ASSIGN(const std::vector<Shard> shards, cut(tensors, max_shard_bytes, total));
    std::vector<FileRecord> written;
    if (shards.size() == 1) {
        HK_ASSIGN(FileRecord record, write_safetensors_file(folder / (stem + ".safetensors"), tensors, metadata));
        written.push_back(std::move(record));
        return written;
    }
    std::set<std::string_view> names; // each file checks its own names; this finds duplicates across files
    for (const TensorSource& tensor : tensors)
        if (!names.insert(tensor.name).second)
            return invalid_argument(fmt::format("tensor {} was given twice", in_quotes(tensor.name)));
    nlohmann::json index;
    index["metadata"]["total_size"] = total;
    nlohmann::json& map = index["weight_map"] = nlohmann::json::object();
    for (std::size_t i = 0; i < shards.size(); ++i) {
        const std::string name = fmt::format("{}-{:05}-of-{:05}.safetensors", stem, i + 1, shards.size());
        const auto part = tensors.subspan(shards[i].first, shards[i].count);
        HK_ASSIGN(FileRecord record, write_safetensors_file(folder / name, part, metadata));
        written.push_back(std::move(record));
        for (const TensorSource& tensor : part) map[tensor.name] = name;
    }
    HK_ASSIGN(const std::string text, dump_json(index));
    HK_ASSIGN(HashedFile file, HashedFile::create(folder / (stem + ".safetensors.index.json")));
    HK_TRY(file.write(text));
    HK_ASSIGN(FileRecord record, file.commit());
    written.push_back(std::move(record));
    return written;
}

} // namespace hekla::model
