// What a library must not do in its host's process: threads that receive the host's signals, numbers that depend on the
// host's locale, objects that are destroyed while threads run.
#include "base/file.hpp"

#include <algorithm>
#include <doctest/doctest.h>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <regex>
#include <sstream>
#include <vector>

namespace {

namespace fs = std::filesystem;

struct Rule {
    const char* pattern;
    const char* instead;
    std::vector<std::string> allowed; // files
    bool of_programs = false;         // a rule for the command line too
};

const std::vector<Rule>& rules() {
    static const std::vector<Rule> kRules{
        {R"(std::j?thread\(|std::j?thread [a-z_]+[({]|std::jthread|pthread_create|std::async)",
         "start_thread (base/thread.hpp)",
         {"engine/base/thread.hpp", "engine/exchange/mpi_module/hekla_mpi.c"}}, // a module with C alone
        {R"((std::|[^:\w]|^)[a-z]*printf\(.*%[-+ #0-9.*]*l?[aefgAEFG])",
         "fmt::format, fmt::printf or std::to_chars",
         {},
         true},
        {R"(\b(strto(d|f|ld)|atof|sto(d|f|ld)|setprecision)\b)", "read_real (base/read_real.hpp)", {}, true},
        {R"(^\s*(static |inline )+(const )?(std::(string|vector|map|set|unordered_\w+|regex|function|shared_ptr|unique_ptr|deque|list)\b|Json|json\b|nlohmann::)[^()&*]*(;|=|\{))",
         "a reference to an object that is never destroyed",
         {}},
    };
    return kRules;
}

std::vector<std::string> findings_in(const std::string& name, const std::string& text) {
    std::vector<std::string> findings;
    for (const Rule& rule : rules()) {
        if (name.starts_with("apps/") && !rule.of_programs) continue;
        if (std::ranges::find(rule.allowed, name) != rule.allowed.end()) continue;
        const std::regex pattern(rule.pattern);
        std::istringstream lines(text);
        int number = 0;
        for (std::string line; std::getline(lines, line);) {
            ++number;
            const std::string code = line.substr(0, line.find("//"));
            if (std::regex_search(code, pattern))
                findings.push_back(fmt::format("{}:{}: '{}'; use {}", name, number, code, rule.instead));
        }
    }
    return findings;
}

} // namespace

TEST_CASE("planted violations of a host's rules are detected, and valid lines are not") {
    for (const char* line :
         {"thread_ = std::thread([this] {", "std::thread worker(run);", "std::vector<std::jthread> threads;",
          "std::snprintf(text, sizeof text, \"%.9g\", x);", "number = std::strtod(text, nullptr);",
          "    static const std::vector<Info> kTable = {", "static std::string name;", "  static const Json kNull;",
          "static const json kNone = json::object();"})
        CHECK_MESSAGE(findings_in("engine/a.cpp", line).size() == 1, line);
    for (const char* line : {"std::vector<std::thread> threads;", "for (std::thread& thread : threads_) thread.join();",
                             "snprintf(key, sizeof key, \"%s.%d\", name, i);", "std::thread::id id;",
                             "// strtod accepts", "const double read = ::strtod_l(text.c_str(), &stop, classic);",
                             "static const auto& kAll = *new std::string;", "static std::string name_of(int x);",
                             "    static std::vector<const char*> ports() { return {\"a\"}; }"})
        CHECK_MESSAGE(findings_in("engine/a.cpp", line).empty(), line);
}

// The programs in apps/ are hosts themselves; the command line prints and reads numbers in any locale.
TEST_CASE("engine and plugins keep the rules of a host's process") {
    const fs::path sources = HEKLA_SOURCE_DIR;
    std::vector<std::string> findings;
    uint64_t files = 0;
    for (const char* root : {"engine", "plugins", "apps/hekla"})
        for (const fs::directory_entry& entry : fs::recursive_directory_iterator(sources / root)) {
            const std::string name = fs::relative(entry.path(), sources).generic_string(),
                              kind = entry.path().extension().string();
            if (!entry.is_regular_file() || (kind != ".cpp" && kind != ".hpp" && kind != ".h" && kind != ".c"))
                continue;
            ++files;
            hekla::Result<std::string> text = hekla::read_file(entry.path());
            REQUIRE(text.ok());
            for (std::string& finding : findings_in(name, text.value())) findings.push_back(std::move(finding));
        }
    CHECK(findings_in("apps/hekla/a.cpp", "std::printf(\"%.3f\", x);\nstatic std::string name;").size() == 1);
    CHECK(files > 700);
    CHECK_MESSAGE(findings.empty(), fmt::format("{}", fmt::join(findings, "\n")));
}
