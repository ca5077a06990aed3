#include "device_test/test_stages.hpp"

#include "base/module.hpp"
#include "device_test/device_facts.hpp"
#include "report/summary.hpp"

#include <fmt/format.h>

namespace hekla::app {

std::span<const Stage> test_stages() {
    static constexpr Stage kStages[] = {
        {"device", 10, device_stage},         {"models", 60, fixtures_stage}, {"training", 60, training_stage},
        {"generation", 30, generation_stage}, {"plan", 40, plan_stage},
    };
    return kStages;
}

Result<std::filesystem::path> packed_fixtures() {
    std::filesystem::path folder = own_folder().parent_path() / "share" / "hekla" / "fixtures";
    std::error_code problem;
    if (!std::filesystem::is_directory(folder, problem))
        return not_found("the program's fixtures are missing: expected them in share/hekla/fixtures of the folder that "
                         "has bin/; install the program again");
    return folder;
}

} // namespace hekla::app
