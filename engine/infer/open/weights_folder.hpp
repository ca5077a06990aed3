// The folder that the weights of a model are in.
#pragma once

#include "base/status.hpp"
#include "model/read_beside_training.hpp"

#include <filesystem>

namespace hekla::infer {

// Returns the folder with a model's weights: the folder itself, or the newest complete checkpoint of an unfinished run.
// Error: not_found, where it is neither.
Result<std::filesystem::path> weights_folder(const std::filesystem::path& folder);

// Returns open(folder with the weights), a Result, or open(given) where there is none. The training of a run may
// replace the checkpoint while it is read: then the newest one is opened.
template<typename Open>
auto open_newest(const std::filesystem::path& given, const Open& open) {
    return model::read_beside_training(given, [&] {
        const Result<std::filesystem::path> from = weights_folder(given);
        return open(from.ok() ? from.value() : given);
    });
}

} // namespace hekla::infer
