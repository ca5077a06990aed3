// Which weights of a run are pruned: a file of zeros and ones for each parameter, mask.safetensors.
#pragma once

#include "base/hash.hpp"
#include "base/status.hpp"
#include "program/lowering/parameter_table.hpp"

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hekla::program {
class ParameterStore;
enum class StoreArena : uint8_t;
} // namespace hekla::program

namespace hekla::train {

inline constexpr const char* kMaskFile = "mask.safetensors"; // in the folder of a masked run

// The masks of some parameters. A parameter without a mask is never pruned.
class WeightMask {
public:
    struct Tensor {
        std::vector<int64_t> dims;
        std::vector<uint8_t> kept; // one for each weight, row-major: 1, or 0 if it is pruned
        int64_t kept_count() const;
    };
    using Tensors = std::map<std::string, Tensor, std::less<>>;

    // Reads a file with a u8 tensor of zeros and ones for each masked parameter, under the parameter's name. Errors:
    // io, not_found, corrupt; invalid_argument for other types and values, an empty file, and one that keeps nothing.
    static Result<WeightMask> read(const std::filesystem::path& file);
    // Writes such a file, atomically.
    Status write(const std::filesystem::path& file) const;

    void keep_all(std::string name, std::vector<int64_t> dims); // adds a parameter
    bool empty() const { return tensors_.empty(); }             // nothing is pruned
    const WeightMask* or_null() const { return empty() ? nullptr : this; }
    const Tensors& tensors() const { return tensors_; }
    Tensors& tensors() { return tensors_; }
    const Tensor* find(std::string_view name) const; // null if there is none
    int64_t weights() const;                         // of all masked parameters
    int64_t kept() const;
    double share() const { return static_cast<double>(kept()) / static_cast<double>(weights()); } // of weights kept
    Hash128 hash() const;                                                                         // of names and masks

    // Checks that every mask is that of a trained parameter, and of its shape. where: the file, for messages.
    // invalid_argument names the parameter, and the nearest one if there is none of the name.
    Status check(std::span<const program::ParameterEntry> table, const std::string& where) const;
    // Returns OptimizerPlan::kept for a table; the bytes are this object's.
    std::vector<std::span<const uint8_t>> by_entry(std::span<const program::ParameterEntry> table) const;
    // Sets the pruned weights to zero, or their moments.
    Status apply(program::ParameterStore& store, program::StoreArena arena) const;

private:
    Tensors tensors_;
};

} // namespace hekla::train
