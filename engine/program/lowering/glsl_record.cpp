#include "program/lowering/glsl_record.hpp"

#include <fmt/format.h>

#include <bit>

namespace hekla::program {

void GlslRecord::address(const std::string& name, const RecordAddress& address) {
    address_text_ += fmt::format("    uint64_t {};\n", name);
    addresses_.push_back(address);
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
    Record record;
    for (int head = 0; head < 2; ++head) record.put(0u);
    for (const RecordAddress& address : addresses_) record.put(address);
    for (const uint32_t value : words_) record.put(value);
    return record;
}

} // namespace hekla::program
