// A view of tokens in memory, 16 or 32 bits each, for mapped token files.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>

namespace hekla::data {

// A non-owning view. Indices are not checked: WindowOrder returns windows inside the data.
class TokenView {
public:
    TokenView() = default;
    TokenView(std::span<const uint16_t> tokens)
        : data_(reinterpret_cast<const std::byte*>(tokens.data())), size_(tokens.size()), width_(2) {}
    TokenView(std::span<const uint32_t> tokens)
        : data_(reinterpret_cast<const std::byte*>(tokens.data())), size_(tokens.size()), width_(4) {}
    TokenView(const std::byte* data, uint64_t size, uint32_t width) : data_(data), size_(size), width_(width) {}

    uint64_t size() const { return size_; }
    uint32_t width() const { return width_; } // bytes per token, 2 or 4

    int32_t operator[](uint64_t i) const {
        if (width_ == 2) {
            uint16_t token;
            std::memcpy(&token, data_ + i * 2, 2);
            return token;
        }
        int32_t token;
        std::memcpy(&token, data_ + i * 4, 4);
        return token;
    }
    TokenView part(uint64_t begin, uint64_t size) const { return {data_ + begin * width_, size, width_}; }
    void copy(uint64_t begin, std::span<int32_t> out) const {
        if (width_ == 4) {
            std::memcpy(out.data(), data_ + begin * 4, out.size_bytes());
            return;
        }
        for (std::size_t i = 0; i < out.size(); ++i) out[i] = (*this)[begin + i];
    }

private:
    const std::byte* data_ = nullptr;
    uint64_t size_ = 0;
    uint32_t width_ = 4;
};

} // namespace hekla::data
