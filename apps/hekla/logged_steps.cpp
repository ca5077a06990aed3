#include "logged_steps.hpp"

#include "base/file.hpp"
#include "base/json.hpp"

#include <fmt/format.h>

namespace hekla::app {

namespace fs = std::filesystem;

Status check_run(const fs::path& run) {
    std::error_code problem;
    for (const char* name : {"recipe.toml", "tokenizer.json", "train_log.jsonl"})
        if (!fs::exists(run / name, problem))
            return not_found(fmt::format("{}: is not a run, it has no {}", run.string(), name));
    return {};
}

Result<std::map<int64_t, LoggedStep>> read_log(const fs::path& run) {
    const fs::path file = run / "train_log.jsonl";
    HK_ASSIGN(const std::string text, read_file(file));
    std::map<int64_t, LoggedStep> steps;
    std::size_t number = 0;
    for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = text.find('\n', begin);
        if (end == std::string::npos) break; // an unfinished line
        ++number;
        nlohmann::json record = json_or_null(std::string_view(text).substr(begin, end - begin));
        begin = end + 1;
        if (!record.is_object() || !record.value("step", nlohmann::json()).is_number_integer())
            return corrupt(fmt::format("{}:{}: not a record of a step", file.string(), number));
        LoggedStep& at = steps[record["step"].get<int64_t>()];
        (record.contains("eval_loss") ? at.evaluation : at.step) = std::move(record);
    }
    return steps;
}

} // namespace hekla::app
