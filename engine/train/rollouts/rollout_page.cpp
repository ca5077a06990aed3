#include "train/rollouts/rollout_page.hpp"

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/markup.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace hekla::train {
namespace {

using nlohmann::ordered_json;

constexpr const char* kSamplesFile = "samples.jsonl";

constexpr const char* kTextsHead = R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{0}: texts before and after</title><style>
body {{ font: 15px/1.5 sans-serif; max-width: 1100px; margin: 2em auto; padding: 0 1em; color: #222 }}
table {{ border-collapse: collapse; width: 100% }}
th, td {{ text-align: left; vertical-align: top; padding: .4em .8em; border-bottom: 1px solid #ddd; white-space: pre-wrap }}
th {{ border-bottom: 2px solid #888 }} .score {{ color: #666; font-variant-numeric: tabular-nums }}
</style></head><body><h1>{0}</h1>
<p>The most likely completions of some prompts before training and after step {1}, with their scores.</p>
<table><tr><th>prompt</th><th>before</th><th class="score">score</th><th>after</th><th class="score">score</th></tr>
)";

std::string score_text(const ordered_json& line) {
    const auto score = line.find("score");
    return score != line.end() && score->is_number() ? fmt::format("{:.3f}", score->get<double>()) : "none";
}

std::string text_cells(const ordered_json* line) {
    if (line == nullptr) return "<td></td><td></td>";
    return fmt::format("<td>{}</td><td class=\"score\">{}</td>",
                       escape_markup(line->value("completion", std::string())), score_text(*line));
}

std::string texts_page(const std::string& title, int64_t step, const std::vector<ordered_json>& before,
                       const std::vector<ordered_json>& after) {
    std::string text = fmt::format(fmt::runtime(kTextsHead), escape_markup(title), step);
    for (std::size_t i = 0; i < std::max(before.size(), after.size()); ++i) {
        const ordered_json* first = i < before.size() ? &before[i] : nullptr;
        const ordered_json* second = i < after.size() ? &after[i] : nullptr;
        text += fmt::format("<tr><td>{}</td>{}{}</tr>\n",
                            escape_markup((first != nullptr ? first : second)->value("prompt", std::string())),
                            text_cells(first), text_cells(second));
    }
    return text + "</table></body></html>\n";
}

} // namespace

Status add_samples(const std::filesystem::path& folder, int64_t step, const std::vector<SampleText>& samples) {
    std::vector<ordered_json> before, after;
    std::error_code problem;
    if (step > 0 && std::filesystem::exists(folder / kSamplesFile, problem)) {
        HK_ASSIGN(const std::string text, read_file(folder / kSamplesFile));
        for (std::size_t begin = 0; begin < text.size();) {
            const std::size_t end = std::min(text.find('\n', begin), text.size());
            ordered_json line = ordered_json_or_null(text.substr(begin, end - begin));
            begin = end + 1;
            if (line.is_object() && line.value("step", ordered_json()) == 0) before.push_back(std::move(line));
        }
    }
    for (const SampleText& sample : samples) {
        ordered_json line{{"step", step}, {"prompt", sample.prompt}, {"completion", sample.completion}};
        line["score"] = std::isnan(sample.score) ? ordered_json() : ordered_json(sample.score);
        (step > 0 ? after : before).push_back(std::move(line));
    }
    std::string lines;
    for (const std::vector<ordered_json>* all : {&before, &after})
        for (const ordered_json& line : *all)
            lines += line.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
    HK_TRY(write_file_atomically(folder / kSamplesFile, lines));
    return write_file_atomically(folder / "texts.html", texts_page(folder.filename().string(), step, before, after));
}

} // namespace hekla::train
