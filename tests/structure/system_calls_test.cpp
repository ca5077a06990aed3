// System calls in one place. Only engine/base/posix includes the headers of the system; the rest of the engine and the
// programs use the headers of engine/base.
#include "base/file.hpp"

#include <doctest/doctest.h>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <regex>
#include <sstream>
#include <vector>

namespace {

namespace fs = std::filesystem;

constexpr const char* kSystem = "engine/base/posix/";

struct Exception {
    const char* file;
    const char* what; // the header, or the call
    const char* reason;
};
constexpr Exception kExceptions[] = {
    {"engine/base/read_real.hpp", "locale.h", "strtod_l, for standard libraries without from_chars of double"},
    {"engine/base/read_real.hpp", "cerrno", "how strtod_l reports an overflow"},
    {"engine/plugin/registry/processor.cpp", "elf.h", "the format of a file that is read, not a call"},
    {"engine/exchange/mpi_module/hekla_mpi.c", "pthread.h", "a module in C, which links nothing of the engine"},
    {"engine/exchange/mpi_module/hekla_mpi.c", "unistd.h", "a module in C, which links nothing of the engine"},
    {"apps/hekla/check/elf_file.cpp", "elf.h", "the format of a file that is read, not a call"},
    {"apps/examples/learn_in_game.cpp", "fstream", "a host as others write it, which links nothing of the engine"},
};

bool is_allowed(const std::string& name, const std::string& what) {
    for (const Exception& one : kExceptions)
        if (name == one.file && what == one.what) return true;
    return false;
}

// Returns the headers of the system that a text includes, its calls that open files in text mode or change the
// environment, and paths that it makes of texts without path_of(), as "3: unistd.h".
std::vector<std::string> system_uses(const std::string& name, const std::string& text) {
    static const std::regex kHeader(
        R"(^\s*#\s*include\s*<((sys|net|netinet|arpa|linux|asm|bits)/.*|(unistd|fcntl|dlfcn|poll|spawn|pthread|)"
        R"(ucontext|link|elf|signal|dirent|fnmatch|glob|grp|pwd|sched|semaphore|syslog|termios|netdb|execinfo|malloc|)"
        R"(locale|errno|features|windows|stdio_ext)\.h|csignal|cerrno|fstream)>)");
    static const std::regex kCall(R"((?:^|[^\w.>])(?:std::|::)?(fopen|fdopen|freopen|popen|setenv|putenv|unsetenv|)"
                                  R"(mkstemp|mkdtemp|mkostemp|getpid|fork|execv|system)\()");
    static const std::regex kPath(R"((?:std::filesystem|fs)::(path\()(?!\)))"); // of a text in the system's encoding
    static const std::regex kText(R"("(\\.|[^"\\])*")");
    std::vector<std::string> found;
    std::istringstream lines(text);
    int number = 0;
    for (std::string line; std::getline(lines, line);) {
        ++number;
        const std::string code = std::regex_replace(line.substr(0, line.find("//")), kText, "");
        std::smatch match;
        for (const std::regex* pattern : {&kHeader, &kCall, &kPath})
            if (std::regex_search(code, match, *pattern) && !is_allowed(name, match[1]))
                found.push_back(fmt::format("{}:{}: {}", name, number, match[1].str()));
    }
    return found;
}

} // namespace

TEST_CASE("planted system calls are detected, and standard headers are not") {
    for (const char* line :
         {"#include <unistd.h>", "#  include <sys/stat.h>", "#include <csignal>", "#include <fstream>",
          "#include <cerrno>", "#include <elf.h>", "#include <stdio_ext.h>",
          "    std::FILE* file = std::fopen(path, \"w\");", "::setenv(\"A\", \"b\", 1);", "int child = fork();",
          "if (::getpid() == 1) return;", "return fs::path(name) / other;", "open(std::filesystem::path(a.name));"})
        CHECK_MESSAGE(system_uses("engine/gpu/a.cpp", line).size() == 1, line);
    for (const char* line :
         {"#include <string>", "#include \"base/system_file.hpp\"", "#include <cfenv>", "// like fopen(path)",
          "zip_fopen(a)", "text(\"before fork()\");", "#include <vulkan/vulkan.h>", "mode.fork();",
          "#include <system_error>", "return fs::path();", "fs::path(\".\")", "fs::path path_of(name);"})
        CHECK_MESSAGE(system_uses("engine/gpu/a.cpp", line).empty(), line);
    CHECK(system_uses("apps/hekla/main.cpp", "#include <csignal>") ==
          std::vector<std::string>{"apps/hekla/main.cpp:1: csignal"});
    CHECK(system_uses("engine/plugin/registry/processor.cpp", "#include <elf.h>").empty());
    CHECK(system_uses("engine/plugin/registry/processor.cpp", "#include <link.h>").size() == 1);
}

TEST_CASE("only engine/base/posix calls the system") {
    const fs::path sources = HEKLA_SOURCE_DIR;
    std::vector<std::string> findings;
    std::map<std::string, std::string> texts; // of all files outside of kSystem, by name
    uint64_t system_files = 0;
    for (const char* root : {"engine", "apps"})
        for (const fs::directory_entry& entry : fs::recursive_directory_iterator(sources / root)) {
            const std::string name = fs::relative(entry.path(), sources).generic_string(),
                              kind = entry.path().extension().string();
            if (!entry.is_regular_file() || (kind != ".cpp" && kind != ".hpp" && kind != ".h" && kind != ".c"))
                continue;
            hekla::Result<std::string> text = hekla::read_file(entry.path());
            REQUIRE(text.ok());
            if (name.starts_with(kSystem))
                ++system_files;
            else
                texts.emplace(name, text.take());
        }
    CHECK(texts.size() > 1000);
    CHECK(system_files > 12);
    for (const auto& [name, text] : texts)
        for (std::string& finding : system_uses(name, text)) findings.push_back(std::move(finding));
    CHECK_MESSAGE(findings.empty(), fmt::format("use the headers of engine/base:\n{}", fmt::join(findings, "\n")));
    for (const Exception& one : kExceptions) // each exception is still needed
        CHECK_MESSAGE(texts[one.file].find(fmt::format("<{}>", one.what)) != std::string::npos,
                      fmt::format("{} does not include <{}> any more", one.file, one.what));
}
