// Checks of the members of a struct that a host fills in.
#pragma once

#include "api/boundary.hpp"
#include "api/checks.hpp"

#include <fmt/format.h>
#include <limits>

namespace hekla::api {

// Checks of members, one after the other, of which the first error is kept. It contains the struct, the member, the
// value, and what was expected.
class Members {
public:
    // `type`: the struct's name in messages.
    explicit Members(std::string type) : type_(std::move(type)) {}

    Members& zero(const char* member, int64_t value) {
        if (open() && value != 0)
            fail(member, fmt::format("is {}, expected 0: zero the struct before you fill it", value));
        return *this;
    }
    Members& array(const char* member, const void* value, const char* count_name, uint64_t count) {
        if (open() && value == nullptr && count > 0)
            fail(member, fmt::format("is null, but {} is {}", count_name, count));
        return *this;
    }
    Members& text(const char* member, hk_string value) {
        if (open() && value.data == nullptr && value.size > 0)
            fail(member, fmt::format("has null data, but its size is {}", value.size));
        return *this;
    }
    Members& required(const char* member, hk_string value, const char* expected) {
        text(member, value);
        if (open() && value.size == 0) fail(member, fmt::format("is empty, expected {}", expected));
        return *this;
    }
    Members& texts(const char* member, const hk_string* values, const char* count_name, uint64_t count) {
        array(member, values, count_name, count);
        for (uint64_t i = 0; open() && i < count; ++i) text(fmt::format("{}[{}]", member, i).c_str(), values[i]);
        return *this;
    }
    template<class T>
    Members& structs(const char* member, const T* values, const char* count_name, uint64_t count) {
        array(member, values, count_name, count);
        for (uint64_t i = 0; open() && i < count; ++i) {
            const std::string element = fmt::format("{}[{}]", member, i);
            if constexpr (requires { values[i].struct_size; })
                embedded(element.c_str(), values[i]);
            else
                status_ = check_element(fmt::format("{}.{}", type_, element), values[i]);
        }
        return *this;
    }
    template<class T>
    Members& embedded(const char* member, const T& value) {
        if (!open()) return *this;
        status_ = check(&value);
        if (!open()) status_ = status_.with_context(fmt::format("{}.{}", type_, member));
        return *this;
    }
    // Checks a struct that may be null.
    template<class T>
    Members& optional(const T* value) {
        if (open() && value != nullptr) status_ = check(value);
        return *this;
    }
    Members& between(const char* member, int64_t value, int64_t least, int64_t most) {
        if (open() && (value < least || value > most))
            fail(member, most == std::numeric_limits<int64_t>::max()
                             ? fmt::format("is {}, expected {} or more", value, least)
                             : fmt::format("is {}, expected {} to {}", value, least, most));
        return *this;
    }
    Members& at_least(const char* member, int64_t value, int64_t least) {
        return between(member, value, least, std::numeric_limits<int64_t>::max());
    }
    Members& real_between(const char* member, double value, double least, double most) {
        if (open() && !(value >= least && value <= most))
            fail(member, fmt::format("is {}, expected {} to {}", value, least, most));
        return *this;
    }
    // `problem`: the message, with {} for the value.
    Members& above(const char* member, double value, double limit, double most, const char* problem) {
        if (open() && !(value > limit && value <= most)) fail(member, fmt::format(fmt::runtime(problem), value));
        return *this;
    }
    Members& expect(bool holds, const char* member, const std::string& problem) {
        if (open() && !holds) fail(member, problem);
        return *this;
    }
    Status status() { return std::move(status_); }

private:
    bool open() const { return status_.ok(); }
    void fail(const char* member, const std::string& problem) {
        status_ = invalid_argument(fmt::format("{}.{} {}", type_, member, problem));
    }
    std::string type_;
    Status status_;
};

} // namespace hekla::api
