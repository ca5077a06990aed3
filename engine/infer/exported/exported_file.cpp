#include "infer/exported/exported_file.hpp"

#include "base/hash.hpp"
#include "base/json.hpp"
#include "model/hashed_file.hpp"

#include <charconv>
#include <cstring>
#include <fmt/format.h>

namespace hekla::infer {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kFileVersion = 1;
constexpr const char* kVersionKey = "hekla.export"; // in the header's metadata
constexpr std::string_view kOwn = "hekla/";
constexpr std::string_view kManifest = "manifest", kHash = "hash";

std::string_view text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Returns the content of hekla/hash.
std::string hash_text(std::string_view header, std::string_view manifest) {
    return to_hex(hash128(header)) + to_hex(hash128(manifest));
}

model::TensorSource source_of_text(std::string name, const std::string& text) {
    model::TensorSource source;
    source.name = std::move(name);
    source.dtype = model::DType::u8;
    source.dims = {static_cast<int64_t>(text.size())};
    source.stream = [&text](const model::Sink& sink) { return sink(std::as_bytes(std::span(text))); };
    return source;
}

} // namespace

Status ExportedFile::damaged(const std::string& what) const {
    return corrupt(fmt::format("{}: {}: it is damaged; copy it, or `hekla export` it, again", path_.string(), what));
}

Result<std::shared_ptr<const ExportedFile>> ExportedFile::open(const fs::path& path) {
    auto file = std::make_shared<ExportedFile>();
    file->path_ = path;
    HK_ASSIGN(file->map_, MappedFile::open(path));
    HK_TRY(file->read());
    return std::shared_ptr<const ExportedFile>(std::move(file));
}

Status ExportedFile::read() {
    Result<model::ParsedSafetensors> parsed = model::parse_safetensors(map_.bytes(), path_.string());
    if (!parsed.ok())
        return corrupt(fmt::format("{}; a model that `hekla export` wrote was expected", parsed.message()));
    const auto version = parsed->metadata.find(kVersionKey);
    if (version == parsed->metadata.end())
        return corrupt(fmt::format("{}: was not written by `hekla export`; give an exported file, or a model's folder",
                                   path_.string()));
    int number = 0;
    const char* const end = version->second.data() + version->second.size();
    const auto [rest, problem] = std::from_chars(version->second.data(), end, number);
    if (problem != std::errc() || rest != end || number < 1) return damaged("its header has no version");
    if (number > kFileVersion)
        return unsupported(fmt::format("{}: was written by a newer Hekla (version {} of the file, this one reads {}): "
                                       "use that Hekla, or export the model again with this one",
                                       path_.string(), number, kFileVersion));
    for (const model::TensorView& tensor : parsed->tensors) {
        if (tensor.name.starts_with(kOwn))
            contents_.emplace(tensor.name.substr(kOwn.size()), text_of(tensor.bytes));
        else
            tensors_.push_back(tensor);
    }
    uint64_t header = 0;
    std::memcpy(&header, map_.bytes().data(), sizeof header);
    const auto manifest = contents_.find(kManifest), hash = contents_.find(kHash);
    if (manifest == contents_.end() || hash == contents_.end() ||
        hash->second != hash_text(map_.text().substr(0, sizeof header + header), manifest->second))
        return damaged("its header or manifest has changed since it was written");
    HK_ASSIGN(manifest_, parse_json_object(manifest->second, path_.string() + ": hekla/manifest"));
    contents_.erase(manifest);
    contents_.erase(hash);
    const json hashes = manifest_.value("contents", json());
    if (!hashes.is_object() || hashes.size() != contents_.size()) return damaged("its manifest lists other contents");
    for (const auto& [name, content] : contents_) {
        const auto known = hashes.find(name);
        if (known == hashes.end() || *known != to_hex(hash128(content))) return damaged(name);
    }
    return {};
}

Status ExportedFile::check(const model::TensorView& tensor) const {
    const auto hashes = manifest_.find("tensors");
    if (hashes != manifest_.end() && hashes->is_object()) {
        const auto known = hashes->find(tensor.name);
        if (known != hashes->end() && *known == to_hex(hash128(tensor.bytes))) return {};
    }
    return damaged(fmt::format("tensor {}", model::in_quotes(tensor.name)));
}

Result<std::string_view> ExportedFile::content(std::string_view name) const {
    const auto found = contents_.find(name);
    if (found == contents_.end()) return damaged(fmt::format("'{}' is not there", name));
    return found->second;
}

Status write_exported_file(const fs::path& path, ExportedContents contents) {
    json& hashes = contents.manifest["tensors"] = json::object();
    for (const model::TensorView& tensor : contents.tensors) {
        if (tensor.name.starts_with(kOwn))
            return invalid_argument(fmt::format("the tensor {} has a name that an exported file keeps for itself",
                                                model::in_quotes(tensor.name)));
        hashes[tensor.name] = to_hex(hash128(tensor.pieces()));
    }
    json& others = contents.manifest["contents"] = json::object();
    for (const auto& [name, content] : contents.contents) others[name] = to_hex(hash128(content));
    const std::string manifest = contents.manifest.dump(1, ' ', false, json::error_handler_t::replace);

    std::vector<model::TensorSource> sources = model::sources_of(contents.tensors);
    const auto own = [](std::string_view name) { return std::string(kOwn) + std::string(name); };
    sources.push_back(source_of_text(own(kManifest), manifest));
    for (const auto& [name, content] : contents.contents) sources.push_back(source_of_text(own(name), content));
    remove_leftovers(path); // from killed exports
    HK_ASSIGN(model::HashedFile file, model::HashedFile::create(path));
    std::string header; // as written at the beginning of the file
    uint64_t header_size = sizeof header_size;
    const std::string place(hash_text("", "").size(), ' ');
    model::TensorSource last = source_of_text(own(kHash), place);
    last.stream = [&](const model::Sink& sink) {
        const std::string text = hash_text(header, manifest);
        return sink(std::as_bytes(std::span(text)));
    };
    sources.push_back(std::move(last));
    const model::Sink sink = [&](std::span<const std::byte> bytes) -> Status {
        if (header.size() < header_size) {
            header += text_of(bytes);
            if (header.size() == sizeof header_size) {
                std::memcpy(&header_size, header.data(), sizeof header_size);
                header_size += sizeof header_size;
            }
        }
        return file.write(bytes);
    };
    HK_TRY(model::write_safetensors(sink, sources, {{kVersionKey, std::to_string(kFileVersion)}},
                                    model::TensorOrder::given));
    return file.commit().status();
}

} // namespace hekla::infer
