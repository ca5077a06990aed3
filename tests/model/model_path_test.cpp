#include "model/model_path.hpp"

#include "model/folder.hpp"
#include "temporary.hpp"

#include <doctest/doctest.h>

namespace model_path_test {

using namespace hekla;
using namespace hekla::model;
using namespace hekla::test;

namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

constexpr const char* kPointerText = "version https://git-lfs.github.com/spec/v1\noid sha256:1234\nsize 99\n";

// Writes a small model at a path.
void write_model(const fs::path& folder, const std::string& config = R"({"model_type": "gpt2"})") {
    ModelContents contents;
    contents.config_json = config;
    contents.tensors = {floats("a", {2}, {1, 2})};
    REQUIRE(save_folder(folder, contents).ok());
}

} // namespace

TEST_CASE("the Hub's cache of a model is opened by refs/main, or by its only snapshot") {
    TestFolder folder;
    const fs::path cache = folder / "models--org--name";
    write_model(cache / "blobs-of-a");
    fs::create_directories(cache / "snapshots/a");
    for (const char* file : {"config.json", "model.safetensors"}) {
        fs::create_directories(cache / "blobs");
        fs::rename(cache / "blobs-of-a" / file, cache / "blobs" / file);
        fs::create_symlink(fs::path("../../blobs") / file, cache / "snapshots/a" / file);
    }
    fs::remove_all(cache / "blobs-of-a");
    CHECK(ModelFolder::open(cache)->path() == cache / "snapshots/a"); // its only one
    put(cache / "refs/main", "a\n");
    fs::create_directories(cache / "snapshots/b");
    CHECK(ModelFolder::open(cache)->path() == cache / "snapshots/a");
    put(cache / "refs/main", "c");
    CHECK(contains(ModelFolder::open(cache).message(), "refs/main names the snapshot \"c\""));
    fs::remove_all(cache / "refs");
    const std::string several = ModelFolder::open(cache).message();
    CHECK(contains(several, "several snapshots"));
    CHECK(contains(several, (cache / "snapshots/b").string()));
}

TEST_CASE("names on the Hub, GGUF files and pointers of git-lfs are named as what they are") {
    TestFolder folder;
    CHECK(contains(find_model_folder("no-such-org/no.such_name").message(),
                   "hf download no-such-org/no.such_name --local-dir DIR"));
    CHECK_FALSE(contains(find_model_folder("./no/such/folder").message(), "hf download"));
    put(folder / "only/model-Q4_K_M.gguf", "GGUF....");
    CHECK(contains(find_model_folder(folder / "only").message(), "has only GGUF files"));
    CHECK(contains(find_model_folder(folder / "only/model-Q4_K_M.gguf").message(), "is a GGUF file"));
    put(folder / "other/weights", "GGUF....");
    CHECK(contains(find_model_folder(folder / "other/weights").message(), "is a GGUF file"));

    for (const char* file : {"config.json", "model.safetensors", "tokenizer.json", "tokenizer.model"}) {
        CAPTURE(file);
        const fs::path model = folder / (std::string("lfs-") + file);
        write_model(model);
        put(model / file, kPointerText);
        const std::string message = ModelFolder::open(model).message();
        CHECK(contains(message, (model / file).string() + ": is a pointer of git-lfs"));
        CHECK(contains(message, "git lfs pull"));
    }
}

TEST_CASE("quantized weights are refused with their method, their bits and the folder that they were made from") {
    TestFolder folder;
    write_model(folder / "gptq",
                R"({"model_type": "llama", "quantization_config": {"quant_method": "gptq", "bits": 4}})");
    std::string message = ModelFolder::open(folder / "gptq").message();
    CHECK(contains(message, "with gptq, 4 bits"));
    CHECK(contains(message, "16 or 32 bits"));
    put(folder / "gptq/README.md", "---\nlicense: mit\nbase_model:\n- org/original\n---\n# Text\n");
    CHECK(contains(ModelFolder::open(folder / "gptq").message(), "made from, org/original"));
    write_model(folder / "mlx", R"({"model_type": "llama", "quantization": {"group_size": 64, "bits": 8}})");
    CHECK(contains(ModelFolder::open(folder / "mlx").message(), "with MLX, 8 bits"));
    write_model(folder / "bnb", R"({"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": true},
                                    "_name_or_path": "org/base"})");
    message = ModelFolder::open(folder / "bnb").message();
    CHECK(contains(message, "with bitsandbytes, 4 bits"));
    CHECK(contains(message, "made from, org/base"));
    write_model(folder / "none", R"({"quantization_config": null})");
    CHECK(ModelFolder::open(folder / "none").ok());
}

} // namespace model_path_test
