#include "drivers/tables.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hekla::test {
namespace {

constexpr double kMostDifference = 0.03; // of the larger number

constexpr std::array kColumns{"registers", "spills",       "scratch_bytes",     "shared_bytes",
                              "waves",     "instructions", "loop_instructions", "shared_instructions",
                              "wavefronts"};

std::vector<std::string_view> lines_in(std::string_view text) {
    std::vector<std::string_view> lines;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        lines.push_back(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return lines;
}

// Takes the first word off a line.
std::string_view next_word(std::string_view& line) {
    const std::size_t end = std::min(line.find(' '), line.size());
    const std::string_view word = line.substr(0, end);
    line.remove_prefix(std::min(end + 1, line.size()));
    return word;
}

double number_in(std::string_view word) {
    double value = NAN; // "null"
    std::from_chars(word.data(), word.data() + word.size(), value);
    return value;
}

struct Row {
    std::array<std::string_view, kColumns.size()> numbers;
    std::string_view kernel; // and its constants
};

std::vector<Row> rows_in(std::string_view table) {
    std::vector<Row> rows;
    for (std::string_view line : lines_in(table)) {
        if (line.starts_with('#')) continue;
        Row row;
        for (std::string_view& number : row.numbers) number = next_word(line);
        row.kernel = line;
        rows.push_back(row);
    }
    return rows;
}

} // namespace

std::string header_of(const nlohmann::json& report, std::string_view shader_compiler) {
    return fmt::format("# hekla doctor --kernels --case gpt2-124m on {} ({}), {}\n",
                       report["device"].get<std::string>(), report["driver"].get<std::string>(), shader_compiler);
}

std::string key_of(const nlohmann::json& kernel) {
    const auto name = kernel["kernel"].get<std::string>();
    // The name of a generated kernel is a hash of its text.
    return (name.starts_with("generated:") ? "generated" : name) + " " + kernel["constants"].dump();
}

std::string lines_of(const nlohmann::json& report) {
    std::string lines = fmt::format("# {} kernel constants\n", fmt::join(kColumns, " "));
    for (const nlohmann::json& kernel : report["kernels"]) {
        for (const char* column : kColumns) lines += kernel.value(column, nlohmann::json()).dump() + " ";
        lines += key_of(kernel) + "\n";
    }
    return lines;
}

std::vector<std::string> differences(std::string_view stored, std::string_view now) {
    const std::vector<Row> before = rows_in(stored), after = rows_in(now);
    if (!std::ranges::equal(before, after, {}, &Row::kernel, &Row::kernel)) return {"it lists other kernels"};
    if (stored.substr(0, stored.find('\n')) != now.substr(0, now.find('\n'))) return {};
    std::vector<std::string> different;
    for (std::size_t r = 0; r < before.size(); ++r)
        for (std::size_t c = 0; c < kColumns.size(); ++c) {
            const std::string_view old_number = before[r].numbers[c], new_number = after[r].numbers[c];
            const double x = number_in(old_number), y = number_in(new_number);
            if (old_number == new_number || std::abs(x - y) <= kMostDifference * std::max(x, y)) continue;
            different.push_back(fmt::format("{}: {} is {}, and {} in the table (allowed: 3 percent)", before[r].kernel,
                                            kColumns[c], new_number, old_number));
        }
    return different;
}

Spills read_spills(std::string_view text, std::string_view header) {
    Spills spills;
    if (!text.starts_with(header)) return spills;
    for (std::string_view line : lines_in(text)) {
        if (line.starts_with('#')) continue;
        const double count = number_in(next_word(line));
        spills[std::string(line)] = count;
    }
    return spills;
}

std::string text_of(const Spills& spills, std::string_view header) {
    std::string text(header);
    text += "# spills kernel constants\n";
    for (const auto& [kernel, count] : spills) text += fmt::format("{} {}\n", count, kernel);
    return text;
}

namespace {

// "SHADER-DB: MESA_SHADER_COMPUTE shader: 357 inst, ..., 184 quadwords, 2 threads, 0 loops, 0:0 spills:fills"
struct MaliLine {
    int64_t instructions = 0, bytes = 0, registers = 0, spills = 0;
};

MaliLine mali_line(std::string_view line) {
    const auto before = [&](std::string_view unit) {
        const std::string_view start = line.substr(0, line.find(unit));
        const double number = number_in(start.substr(start.find_last_of(" :") + 1));
        return std::isnan(number) ? 0 : static_cast<int64_t>(number);
    };
    const std::size_t fills = line.rfind(':', line.find(" spills:fills"));
    MaliLine read;
    read.instructions = before(" inst,");
    read.bytes = before(" quadwords,") * 16;
    read.registers = before(" threads,") == 2 ? 32 : 64; // half the threads have twice as many
    read.spills = before(line.substr(std::min(fills, line.size())));
    return read;
}

} // namespace

bool add_mali_numbers(nlohmann::json& report, std::string_view printed) {
    std::vector<MaliLine> lines;
    for (std::string_view line : lines_in(printed))
        if (line.starts_with("SHADER-DB: ")) lines.push_back(mali_line(line));
    const auto has_size = [](const nlohmann::json& kernel) {
        const int64_t bytes = kernel["driver"].value("Code Size", int64_t{0});
        return [bytes](const MaliLine& line) { return line.bytes == bytes; };
    };
    const auto take = [&](nlohmann::json& kernel, std::vector<MaliLine>::iterator line) {
        kernel["instructions"] = line->instructions;
        kernel["registers"] = line->registers;
        kernel["spills"] = line->spills;
        lines.erase(line);
    };
    std::vector<nlohmann::json*> asked_about;
    for (std::size_t i = report["kernels"].size(); i-- > 0;) {
        nlohmann::json& kernel = report["kernels"][i];
        // Lines that are taken here are erased from the end, so the last one is this kernel's or of an earlier one.
        if (!lines.empty() && has_size(kernel)(lines.back())) {
            take(kernel, lines.end() - 1);
        } else {
            asked_about.push_back(&kernel);
        }
    }
    for (nlohmann::json* kernel : asked_about) {
        const auto line = std::ranges::find_if(lines, has_size(*kernel));
        if (line == lines.end()) return false;
        take(*kernel, line);
    }
    return true;
}

} // namespace hekla::test
