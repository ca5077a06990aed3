// Include rules. A room of engine/ includes only rooms before it (in the order of the hekla_room lines in
// CMakeLists.txt), there are no include cycles within a room (NAME.hpp and NAME.cpp are one unit), plugins include only
// the public plugin headers and the SDK, the examples only public headers, and the Observatory those and base, for
// calls of the system. A header is compiled with at most 60 others of the project.
#include "base/file.hpp"

#include <algorithm>
#include <cstdlib>
#include <doctest/doctest.h>
#include <filesystem>
#include <fmt/format.h>
#include <functional>
#include <map>
#include <regex>
#include <set>
#include <sstream>

namespace {

namespace fs = std::filesystem;
const fs::path kRoot = HEKLA_SOURCE_DIR;

// Maps each path below the root to its includes in quotes or angle brackets.
using Includes = std::map<std::string, std::vector<std::string>>;

std::vector<std::string> includes_of(const std::string& source) {
    std::vector<std::string> included;
    std::istringstream lines(source);
    for (std::string line; std::getline(lines, line);) {
        const std::size_t begin = line.find_first_not_of(" \t");
        if (begin == std::string::npos || line[begin] != '#') continue;
        const std::size_t word = line.find("include", begin);
        const std::size_t open = line.find_first_of("\"<", begin), close = line.find_first_of("\">", open + 1);
        if (word == std::string::npos || open == std::string::npos || close == std::string::npos) continue;
        included.push_back(line.substr(open + 1, close - open - 1));
    }
    return included;
}

std::string read(const fs::path& path) {
    hekla::Result<std::string> text = hekla::read_file(path);
    REQUIRE_MESSAGE(text.ok(), path.string());
    return std::move(text.value());
}

Includes read_tree(const fs::path& root, const std::vector<std::string>& folders) {
    Includes includes;
    for (const std::string& folder : folders)
        for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / folder)) {
            const std::string kind = entry.path().extension().string();
            if (entry.is_regular_file() &&
                (kind == ".hpp" || kind == ".cpp" || kind == ".h" || kind == ".c" || kind == ".inc"))
                includes[fs::relative(entry.path(), root).generic_string()] = includes_of(read(entry.path()));
        }
    return includes;
}

// Returns the rooms in the order of CMakeLists.txt; a room may include those before it.
std::vector<std::string> rooms_of(const std::string& cmake) {
    std::vector<std::string> rooms;
    std::istringstream lines(cmake);
    for (std::string line; std::getline(lines, line);)
        if (line.starts_with("hekla_room(")) rooms.push_back(line.substr(11, line.find_first_of(" )", 11) - 11));
    return rooms;
}

// Returns "graph" for "graph/shape.hpp"; "" without a folder.
std::string first_folder(const std::string& path) {
    const std::size_t slash = path.find('/');
    return slash == std::string::npos ? "" : path.substr(0, slash);
}

std::vector<std::string> arrows_back(const Includes& includes, const std::vector<std::string>& rooms) {
    std::vector<std::string> findings;
    const auto order = [&](const std::string& room) {
        return std::find(rooms.begin(), rooms.end(), room) - rooms.begin();
    };
    for (const auto& [path, included] : includes) {
        if (!path.starts_with("engine/")) continue;
        const std::string room = first_folder(path.substr(7));
        for (const std::string& one : included) {
            const std::string other = first_folder(one);
            const bool is_room = std::find(rooms.begin(), rooms.end(), other) != rooms.end();
            if (room == "include") {
                if (is_room) findings.push_back(path + " is public, and includes " + one);
            } else if (is_room && order(other) > order(room)) {
                findings.push_back(path + " includes " + one + ": " + other + " is a later room than " + room);
            } else if (one.find("shaders/") == std::string::npos && // shared by C++ and GLSL, below all rooms
                       (one.starts_with("plugins/") || one.starts_with("apps/") || one.starts_with("../"))) {
                findings.push_back(path + " includes " + one + ", which is outside of engine/");
            }
        }
    }
    return findings;
}

using Edges = std::set<std::pair<std::string, std::string>>;

// Returns which unit includes which. A unit is a path without its extension.
Edges ideas_of(const Includes& includes, const std::string& root) {
    Edges edges;
    const auto idea = [](const std::string& path) { return path.substr(0, path.rfind('.')); };
    for (const auto& [path, included] : includes) {
        if (!path.starts_with(root)) continue;
        for (const std::string& one : included) // from the include folder, or from the file's own
            for (const std::string& target :
                 {root + one, (fs::path(path).parent_path() / one).lexically_normal().generic_string()})
                if (includes.contains(target) && idea(target) != idea(path)) edges.emplace(idea(path), idea(target));
    }
    return edges;
}

// Returns one line per edge that closes a cycle.
std::vector<std::string> circles(const Edges& edges) {
    std::map<std::string, std::set<std::string>> graph;
    for (const auto& [from, to] : edges) graph[from].insert(to);
    std::vector<std::string> findings;
    std::map<std::string, int> state; // 1: in progress, 2: finished
    std::vector<std::string> way;
    const std::function<void(const std::string&)> visit = [&](const std::string& node) {
        state[node] = 1;
        way.push_back(node);
        for (const std::string& next : graph[node]) {
            if (state[next] == 0) visit(next);
            if (state[next] != 1) continue;
            std::string circle;
            for (auto at = std::find(way.begin(), way.end(), next); at != way.end(); ++at) circle += *at + " -> ";
            findings.push_back(circle + next);
        }
        way.pop_back();
        state[node] = 2;
    };
    for (const auto& [from, unused] : edges)
        if (state[from] == 0) visit(from);
    return findings;
}

// Returns the engine headers that plugins, the Observatory and the examples include but must not.
std::vector<std::string> guests_inside(const Includes& includes, const std::vector<std::string>& rooms) {
    std::vector<std::string> findings;
    for (const auto& [path, included] : includes) {
        const bool plugin = path.starts_with("plugins/");
        if (!plugin && !path.starts_with("apps/observatory/") && !path.starts_with("apps/examples/")) continue;
        for (const std::string& one : included) {
            const bool of_system = path.starts_with("apps/observatory/") && one.starts_with("base/");
            const bool inside =
                !of_system && std::find(rooms.begin(), rooms.end(), first_folder(one)) != rooms.end() &&
                !includes.contains((fs::path(path).parent_path() / one).lexically_normal().generic_string());
            if (inside || one.find("engine/") != std::string::npos)
                findings.push_back(path + " includes " + one + " of the engine's inside");
            else if (plugin && one.starts_with("hekla/") && !one.starts_with("hekla/plugin/"))
                findings.push_back(path + " includes " + one + ": plugins include only hekla/plugin/");
        }
    }
    return findings;
}

// Returns the headers of engine/ that nothing reaches from the sources of hekla.h and the plugin ABI: api/, library/,
// modules, the process that describes and holds plugins, the lowerings that program/lowering/families.hpp lists, the
// calls of the system (base/posix), which are in base for all programs. A header reaches the sources that implement it,
// those of its name and those that include it first.
std::vector<std::string> unreached(const Includes& includes) {
    const auto path_of = [&](const std::string& from, const std::string& included) {
        for (const std::string& path : {"engine/" + included, "engine/include/" + included,
                                        (fs::path(from).parent_path() / included).lexically_normal().generic_string()})
            if (includes.contains(path)) return path;
        return std::string();
    };
    std::map<std::string, std::vector<std::string>> sources; // of a header
    std::vector<std::string> left;
    for (const auto& [path, included] : includes) {
        if (path.starts_with("engine/api/") || path.starts_with("engine/library/") ||
            path.starts_with("engine/include/") || path.find("_module/") != std::string::npos ||
            path.starts_with("engine/program/lowering/") || path.starts_with("engine/base/posix/") ||
            path.starts_with("apps/describe/"))
            left.push_back(path);
        if (!path.ends_with(".cpp") || !path.starts_with("engine/")) continue;
        const std::string own = path.substr(0, path.size() - 3) + "hpp";
        sources[includes.contains(own) || included.empty() ? own : path_of(path, included.front())].push_back(path);
    }
    std::set<std::string> reached;
    while (!left.empty()) {
        const std::string path = std::move(left.back());
        left.pop_back();
        if (path.empty() || !reached.insert(path).second) continue;
        for (const std::string& one : includes.at(path)) left.push_back(path_of(path, one));
        if (const auto found = sources.find(path); found != sources.end())
            left.insert(left.end(), found->second.begin(), found->second.end());
    }
    std::vector<std::string> found;
    for (const auto& [path, included] : includes)
        if (path.starts_with("engine/") && path.ends_with(".hpp") && !reached.contains(path)) found.push_back(path);
    return found;
}

// Returns the files of the project that each header includes, directly or through others: what a file that includes it
// is compiled with.
std::map<std::string, std::set<std::string>> closures(const Includes& includes) {
    const auto path_of = [&](const std::string& from, const std::string& included) {
        for (const std::string& path : {(fs::path(from).parent_path() / included).lexically_normal().generic_string(),
                                        "engine/" + included, "engine/include/" + included, "apps/hekla/" + included})
            if (includes.contains(path)) return path;
        return std::string();
    };
    std::map<std::string, std::set<std::string>> found;
    for (const auto& [path, unused] : includes) {
        if (!path.ends_with(".hpp") && !path.ends_with(".h")) continue;
        std::vector<std::string> left{path};
        std::set<std::string>& closure = found[path];
        while (!left.empty()) {
            const std::string one = std::move(left.back());
            left.pop_back();
            for (const std::string& included : includes.at(one))
                if (const std::string next = path_of(one, included);
                    !next.empty() && next != path && closure.insert(next).second)
                    left.push_back(next);
        }
    }
    return found;
}

// Returns "gpu/device.hpp: 61 headers", most first.
std::vector<std::string> above(const std::map<std::string, std::set<std::string>>& closures, std::size_t limit) {
    std::vector<std::pair<std::size_t, std::string>> large;
    for (const auto& [path, closure] : closures)
        if (closure.size() > limit) large.emplace_back(closure.size(), path);
    std::sort(large.rbegin(), large.rend());
    std::vector<std::string> found;
    for (const auto& [size, path] : large) found.push_back(fmt::format("{}: {} headers", path, size));
    return found;
}

// Returns the arrows between folders with the number of includes: "engine/train/run -> engine/data (9)".
std::vector<std::string> arrows_of_folders(const Edges& edges) {
    std::map<std::pair<std::string, std::string>, int> counts;
    for (const auto& [from, to] : edges) {
        const std::string a = fs::path(from).parent_path().generic_string(),
                          b = fs::path(to).parent_path().generic_string();
        if (a != b) ++counts[{a, b}];
    }
    std::vector<std::string> lines;
    for (const auto& [arrow, count] : counts)
        lines.push_back(fmt::format("{} -> {} ({})", arrow.first, arrow.second, count));
    return lines;
}

std::string joined(const std::vector<std::string>& findings) {
    std::string text = fmt::format("{} findings:\n", findings.size());
    for (const std::string& finding : findings) text += finding + "\n";
    return text;
}

// Conditionals on a mode of training, in the text of a source file: "3: if (ranks.size() > 1)".
std::vector<std::string> mode_conditionals(const std::string& text) {
    static const std::regex kConditional(R"(\bif \(|\?|&&|\|\||\bwhile \(|\bswitch \()");
    static const std::regex kMode(
        R"(learns_from_rollouts|rollout_use [!=]=|has_islands|is_sharded|shards\(\) [!=]=|Division::Kind|)"
        R"(rank_count\(\)|ranks_?(\.|->)(size|rank)\(\) [!=<>]|alternation_?\.on|ema_decay [!=<>]|mask_?\.empty|)"
        R"(from_mask\.empty|features_?( [!=&?]|\.empty)|has_adapters|fp16|bf16)");
    static const std::regex kText(R"("(\\.|[^"\\])*")");
    std::vector<std::string> found;
    std::istringstream lines(text);
    int number = 0;
    for (std::string line; std::getline(lines, line);) {
        ++number;
        const std::string code = std::regex_replace(line.substr(0, line.find("//")), kText, "");
        if (std::regex_search(code, kConditional) && std::regex_search(code, kMode))
            found.push_back(fmt::format("{}: {}", number, code));
    }
    return found;
}

} // namespace

TEST_CASE("planted violations are detected, and valid includes are not") {
    const std::vector<std::string> rooms =
        rooms_of("# hekla_room(NAME ...)\nhekla_room(base fmt::fmt)\nhekla_room(graph "
                 "hekla_base)\nfunction(hekla_room name)\nhekla_room(gpu)\n");
    REQUIRE(rooms == std::vector<std::string>{"base", "graph", "gpu"});
    CHECK(includes_of("#include \"base/a.hpp\"\n  #  include <vector>\n// #include \"no.hpp\"\nint a;\n") ==
          std::vector<std::string>{"base/a.hpp", "vector"});

    CHECK(arrows_back({{"engine/gpu/a.cpp", {"graph/b.hpp", "base/c.hpp", "hekla/d.h", "vector"}}}, rooms).empty());
    CHECK(arrows_back({{"engine/graph/files/a.hpp", {"gpu/b.hpp"}}}, rooms).size() == 1);
    CHECK(arrows_back({{"engine/include/hekla/a.h", {"base/b.hpp"}}}, rooms).size() == 1);
    CHECK(arrows_back({{"engine/base/a.cpp", {"plugins/sdk/b.hpp"}}}, rooms).size() == 1);

    const auto two = [](const std::string& second) {
        return Includes{
            {"engine/graph/a.hpp", {"graph/b.hpp"}}, {"engine/graph/b.hpp", {}}, {"engine/graph/b.cpp", {second}}};
    };
    CHECK(circles(ideas_of(two("graph/a.hpp"), "engine/")).size() == 1); // a.hpp -> b.hpp, b.cpp -> a.hpp
    CHECK(circles(ideas_of(two("graph/b.hpp"), "engine/")).empty());     // the same unit
    CHECK(circles(ideas_of(two("a.hpp"), "engine/")).size() == 1);       // included by its name in the same folder
    CHECK(circles({{"a", "b"}, {"b", "c"}, {"c", "b"}}).size() == 1);

    CHECK(guests_inside({{"plugins/heads/a.cpp", {"block.hpp", "hekla/plugin/b.h"}}}, rooms).empty());
    CHECK(guests_inside({{"plugins/heads/a.cpp", {"graph/b.hpp"}}}, rooms).size() == 1);
    CHECK(guests_inside({{"plugins/heads/a.cpp", {"hekla/hekla.h"}}}, rooms).size() == 1);
    CHECK(guests_inside({{"apps/observatory/a.cpp", {"hekla/hekla.h", "gui/b.hpp"}}}, rooms).empty());
    CHECK(guests_inside({{"apps/observatory/a.cpp", {"../../engine/gpu/b.hpp"}}}, rooms).size() == 1);
    CHECK(guests_inside({{"apps/observatory/a.cpp", {"base/b.hpp"}}}, rooms).empty());
    CHECK(guests_inside({{"apps/observatory/a.cpp", {"gpu/b.hpp"}}}, rooms).size() == 1);
    CHECK(guests_inside({{"apps/examples/a.cpp", {"base/b.hpp"}}}, rooms).size() == 1);
}

// TextEncoder decides which special tokens a text gets; a second owner would decide otherwise.
TEST_CASE("only the room of texts calls Tokenizer::encode") {
    std::vector<std::string> callers;
    uint64_t files = 0;
    for (const char* root : {"engine", "apps/hekla"})
        for (const fs::directory_entry& entry : fs::recursive_directory_iterator(kRoot / root)) {
            const std::string name = fs::relative(entry.path(), kRoot).string();
            if (!entry.is_regular_file() || (!name.ends_with(".cpp") && !name.ends_with(".hpp"))) continue;
            ++files;
            const std::string text = read(entry.path());
            if (name.starts_with("engine/text/")) {
                if (text.find("tokenizer_->encode(") != std::string::npos && !name.ends_with("text_encoder.cpp"))
                    callers.push_back(name);
                continue;
            }
            for (const char* call : {"match_special", "okenizer.encode(", "okenizer->encode(", "okenizer_->encode(",
                                     "okenizer.value()->encode("})
                if (text.find(call) != std::string::npos) callers.push_back(name + ": " + call);
        }
    CHECK(files > 300);
    CHECK_MESSAGE(callers.empty(), joined(callers));
}

TEST_CASE("includes follow the order of the rooms, without cycles") {
    const std::vector<std::string> rooms = rooms_of(read(kRoot / "CMakeLists.txt"));
    REQUIRE(rooms.size() >= 14);
    for (const std::string& room : rooms) CHECK_MESSAGE(fs::is_directory(kRoot / "engine" / room), room);
    const Includes includes = read_tree(kRoot, {"engine", "apps", "plugins"});
    REQUIRE(includes.size() > 500);
    const std::vector<std::string> back = arrows_back(includes, rooms), guests = guests_inside(includes, rooms);
    CHECK_MESSAGE(back.empty(), joined(back));
    CHECK_MESSAGE(guests.empty(), joined(guests));
    Edges edges;
    for (const char* root : {"engine/", "apps/hekla/", "apps/observatory/", "plugins/sdk/"})
        edges.merge(ideas_of(includes, root));
    const std::vector<std::string> found = circles(edges);
    CHECK_MESSAGE(found.empty(), joined(found));
}

// HEKLA_PRINT_INCLUDES=1 build/bin/test_structure -tc="*compiled with*" prints the arrows between folders and the
// headers with most includes.
TEST_CASE("no header is compiled with more than 60 others") {
    const Includes planted{{"engine/a/a.hpp", {"a/b.hpp", "vector"}},
                           {"engine/a/b.hpp", {"c.hpp"}},
                           {"engine/a/c.hpp", {"a/b.hpp"}},
                           {"engine/a/a.cpp", {"a/a.hpp"}}};
    CHECK(closures(planted).at("engine/a/a.hpp") == std::set<std::string>{"engine/a/b.hpp", "engine/a/c.hpp"});
    CHECK(closures(planted).at("engine/a/b.hpp") == std::set<std::string>{"engine/a/c.hpp"});
    CHECK(above(closures(planted), 1) == std::vector<std::string>{"engine/a/a.hpp: 2 headers"});

    const Includes includes = read_tree(kRoot, {"engine", "apps", "plugins/sdk"});
    const std::map<std::string, std::set<std::string>> all = closures(includes);
    REQUIRE(all.size() > 400);
    const std::vector<std::string> large = above(all, 60);
    CHECK_MESSAGE(large.empty(), fmt::format("declare what a header only names, or divide it:\n{}", joined(large)));
    if (std::getenv("HEKLA_PRINT_INCLUDES") == nullptr) return;
    Edges edges;
    for (const char* root : {"engine/", "apps/hekla/", "plugins/sdk/"}) edges.merge(ideas_of(includes, root));
    for (const std::string& line : arrows_of_folders(edges)) fmt::print("{}\n", line);
    for (const std::string& line : above(all, 30)) fmt::print("{}\n", line);
}

// What only the program or a test uses is theirs.
TEST_CASE("the engine has what hekla.h and the plugin ABI need, and nothing else") {
    const Includes planted{{"engine/api/a.cpp", {"room/used.hpp"}},
                           {"engine/room/used.hpp", {}},
                           {"engine/room/part.cpp", {"room/used.hpp", "room/inner.hpp"}},
                           {"engine/room/inner.hpp", {}},
                           {"engine/base/posix/call.cpp", {"base/call.hpp"}},
                           {"engine/base/call.hpp", {}},
                           {"engine/room/left.hpp", {}},
                           {"engine/room/left.cpp", {"room/left.hpp", "room/used.hpp"}}};
    CHECK(unreached(planted) == std::vector<std::string>{"engine/room/left.hpp"});

    const std::map<std::string, std::string> reasons{
        {"engine/model/gguf.hpp", "the format of a file of models"},
        {"engine/train/recipe/recipe_reference.hpp", "the table of keys that the reader has"},
    };
    std::vector<std::string> findings = unreached(read_tree(kRoot, {"engine", "apps/describe"}));
    for (const auto& [path, reason] : reasons)
        CHECK_MESSAGE(std::erase(findings, path) == 1, fmt::format("{} is reached: remove the exception", path));
    CHECK_MESSAGE(findings.empty(), fmt::format("move to the program or the tests:\n{}", joined(findings)));
}

// A mode of training (ranks, islands, rollouts, turns, masks, averages, 16 bits) is a strategy or an object that does
// nothing without it, with its conditions in its own file; what all modes share does not ask which one it is.
TEST_CASE("the stages of a training have no conditionals on its modes") {
    CHECK(mode_conditionals("    if (run.context.ranks.size() > 1) greet();\n").size() == 1);
    CHECK(mode_conditionals("return mask_.empty() ? Status() : mask_.write(file);\n").size() == 1);
    CHECK(mode_conditionals("// if (ranks.size() > 1)\nif (step == 0) start(\"ranks.size() > 1\");\n").empty());
    const std::set<std::string> of_modes{"data_origin.cpp", "choose_origin.cpp", "rollout_origin.cpp", "run_mask.cpp",
                                         "adapted_body.cpp"};
    std::vector<std::string> findings;
    uint64_t files = 0;
    for (const char* folder : {"engine/train", "engine/train/run"})
        for (const fs::directory_entry& entry : fs::directory_iterator(kRoot / folder)) {
            const std::string name = entry.path().filename().string();
            if (!entry.is_regular_file() || of_modes.contains(name)) continue;
            ++files;
            for (const std::string& line : mode_conditionals(read(entry.path())))
                findings.push_back(fmt::format("{}/{}:{}", folder, name, line));
        }
    CHECK(files > 30);
    CHECK_MESSAGE(findings.empty(), joined(findings));
}

// A name that two modules build and a third parses is a protocol without an owner.
TEST_CASE("only graph/output.cpp knows the reserved names of outputs") {
    const std::regex reserved(R"("(loss_sum|loss_count|metric_sum|metric_count|grad|port|buffer_update)\.)");
    CHECK(std::regex_search("names.push_back(\"grad.\" + name);", reserved));
    CHECK(std::regex_search("fmt::format(\"loss_sum.{}\", i)", reserved));
    CHECK(!std::regex_search("\"gradient.\" + name", reserved));
    std::vector<std::string> findings;
    uint64_t files = 0;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(kRoot / "engine")) {
        const std::string name = fs::relative(entry.path(), kRoot).generic_string();
        if (!entry.is_regular_file() || !name.ends_with("pp") || name == "engine/graph/output.cpp") continue;
        ++files;
        std::istringstream lines(read(entry.path()));
        int number = 0;
        for (std::string line; std::getline(lines, line);) {
            ++number;
            if (std::regex_search(line.substr(0, line.find("//")), reserved))
                findings.push_back(fmt::format("{}:{}: {}", name, number, line));
        }
    }
    CHECK(files > 500);
    CHECK_MESSAGE(findings.empty(), joined(findings));
}
