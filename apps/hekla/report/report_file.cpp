#include "report/report_file.hpp"

#include "base/file.hpp"
#include "base/home_folder.hpp"
#include "base/host.hpp"
#include "base/json.hpp"
#include "base/system_file.hpp"

#include <cstdlib>
#include <fmt/format.h>
#include <regex>
#include <sstream>

namespace hekla::report {
namespace {

constexpr std::size_t kShortestName = 3; // shorter ones are parts of other words

std::string public_text(std::string text, const Private& names) {
    // A slash at the beginning of a word. "TFLOP/s" has it inside of one.
    static const std::regex path(R"((^|[\s'"`(=:,])(/[A-Za-z0-9_.~+-][^\s'"`,:;()]*))");
    text = std::regex_replace(text, path, "$1(path)");
    for (const std::string& name : names.words)
        for (std::size_t at = 0; (at = text.find(name, at)) != std::string::npos; at += 6)
            text.replace(at, name.size(), "(name)");
    return text;
}

} // namespace

Private Private::of_this_process() {
    Private names;
    const auto add = [&](const std::string& name) {
        if (name.size() >= kShortestName && name != "root" && name != "unknown") names.words.push_back(name);
    };
    add(host_name());
    for (const char* variable : {"USER", "LOGNAME"})
        if (const char* value = std::getenv(variable)) add(value);
    add(home_folder().filename().string());
    return names;
}

Line without_private(Line value, const Private& names) {
    if (value.is_string()) return public_text(value.get<std::string>(), names);
    if (value.is_structured())
        for (Line& part : value) part = without_private(std::move(part), names);
    return value;
}

Result<ReportFile> ReportFile::create(std::filesystem::path path) {
    ReportFile file;
    file.path_ = std::move(path);
    file.names_ = Private::of_this_process();
    if (!file.path_.empty()) HK_TRY(write_file_atomically(file.path_, ""));
    return file;
}

Status ReportFile::append(Line line) {
    lines_.push_back(without_private(std::move(line), names_));
    if (path_.empty()) return {};
    std::error_code problem;
    const FileHandle file = open_to_append(path_, Missing::create, problem);
    if (!problem) problem = write_all(file, lines_.back().dump(-1, ' ', false, Line::error_handler_t::replace) + "\n");
    if (problem) return io_error(fmt::format("{}: cannot be written: {}", path_.string(), problem.message()));
    return {};
}

Result<std::vector<Line>> read_report(const std::filesystem::path& path) {
    constexpr uint64_t kMostBytes = uint64_t{16} << 20;
    HK_ASSIGN(const std::string text, read_file(path, kMostBytes));
    std::vector<Line> lines;
    std::istringstream all(text);
    std::size_t number = 0;
    for (std::string line; std::getline(all, line);) {
        ++number;
        Line value = ordered_json_or_null(line);
        if (!value.is_object()) {
            if (all.eof() || all.peek() == std::istringstream::traits_type::eof()) break;
            return corrupt(fmt::format("{}:{}: expected a JSON object, a stage of a report", path.string(), number));
        }
        lines.push_back(std::move(value));
    }
    if (lines.empty() || !lines.front().contains("report") || lines.front().value("format", 0) != 1)
        return corrupt(fmt::format("{}:1: expected {{\"report\": ..., \"format\": 1}}, the first line of a report of "
                                   "hekla doctor --test or --lab",
                                   path.string()));
    return lines;
}

const Line* result_of(const std::vector<Line>& lines, std::string_view stage) {
    for (const Line& line : lines)
        if (line.value("stage", "") == stage && line.contains("result")) return &line["result"];
    return nullptr;
}

bool passed(const std::vector<Line>& lines, std::string_view stage) {
    for (const Line& line : lines)
        if (line.value("stage", "") == stage) return line.value("ok", false);
    return false;
}

} // namespace hekla::report
