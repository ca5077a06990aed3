// Serializes values as bytes between two processes of one machine. Everything begins at a multiple of 8 bytes, so that
// arrays are used in place. The reader validates everything: a missing value, or a length beyond the rest, makes the
// whole message bad.
#pragma once

#include "base/status.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace hekla {

class WireWriter {
public:
    void number(uint64_t value) { append(&value, sizeof value); }
    void integer(int64_t value) { append(&value, sizeof value); }
    void real(double value) { append(&value, sizeof value); }
    void flag(bool value) { number(value ? 1 : 0); }
    void text(std::string_view value) {
        number(value.size());
        append(value.data(), value.size());
    }
    template<class T>
    void array(std::span<const T> values) {
        static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= 8);
        number(values.size());
        append(values.data(), values.size_bytes());
    }
    void texts(std::span<const std::string> values) {
        number(values.size());
        for (const std::string& value : values) text(value);
    }
    const std::string& bytes() const { return bytes_; }

private:
    void append(const void* data, std::size_t size) {
        if (size > 0) bytes_.append(static_cast<const char*>(data), size);
        bytes_.append((8 - size % 8) % 8, '\0');
    }
    std::string bytes_;
};

// A reader of the caller's memory, which is 8-byte aligned and outlives the values read. After the first error every
// value is zero or empty, and ok() is false.
class WireReader {
public:
    explicit WireReader(std::span<const std::byte> bytes) : rest_(bytes) {}
    explicit WireReader(std::string_view bytes) : rest_(std::as_bytes(std::span(bytes))) {}

    uint64_t number() { return value<uint64_t>(); }
    int64_t integer() { return value<int64_t>(); }
    double real() { return value<double>(); }
    bool flag() {
        const uint64_t given = number();
        if (given > 1) fail();
        return given == 1;
    }
    std::string_view text() {
        const std::span<const std::byte> taken = take(number());
        return {reinterpret_cast<const char*>(taken.data()), taken.size()};
    }
    template<class T>
    std::span<const T> array() {
        const uint64_t count = number();
        if (count > rest_.size() / sizeof(T)) return fail(), std::span<const T>();
        const std::span<const std::byte> taken = take(count * sizeof(T));
        return {reinterpret_cast<const T*>(taken.data()), taken.size() / sizeof(T)};
    }
    // Reads the length of a list whose elements take 8 bytes or more each.
    std::size_t count() {
        const uint64_t given = number();
        if (given > rest_.size() / 8) return fail(), 0;
        return static_cast<std::size_t>(given);
    }
    std::vector<std::string> texts() {
        std::vector<std::string> values(count());
        for (std::string& value : values) value = text();
        return values;
    }
    bool ok() const { return ok_; }
    // Fails unless everything was read and nothing follows. what: the beginning of the error message.
    Status finish(const char* what) const {
        if (ok_ && rest_.empty()) return {};
        return corrupt(std::string(what) + ": the message is cut off, or holds more than was expected");
    }

protected:
    void fail() {
        ok_ = false;
        rest_ = {};
    }

private:
    template<class T>
    T value() {
        T read{};
        if (const std::span<const std::byte> taken = take(sizeof(T)); taken.size() == sizeof(T))
            std::memcpy(&read, taken.data(), sizeof(T));
        return read;
    }
    std::span<const std::byte> take(uint64_t size) {
        if (size > rest_.size()) return fail(), std::span<const std::byte>();
        const std::span<const std::byte> taken = rest_.first(static_cast<std::size_t>(size));
        rest_ = rest_.subspan(std::min<std::size_t>(rest_.size(), taken.size() + (8 - taken.size() % 8) % 8));
        return taken;
    }
    std::span<const std::byte> rest_;
    bool ok_ = true;
};

} // namespace hekla
