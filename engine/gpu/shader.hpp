// SPIR-V modules: embedded at build time (cmake/shaders.cmake) or compiled from GLSL at run time (glsl.hpp), and the
// properties that decide whether a device can run them.
#pragma once

#include "base/hash.hpp"
#include "base/status.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hekla::gpu {

// A row of a generated table. `name`: "family/file" or "family/file.variant". `compressed`: the module, a Zstandard
// frame with its size and a checksum. `like`: empty, or such a frame of another variant of the file, whose module is
// the frame's prefix. `source_hash`: SHA-256 of the preprocessed source, in hex. Everything is static.
struct EmbeddedShader {
    std::string_view name;
    std::span<const uint8_t> compressed, like;
    std::string_view source_hash;
};

// A module: the words, their hash and a name for messages. Copies share the words.
class Shader {
public:
    Shader() = default;
    // Checks the header and the instruction stream's lengths (the words may come from a plugin or a cache).
    static Result<Shader> from_words(std::string name, std::vector<uint32_t> words);
    static Result<Shader> from_embedded(const EmbeddedShader& embedded); // decompresses
    static Result<Shader> find(std::span<const EmbeddedShader> table, std::string_view name);

    const std::string& name() const { return name_; }
    std::span<const uint32_t> words() const { return words_; }
    const Hash128& hash() const { return hash_; }

    // One dimension of the workgroup: `value`, or specialization constant `constant` if that is not negative.
    struct Extent {
        uint32_t value = 1;
        int64_t constant = -1;
    };
    bool is_spirv_1_6() const; // otherwise 1.5 or older
    const std::array<Extent, 3>& workgroup() const { return workgroup_; }
    // Returns the size of a workgroup's shared variables, with the default values of specialization constants.
    uint64_t shared_bytes() const { return shared_bytes_; }
    // Returns the capabilities declared by OpCapability, as SPIR-V's numbers, in the module's order.
    std::span<const uint32_t> capabilities() const { return capabilities_; }

private:
    Status inspect();
    std::string name_;
    std::shared_ptr<const std::vector<uint32_t>> owned_;
    std::span<const uint32_t> words_;
    Hash128 hash_;
    std::array<Extent, 3> workgroup_{};
    uint64_t shared_bytes_ = 0;
    std::vector<uint32_t> capabilities_;
};

} // namespace hekla::gpu
