#include "program.hpp"

#include <atomic>
#include <cstdlib>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <fstream>
#include <iterator>
#include <sys/wait.h>
#include <unistd.h>

namespace hekla::test {

namespace fs = std::filesystem;

namespace {

std::string content_of(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

} // namespace

Ran succeed(const Ran& ran) {
    CAPTURE(ran.out);
    CAPTURE(ran.err);
    REQUIRE(ran.status == 0);
    return ran;
}

std::string generated_texts(const Place& place, const Arguments& arguments) {
    const std::string out = succeed(place.run(joined({"generate"}, arguments))).out;
    return out.substr(out.find("--- 1"));
}

Place::Place() {
    static std::atomic<int> counter{0};
    folder_ =
        fs::temp_directory_path() / ("hekla_apps_" + std::to_string(::getpid()) + "_" + std::to_string(counter++));
    fs::create_directories(folder_);
}

Place::~Place() {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
}

void Place::write(const std::string& name, const std::string& content) const {
    fs::create_directories(path(name).parent_path());
    std::ofstream out(path(name), std::ios::binary);
    out << content;
    out.close();
    REQUIRE(out);
}

std::string Place::read(const std::string& name) const { return content_of(path(name)); }

bool Place::exists(const std::string& name) const { return fs::exists(path(name)); }

Ran Place::run(const std::vector<std::string>& arguments, const std::string& input) const {
    return run_in(folder_, arguments, input);
}

Ran Place::run_in(const fs::path& folder, const std::vector<std::string>& arguments, const std::string& input) const {
    return run_program({.program = HEKLA_PROGRAM, .folder = folder, .arguments = arguments, .input = input});
}

Ran Place::run_into(const fs::path& output, const std::vector<std::string>& arguments) const {
    return run_program(
        {.program = HEKLA_PROGRAM, .folder = folder_, .arguments = arguments, .captured = false, .output = output});
}

Ran Place::run_copy(const fs::path& program, const std::vector<std::string>& arguments) const {
    return run_program({.program = program, .folder = folder_, .arguments = arguments});
}

Ran Place::run_program(const Run& run) const {
    const fs::path in = folder_.string() + ".in", out = folder_.string() + ".out", err = folder_.string() + ".err";
    std::ofstream(in, std::ios::binary) << run.input;
    const std::string cache = (fs::temp_directory_path() / ("hekla_apps_cache_" + std::to_string(::getuid()))).string();
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        const fs::path& to = run.captured ? out : run.output;
        const int a = ::open(in.c_str(), O_RDONLY), c = ::open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
        if (a < 0 || c < 0 || ::dup2(a, 0) < 0 || ::dup2(c, 2) < 0 || ::chdir(run.folder.c_str()) != 0) ::_exit(126);
        if (to.empty()) {
            ::close(1);
        } else if (const int b = ::open(to.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600); b < 0 || ::dup2(b, 1) < 0) {
            ::_exit(126);
        }
        ::setenv("XDG_CACHE_HOME", cache.c_str(), 1);
        ::setenv("XDG_DATA_HOME", folder_.c_str(), 1); // hides the user's own plugins
        std::vector<char*> words{const_cast<char*>(run.program.c_str())};
        for (const std::string& argument : run.arguments) words.push_back(const_cast<char*>(argument.c_str()));
        words.push_back(nullptr);
        ::execv(run.program.c_str(), words.data());
        ::_exit(127);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    Ran ran;
    ran.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (run.captured) ran.out = content_of(out);
    ran.err = content_of(err);
    std::error_code ignored;
    for (const fs::path& file : {in, out, err}) fs::remove(file, ignored);
    return ran;
}

} // namespace hekla::test
