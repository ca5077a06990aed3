// What docs/style.md asks and a program can check: phrases in the texts that users and authors read, comments of the
// public structs, the length of the README.
#include "style/texts.hpp"

#include "base/file.hpp"

#include <algorithm>
#include <doctest/doctest.h>
#include <filesystem>
#include <fmt/format.h>
#include <set>

namespace {

namespace fs = std::filesystem;
using namespace hekla::style;

struct Phrase {
    std::vector<std::string> words;
    std::set<std::string> allowed; // words that may follow
    std::string instead;
};

std::string read(const fs::path& path) {
    hekla::Result<std::string> text = hekla::read_file(path);
    REQUIRE_MESSAGE(text.ok(), path.string());
    return std::move(text.value());
}

std::vector<Phrase> read_phrases(std::string_view list) {
    std::vector<Phrase> phrases;
    for (const std::string_view line : lines_of(list)) {
        if (line.empty() || line.starts_with("#")) continue;
        const std::size_t first = line.find('|'), second = std::min(line.find('|', first + 1), line.size());
        Phrase phrase;
        phrase.words = words_of(line.substr(0, first));
        phrase.instead = line.substr(first + 2, second - first - 2);
        if (second < line.size())
            for (const std::string& word : words_of(line.substr(second + 1))) phrase.allowed.insert(word);
        phrases.push_back(std::move(phrase));
    }
    return phrases;
}

std::vector<std::string> check(const std::vector<Phrase>& phrases, const std::string& file, const Text& text) {
    std::vector<std::string> findings;
    const std::vector<std::string> words = words_of(text.text);
    for (std::size_t i = 0; i < words.size(); ++i)
        for (const Phrase& phrase : phrases) {
            const std::size_t end = i + phrase.words.size();
            if (end > words.size() ||
                !std::equal(phrase.words.begin(), phrase.words.end(), words.begin() + static_cast<std::ptrdiff_t>(i)))
                continue;
            if (end < words.size() && phrase.allowed.contains(words[end])) continue;
            if (i > 0 && words[i - 1] == "there") continue; // "there is no device" is a plain sentence
            std::string around;
            for (std::size_t k = i > 4 ? i - 4 : 0; k < std::min(end + 4, words.size()); ++k)
                around += (around.empty() ? "" : " ") + (words[k].empty() ? "," : words[k]);
            findings.push_back(fmt::format("{}:{}: '{}'; write {}", file, text.line, around, phrase.instead));
        }
    return findings;
}

// Two words at least: a text, not a name or a key.
bool is_sentence(std::string_view text) {
    int words = 0;
    for (const std::string& word : words_of(text)) words += word.empty() ? 0 : 1;
    return words > 1 && text.find(' ') != std::string_view::npos;
}

// A comment without what it quotes: "said" may be a key of a file.
std::string without_quoted(std::string_view comment) {
    std::string text;
    bool quoted = false;
    for (const char c : comment) {
        if (c == '"') quoted = !quoted;
        text += quoted ? '"' : c;
    }
    return text;
}

bool is_code(const std::string& kind) {
    static const std::set<std::string> kinds{".hpp", ".cpp", ".h", ".c", ".rs", ".zig", ".comp", ".glsl"};
    return kinds.contains(kind);
}

// Files of which only the comments are read: recipes, and scripts inside the project.
bool has_hash_comments(const std::string& path) {
    const std::string kind = fs::path(path).extension().string();
    return kind == ".toml" || kind == ".cmake" || kind == ".sh" || kind == ".py" || path.ends_with("CMakeLists.txt");
}

// The texts of one file that are checked, by its kind.
std::vector<Text> texts_of(const std::string& path, std::string_view content) {
    const std::string kind = fs::path(path).extension().string();
    if (kind == ".md") return read_markdown(content);
    if (has_hash_comments(path)) return read_hash_comments(content);
    if (is_code(kind)) {
        CxxTexts texts = read_cxx(content);
        std::vector<Text> checked;
        for (const Text& text : texts.comments) checked.push_back({text.line, without_quoted(text.text)});
        if (path.starts_with("tests/")) return checked; // their strings are other people's texts, and planted faults
        for (Text& text : texts.strings)
            if (is_sentence(text.text)) checked.push_back(std::move(text));
        return checked;
    }
    std::vector<Text> whole; // JSON without its keys, HTML, JavaScript, scripts: every line
    int line = 0;
    for (std::string_view text : lines_of(content)) {
        ++line;
        const std::size_t key = kind == ".json" && text.substr(0, text.find_first_not_of(' ') + 1).ends_with('"')
                                    ? text.find("\":")
                                    : std::string_view::npos;
        if (key != std::string_view::npos) text.remove_prefix(key + 2);
        whole.push_back({line, std::string(text)});
    }
    return whole;
}

bool is_checked(const std::string& path) {
    const auto in = [&](std::string_view folder) { return path.starts_with(folder); };
    const std::string kind = fs::path(path).extension().string();
    if (path == "apps/quickstart" || path == "apps/compare_pytorch" || path == "tests/run" || path == "tests/tidy" ||
        path == "third_party/install" || path == "apps/recipes/make_corpora" || path == "apps/recipes/results")
        return true;
    if (kind == ".md")
        return path == "README.md" || path == "CHANGELOG.md" || in("docs/") || in("plugins/") || in("apps/") ||
               path == "third_party/LICENSES.md";
    if (kind == ".toml") return !in("tests/");
    if (kind == ".html" || kind == ".js" || kind == ".css") return in("apps/");
    if (kind == ".json")
        return in("plugins/") || in("engine/plugin/") || in("engine/graph/") || in("engine/api/") ||
               in("apps/hekla/templates/");
    // Golden plugins are kept as they were written.
    return (is_code(kind) || has_hash_comments(path)) && !in("tests/abi/golden/") && !in("tests/fixtures/");
}

// Members of structs in a C header that have no comment: neither after them nor on the lines before.
std::vector<std::string> members_without_comment(const std::string& file, std::string_view header) {
    std::vector<std::string> findings;
    bool inside = false, commented = false;
    int number = 0, depth = 0; // of parentheses: a function pointer's type may take several lines
    for (const std::string_view raw : lines_of(header)) {
        ++number;
        const std::size_t begin = raw.find_first_not_of(' ');
        const std::string_view line = begin == std::string_view::npos ? "" : raw.substr(begin);
        if (line.starts_with("typedef struct") && line.ends_with("{")) {
            inside = true;
            commented = false;
            continue;
        }
        if (!inside) continue;
        if (line.starts_with("}")) {
            inside = false;
            continue;
        }
        if (line.starts_with("//") || line.starts_with("/*") || line.starts_with("*")) {
            commented = true;
            continue;
        }
        if (line.empty()) {
            commented = false;
            continue;
        }
        const std::string_view code = line.substr(0, line.find("//"));
        const bool continues = depth > 0;
        int outside = 0; // commas outside of parentheses
        for (const char c : code) {
            depth += c == '(' ? 1 : c == ')' ? -1 : 0;
            outside += c == ',' && depth == 0 ? 1 : 0;
        }
        const bool has_comment = commented || code.size() < line.size();
        const bool plain =
            code.find("struct_size;") != std::string_view::npos || code.find("reserved") != std::string_view::npos ||
            code.find(" id;") != std::string_view::npos || code.find("void* user;") != std::string_view::npos;
        if (!continues && outside > 0)
            findings.push_back(fmt::format("{}:{}: several members on one line: {}", file, number, code));
        else if (!continues && !has_comment && !plain)
            findings.push_back(fmt::format("{}:{}: a member without unit or meaning: {}", file, number, code));
        if (depth == 0 && code.find(';') != std::string_view::npos) commented = false;
    }
    return findings;
}

std::string joined(const std::vector<std::string>& findings) {
    std::string text = fmt::format("{} findings:\n", findings.size());
    for (const std::string& finding : findings) text += finding + "\n";
    return text;
}

// Paths below the repository's root, without what is built or ignored.
std::vector<std::string> files_of(const fs::path& root) {
    std::vector<std::string> files;
    for (const char* folder :
         {"engine", "apps", "plugins", "shaders", "tools", "docs", "cmake", "third_party", "tests"})
        for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / folder))
            if (entry.is_regular_file()) files.push_back(fs::relative(entry.path(), root).generic_string());
    for (const char* file : {"README.md", "CHANGELOG.md", "CMakeLists.txt"}) files.emplace_back(file);
    std::sort(files.begin(), files.end());
    return files;
}

const fs::path kRoot = HEKLA_SOURCE_DIR;

} // namespace

TEST_CASE("planted faults of style are found, and what is right is not") {
    const std::vector<Phrase> phrases = read_phrases(read(kRoot / "tests/style/phrases.txt"));
    REQUIRE(phrases.size() > 30);
    const auto count = [&](const std::string& path, const std::string& content) {
        std::size_t findings = 0;
        for (const Text& text : texts_of(path, content)) findings += check(phrases, path, text).size();
        return findings;
    };
    // Strings of C++, also where a phrase continues in the next literal, and comments, also over several lines.
    CHECK(count("engine/a.cpp", "return invalid_argument(\"'x' is no parameter\");") == 1);
    CHECK(count("engine/a.cpp", "f(\"'x' is \"\n  \"no parameter\");") == 1);
    CHECK(count("engine/a.cpp", "f(R\"(first\nthe dearest nodes)\");") == 1);
    CHECK(count("engine/a.cpp", "// drawn anew\nint x = 1'000; f('\"'); g(\"is no longer there\");") == 1);
    CHECK(count("shaders/a.comp", "int a; // this is\n       // no comment\n") == 1);
    CHECK(count("shaders/a.comp", "int a; // this is\nint b; // no comment\n") == 0);
    CHECK(count("tests/a_test.cpp", "f(\"is no text of ours\"); // but nobody\n") == 1);
    CHECK(count("cmake/a.cmake", "message(\"is no text\") # but nobody\n") == 1);
    CHECK(count("engine/a.cpp", "f(\"said\"); f(\"a\", \"is\", \"no\");") == 0); // a key; three arguments
    CHECK(count("engine/include/hekla/a.h", "// Whoever holds it. /* nobody */\nint a;") == 2);
    CHECK(count("apps/hekla/templates/a.rs", "fn f(a: &'a str) {}\n// what it says\nlet a = 1;") == 1);
    // Documents, recipes, pages.
    CHECK(count("docs/a.md", "It goes\non with so many\nsteps.\n\n```text\nis no\n```\n\nThe file `LICENCES.md`.\n") ==
          2);
    CHECK(count("docs/a.md", "[text](behind.md) `is no` is a link; there is no other\n") == 0);
    CHECK(count("apps/recipes/a.toml", "key = \"said # anew\" # drawn anew\n") == 1);
    CHECK(count("apps/hekla/pages/a.html", "<p>what the model said</p>") == 1);
    CHECK(count("docs/a.md", "Nobody") == 1);
    CHECK(count("plugins/a/manifest.json", "  \"licence\": \"what it says\"") == 1); // a key is a name
    CHECK(count("tests/run", "# nobody is told\n") == 1);

    const auto members = [](const std::string& body) {
        return members_without_comment("a.h", "typedef struct a {\n    uint32_t struct_size;\n" + body + "} a;\n")
            .size();
    };
    CHECK(members("    double seconds; // seconds; 0: no limit\n") == 0);
    CHECK(members("    // Seconds.\n    double seconds;\n") == 0);
    CHECK(members("    double seconds;\n") == 1);
    CHECK(members("    // Seconds.\n    double seconds;\n    double more;\n") == 1);
    CHECK(members("    double loss, norm; // of a step\n") == 1);
    CHECK(members("    // Called once.\n    void (*step)(void* user,\n                 int a);\n    void "
                  "(*other)(void);\n") == 1);
}

TEST_CASE("texts that people read follow docs/style.md") {
    const std::vector<Phrase> phrases = read_phrases(read(kRoot / "tests/style/phrases.txt"));
    std::vector<std::string> findings;
    std::size_t checked = 0;
    for (const std::string& path : files_of(kRoot)) {
        if (!is_checked(path)) continue;
        ++checked;
        const std::string content = read(kRoot / path);
        for (const Text& text : texts_of(path, content))
            for (std::string& finding : check(phrases, path, text)) findings.push_back(std::move(finding));
    }
    CHECK(checked > 500); // the repository was found
    CHECK_MESSAGE(findings.empty(), joined(findings));
}

TEST_CASE("every member of a public struct has a unit or a meaning") {
    std::vector<std::string> findings;
    for (const fs::directory_entry& entry : fs::directory_iterator(kRoot / "engine/include/hekla")) {
        if (entry.path().extension() != ".h") continue;
        const std::string name = fs::relative(entry.path(), kRoot).generic_string();
        for (std::string& finding : members_without_comment(name, read(entry.path())))
            findings.push_back(std::move(finding));
    }
    CHECK_MESSAGE(findings.empty(), joined(findings));
}

TEST_CASE("the README is read to its end: at most 120 lines") {
    CHECK(lines_of(read(kRoot / "README.md")).size() <= 120);
}
