// hekla plugin new: writes a folder with a working plugin to start from, which builds against an installed Hekla.
#include "command.hpp"
#include "plugin_package.hpp"

#include "base/file.hpp"
#include "hekla/plugin/abi.h"
#include "templates_texts.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fmt/format.h>
#include <map>

namespace hekla::app {
namespace {

namespace fs = std::filesystem;

struct NewArguments {
    std::string name;
    std::string kind;
    std::string language = "cpp";
    std::string output; // empty: a folder with the name of the plugin
};

struct Language {
    const char* option;
    const char* name;
    const char* extension;
    const char* build_file;  // next to the source
    const char* build;       // the build command
    const char* build_in_ci; // the same with $HEKLA
    const char* packages;    // that it needs in CI, other than what Hekla is built with
};
// The installation that files name when they are written by a program that is not installed.
constexpr const char* kUsualPrefix = "/opt/hekla";

constexpr const char* kCmakeInCi = "cmake -S . -B build -DCMAKE_PREFIX_PATH=\"$HEKLA\"\ncmake --build build";
constexpr Language kLanguages[] = {
    {"c", "C", ".c", "CMakeLists.txt", "cmake -S . -B build -DCMAKE_PREFIX_PATH=%PREFIX% && cmake --build build",
     kCmakeInCi, "g++"},
    {"cpp", "C++20", ".cpp", "CMakeLists.txt",
     "cmake -S . -B build -DCMAKE_PREFIX_PATH=%PREFIX% && cmake --build build", kCmakeInCi, "g++"},
    {"rust", "Rust", ".rs", "build.sh", "sh build.sh", "sh build.sh", "rustc"},
};

// Names that are valid as a file, a CMake target and an id in a recipe.
bool is_plugin_name(std::string_view name) {
    const auto small = [](char c) { return c >= 'a' && c <= 'z'; };
    return !name.empty() && name.size() <= 64 && small(name[0]) && std::ranges::all_of(name, [&](char c) {
        return small(c) || (c >= '0' && c <= '9') || c == '_' || c == '-';
    });
}

// "gated-mixer" -> "GatedMixer"
std::string class_name(std::string_view name) {
    std::string out;
    bool begins = true;
    for (const char c : name) {
        if (c == '_' || c == '-') {
            begins = true;
            continue;
        }
        out += begins ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
        begins = false;
    }
    return out;
}

std::string filled(std::string_view text, const std::map<std::string, std::string>& values) {
    std::string out(text);
    for (const auto& [key, value] : values)
        for (std::size_t at = 0; (at = out.find(key, at)) != std::string::npos; at += value.size())
            out.replace(at, key.size(), value);
    return out;
}

std::string with_underscores(std::string name) {
    std::ranges::replace(name, '-', '_');
    return name;
}

Status write_plugin(const NewArguments& a, const Language& language, const fs::path& folder, const fs::path& prefix) {
    if (!is_plugin_name(a.name))
        return invalid_argument(fmt::format("'{}': expected a name of small letters, digits, - and _ that begins with "
                                            "a letter",
                                            a.name));
    std::error_code problem;
    if (fs::exists(folder, problem) && !fs::is_empty(folder, problem))
        return failed_precondition(
            fmt::format("{}: exists and is not empty; choose another name or another folder (-o)", folder.string()));
    fs::create_directories(folder / ".github" / "workflows", problem);
    if (problem) return io_error(fmt::format("{}: cannot create the folder: {}", folder.string(), problem.message()));
    const std::string source = a.name + language.extension;
    const std::map<std::string, std::string> values{
        {"%BUILD%", filled(language.build, {{"%PREFIX%", prefix.string()}})},
        {"%BUILD_IN_CI%", language.build_in_ci},
        {"%BUILD_FILE%", language.build_file},
        {"%CI_PACKAGES%", language.packages},
        {"%LANGUAGE%", language.name},
        {"%CMAKE_LANGUAGE%", a.language == "c" ? "C" : "CXX"},
        {"%SOURCE%", source},
        {"%CRATE%", with_underscores(a.name)},
        {"%ABI_OLDEST%", std::to_string(HK_ABI_OLDEST_MINOR)},
        {"%NAME%", a.name},
        {"%CLASS%", class_name(a.name)},
        {"%KIND_WITH_ARTICLE%", (a.kind == "head" || a.kind == "combiner" ? "a " : "an ") + a.kind},
        {"%PREFIX%", prefix.string()},
        {"%PROGRAM%", (prefix / "bin" / "hekla").string()},
        {"%VERSION%", HEKLA_VERSION},
        {"%ABI_MAJOR%", std::to_string(HK_ABI_MAJOR)},
        {"%ABI_MINOR%", std::to_string(HK_ABI_MINOR)},
    };
    const std::pair<std::string, std::string> files[] = {{language.build_file, language.build_file},
                                                         {"README.md", "README.md"},
                                                         {"ci.sh", "ci.sh"},
                                                         {"plugin.yml", ".github/workflows/plugin.yml"},
                                                         {a.kind + language.extension, source},
                                                         {a.kind + ".json", "manifest.json"},
                                                         {a.kind + ".toml", "recipe.toml"}};
    for (const auto& [from, to] : files) {
        const std::string_view text = embedded::templates_text(from);
        if (text.empty()) return internal_error(fmt::format("the template {} is missing", from));
        HK_TRY(write_file_atomically(folder / to, filled(text, values)));
    }
    return {};
}

int run_new(const NewArguments& a) {
    const Result<fs::path> self = own_path();
    if (!self.ok()) return fail(self.status());
    const fs::path own = self.value().parent_path().parent_path(), folder = a.output.empty() ? a.name : a.output;
    const bool installed = is_installation(own);
    const fs::path prefix = installed ? own : kUsualPrefix, program = prefix / "bin" / "hekla";
    const Language& language =
        *std::ranges::find_if(kLanguages, [&](const Language& l) { return a.language == l.option; });
    if (const Status written = write_plugin(a, language, folder, prefix); !written.ok()) return fail(written);
    fmt::print("{}: {}{}, manifest.json, recipe.toml, {}, README.md, ci.sh, .github/workflows/plugin.yml\n\n"
               "    cd {}\n"
               "    {}\n"
               "    {} --plugin-path build/plugins plugin list\n",
               folder.string(), a.name, language.extension, language.build_file, folder.string(),
               filled(language.build, {{"%PREFIX%", prefix.string()}}), program.string());
    if (!installed)
        fmt::print("\nThis program is not installed, and plugins build against an installation: first\n\n"
                   "    cmake --install {} --prefix {}\n\n"
                   "With another folder in place of {}: {}, and HEKLA=FOLDER sh ci.sh.\n",
                   own.string(), prefix.string(), prefix.string(),
                   a.language == "rust" ? "HEKLA=FOLDER sh build.sh"
                                        : "cmake -S . -B build -DCMAKE_PREFIX_PATH=FOLDER");
    return kDone;
}

} // namespace

void add_plugin_new(CLI::App& plugin, Verbs& verbs) {
    CLI::App* parser = plugin.add_subcommand("new", "Write a folder with a working plugin, to be changed.");
    const auto a = std::make_shared<NewArguments>();
    parser->add_option("name", a->name, "id of the plugin and name of the folder: small letters, digits, - and _")
        ->required();
    parser
        ->add_option("--kind", a->kind,
                     "kind of plugin: architecture, objective, head, operation, adapter, combiner or optimizer")
        ->required()
        ->check(CLI::IsMember({"architecture", "objective", "head", "operation", "adapter", "combiner", "optimizer"}));
    parser->add_option("--lang", a->language, "language: c, cpp (C++20) or rust (1.63 or newer, without crates)")
        ->capture_default_str()
        ->check(CLI::IsMember({"c", "cpp", "rust"}));
    parser->add_option("-o,--output", a->output, "write to this folder");
    parser->footer("Example: hekla plugin new --lang rust --kind architecture gated-mixer");
    verbs.push_back({parser, [a] { return run_new(*a); }});
}

} // namespace hekla::app
