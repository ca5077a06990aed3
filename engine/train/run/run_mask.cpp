#include "train/run/run_mask.hpp"

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/number_text.hpp"
#include "base/path_text.hpp"
#include "train/run/prepared_run.hpp"

#include <fmt/format.h>

namespace hekla::train {

namespace fs = std::filesystem;
using nlohmann::json;

Result<WeightMask> mask_of_run(const PreparedRun& run, std::span<const program::ParameterEntry> table) {
    WeightMask mask;
    if (run.recipe.prune.from_mask.empty()) return mask;
    // A run keeps its first mask, as it keeps its tokenizer.
    const fs::path file = run.checkpoint ? run.folder / kMaskFile : path_of(run.recipe.prune.from_mask);
    HK_ASSIGN(mask, WeightMask::read(file));
    HK_TRY(mask.check(table, file.string()));
    run.context.message(fmt::format("mask {}: {} of {} weights are left ({})", file.string(),
                                    grouped(static_cast<double>(mask.kept())),
                                    grouped(static_cast<double>(mask.weights())), percent_text(mask.share())));
    return mask;
}

Status keep_mask(const WeightMask& mask, const fs::path& folder) {
    return mask.empty() ? Status() : mask.write(folder / kMaskFile);
}

void add_mask(const WeightMask& mask, json& state) {
    if (!mask.empty()) state["mask"] = to_hex(mask.hash());
}

Status check_same_mask(const model::Checkpoint& checkpoint, const WeightMask& mask, const fs::path& folder) {
    if (mask.empty()) return {};
    const Result<std::string> text = read_file(checkpoint.file("trainer_state.json"));
    const json state = text.ok() ? json_or_null(text.value()) : json();
    const json hash = state.is_object() ? state.value("mask", json()) : json();
    if (hash == json(to_hex(mask.hash()))) return {};
    return failed_precondition(fmt::format("{}: was made with another mask than {} is now: choose another [output] "
                                           "dir, or bring the old mask back",
                                           checkpoint.path.string(), (folder / kMaskFile).string()));
}

MaskedStart masked_start(const PruneSection& section) {
    if (section.from_mask.empty()) return MaskedStart::initial;
    if (section.reinitialize == "random") return MaskedStart::random;
    if (section.weights_from.empty()) return MaskedStart::initial;
    if (section.reinitialize == "none") return MaskedStart::trained;
    return section.rewind_step > 0 ? MaskedStart::rewound : MaskedStart::initial;
}

} // namespace hekla::train
