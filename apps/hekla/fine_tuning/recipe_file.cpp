#include "fine_tuning/recipe_file.hpp"

#include "base/file.hpp"
#include "base/path_text.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::app {
namespace {

namespace fs = std::filesystem;

// Comments of the recipe have these texts.
Status check_one_line(const FirstRecipeOptions& o) {
    std::vector<std::string> all{o.model, o.file};
    all.insert(all.end(), o.data.begin(), o.data.end());
    all.insert(all.end(), o.overrides.begin(), o.overrides.end());
    for (const std::string& one : all)
        if (std::ranges::any_of(one, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }))
            return invalid_argument("an argument contains a control character, such as a line end; expected a name on "
                                    "one line");
    return {};
}

} // namespace

Result<RecipeFile> provide_recipe(const Globals& globals, const FirstRecipeOptions& options,
                                  const std::function<void(const std::string&)>& say) {
    HK_TRY(check_one_line(options));
    const fs::path file = path_of(options.file);
    if (file.extension() != ".toml" || file.stem().empty())
        return invalid_argument(fmt::format("-o {}: expected a name that ends in .toml", options.file));
    std::error_code problem;
    if (fs::exists(file, problem)) {
        HK_ASSIGN(const std::string before, read_file(file, uint64_t{16} << 20));
        if (before.starts_with(fmt::format("# Written by: {}\n", command_of(options)))) {
            say(fmt::format("{}: this command wrote it before; it is used as it is", options.file));
            return RecipeFile::kept;
        }
        return failed_precondition(
            fmt::format("{}: exists, and this command did not write it; train by it (hekla train "
                        "{}), or choose another -o",
                        options.file, options.file));
    }
    HK_ASSIGN(const std::string text, first_recipe(globals, options, say));
    if (const fs::path folder = file.parent_path(); !folder.empty()) {
        fs::create_directories(folder, problem);
        if (problem)
            return io_error(fmt::format("-o {}: the folder {} cannot be made: {}", options.file, path_text(folder),
                                        problem.message()));
    }
    Status written = write_file_atomically(file, text);
    if (!written.ok()) return written.with_context(fmt::format("-o {}", options.file));
    say(fmt::format("recipe: {}", options.file));
    return RecipeFile::written;
}

} // namespace hekla::app
