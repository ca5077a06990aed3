// Invalid user input, through the real program: one error with the problem, its place and a remedy; exit status 1;
// nothing written.
#include "cases.hpp"

#include <functional>
#include <nlohmann/json.hpp>

using namespace hekla::test;
using nlohmann::json;

namespace fs = std::filesystem;

namespace {

std::string replaced(std::string text, const std::string& what, const std::string& with) {
    const std::size_t at = text.find(what);
    REQUIRE(at != std::string::npos);
    return text.replace(at, what.size(), with);
}

// Returns the folder of a model for these tests, which is trained once.
const TestFolder& trained() {
    static const TestFolder folder;
    if (!folder.exists("run/model.safetensors")) {
        begin(folder);
        succeeds(train(folder, {"train.max_steps=2", "train.eval_steps=0", "train.save_steps=0"}));
    }
    return folder;
}

struct Header {
    json entries;
    std::string data;
};

Header header_of(const std::string& file) {
    uint64_t size = 0;
    std::memcpy(&size, file.data(), 8);
    return {json::parse(file.substr(8, size)), file.substr(8 + size)};
}

std::string file_with(const std::string& header, const std::string& data, std::optional<uint64_t> length = {}) {
    const uint64_t size = length.value_or(header.size());
    return std::string(reinterpret_cast<const char*>(&size), 8) + header + data;
}

} // namespace

TEST_CASE("recipes") {
    const TestFolder folder;
    begin(folder);
    const std::string recipe = kRecipe;
    const auto refused = [&](const std::string& text, std::initializer_list<std::string> parts) {
        folder.write("recipe.toml", text);
        fails(train(folder), parts);
        CHECK(!folder.exists("run"));
    };
    refused(replaced(recipe, "save_steps", "save_step"), {"recipe.toml:18", "save_step", "did you mean 'save_steps'?"});
    refused(replaced(recipe, "n_layer", "n_layers"), {"'n_layers'", "did you mean 'n_layer'?"});
    refused(replaced(recipe, "max_steps = 12", "max_steps = \"many\""),
            {"recipe.toml:13", "train.max_steps", "is \"many\"", "expected an integer"});
    refused(replaced(recipe, "n_head = 2", "n_head = \"two\""), {"n_head", "integer"});
    refused(replaced(recipe, "n_head = 2", "n_head = 3"), {"n_head", "3", "16"});
    refused(replaced(recipe, "max_steps = 12", "max_steps = -1"), {"recipe.toml:13", "train.max_steps", "0 or more"});
    refused(replaced(recipe, "[train]", "[train"), {"recipe.toml:12"});
    refused(replaced(recipe, "architecture = \"gpt2\"", "architecture = \"gtp2\""), {"'gtp2'", "did you mean 'gpt2'?"});
    refused(replaced(recipe, "train = \"text.txt\"", "train = \"txt.txt\""), {"txt.txt", "no such file"});
    refused(replaced(recipe, "n_positions = 16", "n_positions = 8"), {"16", "8", "train.context_length = 16", "as 8"});
    refused(replaced(recipe, "kind = \"char\"", "kind = \"from\"\nfrom = \"nowhere\""), {"nowhere"});
    refused(recipe + "[objective]\nid = \"clmm\"\n", {"'clmm'", "did you mean 'clm'?"});

    fails(run(folder, {"train", "recipe.tml"}), {"recipe.tml", "No such file"});
    CHECK(!folder.exists("run"));
}

TEST_CASE("texts") {
    const TestFolder folder;
    begin(folder);
    const auto refused = [&](const std::string& text, std::initializer_list<std::string> parts) {
        folder.write("text.txt", text);
        fails(train(folder), parts);
        CHECK(!folder.exists("run"));
    };
    refused("", {"text.txt", "empty"});
    refused("good\nbad \xff\xfe bytes\n", {"text.txt: line 2", "UTF-8"});
    refused("too short", {"training data", "window is 17", "more text"});
    refused(some_text(3), {"validation data", "does not hold out a row of 17 tokens", "set data.valid"});
}

TEST_CASE("damaged weights") {
    const TestFolder& base = trained();
    const std::string whole = base.read("run/model.safetensors");
    const Header good = header_of(whole);
    const TestFolder folder;
    folder.write("text.txt", some_text());
    folder.write("recipe.toml", kRecipe);
    fs::create_directory(folder / "bad");
    for (const char* name : {"config.json", "tokenizer.json"})
        folder.write(std::string("bad/") + name, base.read(std::string("run/") + name));
    // Both generation and a training that starts from it read the file.
    const auto refused = [&](const std::string& file, std::initializer_list<std::string> parts, bool both = false) {
        folder.write("bad/model.safetensors", file);
        fails(run(folder, {"generate", "bad", "--max-new-tokens", "1"}), parts);
        if (!both) return;
        fails(train(folder, {"model.from=bad", "tokenizer.from=bad"}), parts);
        CHECK(!folder.exists("run"));
    };
    const auto changed = [&](const std::function<void(json&)>& change) {
        json header = good.entries;
        change(header);
        return file_with(header.dump(), good.data);
    };
    json second = good.entries["transformer.h.0.ln_1.weight"];
    const std::string path = "bad/model.safetensors";
    refused(whole.substr(0, whole.size() - 100), {path}, true);
    refused(whole.substr(0, 5), {path});
    refused(file_with(good.entries.dump(), good.data, uint64_t{1} << 60), {path});
    refused(file_with("{\"a\": ", good.data), {path});
    refused(changed([](json& h) {
                h["transformer.wpe.weight"]["data_offsets"] = {0, 1u << 30};
            }),
            {path, "wpe.weight"});
    refused(changed([&](json& h) { h["transformer.h.0.ln_1.bias"]["data_offsets"] = second["data_offsets"]; }),
            {path, "h.0.ln_1"}, true);
    std::string twice = good.entries.dump();
    twice.insert(1, "\"transformer.wpe.weight\":" + good.entries["transformer.wpe.weight"].dump() + ",");
    refused(file_with(twice, good.data), {path, "wpe.weight"});
    refused(changed([](json& h) { h["transformer.wpe.weight"]["dtype"] = "F99"; }), {path, "wpe.weight", "F99"});
    refused(changed([](json& h) { h["transformer.wpe.weight"]["dtype"] = "I32"; }), {"wpe.weight", "i32"}, true);
    refused(changed([](json& h) {
                h["transformer.wpe.weight"]["shape"] = {8, 32};
            }),
            {"wpe.weight", "[8, 32]", "[16, 16]"}, true);
    refused(changed([](json& h) {
                h["other"] = h["transformer.wpe.weight"];
                h.erase("transformer.wpe.weight");
            }),
            {"wpe.weight"}, true);

    fs::remove(folder / "bad/model.safetensors");
    fails(run(folder, {"generate", "bad"}), {"bad", "model.safetensors"});
    fails(run(folder, {"generate", "nowhere"}), {"nowhere"});
    folder.write("bad/model.safetensors", whole);
    folder.write("bad/config.json", "{\"model_type\": ");
    fails(run(folder, {"generate", "bad"}), {"bad/config.json"});
}

TEST_CASE("broken plugins") {
    const TestFolder folder;
    begin(folder);
    const auto refused = [&](const char* id, std::initializer_list<std::string> parts,
                             const std::string& plugins = HEKLA_BROKEN_PLUGINS) {
        fails(train(folder, {std::string("objective.id=") + id, "--plugin-path", plugins}), parts);
        CHECK(!folder.exists("run"));
    };
    refused("no_entry", {"no_entry.so", "hekla_plugin_entry"});
    refused("newer", {"newer.so", "ABI 1.99", "update Hekla"});
    refused("newer_manifest", {"newer_manifest.so", "ABI 1.99", "update Hekla"});
    refused("throws_in_entry", {"throws_in_entry.so", "threw", "entry"});
    refused("throws_in_init", {"throws_in_init.so", "threw", "init"});
    refused("promises_too_much", {"promises_too_much.so", "objective", "does not have it"});
    refused("throws_in_create", {"objective 'throws_in_create'", "threw", "create says no"});
    refused("throws_in_fields", {"objective 'throws_in_fields'", "threw"});
    refused("throws_in_build", {"objective 'throws_in_build'", "threw", "build says no"});

    // The library is missing, its manifest exists.
    fs::create_directory(folder / "plugins");
    fs::copy_file(std::string(HEKLA_BROKEN_PLUGINS) + "/nan_once.json", folder / "plugins/nan_once.json");
    refused("nan_once", {"nan_once.so", "cannot"}, "plugins");
    // A damaged manifest is a warning; only what it would have provided is missing.
    folder.write("plugins/nan_once.json", "{");
    refused("nan_once", {"'nan_once'"}, "plugins");
}

TEST_CASE("a plugin that throws on a worker thread ends the training, not the program") {
    const TestFolder folder;
    begin(folder);
    fails(train(folder, {"objective.id=throws_in_collate", "--plugin-path", HEKLA_BROKEN_PLUGINS}),
          {"objective 'throws_in_collate'", "threw", "collate says no"});
}

TEST_CASE("a model that does not fit in memory is rejected before anything is allocated") {
    const TestFolder folder;
    begin(folder);
    fails(train(folder, {"model.n_embd=200000"}),
          {"does not fit", "GiB", "parameters can be trained here", "make the model smaller"});
    CHECK(!folder.exists("run"));
    fails(train(folder, {"model.n_positions=1024", "train.context_length=1024", "data.valid_fraction=0.0",
                         "train.per_device_train_batch_size=65536"}),
          {"65536", "per_device_train_batch_size = "});
    CHECK(!folder.exists("run"));
}

TEST_CASE("an output folder that is not writable") {
    const TestFolder folder;
    begin(folder);
    folder.write("file", "");
    fails(train(folder, {"output.dir=file"}), {"file", "is not a folder"});
    fails(train(folder, {"output.dir=file/run"}), {"file", "cannot be made", "[output] dir"});
    if (::getuid() != 0) { // root may write everywhere
        fs::create_directory(folder / "closed");
        fs::permissions(folder / "closed", fs::perms::owner_read | fs::perms::owner_exec);
        fails(train(folder, {"output.dir=closed"}), {"closed", "Permission denied", "[output] dir"});
        fs::permissions(folder / "closed", fs::perms::owner_all);
        return;
    }
    fs::create_directory(folder / "closed");
    const Surroundings nobody{.nobody = true};
    if (run(folder, {"--version"}, nobody).status != 0) {
        MESSAGE("the program's folder is not for everyone: not tried as another user");
        return;
    }
    fails(train(folder, {"output.dir=closed"}, nobody), {"closed", "Permission denied", "[output] dir"});
    fails(train(folder, {"output.dir=closed/run"}, nobody), {"closed/run", "Permission denied", "[output] dir"});
    CHECK(listing(folder / "closed").empty());
}
