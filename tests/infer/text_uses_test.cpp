// What texts become, by use: ids equal to those of transformers for the same folder. tests/fixtures/text-uses has a
// small folder of each family of tokenizers, and table.json; tests/pytorch_comparison/ids_table.py makes both, and
// larger tables, whose path HEKLA_IDS_TABLE has.
#include "support.hpp"
#include "text/text_encoder.hpp"

#include "base/file.hpp"
#include "batch/collate.hpp"
#include "data/task_table.hpp"
#include "harness/continuation.hpp"
#include "infer/texts/chat.hpp"
#include "infer/texts/prompt_fields.hpp"
#include "infer/texts/prompt_style.hpp"
#include "support/test_folder.hpp"

#include <fmt/format.h>

using namespace hekla;
using namespace hekla::test;
using nlohmann::json;

namespace text_uses_test {
namespace {

using Ids = std::vector<int32_t>;

json read_json(const fs::path& path) {
    const Result<std::string> text = read_file(path);
    REQUIRE_MESSAGE(text.ok(), text.message());
    return json::parse(text.value());
}

// Returns a row of a field, without the padding that the mask hides.
json row_of(const std::vector<data::Field>& fields, const std::string& name, std::size_t row) {
    const graph::Tensor* values = nullptr;
    const graph::Tensor* mask = nullptr;
    std::map<std::string, graph::Tensor> tensors;
    for (const data::Field& field : fields) tensors.emplace(field.name, batch::tensor_of(field));
    if (const auto found = tensors.find(name); found != tensors.end()) values = &found->second;
    if (values == nullptr) return "no such field";
    const bool decoders = name.starts_with("decoder_") || name == "labels";
    if (const auto found = tensors.find(decoders ? "decoder_attention_mask" : "attention_mask"); found != tensors.end())
        mask = &found->second;
    const auto width = static_cast<std::size_t>(values->shape.vector().back());
    json ids = json::array();
    for (std::size_t i = row * width; i < (row + 1) * width && i < values->data.size(); ++i)
        if (mask == nullptr || mask->data[i] != 0.0) ids.push_back(static_cast<int64_t>(values->data[i]));
    return ids;
}

// Returns the fields that an objective makes of a row of a table.
Result<json> fields_of(const infer::Model& m, const std::string& objective, const json& row, const json& expected) {
    plugin::CompositionSpec spec;
    spec.config = m.config;
    spec.config.erase("hekla");
    spec.refuse_unknown_keys = false;
    spec.architecture = m.composition->architecture().id;
    spec.objective = objective;
    HK_ASSIGN(const auto composition, plugin::Composition::create(registry(), spec, m.tokenizer.get()));
    const TestFolder folder;
    data::TaskTableOptions options;
    options.inputs = {(folder.path() / "row.jsonl").string()};
    HK_TRY(write_file_atomically(options.inputs[0], row.dump() + "\n"));
    HK_ASSIGN(const std::vector<plugin::ColumnNeed> needs, composition->columns());
    for (const plugin::ColumnNeed& need : needs)
        options.columns.push_back({need.name, need.kind, need.optional, need.target, ""});
    HK_ASSIGN(const data::TaskTable table, data::TaskTable::read(options));
    const std::vector<std::string> classes{"a", "b"};
    std::optional<text::ChatTemplate> chat;
    if (table.has_messages()) { HK_ASSIGN(chat, infer::chat_template_of(m, "auto", "2026-01-31")); }
    HK_ASSIGN(const data::TaskTable::Encoded encoded,
              table.encode(infer::text_encoder(m), classes, chat ? &*chat : nullptr));
    const batch::DrawnExample drawn{(*encoded.examples)[0], 0};
    std::vector<data::Field> fields;
    const int64_t needed = batch::example_length(*composition, drawn.example);
    HK_TRY(batch::make_fields(*composition, std::span(&drawn, 1), nullptr, 0, 1, std::max<int64_t>(needed, 1), fields));
    json made = json::object();
    for (const auto& [name, rows] : expected.items())
        for (std::size_t i = 0; i < rows.size(); ++i) made[name].push_back(row_of(fields, name, i));
    return made;
}

Result<json> ids_of(const infer::Model& m, const json& one) {
    const std::string use = one["use"];
    if (one.contains("row")) return fields_of(m, use, one["row"], one["expected"]);
    const std::string text = one["text"];
    Ids ids;
    if (use == "prompt") {
        HK_ASSIGN(const infer::PromptStyle style, infer::prompt_style(registry(), m));
        HK_ASSIGN(ids, infer::prompt_ids(m, style, text));
    } else if (use == "source") {
        HK_ASSIGN(const auto rows, infer::source_ids(registry(), m, std::span(&text, 1)));
        ids = rows[0];
    } else if (use == "task") {
        HK_ASSIGN(const auto encoder, harness::ContinuationEncoder::create(registry(), m));
        const harness::TextPair pair{text, one["continuation"]};
        HK_ASSIGN(const harness::EncodedPairs rows, encoder.pairs(std::span(&pair, 1)));
        return json{{"source", rows.rows[0].source}, {"ids", rows.rows[0].ids}, {"from", rows.rows[0].from}};
    } else if (use == "document") {
        const text::DocumentFrame frame = infer::text_encoder(m).document_frame();
        ids = frame.before;
        HK_TRY(infer::text_encoder(m).encode(text::TextUse::document, text, ids));
        ids.insert(ids.end(), frame.after.begin(), frame.after.end());
    } else if (use == "features") {
        HK_ASSIGN(ids, infer::text_encoder(m).encode(text::TextUse::features, text));
    } else {
        return invalid_argument("a use that the test does not know: " + use);
    }
    return json(ids);
}

// A folder with the fixture's files and weights without a tensor, which describing does not read.
class Described {
public:
    explicit Described(const fs::path& from) {
        fs::path path = from;
        if (fs::is_directory(from) && !fs::exists(from / "model.safetensors")) {
            path = place_.path() / "model";
            fs::copy(from, path);
            REQUIRE(write_file_atomically(path / "model.safetensors", std::string("\2\0\0\0\0\0\0\0{}", 10)).ok());
        }
        infer::ModelOptions options;
        options.describe_only = true;
        Result<infer::Model> described = infer::describe_model(registry(), path, options, {});
        REQUIRE_MESSAGE(described.ok(), from.string(), ": ", described.message());
        model = described.take();
    }
    infer::Model model;

private:
    TestFolder place_;
};

int compare(const fs::path& file) {
    int cases = 0;
    const json table = read_json(file);
    for (const auto& [name, list] : table.items()) {
        const Described folder(file.parent_path() / name);
        for (const json& one : list) {
            const Result<json> made = ids_of(folder.model, one);
            const std::string what = fmt::format("{}: {}", name, one.dump());
            CHECK_MESSAGE(made.ok(), what, "\n  ", made.message());
            if (!made.ok()) continue;
            CHECK_MESSAGE(made.value() == one["expected"], what, "\n  ", made.value().dump());
            ++cases;
        }
    }
    return cases;
}

} // namespace

TEST_CASE("the ids of every use are those of transformers for the same folder") {
    CHECK(compare(fs::path(HEKLA_SOURCE_DIR) / "tests" / "fixtures" / "text-uses" / "table.json") > 100);
}

TEST_CASE("the ids of every use: the table that HEKLA_IDS_TABLE names") {
    const char* table = std::getenv("HEKLA_IDS_TABLE");
    if (table == nullptr) return;
    const int cases = compare(table);
    MESSAGE(cases << " cases");
    CHECK(cases > 0);
}

} // namespace text_uses_test
