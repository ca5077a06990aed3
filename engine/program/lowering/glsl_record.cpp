#include "program/lowering/glsl_record.hpp"

#include <fmt/format.h>

#include <bit>

namespace hekla::program {

void GlslRecord::address(const std::string& name, const View& view) {
    address_text_ += fmt::format("    uint64_t {};\n", name);
    addresses_.emplace_back(view);
}

template<class T>
void GlslRecord::word(const char* type, const std::string& name, T value) {
    word_text_ += fmt::format("    {} {};\n", type, name);
    words_.push_back(std::bit_cast<uint32_t>(value));
}

template<class T>
void GlslRecord::words(const char* type, const std::string& name, std::span<const T> values) {
    if (values.empty()) return;
    word_text_ += fmt::format("    {} {}[{}];\n", type, name, values.size());
    for (const T value : values) words_.push_back(std::bit_cast<uint32_t>(value));
}

template void GlslRecord::word(const char*, const std::string&, uint32_t);
template void GlslRecord::word(const char*, const std::string&, int32_t);
template void GlslRecord::word(const char*, const std::string&, float);
template void GlslRecord::words(const char*, const std::string&, std::span<const uint32_t>);
template void GlslRecord::words(const char*, const std::string&, std::span<const int32_t>);
template void GlslRecord::words(const char*, const std::string&, std::span<const float>);

Record GlslRecord::record() const {
    constexpr std::size_t kHead = 2 * sizeof(uint32_t);
    Record record;
    record.bytes.resize(kHead + addresses_.size() * sizeof(uint64_t) + words_.size() * sizeof(uint32_t));
    for (std::size_t i = 0; i < addresses_.size(); ++i)
        if (addresses_[i].resource() != 0)
            record.relocations.push_back({static_cast<uint32_t>(kHead + i * sizeof(uint64_t)), addresses_[i].resource(),
                                          addresses_[i].offset()});
    if (!words_.empty())
        std::memcpy(record.bytes.data() + kHead + addresses_.size() * sizeof(uint64_t), words_.data(),
                    words_.size() * sizeof(uint32_t));
    return record;
}

} // namespace hekla::program
