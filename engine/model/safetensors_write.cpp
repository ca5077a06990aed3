#include "model/safetensors.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace hekla::model {
namespace {

struct Placed {
    const TensorSource* source;
    uint64_t size;
};

Result<std::vector<Placed>> place(std::span<const TensorSource> tensors, TensorOrder order) {
    std::vector<Placed> placed;
    placed.reserve(tensors.size());
    for (const TensorSource& tensor : tensors) {
        if (tensor.name.empty() || tensor.name == "__metadata__" || tensor.name.size() > kTensorNameLimit)
            return invalid_argument(fmt::format("{} cannot be a tensor's name: it must have 1 to {} bytes and not be "
                                                "\"__metadata__\"",
                                                in_quotes(tensor.name), kTensorNameLimit));
        if (tensor.dims.size() > kRankLimit)
            return invalid_argument(fmt::format("tensor {}: {} dimensions, at most {} can be written",
                                                in_quotes(tensor.name), tensor.dims.size(), kRankLimit));
        const auto size = byte_count(tensor.dtype, tensor.dims);
        if (!size.ok()) return size.status().with_context("tensor " + in_quotes(tensor.name));
        placed.push_back({&tensor, static_cast<uint64_t>(size.value())});
    }
    std::vector<Placed> by_name = placed;
    std::sort(by_name.begin(), by_name.end(),
              [](const Placed& a, const Placed& b) { return a.source->name < b.source->name; });
    for (std::size_t i = 1; i < by_name.size(); ++i)
        if (by_name[i - 1].source->name == by_name[i].source->name)
            return invalid_argument(fmt::format("tensor {} was given twice", in_quotes(by_name[i].source->name)));
    if (order == TensorOrder::given) return placed;
    std::stable_sort(by_name.begin(), by_name.end(),
                     [](const Placed& a, const Placed& b) { return a.source->dtype > b.source->dtype; });
    return by_name;
}

Result<std::string> header_of(const std::vector<Placed>& placed, const Metadata& metadata) {
    // Uses the library to escape text and check UTF-8; it throws for invalid text.
    const auto text = [](const std::string& value) { return nlohmann::json(value).dump(); };
    try {
        std::string header = "{";
        if (!metadata.empty()) {
            header += "\"__metadata__\":{";
            for (const auto& [key, value] : metadata) header += fmt::format("{}:{},", text(key), text(value));
            header.back() = '}';
            header += ',';
        }
        uint64_t begin = 0;
        for (const auto& [source, size] : placed) {
            if (size > uint64_t{1} << 62 || begin > uint64_t{1} << 62)
                return invalid_argument("the tensors are larger than 63 bits can count");
            header +=
                fmt::format("{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}},", text(source->name),
                            file_name_of(source->dtype), fmt::join(source->dims, ","), begin, begin + size);
            begin += size;
        }
        if (header.size() > 1)
            header.back() = '}';
        else
            header += '}';
        header.resize((header.size() + 7) / 8 * 8, ' ');
        if (header.size() > kHeaderSizeLimit)
            return invalid_argument(fmt::format("the header would be {} bytes long, at most {} can be read back",
                                                header.size(), kHeaderSizeLimit));
        return header;
    } catch (const std::exception& error) {
        return invalid_argument(fmt::format("a tensor's name or metadata is not UTF-8: {}", error.what()));
    }
}

Status stream_one(const Sink& sink, const Placed& placed) {
    const std::string name = "tensor " + in_quotes(placed.source->name);
    if (!placed.source->stream) return invalid_argument(name + ": has no source of bytes");
    uint64_t written = 0;
    const Status status = placed.source->stream([&](std::span<const std::byte> bytes) -> Status {
        if (bytes.size() > placed.size - written)
            return invalid_argument(fmt::format("{}: its source gave more than the {} bytes of {}", name, placed.size,
                                                describe(*placed.source)));
        written += bytes.size();
        return sink(bytes);
    });
    HK_TRY(status);
    if (written != placed.size)
        return invalid_argument(fmt::format("{}: its source gave {} bytes, {} needs {}", name, written,
                                            describe(*placed.source), placed.size));
    return {};
}

} // namespace

Status write_safetensors(const Sink& sink, std::span<const TensorSource> tensors, const Metadata& metadata,
                         TensorOrder order) {
    HK_ASSIGN(const std::vector<Placed> placed, place(tensors, order));
    HK_ASSIGN(const std::string header, header_of(placed, metadata));
    const uint64_t size = header.size();
    HK_TRY(sink(std::as_bytes(std::span<const uint64_t, 1>(&size, 1))));
    HK_TRY(sink(std::as_bytes(std::span<const char>(header.data(), header.size()))));
    for (const Placed& one : placed) HK_TRY(stream_one(sink, one));
    return {};
}

Result<FileRecord> write_safetensors_file(const std::filesystem::path& path, std::span<const TensorSource> tensors,
                                          const Metadata& metadata, TensorOrder order) {
    HK_ASSIGN(HashedFile file, HashedFile::create(path));
    const Sink sink = [&file](std::span<const std::byte> bytes) { return file.write(bytes); };
    const Status status = write_safetensors(sink, tensors, metadata, order);
    // Errors of the file already contain its path.
    if (!status.ok()) return status.code() == Code::io ? status : status.with_context(path.string());
    return file.commit();
}

} // namespace hekla::model
