#include "model/gguf.hpp"

#include <array>
#include <bit>
#include <fmt/format.h>
#include <optional>

namespace hekla::model {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are written as they lie in memory");

constexpr uint32_t kVersion = 3;
constexpr std::size_t kMaxRank = 4;

// Numbers of value types, in the order of GgufValue, and of elements.
constexpr std::array<uint32_t, 9> kValueTypes{4, 6, 7, 8, 9, 9, 9, 9, 9};
constexpr uint32_t kUint32Elements = 4, kInt32Elements = 5, kFloatElements = 6, kBoolElements = 7, kStringElements = 8;

std::optional<uint32_t> tensor_type(DType dtype) {
    switch (dtype) {
    case DType::f32: return 0;
    case DType::f16: return 1;
    case DType::i8: return 24;
    case DType::i16: return 25;
    case DType::i32: return 26;
    case DType::i64: return 27;
    case DType::f64: return 28;
    case DType::bf16: return 30;
    default: return std::nullopt;
    }
}

class Header {
public:
    template<class T>
    void number(T value) {
        bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    }
    void text(const std::string& value) {
        number(static_cast<uint64_t>(value.size()));
        bytes_ += value;
    }
    void value(const GgufValue& value) {
        number(kValueTypes[value.index()]);
        if (const auto* integer = std::get_if<uint32_t>(&value)) number(*integer);
        if (const auto* real = std::get_if<float>(&value)) number(*real);
        if (const auto* truth = std::get_if<bool>(&value)) number(static_cast<uint8_t>(*truth ? 1 : 0));
        if (const auto* words = std::get_if<std::string>(&value)) text(*words);
        if (const auto* integers = std::get_if<std::vector<int32_t>>(&value)) numbers(*integers, kInt32Elements);
        if (const auto* counts = std::get_if<std::vector<uint32_t>>(&value)) numbers(*counts, kUint32Elements);
        if (const auto* reals = std::get_if<std::vector<float>>(&value)) numbers(*reals, kFloatElements);
        if (const auto* truths = std::get_if<std::vector<bool>>(&value))
            numbers(std::vector<uint8_t>(truths->begin(), truths->end()), kBoolElements);
        if (const auto* texts = std::get_if<std::vector<std::string>>(&value)) {
            number(kStringElements);
            number(static_cast<uint64_t>(texts->size()));
            for (const std::string& one : *texts) text(one);
        }
    }
    template<class T>
    void numbers(const std::vector<T>& values, uint32_t type) {
        number(type);
        number(static_cast<uint64_t>(values.size()));
        for (const T one : values) number(one);
    }
    void pad() { bytes_.resize((bytes_.size() + kGgufAlignment - 1) / kGgufAlignment * kGgufAlignment, '\0'); }
    const std::string& bytes() const { return bytes_; }

private:
    std::string bytes_;
};

uint64_t padded(uint64_t size) { return (size + kGgufAlignment - 1) / kGgufAlignment * kGgufAlignment; }

Result<Header> header_of(const GgufKeys& keys, std::span<const TensorSource> tensors) {
    Header header;
    header.number(std::array<char, 4>{'G', 'G', 'U', 'F'});
    header.number(kVersion);
    header.number(static_cast<uint64_t>(tensors.size()));
    header.number(static_cast<uint64_t>(keys.size()));
    for (const auto& [key, value] : keys) {
        header.text(key);
        header.value(value);
    }
    uint64_t offset = 0;
    for (const TensorSource& tensor : tensors) {
        const std::optional<uint32_t> type = tensor_type(tensor.dtype);
        if (!type || tensor.dims.size() > kMaxRank)
            return invalid_argument(
                fmt::format("tensor {} is {}, which GGUF cannot hold", in_quotes(tensor.name), describe(tensor)));
        header.text(tensor.name);
        header.number(static_cast<uint32_t>(tensor.dims.size()));
        for (std::size_t i = tensor.dims.size(); i-- > 0;) // fastest-varying first
            header.number(static_cast<uint64_t>(tensor.dims[i]));
        header.number(*type);
        header.number(offset);
        HK_ASSIGN(const int64_t size, byte_count(tensor.dtype, tensor.dims));
        offset += padded(static_cast<uint64_t>(size));
    }
    header.pad();
    return header;
}

} // namespace

Result<FileRecord> write_gguf_file(const std::filesystem::path& path, const GgufKeys& keys,
                                   std::span<const TensorSource> tensors) {
    HK_ASSIGN(const Header header, header_of(keys, tensors));
    HK_ASSIGN(HashedFile file, HashedFile::create(path));
    HK_TRY(file.write(header.bytes()));
    for (const TensorSource& tensor : tensors) {
        uint64_t written = 0;
        HK_TRY(tensor.stream([&](std::span<const std::byte> bytes) {
            written += bytes.size();
            return file.write(bytes);
        }));
        HK_ASSIGN(const int64_t size, byte_count(tensor.dtype, tensor.dims));
        if (written != static_cast<uint64_t>(size))
            return invalid_argument(fmt::format("tensor {}: its source gave {} bytes, {} needs {}",
                                                in_quotes(tensor.name), written, describe(tensor), size));
        const std::array<std::byte, kGgufAlignment> zeros{};
        HK_TRY(file.write(std::span(zeros).first(static_cast<std::size_t>(padded(written) - written))));
    }
    return file.commit();
}

} // namespace hekla::model
