#include "plugin/composition/record.hpp"

#include "base/file.hpp"
#include "base/hash.hpp"
#include "base/json.hpp"
#include "graph/text.hpp"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <sstream>

namespace hekla::plugin {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using nlohmann::ordered_json;

constexpr int kFormat = 1;
constexpr std::size_t kShownLines = 24;             // of a difference, in messages
constexpr std::size_t kMostBytes = 64u << 20;       // of a record's file
constexpr int64_t kMostElements = int64_t{1} << 24; // of a field that a record requests
constexpr std::string_view kHeading = "part ";

// Renumbers "%12" to "%3" in a part whose first value is %10; earlier values become "%^".
std::string renumbered(std::string_view text, std::size_t first) {
    std::string out;
    for (std::size_t i = 0; i < text.size();) {
        out += text[i];
        if (text[i++] != '%') continue;
        std::size_t number = 0;
        const auto [end, problem] = std::from_chars(text.data() + i, text.data() + text.size(), number);
        if (problem != std::errc()) continue;
        i = static_cast<std::size_t>(end - text.data());
        out += number >= first ? fmt::format("{}", number - first + 1) : std::string("^");
    }
    return out;
}

std::vector<RecordedPart> parts_of(const Described& described, const Registry& registry) {
    graph::Graph graph = described.graph;
    for (graph::Node& node : graph.nodes) node.region = 0; // recomputation is set by the training, not by plugins
    std::vector<std::size_t> ends;
    const std::string text = graph::print(graph, &ends);
    std::vector<RecordedPart> parts;
    std::size_t number = 1;
    for (const GraphPart& one : described.parts) {
        RecordedPart part;
        part.what = one.what;
        if (const Manifest* manifest = registry.manifest_at(one.manifest); manifest != nullptr) {
            part.plugin = manifest->plugin;
            part.version = manifest->version;
            part.library = manifest->sha256;
        }
        const std::size_t begin = one.first == 0 ? text.find('\n') + 1 : ends[one.first - 1];
        const std::size_t end = one.end == 0 ? begin : ends[one.end - 1];
        std::string lines = text.substr(begin, end - begin);
        if (one.end == graph.nodes.size() && &one == &described.parts.back()) { // losses and metrics, in the last part
            std::istringstream rest(text.substr(end));
            for (std::string line; std::getline(rest, line);)
                if (line.starts_with("loss ") || line.starts_with("metric ")) lines += line + "\n";
        }
        part.text = renumbered(lines, number);
        part.hash = to_hex(hash128(part.text));
        for (std::size_t node = one.first; node < one.end; ++node) number += graph.nodes[node].outputs.size();
        parts.push_back(std::move(part));
    }
    return parts;
}

BuildRequest request_of(const Record& record, bool objective) {
    BuildRequest request;
    request.mode = record.mode;
    request.fields = record.fields;
    request.body_frozen = record.body_frozen;
    request.objective = objective;
    return request;
}

Status wrong(const fs::path& file, const char* expected) {
    return corrupt(fmt::format("{}: {}; take the file away to go without it", file.string(), expected));
}

Result<BatchField> field_of(const json& one, const fs::path& file) {
    BatchField field;
    field.name = one.at("name").get<std::string>();
    const auto kind = one.at("kind").get<std::string>();
    const graph::Kind kinds[] = {graph::Kind::float_, graph::Kind::float32, graph::Kind::int32};
    const auto* const found = std::ranges::find_if(kinds, [&](graph::Kind k) { return kind == graph::kind_name(k); });
    const auto dims = one.at("shape").get<std::vector<int64_t>>();
    int64_t elements = 1;
    for (const int64_t size : dims) {
        const bool fits = elements > 0 && size > 0 && size <= kMostElements / elements;
        elements = fits ? elements * size : 0;
    }
    if (found == std::end(kinds) || dims.size() > HK_MAX_RANK || elements <= 0)
        return wrong(file, "a field's kind is float, float32 or int32, and its shape at most 6 sizes of at most 2^24 "
                           "elements in all");
    field.kind = *found;
    field.shape = graph::Shape(dims);
    return field;
}

std::string shortened(const std::string& difference) {
    std::istringstream lines(difference);
    std::string out;
    std::size_t count = 0;
    for (std::string line; std::getline(lines, line); ++count)
        if (count < kShownLines) out += fmt::format("\n    {}", line.substr(0, 200));
    if (count > kShownLines) out += fmt::format("\n    ({} lines more)", count - kShownLines);
    return out;
}

} // namespace

Result<Record> make_record(const Composition& composition, int32_t mode, std::span<const BatchField> fields,
                           bool objective) {
    Record record;
    record.mode = mode;
    record.objective = objective;
    record.body_frozen = composition.body_frozen();
    record.fields.assign(fields.begin(), fields.end());
    HK_ASSIGN(const Described described, composition.describe(request_of(record, objective)));
    record.parts = parts_of(described, composition.registry());
    return record;
}

std::string record_json(const Record& record) {
    ordered_json all;
    all["format"] = kFormat;
    all["mode"] = record.mode == HK_MODE_TRAIN ? "train" : "evaluate";
    all["objective"] = record.objective;
    all["body_frozen"] = record.body_frozen;
    all["fields"] = ordered_json::array();
    for (const BatchField& field : record.fields)
        all["fields"].push_back(
            {{"name", field.name}, {"kind", graph::kind_name(field.kind)}, {"shape", field.shape.vector()}});
    all["parts"] = ordered_json::array();
    for (const RecordedPart& part : record.parts)
        all["parts"].push_back({{"part", part.what},
                                {"plugin", part.plugin},
                                {"version", part.version},
                                {"library_sha256", part.library},
                                {"graph", part.hash}});
    return all.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

std::string record_text(const Record& record) {
    std::string text;
    for (const RecordedPart& part : record.parts) text += fmt::format("{}{}\n{}", kHeading, part.what, part.text);
    return text;
}

std::vector<model::NamedText> record_files(const Record& record) {
    return {{kRecordFile, record_json(record)}, {kRecordGraphFile, record_text(record)}};
}

Result<std::optional<Record>> read_record(const fs::path& folder) {
    std::error_code problem;
    const fs::path file = folder / kRecordFile, text_file = folder / kRecordGraphFile;
    if (!fs::exists(file, problem)) return std::optional<Record>();
    for (const fs::path& one : {file, text_file})
        if (fs::file_size(one, problem) > kMostBytes && !problem)
            return wrong(one, "a file of at most 64 MiB is expected");
    HK_ASSIGN(const std::string content, read_file(file));
    HK_ASSIGN(const std::string text, read_file(text_file));
    const Result<json> parsed = parse_json(content, "JSON");
    if (!parsed.ok()) return wrong(file, parsed.message().c_str());
    const json& all = parsed.value();
    Record record;
    try {
        if (all.at("format").get<int>() != kFormat) return wrong(file, "format 1 is expected");
        record.mode = all.at("mode").get<std::string>() == "train" ? HK_MODE_TRAIN : HK_MODE_EVALUATE;
        record.objective = all.at("objective").get<bool>();
        record.body_frozen = all.at("body_frozen").get<bool>();
        for (const json& one : all.at("fields")) {
            HK_ASSIGN(BatchField field, field_of(one, file));
            record.fields.push_back(std::move(field));
        }
        for (const json& one : all.at("parts")) {
            RecordedPart part;
            part.what = one.at("part").get<std::string>();
            part.plugin = one.at("plugin").get<std::string>();
            part.version = one.at("version").get<std::string>();
            part.library = one.at("library_sha256").get<std::string>();
            part.hash = one.at("graph").get<std::string>();
            record.parts.push_back(std::move(part));
        }
    } catch (const json::exception& e) { return wrong(file, e.what()); }
    std::size_t at = 0;
    for (std::size_t i = 0; i < record.parts.size(); ++i) {
        const std::string heading = fmt::format("{}{}\n", kHeading, record.parts[i].what);
        if (text.compare(at, heading.size(), heading) != 0) return wrong(text_file, "it does not match plugins.json");
        at += heading.size();
        std::size_t end = text.size();
        if (i + 1 < record.parts.size()) end = text.find(fmt::format("{}{}\n", kHeading, record.parts[i + 1].what), at);
        if (end == std::string::npos) return wrong(text_file, "it does not match plugins.json");
        record.parts[i].text = text.substr(at, end - at);
        if (to_hex(hash128(record.parts[i].text)) != record.parts[i].hash)
            return wrong(text_file, "its hash is not the one in plugins.json");
        at = end;
    }
    return std::optional<Record>(std::move(record));
}

Result<std::string> difference_from(const Record& record, const Composition& composition) {
    HK_ASSIGN(const Described described, composition.describe(request_of(record, record.objective)));
    const std::vector<RecordedPart> now = parts_of(described, composition.registry());
    std::string text;
    for (const RecordedPart& then : record.parts) {
        const auto same = std::ranges::find(now, then.what, &RecordedPart::what);
        if (same == now.end() || same->hash == then.hash) continue;
        std::string versions = fmt::format("{} {}", same->plugin, same->version);
        if (then.plugin != same->plugin || then.version != same->version)
            versions += fmt::format(", then {} {}", then.plugin, then.version);
        else if (!then.library.empty() && then.library == same->library)
            versions += ", the same build";
        else
            versions += ", another build";
        text += fmt::format("{}{} (plugin {}) describes another graph than when this was made:{}",
                            text.empty() ? "" : "\n  ", then.what, versions,
                            shortened(graph::text_difference(then.text, same->text)));
    }
    return text;
}

} // namespace hekla::plugin
