#include "model/folder.hpp"

#include "model/staged_folder.hpp"
#include "temporary.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/file.h>

namespace folder_test {

using namespace hekla;
using namespace hekla::model;
using namespace hekla::test;

namespace {

ModelContents contents(float value = 1, const std::string& type = "gpt2") {
    ModelContents model;
    model.config_json = R"({"model_type": ")" + type + "\"}\n";
    model.tensors = {floats("a", {2}, {value, value}), floats("b", {2}, {value, value})};
    return model;
}

float first_value(const fs::path& folder) {
    auto opened = ModelFolder::open(folder);
    if (!opened.ok()) return -1;
    std::vector<float> values(2);
    return load_float32(opened->weights().tensors()[0], values).ok() ? values[0] : -2;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

} // namespace

TEST_CASE("a folder is written and opened") {
    TestFolder folder;
    put(folder / "source/vocab.json", "{}");
    put(folder / "source/merges.txt", "#version: 0.2\n");
    put(folder / "source/notes", "not a tokenizer's");
    ModelContents model = contents();
    model.copies = auxiliary_files_in(folder / "source");
    model.texts = {{"generation_config.json", "{}\n"}};
    const fs::path target = folder / "deep/er/out";
    REQUIRE(save_folder(target, model).ok());
    CHECK(names_in(target) == "config.json generation_config.json merges.txt model.safetensors vocab.json");
    CHECK(names_in(folder / "deep/er") == "out");
    auto opened = ModelFolder::open(target);
    REQUIRE(opened.ok());
    CHECK(opened->config_json() == model.config_json);
    CHECK(opened->model_type() == "gpt2");
    CHECK(opened->weights().tensors().size() == 2);
    CHECK(opened->auxiliary_files().size() == 3);
    CHECK(get(target / "merges.txt") == "#version: 0.2\n");
    CHECK((fs::status(target).permissions() & fs::perms::others_read) != fs::perms::none);
}

TEST_CASE("an existing folder: rejected, or replaced as a whole") {
    TestFolder folder;
    const fs::path target = folder / "out/"; // with a trailing slash
    REQUIRE(save_folder(target, contents(1)).ok());
    auto refused = save_folder(target, contents(2));
    CHECK(refused.code() == Code::failed_precondition);
    CHECK(contains(refused.message(), "exists and is not empty"));
    CHECK(first_value(target) == 1);

    put(folder / "out/README.md", "mine");
    ModelContents sharded = contents(3);
    sharded.max_shard_bytes = 8;
    REQUIRE(save_folder(target, sharded, OnExisting::replace).ok());
    CHECK(names_in(target) == "README.md config.json model-00001-of-00002.safetensors model-00002-of-00002.safetensors "
                              "model.safetensors.index.json");
    CHECK(first_value(target) == 3);
    CHECK(names_in(folder.path()) == "out");
    REQUIRE(save_folder(target, contents(4), OnExisting::replace).ok()); // no shard remains
    CHECK(names_in(target) == "README.md config.json model.safetensors");
    CHECK(first_value(target) == 4);

    fs::create_directory(folder / "out/checkpoint-1");
    CHECK(
        contains(save_folder(target, contents(5), OnExisting::replace).message(), "holds the folder \"checkpoint-1\""));
    CHECK(first_value(target) == 4);
    fs::create_directory(folder / "empty");
    CHECK(save_folder(folder / "empty", contents(6)).ok());
    put(folder / "file", "x");
    CHECK_FALSE(save_folder(folder / "file", contents(6), OnExisting::replace).ok());
    CHECK_FALSE(save_folder(folder / "file/out", contents(6)).ok());
    CHECK(names_in(folder.path()) == "empty file out");
}

TEST_CASE("cache links are followed, and links to other files than auxiliary ones are not copied") {
    TestFolder folder;
    // Hugging Face's cache: snapshots/REVISION/NAME -> ../../blobs/HASH.
    const fs::path model = folder / "hub/snapshots/1";
    const auto link = [&](const char* name, const std::string& content) {
        put(folder / "hub/blobs" / name, content);
        fs::create_directories(model);
        std::error_code ignored;
        fs::remove(model / name, ignored);
        fs::create_symlink(fs::path("../../blobs") / name, model / name);
    };
    using namespace std::string_literals;
    const std::pair<const char*, std::string> sound[] = {{"tokenizer.json", "{}"},
                                                         {"vocab.json", R"({"a":0})"},
                                                         {"vocab.txt", "[PAD]\n[UNK]\r\na\n"},
                                                         {"merges.txt", "#version: 0.2\na b\n"},
                                                         {"tokenizer.model", "\x0a\x03\x0a\x01"
                                                                             "a\x12\x00"s},
                                                         {"chat_template.jinja", "{{ bos_token }}"}};
    for (const auto& [name, content] : sound) link(name, content);
    const auto save = [&] {
        ModelContents saved = contents(1);
        saved.copies = auxiliary_files_in(model);
        CHECK(saved.copies.size() == std::size(sound));
        return save_folder(folder / "out", saved, OnExisting::replace);
    };
    const Status saved = save();
    REQUIRE_MESSAGE(saved.ok(), saved.message());
    for (const auto& [name, content] : sound) {
        CHECK(get(folder / "out" / name) == content);
        CHECK(!fs::is_symlink(folder / "out" / name));
    }
    const std::string shadow = "root:$y$j9T$secret:19000:0:99999:7:::\nbin:*:19000:0:99999:7:::\n",
                      key = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEA\n-----END-----\n";
    for (const auto& [name, content] : sound) {
        for (const std::string& secret : {shadow, key}) {
            link(name, secret);
            const Status refused = save();
            CHECK_MESSAGE(contains(refused.message(), (model / name).string() + ": is a symbolic link to ../../blobs/"),
                          refused.message());
            CHECK(!contains(refused.message(), "secret"));
            CHECK(get(folder / "out" / name) == content); // unchanged
        }
        link(name, content);
    }
    // A regular file is accepted: its content is in the folder already.
    fs::remove(model / "vocab.txt");
    put(model / "vocab.txt", "no tokens");
    CHECK(save().ok());
    // The target of a link in a replaced folder is not changed.
    put(folder / "elsewhere", shadow);
    fs::create_symlink(folder / "elsewhere", folder / "out/notes");
    CHECK(save().ok());
    CHECK(fs::is_symlink(folder / "out/notes"));
    CHECK(get(folder / "out/notes") == shadow);
    // Devices and pipes are not auxiliary files.
    fs::remove(model / "vocab.txt");
    fs::create_symlink("/dev/zero", model / "vocab.txt");
    CHECK(auxiliary_files_in(model).size() == std::size(sound) - 1);
}

TEST_CASE("into a folder that contains other files") {
    TestFolder folder;
    const fs::path run = folder / "run";
    put(run / "checkpoint-5/x", "x");
    put(run / "train_log.jsonl", "{}");
    ModelContents sharded = contents(1);
    sharded.max_shard_bytes = 8;
    REQUIRE(save_into_folder(run, sharded).ok());
    CHECK(first_value(run) == 1);
    REQUIRE(save_into_folder(run, contents(2)).ok());
    CHECK(first_value(run) == 2);
    CHECK(names_in(run) == "checkpoint-5 config.json model.safetensors train_log.jsonl");
    CHECK(save_into_folder(folder / "fresh", contents(3)).ok());
    CHECK(first_value(folder / "fresh") == 3);
}

TEST_CASE("a source that fails leaves everything unchanged") {
    TestFolder folder;
    const fs::path target = folder / "out";
    REQUIRE(save_folder(target, contents(1)).ok());
    ModelContents failing = contents(2);
    failing.tensors[1].stream = [](const Sink&) { return Status(Code::device_lost, "gone"); };
    CHECK(save_folder(target, failing, OnExisting::replace).code() == Code::device_lost);
    CHECK(save_into_folder(target, failing).code() == Code::device_lost);
    CHECK(first_value(target) == 1);
    CHECK(names_in(folder.path()) == "out");
    CHECK(names_in(target) == "config.json model.safetensors");
    CHECK(save_folder(folder / "new", failing).code() == Code::device_lost);
    CHECK(names_in(folder.path()) == "out");
}

TEST_CASE("invalid contents") {
    TestFolder folder;
    const auto error = [&](auto change) {
        ModelContents model = contents();
        change(model);
        const Status status = save_folder(folder / "out", model);
        CHECK(names_in(folder.path()) == "");
        return status.message();
    };
    CHECK(contains(error([](auto& m) { m.config_json = "[]"; }),
                   "config.json: a JSON object was expected, this is an array"));
    CHECK(contains(error([](auto& m) { m.config_json = "{"; }), "config.json: line 1, column 2: not valid JSON"));
    CHECK(contains(error([](auto& m) { m.texts = {{"../x", ""}}; }), "is not the name of a file"));
    CHECK(contains(error([](auto& m) { m.texts = {{"config.json", ""}}; }), "config.json was given twice"));
    CHECK(contains(error([](auto& m) { m.texts = {{"a", ""}, {"a", ""}}; }), "a was given twice"));
    CHECK(contains(error([](auto& m) { m.texts = {{"model.safetensors", ""}}; }), "weights' name"));
    CHECK(contains(error([](auto& m) { m.copies = {"/absent/vocab.txt"}; }), "/absent/vocab.txt: cannot open"));
}

TEST_CASE("folders that are not model folders") {
    TestFolder folder;
    const auto error = [&] {
        auto opened = ModelFolder::open(folder.path());
        return opened.ok() ? "" : opened.message();
    };
    CHECK(contains(ModelFolder::open(folder / "absent").message(), "is not a folder"));
    CHECK(contains(error(), "has no config.json"));
    put(folder / "config.json", "{\"model_type\": 3}");
    CHECK(contains(error(), "model_type is number"));
    put(folder / "config.json", "{\"a\": 1, \"a\": 2}");
    CHECK(contains(error(), "config.json: line 1, column 12: the key \"a\" occurs twice in one object"));
    put(folder / "config.json", "{\"a\":\n" + std::string(100'000, '[') + std::string(100'000, ']') + "}");
    CHECK(contains(error(), "config.json: line 2, column 64: nested deeper than 64 levels"));
    put(folder / "config.json", "{\"a\": {\"b\": 1}, \"c\": {\"b\": 1}}");
    CHECK(contains(error(), "has no weights: none of model.safetensors"));
    put(folder / "config.json", "\xff\xfe");
    CHECK(contains(error(), "not valid JSON"));
    fs::resize_file(folder / "config.json", kConfigSizeLimit + 1); // sparse: refused before it is read
    CHECK(contains(error(), "16000001 bytes long, at most 16000000"));
}

TEST_CASE("leftovers are distinguished from active writers, and a folder that was set aside is restored") {
    CHECK(leftover_stem("checkpoint-5.tmp-a0Z9xy") == "checkpoint-5");
    CHECK(leftover_stem("out.old-abcdef") == "out");
    CHECK(leftover_stem("out.tmp-abcde") == "");
    CHECK(leftover_stem("out.tmp-abcde!") == "");
    CHECK(leftover_stem(".tmp-abcdef") == "");
    CHECK(leftover_stem("out") == "");

    TestFolder folder;
    auto living = StagedFolder::create(folder / "out");
    REQUIRE(living.ok());
    put(living->path() / "x", "living");
    put(folder / "out.tmp-dead00/x", "dead");
    put(folder / "other.tmp-dead00/x", "another's");
    put(folder / "out.old-aaaaaa/x", "aside"); // killed between the two renames
    recover_folders(folder.path(), "out");
    CHECK(get(folder / "out/x") == "aside");
    CHECK_FALSE(fs::exists(folder / "out.tmp-dead00"));
    CHECK(fs::exists(folder / "other.tmp-dead00"));
    CHECK(get(living->path() / "x") == "living");
    put(folder / "out.old-bbbbbb/x", "older"); // killed after them: the replacement has its final name
    recover_folders(folder.path(), "out");
    CHECK(get(folder / "out/x") == "aside");
    CHECK_FALSE(fs::exists(folder / "out.old-bbbbbb"));
    CHECK(living->commit(StagedFolder::Existing::refuse).code() == Code::failed_precondition);
    CHECK(names_in(folder.path()) == "other.tmp-dead00 out");
    CHECK(get(folder / "out/x") == "aside");
}

TEST_CASE("real folders open, and copies of them open") {
    TestFolder folder;
    std::size_t found = 0;
    for (const auto& top : {shared() / "fixtures" / "models", shared() / "data" / "pretrained"}) {
        if (!fs::is_directory(top)) continue;
        for (const auto& entry : fs::directory_iterator(top)) {
            if (!fs::exists(entry.path() / "config.json")) continue;
            CAPTURE(entry.path().string());
            auto opened = ModelFolder::open(entry.path());
            REQUIRE_MESSAGE(opened.ok(), opened.message());
            ++found;
            ModelContents model;
            model.config_json = opened->config_json();
            model.tensors = sources_of(opened->weights().tensors());
            model.copies = opened->auxiliary_files();
            model.max_shard_bytes = 100'000;
            const fs::path target = folder / entry.path().filename().string();
            REQUIRE(save_folder(target, model).ok());
            auto again = ModelFolder::open(target);
            REQUIRE_MESSAGE(again.ok(), again.message());
            CHECK(again->model_type() == opened->model_type());
            REQUIRE(again->weights().tensors().size() == opened->weights().tensors().size());
            for (const TensorView& tensor : opened->weights().tensors())
                CHECK(std::ranges::equal(again->weights().find(tensor.name)->bytes, tensor.bytes));
        }
    }
    MESSAGE(found, " real folders");
}

} // namespace folder_test
