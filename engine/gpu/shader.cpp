#include "gpu/shader.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <memory>
#include <new>
#include <span>
#include <zstd.h>

namespace hekla::gpu {

namespace {

// SPIR-V's numbers (unified1 specification, sections 3.2, 3.6, 3.20, 3.49).
constexpr uint32_t kMagic = 0x07230203;
constexpr uint32_t kNewestVersion = 0x00010600;
constexpr uint32_t kOpEntryPoint = 15;
constexpr uint32_t kOpExecutionMode = 16;
constexpr uint32_t kOpCapability = 17;
constexpr uint32_t kOpTypeBool = 20;
constexpr uint32_t kOpTypeInt = 21;
constexpr uint32_t kOpTypeFloat = 22;
constexpr uint32_t kOpTypeVector = 23;
constexpr uint32_t kOpTypeMatrix = 24;
constexpr uint32_t kOpTypeArray = 28;
constexpr uint32_t kOpTypeStruct = 30;
constexpr uint32_t kOpTypePointer = 32;
constexpr uint32_t kOpConstant = 43;
constexpr uint32_t kOpConstantComposite = 44;
constexpr uint32_t kOpSpecConstant = 50;
constexpr uint32_t kOpSpecConstantComposite = 51;
constexpr uint32_t kOpFunctionEnd = 56;
constexpr uint32_t kOpVariable = 59;
constexpr uint32_t kOpDecorate = 71;
constexpr uint32_t kOpExecutionModeId = 331;
constexpr uint32_t kModelGlCompute = 5;
constexpr uint32_t kModeLocalSize = 17;
constexpr uint32_t kModeLocalSizeId = 38;
constexpr uint32_t kStorageWorkgroup = 4;
constexpr uint32_t kDecorationSpecId = 1;
constexpr uint32_t kDecorationBuiltIn = 11;
constexpr uint32_t kBuiltInWorkgroupSize = 25;

// Bytes. The largest module has a hundredth of it; the sizes that stand for an error are above it.
constexpr unsigned long long kLargestEmbedded = 16 << 20;

// Returns a literal string in an instruction, ending at a zero byte within `words`; empty if it is not terminated.
std::string literal(std::span<const uint32_t> words) {
    std::string text;
    for (const uint32_t word : words) {
        for (int shift = 0; shift < 32; shift += 8) {
            const char c = static_cast<char>(word >> shift & 0xFF);
            if (c == 0) return text;
            text += c;
        }
    }
    return {};
}

// Returns the words in a Zstandard frame. like: the words that were its prefix when it was compressed.
Result<std::vector<uint32_t>> decompressed(std::span<const uint8_t> frame, const std::vector<uint32_t>& like) {
    const unsigned long long size = ZSTD_getFrameContentSize(frame.data(), frame.size());
    if (size > kLargestEmbedded || size % sizeof(uint32_t) != 0) return corrupt("its frame states no possible size");
    std::vector<uint32_t> words(size / sizeof(uint32_t));
    const std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> context(ZSTD_createDCtx(), ZSTD_freeDCtx);
    if (context == nullptr) throw std::bad_alloc();
    std::size_t got = ZSTD_DCtx_refPrefix(context.get(), like.data(), like.size() * sizeof(uint32_t));
    if (ZSTD_isError(got) == 0)
        got = ZSTD_decompressDCtx(context.get(), words.data(), size, frame.data(), frame.size());
    if (ZSTD_isError(got) != 0) return corrupt(ZSTD_getErrorName(got));
    return words;
}

// Saturates, for sizes in damaged modules.
uint64_t times(uint64_t bytes, uint32_t count) { return std::min(bytes, uint64_t{1} << 31) * count; }

} // namespace

Result<Shader> Shader::from_words(std::string name, std::vector<uint32_t> words) {
    Shader shader;
    shader.name_ = std::move(name);
    shader.owned_ = std::make_shared<const std::vector<uint32_t>>(std::move(words));
    shader.words_ = *shader.owned_;
    HK_TRY(shader.inspect());
    return shader;
}

Result<Shader> Shader::from_embedded(const EmbeddedShader& embedded) {
    Result<std::vector<uint32_t>> words = std::vector<uint32_t>();
    if (!embedded.like.empty()) words = decompressed(embedded.like, {});
    if (words.ok()) words = decompressed(embedded.compressed, words.value());
    if (!words.ok())
        return corrupt(fmt::format("the embedded SPIR-V module \"{}\" is damaged: {}; install Hekla again",
                                   embedded.name, words.message()));
    return from_words(std::string(embedded.name), words.take());
}

Result<Shader> Shader::find(std::span<const EmbeddedShader> table, std::string_view name) {
    const auto found = std::ranges::find(table, name, &EmbeddedShader::name);
    if (found == table.end()) return not_found(fmt::format("no shader \"{}\" is embedded", name));
    return from_embedded(*found);
}

bool Shader::is_spirv_1_6() const { return words_[1] >= 0x00010600; }

Status Shader::inspect() {
    const auto bad = [&](std::string_view why) { return corrupt(fmt::format("SPIR-V module \"{}\": {}", name_, why)); };
    if (words_.size() < 5 || words_[0] != kMagic) return bad("it has no SPIR-V header");
    if (words_[1] > kNewestVersion)
        return bad(fmt::format("it is SPIR-V {}.{}, newer than 1.6", words_[1] >> 16, words_[1] >> 8 & 0xFF));
    std::map<uint32_t, uint32_t> values;                 // id of a constant -> its (default) value
    std::map<uint32_t, uint32_t> spec_ids;               // id -> constant_id
    std::map<uint32_t, std::array<uint32_t, 3>> vectors; // id of a three-part composite -> its parts' ids
    std::map<uint32_t, uint64_t> sizes;                  // id of a type -> its bytes; of a pointer: bytes of its target
    uint32_t workgroup_size_id = 0;
    std::array<uint32_t, 3> sized_by{}; // ids of the parts of a workgroup
    uint32_t entry_points = 0;
    uint32_t last = 0;
    for (std::size_t at = 5; at < words_.size();) {
        const uint32_t length = words_[at] >> 16;
        const uint32_t operation = words_[at] & 0xFFFF;
        if (length == 0 || length > words_.size() - at) return bad(fmt::format("instruction at word {} runs over", at));
        const std::span<const uint32_t> in = words_.subspan(at, length);
        at += length;
        last = operation;
        if (operation == kOpCapability && length == 2) {
            capabilities_.push_back(in[1]);
        } else if (operation == kOpEntryPoint && length >= 4) {
            entry_points += 1;
            if (in[1] != kModelGlCompute) return bad("its entry point is not a compute shader");
            if (literal(in.subspan(3)) != "main") return bad("its entry point is not called main");
        } else if (operation == kOpExecutionMode && length >= 3 && in[2] == kModeLocalSize) {
            if (length != 6) return bad("LocalSize needs three numbers");
            for (std::size_t i = 0; i < 3; ++i) workgroup_[i] = {in[3 + i], -1};
        } else if (operation == kOpExecutionModeId && length >= 3 && in[2] == kModeLocalSizeId) {
            if (length != 6) return bad("LocalSizeId needs three numbers");
            if (!is_spirv_1_6()) return bad("LocalSizeId needs SPIR-V 1.6: it is older");
            sized_by = {in[3], in[4], in[5]};
        } else if (operation == kOpTypeBool && length == 2) {
            sizes[in[1]] = 4;
        } else if ((operation == kOpTypeInt || operation == kOpTypeFloat) && length >= 3) {
            sizes[in[1]] = in[2] / 8;
        } else if ((operation == kOpTypeVector || operation == kOpTypeMatrix) && length == 4) {
            sizes[in[1]] = times(sizes[in[2]], in[3]);
        } else if (operation == kOpTypeArray && length == 4) {
            // A length computed from specialization constants is unknown here, and counts as one.
            const auto count = values.find(in[3]);
            sizes[in[1]] = times(sizes[in[2]], count == values.end() ? 1 : count->second);
        } else if (operation == kOpTypeStruct && length >= 2) {
            uint64_t bytes = 0;
            for (const uint32_t member : in.subspan(2)) bytes += sizes[member];
            sizes[in[1]] = bytes;
        } else if (operation == kOpTypePointer && length == 4) {
            sizes[in[1]] = in[2] == kStorageWorkgroup ? sizes[in[3]] : 8;
        } else if (operation == kOpVariable && length >= 4 && in[3] == kStorageWorkgroup) {
            shared_bytes_ += sizes[in[1]];
        } else if ((operation == kOpConstant || operation == kOpSpecConstant) && length == 4) {
            values[in[2]] = in[3];
        } else if ((operation == kOpConstantComposite || operation == kOpSpecConstantComposite) && length == 6) {
            vectors[in[2]] = {in[3], in[4], in[5]};
        } else if (operation == kOpDecorate && length == 4 && in[2] == kDecorationSpecId) {
            spec_ids[in[1]] = in[3];
        } else if (operation == kOpDecorate && length == 4 && in[2] == kDecorationBuiltIn &&
                   in[3] == kBuiltInWorkgroupSize) {
            workgroup_size_id = in[1];
        }
    }
    if (last != kOpFunctionEnd) return bad("it does not end with the end of a function: it is cut off");
    if (entry_points != 1) return bad(fmt::format("it has {} entry points; one is needed", entry_points));
    if (workgroup_size_id != 0) {
        const auto vector = vectors.find(workgroup_size_id);
        if (vector == vectors.end()) return bad("its workgroup size is not a vector of three");
        sized_by = vector->second;
    }
    if (sized_by[0] != 0) {
        for (std::size_t i = 0; i < 3; ++i) {
            const uint32_t id = sized_by[i];
            const auto value = values.find(id);
            if (value == values.end()) return bad("its workgroup size is not a constant");
            const auto spec = spec_ids.find(id);
            workgroup_[i] = {value->second, spec == spec_ids.end() ? -1 : static_cast<int64_t>(spec->second)};
        }
    }
    hash_ = hash128(std::as_bytes(words_));
    return {};
}

} // namespace hekla::gpu
