// The argument record of a kernel whose GLSL is generated at run time: every member is added once, to the declaration
// and to the bytes. A record is the same for SPIR-V that declares it itself.
#pragma once

#include "program/lowering/record.hpp"

#include <span>
#include <string>
#include <vector>

namespace hekla::program {

class GlslRecord {
public:
    // Addresses come first in the record, regardless of the order of the calls.
    void address(const std::string& name, const RecordAddress& address);
    void u32(const std::string& name, uint32_t value) { word("uint", name, value); }
    void i32(const std::string& name, int32_t value) { word("int", name, value); }
    void f32(const std::string& name, float value) { word("float", name, value); }
    // Adds no member if there are no values, because GLSL has no empty arrays.
    void u32_array(const std::string& name, std::span<const uint32_t> values) { words("uint", name, values); }
    void i32_array(const std::string& name, std::span<const int32_t> values) { words("int", name, values); }
    void f32_array(const std::string& name, std::span<const float> values) { words("float", name, values); }

    // Returns the members, one declaration per line, after the two words of HK_RECORD_HEAD.
    std::string declarations() const { return address_text_ + word_text_; }
    Record record() const;

private:
    template<class T>
    void word(const char* type, const std::string& name, T value);
    template<class T>
    void words(const char* type, const std::string& name, std::span<const T> values);

    std::string address_text_, word_text_;
    std::vector<RecordAddress> addresses_;
    std::vector<uint32_t> words_;
};

} // namespace hekla::program
