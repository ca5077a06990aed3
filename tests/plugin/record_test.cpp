// The graphs that plugins described, recorded with a model: a build that describes a different graph is detected, with
// the difference.
#include "plugin/composition/record.hpp"

#include "base/file.hpp"
#include "support/test_folder.hpp"

#include <cstdlib>
#include <doctest/doctest.h>

namespace record_test {

using namespace hekla;
using namespace hekla::test;
using namespace hekla::plugin;
using nlohmann::json;

namespace {

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

// A model of the plugin with planted faults, optionally with one of them.
struct Built {
    explicit Built(const char* fault = "", int width = 8) : registry(Registry::scan({HEKLA_FAULTS_FOLDER})) {
        ::setenv("HEKLA_FAULT", fault, 1);
        CompositionSpec spec;
        spec.architecture = "faulty";
        spec.config = {{"width", width}, {"depth", 2}, {"vocab_size", 60}};
        spec.head = "faulty_head";
        spec.objective = "faulty_next";
        auto made = Composition::create(registry, spec, nullptr);
        REQUIRE_MESSAGE(made.ok(), made.message());
        composition = made.take();
        fields = composition->batch_fields(2, 8).value();
    }
    ~Built() { ::unsetenv("HEKLA_FAULT"); }
    Built(const Built&) = delete;
    Built& operator=(const Built&) = delete;
    Record record(bool whole = true) const {
        auto made = make_record(*composition, whole ? HK_MODE_TRAIN : HK_MODE_EVALUATE, fields, whole);
        REQUIRE_MESSAGE(made.ok(), made.message());
        return made.take();
    }
    Registry registry;
    std::unique_ptr<Composition> composition;
    std::vector<BatchField> fields;
};

Status keep(const Record& record, const std::filesystem::path& folder) {
    HK_TRY(write_file_atomically(folder / kRecordFile, record_json(record)));
    return write_file_atomically(folder / kRecordGraphFile, record_text(record));
}

} // namespace

TEST_CASE("record: each plugin with its version and the hash of its graph, read back as written") {
    const Record record = Built().record();
    REQUIRE(record.parts.size() == 3);
    CHECK(record.parts[0].what == "architecture 'faulty'");
    CHECK(record.parts[1].what == "head 'faulty_head'");
    CHECK(record.parts[2].what == "objective 'faulty_next'");
    for (const RecordedPart& part : record.parts) {
        CHECK(part.plugin == "faulty");
        CHECK(part.version == "1.0.0");
        CHECK(part.hash.size() == 32);
    }
    CHECK(contains(record.parts[0].text, "= relu(%"));
    CHECK(contains(record.parts[1].text, "head.weight"));
    CHECK(contains(record.parts[2].text, "loss \"next\" = "));
    CHECK(Built().record(false).parts.size() == 2);

    const TestFolder folder;
    CHECK(!read_record(folder.path()).value().has_value());
    REQUIRE(keep(record, folder.path()).ok());
    const auto read = read_record(folder.path());
    REQUIRE_MESSAGE(read.ok(), read.message());
    CHECK(record_json(*read.value()) == record_json(record));
    CHECK(record_text(*read.value()) == record_text(record));
    CHECK(difference_from(*read.value(), *Built().composition).value().empty());
}

TEST_CASE("record: another graph for the same configuration is reported, by plugin and line") {
    const Record record = Built().record();
    const Built other("computes_otherwise");
    const auto difference = difference_from(record, *other.composition);
    REQUIRE_MESSAGE(difference.ok(), difference.message());
    CAPTURE(difference.value());
    CHECK(difference.value().starts_with(
        "architecture 'faulty' (plugin faulty 1.0.0, another build) describes another graph than when this was made:"));
    CHECK(contains(difference.value(), "\n    - %"));
    CHECK(contains(difference.value(), " = relu(%"));
    CHECK(contains(difference.value(), "\n    + %"));
    CHECK(contains(difference.value(), " = abs(%"));
    // The other plugins' graphs are unchanged, although their nodes follow the changed ones.
    CHECK(!contains(difference.value(), "head 'faulty_head'"));
    CHECK(!contains(difference.value(), "objective"));
    const Built wider("", 16);
    const auto sizes = difference_from(record, *wider.composition);
    REQUIRE(sizes.ok());
    CHECK(contains(sizes.value(), "shape=[8, 8]"));
    CHECK(contains(sizes.value(), "shape=[16, 16]"));
}

TEST_CASE("record: invalid files are rejected by name") {
    const Record record = Built().record();
    const TestFolder folder;
    const auto path = folder.path();
    const auto refused = [&](const std::string& json_text, const std::string& text, std::string_view expected) {
        REQUIRE(write_file_atomically(path / kRecordFile, json_text).ok());
        REQUIRE(write_file_atomically(path / kRecordGraphFile, text).ok());
        const auto read = read_record(path);
        REQUIRE(!read.ok());
        CAPTURE(read.message());
        CHECK(read.code() == Code::corrupt);
        CHECK(contains(read.message(), expected));
        CHECK(contains(read.message(), "take the file away to go without it"));
    };
    const std::string good = record_json(record), text = record_text(record);
    refused("{", text, "plugins.json: ");
    refused("{}", text, "format");
    refused("[]", text, "plugins.json: ");
    refused("{\"fields\":" + std::string(100'000, '[') + std::string(100'000, ']') + "}", text,
            "nested deeper than 64");
    refused(good, text.substr(0, text.size() - 3), "plugins.txt: its hash is not the one");
    refused(good, "", "plugins.txt: it does not match plugins.json");
    json changed = json::parse(good);
    changed["fields"][0]["shape"] = {1 << 20, 1 << 20};
    refused(changed.dump(), text, "at most 2^24 elements");
    changed = json::parse(good);
    changed["fields"][0]["shape"] = {-1, 4};
    refused(changed.dump(), text, "at most 2^24 elements");
    changed = json::parse(good);
    changed["fields"][0]["kind"] = "float64";
    refused(changed.dump(), text, "kind");
    for (std::size_t size = 0; size < good.size(); size += 7) {
        REQUIRE(write_file_atomically(path / kRecordFile, good.substr(0, size)).ok());
        CHECK(!read_record(path).ok());
    }
}

} // namespace record_test
