#include "infer/open/weights_folder.hpp"

#include "model/checkpoint.hpp"
#include "model/model_path.hpp"

#include <fmt/format.h>

namespace hekla::infer {

namespace fs = std::filesystem;

Result<fs::path> weights_folder(const fs::path& given) {
    HK_ASSIGN(const fs::path folder, model::find_model_folder(given));
    std::error_code problem;
    if (!fs::is_directory(folder, problem))
        return not_found(fmt::format("{}: is not a folder; a model's, a checkpoint's or a run's was expected{}",
                                     folder.string(),
                                     fs::is_regular_file(folder, problem)
                                         ? ": what is exported generates and embeds, and for more it takes the folder "
                                           "that it was exported from"
                                         : ""));
    if (fs::exists(folder / "config.json", problem)) return folder;
    HK_ASSIGN(const model::CheckpointSearch search, model::newest_complete(folder));
    if (!search.found)
        return not_found(fmt::format(
            "{}: has no config.json and no complete checkpoint: it is neither a model nor a run", folder.string()));
    return search.found->path;
}

} // namespace hekla::infer
