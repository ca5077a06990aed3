#include "model/weights.hpp"

#include "model/sharded.hpp"
#include "temporary.hpp"

#include <doctest/doctest.h>

namespace weights_test {

using namespace hekla;
using namespace hekla::model;
using namespace hekla::test;

namespace {

std::vector<TensorSource> five() {
    std::vector<TensorSource> sources;
    for (int i = 0; i < 5; ++i)
        sources.push_back(floats("t" + std::to_string(i), {4}, std::vector<float>(4, float(i))));
    return sources;
}

std::string open_error(const fs::path& path) {
    auto weights = Weights::open(path);
    return weights.ok() ? "" : weights.message();
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

} // namespace

TEST_CASE("one file or shards give the same weights") {
    for (const auto& [bound, names] : std::vector<std::pair<uint64_t, std::string>>{
             {1000, "model.safetensors"},
             {80, "model.safetensors"},
             {79, "model-00001-of-00002.safetensors model-00002-of-00002.safetensors model.safetensors.index.json"},
             {32, "model-00001-of-00003.safetensors model-00002-of-00003.safetensors model-00003-of-00003.safetensors "
                  "model.safetensors.index.json"},
             {0, "model-00001-of-00005.safetensors model-00002-of-00005.safetensors model-00003-of-00005.safetensors "
                 "model-00004-of-00005.safetensors model-00005-of-00005.safetensors model.safetensors.index.json"}}) {
        CAPTURE(bound);
        TestFolder folder;
        auto written = write_sharded(folder.path(), "model", five(), {{"format", "pt"}}, bound);
        REQUIRE(written.ok());
        CHECK(names_in(folder.path()) == names);
        for (const FileRecord& record : written.value()) CHECK(record.hash == hash128(get(folder / record.name)));
        auto weights = Weights::open(folder.path());
        if (!weights.ok()) FAIL(weights.message());
        const Weights moved = weights.take();
        CHECK(moved.tensors().size() == 5);
        CHECK(moved.byte_count() == 80);
        CHECK(moved.metadata() == Metadata{{"format", "pt"}});
        for (int i = 0; i < 5; ++i) {
            const TensorView* tensor = moved.find("t" + std::to_string(i));
            REQUIRE(tensor);
            std::vector<float> values(4);
            REQUIRE(load_float32(*tensor, values).ok());
            CHECK(values == std::vector<float>(4, float(i)));
            CHECK(load_float32(*tensor, std::span(values).first(3)).message().starts_with("tensor \"t"));
        }
        CHECK(moved.find("t5") == nullptr);
        CHECK(moved.get("t5").code() == Code::not_found);
        CHECK(moved.resolve(std::vector<ParameterSpec>{{"t0", DType::f32, {4}}}, {{}, {}, {"t*"}, {}, {}}).ok());
        CHECK(contains(moved.resolve(std::vector<ParameterSpec>{{"t0", DType::f32, {4}}}).message(),
                       "4 tensors do not fit"));
        // The path of an index or a file is accepted too.
        CHECK(Weights::open(moved.path()).ok());
    }
}

TEST_CASE("no tensors, a duplicate name, an invalid stem") {
    TestFolder folder;
    CHECK(write_sharded(folder.path(), "model", {}).ok());
    CHECK(Weights::open(folder.path()).ok());
    auto twice = five();
    twice[4].name = "t0";
    CHECK(contains(write_sharded(folder.path(), "other", twice, {}, 16).message(), "\"t0\" was given twice"));
    CHECK_FALSE(write_sharded(folder.path(), "../other", five()).ok());
}

TEST_CASE("an index with wrong entries") {
    TestFolder folder;
    REQUIRE(write_sharded(folder.path(), "model", five(), {}, 48).ok());
    const fs::path path = folder / "model.safetensors.index.json";
    const std::string first = "model-00001-of-00002.safetensors", second = "model-00002-of-00002.safetensors";
    const std::string good = get(path);
    REQUIRE(open_error(folder.path()) == "");
    const auto with = [&](std::string text) {
        put(path, text);
        return open_error(folder.path());
    };
    const auto map = [&](const std::string& entries) {
        return with(R"({"metadata":{},"weight_map":{)" + entries + "}}");
    };
    const std::string most =
        R"("t0":")" + first + R"(","t1":")" + first + R"(","t2":")" + first + R"(","t3":")" + second + '"';
    CHECK(map(most + R"(,"t4":")" + second + '"') == "");
    CHECK(contains(map(most), "tensor \"t4\" of " + second + " is not in the index"));
    CHECK(contains(map(most + R"(,"t4":")" + first + '"'), "tensor \"t4\" is in " + second + ", the index has"));
    CHECK(contains(map(most + R"(,"t4":")" + second + R"(","t5":")" + second + '"'), "tensor \"t5\" is not in"));
    CHECK(contains(map(most + R"(,"t4":"model-00003-of-00002.safetensors")"),
                   "model-00003-of-00002.safetensors: cannot open"));
    CHECK(contains(map(most + R"(,"t4":")" + second + R"(","t4":")" + first + '"'), "the key \"t4\" occurs twice"));
    for (const std::string name : {"../model.safetensors", "/etc/passwd", "sub/model.safetensors", "..", "", ".",
                                   "a\\\\b.safetensors", "c:x.safetensors", "model.bin", "x\\u0000.safetensors"}) {
        CAPTURE(name);
        CHECK(
            contains(map(R"("t0":")" + name + '"'), "the name of a .safetensors file in the same folder was expected"));
    }
    CHECK(contains(map(R"("t0":1)"), "\"t0\" is number, a file name was expected"));
    CHECK(contains(map(""), "its weight_map is empty"));
    CHECK(contains(with("{}"), "has no \"weight_map\" object"));
    CHECK(contains(with(R"({"weight_map":[]})"), "has no \"weight_map\" object"));
    CHECK(contains(with("[]"), "a JSON object was expected"));
    CHECK(contains(with(""), "not valid JSON"));
    CHECK(contains(with(good.substr(0, good.size() / 2)), "not valid JSON"));
    CHECK(contains(with(R"({"a":)" + std::string(100'000, '[') + std::string(100'000, ']') + "}"),
                   "nested deeper than 64 levels"));
    put(path, good);
    put(folder / second, get(folder / second).substr(0, 100));
    CHECK(contains(open_error(folder.path()), second + ": "));
}

TEST_CASE("nothing to open, with the reason") {
    TestFolder folder;
    CHECK(contains(open_error(folder.path()),
                   "none of model.safetensors, model.safetensors.index.json, pytorch_model.bin, "
                   "pytorch_model.bin.index.json exists"));
    CHECK(contains(open_error(folder / "absent"), "does not exist"));
    put(folder / "pytorch_model.bin", "x");
    CHECK(contains(open_error(folder.path()), "pytorch_model.bin: pickle, byte 0: instruction 0x78 is not one"));
}

} // namespace weights_test
