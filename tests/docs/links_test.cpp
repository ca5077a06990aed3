// Links in the documents: their files and headings exist, and every document is linked.
#include "style/texts.hpp"

#include "base/file.hpp"

#include <algorithm>
#include <doctest/doctest.h>
#include <filesystem>
#include <fmt/format.h>
#include <map>
#include <set>

namespace {

namespace fs = std::filesystem;
using namespace hekla::style;
const fs::path kRoot = HEKLA_SOURCE_DIR;

struct Link {
    int line = 0;
    std::string target;
};

// Returns everything outside of fenced blocks and `code`, line by line.
std::vector<std::string> prose_of(std::string_view document) {
    std::vector<std::string> lines;
    bool fenced = false;
    for (const std::string_view line : lines_of(document)) {
        const bool fence = line.substr(std::min(line.find_first_not_of(' '), line.size())).starts_with("```");
        fenced = fence ? !fenced : fenced;
        lines.emplace_back();
        if (fence || fenced) continue;
        bool code = false;
        for (const char c : line) {
            code = c == '`' ? !code : code;
            if (!code && c != '`') lines.back() += c;
        }
    }
    return lines;
}

std::vector<Link> links_of(std::string_view document) {
    std::vector<Link> links;
    int number = 0;
    for (const std::string& line : prose_of(document)) {
        ++number;
        for (std::size_t at = line.find("]("); at != std::string::npos; at = line.find("](", at + 2)) {
            const std::size_t end = line.find(')', at);
            if (end != std::string::npos) links.push_back({number, line.substr(at + 2, end - at - 2)});
        }
    }
    return links;
}

// Returns headings as GitHub's anchors: lower case, hyphens for spaces, without punctuation.
std::set<std::string> anchors_of(std::string_view document) {
    std::set<std::string> anchors;
    bool fenced = false;
    for (const std::string_view line : lines_of(document)) {
        if (line.starts_with("```")) fenced = !fenced;
        const std::size_t begin = line.find_first_not_of('#');
        if (fenced || begin == 0 || begin == std::string_view::npos || line[begin] != ' ') continue;
        std::string anchor;
        for (const char c : line.substr(begin + 1)) {
            if (c == ' ')
                anchor += '-';
            else if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_')
                anchor += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
        }
        anchors.insert(anchor);
    }
    return anchors;
}

std::string read(const fs::path& path) {
    hekla::Result<std::string> text = hekla::read_file(path);
    REQUIRE_MESSAGE(text.ok(), path.string());
    return std::move(text.value());
}

// Returns why the link is broken; empty if it is not. `at`: the document's folder.
std::string broken(const fs::path& at, std::string_view document, const std::string& target) {
    if (target.starts_with("https://") || target.starts_with("http://")) return {};
    const std::size_t hash = std::min(target.find('#'), target.size());
    const std::string file = target.substr(0, hash), anchor = hash < target.size() ? target.substr(hash + 1) : "";
    const fs::path path = (at / file).lexically_normal();
    if (!file.empty() && !fs::exists(path)) return "does not exist";
    if (anchor.empty()) return {};
    const std::string text = file.empty() ? std::string(document) : read(path);
    return anchors_of(text).contains(anchor) ? "" : "has no such heading";
}

std::vector<fs::path> documents() {
    std::vector<fs::path> found;
    for (const char* folder : {"docs", "apps", "plugins", "shaders", "third_party", "tests"})
        for (const fs::directory_entry& entry : fs::recursive_directory_iterator(kRoot / folder))
            if (entry.path().extension() == ".md") found.push_back(entry.path());
    for (const char* file : {"README.md", "CHANGELOG.md"}) found.push_back(kRoot / file);
    return found;
}

} // namespace

TEST_CASE("planted broken links are found") {
    const std::string document =
        "# One idea: `code`\n\n[a](b.md) and `[not](c.md)`, [x](#one-idea-code)\n\n```text\n# no\n[not](d.md)\n```\n";
    const std::vector<Link> links = links_of(document);
    REQUIRE(links.size() == 2);
    CHECK(links[0].target == "b.md");
    CHECK(links[0].line == 3);
    CHECK(broken("/nowhere", document, "b.md") == "does not exist");
    CHECK(broken("/nowhere", document, "#one-idea-code").empty());
    CHECK(broken("/nowhere", document, "#no") == "has no such heading");
    CHECK(broken("/nowhere", document, "https://example.org/a").empty());
}

TEST_CASE("every link in every document has a target") {
    std::string findings;
    std::set<std::string> reached;
    for (const fs::path& path : documents()) {
        const std::string document = read(path);
        for (const Link& link : links_of(document)) {
            const std::string why = broken(path.parent_path(), document, link.target);
            if (!why.empty())
                findings +=
                    fmt::format("{}:{}: {} {}\n", fs::relative(path, kRoot).string(), link.line, link.target, why);
            reached.insert(
                (path.parent_path() / link.target.substr(0, link.target.find('#'))).lexically_normal().string());
        }
    }
    CHECK_MESSAGE(findings.empty(), findings);
    for (const fs::directory_entry& entry : fs::directory_iterator(kRoot / "docs"))
        if (entry.path().extension() == ".md")
            CHECK_MESSAGE(reached.contains(entry.path().string()), "no document links to " << entry.path().string());
}
