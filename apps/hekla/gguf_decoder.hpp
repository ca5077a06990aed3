// The decoders of the Llama family as llama.cpp reads them: its name of each, names and layouts of tensors, keys, and
// what it computes in one way only.
#pragma once

#include "gguf_names.hpp"
#include "model/gguf.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hekla::app {

// A tensor that the model's folder does not have.
struct GgufVector {
    std::string name;
    std::vector<float> values;
};

// What a model's configuration becomes.
struct GgufTarget {
    std::string_view architecture; // llama.cpp's name
    model::GgufKeys& keys;
    std::vector<GgufVector>& vectors;
    std::vector<std::string>& notes; // what llama.cpp computes differently, which is written all the same

    // Adds "ARCHITECTURE.key".
    void put(std::string_view key, model::GgufValue value) const {
        keys.emplace_back(std::string(architecture) + "." + std::string(key), std::move(value));
    }
};

class GgufDecoder {
public:
    // Returns how llama.cpp reads a model of this architecture with the head "lm"; null if it cannot, or Hekla does not
    // know how.
    static const GgufDecoder* find(std::string_view architecture);
    static std::string known(); // the architectures, for messages

    const char* name() const { return name_; } // "general.architecture"
    // Returns the mappings of all tensors, in the order of preference.
    std::vector<Mapping> mappings() const;
    // Returns unsupported, with the key, if llama.cpp would compute something else.
    Status check(const GgufSettings& s) const { return check_(s); }
    // Adds the keys of the configuration, and the vectors that it means. Errors: of positions that llama.cpp lacks.
    Status add_keys(const GgufSettings& s, const GgufTarget& target) const;

private:
    using Check = Status (*)(const GgufSettings&);
    using More = void (*)(const GgufSettings&, const GgufTarget&);
    // more: adds the keys that only this architecture has.
    constexpr GgufDecoder(const char* architecture, const char* name, bool interleaved, GgufNames names, Check check,
                          More more = nullptr)
        : architecture_(architecture), name_(name), interleaved_(interleaved), names_(names), check_(check),
          more_(more) {}
    Status add_rotary(const GgufSettings& s, const GgufTarget& target) const;
    bool is(std::string_view architecture) const { return architecture == architecture_; }

    static std::span<const GgufDecoder> all();

    const char *architecture_, *name_;
    bool interleaved_; // rows of queries and keys: rotary positions of neighbors
    GgufNames names_;
    Check check_;
    More more_;
};

} // namespace hekla::app
