// Generates everything that repeats the plugin ABI, the list of operations or the C API for host programs from
// engine/plugin/abi.json, engine/graph/operations.json and engine/api/host_api.json:
//   engine/include/hekla/plugin/*.h          the C headers
//   plugins/sdk/operations.hpp               the operations for C++
//   plugins/sdk/located_operations.h         the operations for C, with the place of each call
//   plugins/sdk/rust/raw.rs, operations.rs   the same for Rust
//   plugins/sdk/zig/hekla_plugin.zig         declarations for Zig
//   plugins/sdk/zig/operations.zig           the operations for Zig
//   plugins/reference/*.md                   the reference pages
//   engine/plugin/abi_layout.txt             every struct, member and slot
//   engine/plugin/instances/table_slots.inc  what the loader requires of a plugin's function tables
//   engine/plugin/host/first_sizes.inc        minimum sizes of a plugin's data structs
//   engine/plugin/trace/rules.inc, traced.inc rules and functions, for traces that report them
//   engine/graph/operation_table.inc         the engine's table
//   engine/include/hekla/*.h                 the C headers for host programs
//   engine/include/hekla/options.hpp         option structs of C++ programs
//   engine/api/host_api_layout.txt           every struct, member and function
//   engine/api/call_fields.hpp               members by name, for captured calls
//   engine/api/report_fields.hpp             reports from structs of the engine
//   engine/api/checks.hpp, struct_checks.cpp checks of structs that a host fills in
//   engine/api/defaults.cpp                  hk_*_defaults
//   docs/host_api.md                         the reference page
// The results are committed; a test runs this again and fails if they differ.
#include "description.hpp"
#include "host_api.hpp"

#include <fmt/format.h>
#include <fstream>
#include <iostream>
#include <iterator>
#include <stdexcept>

namespace {
namespace fs = std::filesystem;
using namespace hekla::abi;

constexpr const char* kUsage =
    R"(usage: generate_abi write REPOSITORY [OUTPUT_FOLDER]      every generated file, into its place in the repository or the folder
       generate_abi compare REPOSITORY LAYOUT            fails where a released layout no longer holds
       generate_abi asserts LAYOUT                       prints C that compiles only with this layout
       generate_abi rust-asserts LAYOUT                  prints a test that passes only with this layout
       generate_abi anchor REPOSITORY                    prints C that names every struct in a function
       generate_abi files REPOSITORY                     prints the names of the generated files
)";

std::string read(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) throw std::runtime_error(path.string() + " cannot be read");
    return {std::istreambuf_iterator<char>(file), {}};
}

// Returns a header that includes everything stable.
std::string umbrella(const Description& d) {
    std::string s =
        "// All of the plugin ABI.\n// Made by tools/generate_abi from engine/plugin/abi.json. Edit that instead.\n"
        "#ifndef HEKLA_PLUGIN_PLUGIN_H\n#define HEKLA_PLUGIN_PLUGIN_H\n\n";
    for (const Header& h : d.headers) s += fmt::format("#include \"{}.h\"\n", h.name);
    return s + "#include \"operations.h\"\n\n#endif\n";
}

std::vector<std::pair<fs::path, std::string>> files_of(const fs::path& repository) {
    const Description d = read_description(repository);
    std::vector<std::pair<fs::path, std::string>> files;
    const fs::path headers = "engine/include/hekla/plugin", pages = "plugins/reference";
    for (const Header& h : d.headers) {
        files.emplace_back(headers / (h.name + ".h"), c_header(d, h));
        files.emplace_back(pages / page_name(h), page(d, h));
    }
    for (const Header& h : d.drafts) {
        files.emplace_back(headers / "draft" / (h.name + ".h"), c_header(d, h));
        files.emplace_back(pages / page_name(h), page(d, h));
    }
    files.emplace_back(headers / "plugin.h", umbrella(d));
    files.emplace_back(headers / "operations.h", c_operations(d.operations));
    files.emplace_back(pages / "operations.md", operations_page(d.operations));
    files.emplace_back(pages / "README.md", index_page(d));
    files.emplace_back("plugins/sdk/located_operations.h", c_located_operations(d.operations));
    files.emplace_back("plugins/sdk/operations.hpp", cpp_operations(d.operations));
    files.emplace_back("plugins/sdk/rust/raw.rs", rust_bindings(d));
    files.emplace_back("plugins/sdk/rust/operations.rs", rust_operations(d));
    files.emplace_back("plugins/sdk/zig/hekla_plugin.zig", zig_bindings(d));
    files.emplace_back("plugins/sdk/zig/operations.zig", zig_operations(d));
    files.emplace_back("engine/plugin/abi_layout.txt", layout(d));
    files.emplace_back("engine/plugin/instances/table_slots.inc", table_slots(d));
    files.emplace_back("engine/plugin/host/first_sizes.inc", first_sizes(d));
    files.emplace_back("engine/plugin/trace/rules.inc", rule_table(d));
    files.emplace_back("engine/plugin/trace/traced.inc", traced_functions(d));
    files.emplace_back("engine/graph/operation_table.inc", engine_table(d.operations));
    const HostApi api = read_host_api(repository);
    const fs::path engine = "engine/api";
    for (const HostHeader& h : api.headers) files.emplace_back("engine/include/hekla/" + h.name + ".h", host_header(h));
    files.emplace_back("engine/include/hekla/options.hpp", host_cpp_options(api));
    files.emplace_back(engine / "host_api_layout.txt", host_layout(api, d));
    files.emplace_back(engine / "call_fields.hpp", host_call_fields(api));
    files.emplace_back(engine / "report_fields.hpp", host_report_fields(api));
    files.emplace_back(engine / "checks.hpp", host_checks_header(api));
    files.emplace_back(engine / "struct_checks.cpp", host_checks(api));
    files.emplace_back(engine / "defaults.cpp", host_defaults(api));
    files.emplace_back("docs/host_api.md", host_page(api));
    return files;
}

int run(const std::vector<std::string>& a) {
    const std::string verb = a.empty() ? "" : a[0];
    if (verb == "write" && (a.size() == 2 || a.size() == 3)) {
        const fs::path out = a.back();
        for (const auto& [path, text] : files_of(a[1])) {
            if (fs::exists(out / path) && read(out / path) == text) continue; // so that nothing is compiled again
            fs::create_directories((out / path).parent_path());
            std::ofstream file(out / path, std::ios::binary);
            if (!(file << text).flush()) throw std::runtime_error((out / path).string() + " cannot be written");
        }
    } else if (verb == "compare" && a.size() == 3) {
        const std::string changes = broken(read(a[2]), layout(read_description(a[1])));
        if (!changes.empty())
            throw std::runtime_error(a[2] + " was released and no longer holds:\n" + changes +
                                     "Add at the end, or under a new id.");
    } else if (verb == "asserts" && a.size() == 2) {
        std::cout << asserts(read(a[1]));
    } else if (verb == "rust-asserts" && a.size() == 2) {
        std::cout << rust_asserts(read(a[1]));
    } else if (verb == "anchor" && a.size() == 2) {
        std::cout << anchor(read_description(a[1]));
    } else if (verb == "files" && a.size() == 2) {
        for (const auto& [path, text] : files_of(a[1])) std::cout << path.string() << "\n";
    } else {
        std::cerr << kUsage;
        return 2;
    }
    return 0;
}
} // namespace

int main(int argc, char** argv) {
    try {
        return run(std::vector<std::string>(argv + 1, argv + argc));
    } catch (const std::exception& e) {
        std::cerr << "generate_abi: " << e.what() << "\n";
        return 1;
    }
}
