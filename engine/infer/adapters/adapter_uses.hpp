// Which trained adapters a model is opened with, instead of those that its folder names, and how they act together.
#pragma once

#include "base/status.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hekla::infer {

struct AdapterUse {
    std::string name;
    std::filesystem::path folder; // of a run, of PEFT or of AdapterHub
    double scale = 1.0;           // multiplies what it adds
};
// "NAME=FOLDER" or "NAME=FOLDER:SCALE". Errors: no name or folder, a scale that is not finite.
Result<AdapterUse> parse_adapter_use(std::string_view text);

// How adapters that are used together act: as text, with the configuration of what joins them.
struct Combined {
    std::string how;
    nlohmann::json config = nlohmann::json::object();
};

struct AdapterUses {
    std::vector<AdapterUse> each; // their names differ
    Combined combine = {};        // as given; without `how`: see combination_of()
};
// Parses several, and keys of a recipe's [combine]: "combine.how=arrow(a, b)", "combine.top_k=1" (a value that is not
// JSON is a string). Errors: those of parse_adapter_use(); a name or key twice; a `how` that is not of these adapters;
// a key without `how`; a scale with it.
Result<AdapterUses> parse_adapter_uses(std::span<const std::string> texts);

// Returns the combination that was given. Without one: by_row, each row chooses one of them (kAdapterRows), otherwise
// all of them act, each with its scale.
Combined combination_of(const AdapterUses& uses, bool by_row);

} // namespace hekla::infer
