// The decoders of the Llama family as llama.cpp reads them: its name of each, names and layouts of tensors, keys, and
// what it computes in one way only.
#pragma once

#include "gguf_tensors.hpp"
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

class GgufDecoder {
public:
    // Returns how llama.cpp reads a model of this architecture with the head "lm"; null if it cannot, or Hekla does not
    // know how.
    static const GgufDecoder* find(std::string_view architecture);
    static std::string known(); // the architectures, for messages

    const char* name() const { return name_; } // "general.architecture"
    // Returns the mappings of all tensors, in the order of preference.
    std::vector<Mapping> mappings() const;
    // Appends the keys of the configuration, and the vectors that it means. Errors: unsupported if llama.cpp would
    // compute something else. notes: what it computes differently, which is written all the same.
    Status add_keys(const GgufSettings& s, model::GgufKeys& keys, std::vector<GgufVector>& vectors,
                    std::vector<std::string>& notes) const;

private:
    using Check = Status (*)(const GgufSettings&);
    constexpr GgufDecoder(const char* architecture, const char* name, bool interleaved, std::span<const Mapping> norms,
                          Check check)
        : architecture_(architecture), name_(name), interleaved_(interleaved), norms_(norms), check_(check) {}
    Status add_rotary(const GgufSettings& s, model::GgufKeys& keys, std::vector<GgufVector>& vectors) const;
    void add_windows(const GgufSettings& s, model::GgufKeys& keys, std::vector<std::string>& notes) const;
    std::string key(const char* of) const { return std::string(name_) + "." + of; }
    bool is(std::string_view architecture) const { return architecture == architecture_; }

    static std::span<const GgufDecoder> all();

    const char *architecture_, *name_;
    bool interleaved_; // rows of queries and keys: rotary positions of neighbors
    std::span<const Mapping> norms_;
    Check check_;
};

} // namespace hekla::app
