#include "generate/recorded_case.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::generate {
namespace {

using Ids = std::vector<int32_t>;

// Without a mask the reference masks padding itself: all tokens equal to the padding id, unless that is also the end
// token.
graph::Tensor mask_of(const RecordedCase& recorded, const Options& options, std::size_t length) {
    graph::Tensor mask{graph::Kind::int32,
                       graph::Shape{static_cast<int64_t>(recorded.prompts.size()), static_cast<int64_t>(length)},
                       {}};
    const bool by_id = options.pad && std::ranges::find(options.eos, *options.pad) == options.eos.end();
    for (const Ids& prompt : recorded.prompts)
        for (const int32_t id : prompt) mask.data.push_back(by_id && id == *options.pad ? 0.0 : 1.0);
    return mask;
}

} // namespace

Result<CaseReport> run_recorded(Decoder& decoder, const nlohmann::json& config, const RecordedCase& recorded) {
    if (recorded.prompts.empty()) return invalid_argument("a recorded case without prompts");
    const std::size_t length = recorded.prompts[0].size();
    for (const Ids& prompt : recorded.prompts)
        if (prompt.size() != length)
            return invalid_argument(fmt::format(
                "a recorded case with prompts of {} and {} tokens; expected equal lengths", length, prompt.size()));
    const bool encodes = decoder.encoder_decoder();
    HK_ASSIGN(const Options options,
              options_from(config, recorded.arguments, encodes ? 1 : static_cast<int64_t>(length)));
    Request request;
    request.prompts = recorded.prompts;
    request.fields = recorded.fields;
    const auto given = request.fields.find("attention_mask");
    const graph::Tensor mask = given != request.fields.end() ? given->second : mask_of(recorded, options, length);
    const graph::Shape expected_shape{static_cast<int64_t>(recorded.prompts.size()), static_cast<int64_t>(length)};
    if (!(mask.shape == expected_shape))
        return invalid_argument(
            fmt::format("attention_mask is {}, expected {} as the prompts", mask.shape.text(), expected_shape.text()));
    const bool padded = std::ranges::any_of(mask.data, [](double m) { return m == 0.0; });
    if (encodes) {
        if (padded) request.fields["attention_mask"] = mask;
    } else {
        request.fields.erase("attention_mask");
        for (std::size_t row = 0; padded && row < request.prompts.size(); ++row) {
            Ids kept;
            for (std::size_t i = 0; i < length; ++i)
                if (mask.data[row * length + i] != 0.0) kept.push_back(recorded.prompts[row][i]);
            request.prompts[row] = std::move(kept);
        }
    }
    HK_ASSIGN(const Output output, generate(decoder, request, options));

    CaseReport report;
    report.statistics = output.statistics;
    if (output.rows.size() != recorded.expected.size()) {
        report.detail = fmt::format("{} rows, expected {}", output.rows.size(), recorded.expected.size());
        return report;
    }
    const auto copies = static_cast<std::size_t>(options.sequences);
    std::vector<Ids> rows;
    std::size_t longest = 0;
    for (std::size_t row = 0; row < output.rows.size(); ++row) {
        const Output::Row& out = output.rows[row];
        Ids ids = encodes ? Ids{out.ids.front()} : recorded.prompts[row / copies];
        ids.insert(ids.end(), out.ids.end() - static_cast<std::ptrdiff_t>(out.made), out.ids.end());
        longest = std::max(longest, ids.size());
        rows.push_back(std::move(ids));
    }
    const int32_t fill = options.pad ? *options.pad : options.eos.empty() ? -1 : options.eos[0];
    for (std::size_t row = 0; row < rows.size(); ++row) {
        rows[row].resize(longest, fill);
        const Ids& expected = recorded.expected[row];
        const auto [ours, theirs] = std::ranges::mismatch(rows[row], expected);
        if (ours == rows[row].end() && theirs == expected.end()) continue;
        const auto word = [](auto it, auto end) { return it == end ? std::string("the end") : std::to_string(*it); };
        report.detail = fmt::format("row {}, token {}: {}, expected {}", row, ours - rows[row].begin(),
                                    word(ours, rows[row].end()), word(theirs, expected.end()));
        return report;
    }
    report.equal = true;
    return report;
}

} // namespace hekla::generate
