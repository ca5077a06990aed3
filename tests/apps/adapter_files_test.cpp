// hekla adapter list, combine and extract: what they print and write, and what they refuse.
#include "program.hpp"

#include "model/weights.hpp"

#include <cmath>
#include <cstring>
#include <doctest/doctest.h>
#include <filesystem>
#include <nlohmann/json.hpp>

namespace adapter_files_test {

namespace fs = std::filesystem;
using hekla::test::has;
using hekla::test::Place;
using hekla::test::Ran;
using hekla::test::succeed;
using nlohmann::json;

namespace {

const fs::path kFixtures = HEKLA_SOURCE_DIR "/tests/fixtures/adapters";

// Runs `hekla adapter ...`, which must fail, and returns its error.
std::string refused(const Place& place, std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "adapter");
    const Ran ran = place.run(arguments);
    CHECK(ran.status == 1);
    CHECK(ran.out.empty());
    CHECK(has(ran.err, "hekla: error: "));
    return ran.err;
}

Ran done(const Place& place, std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "adapter");
    return succeed(place.run(arguments));
}

// Copies a fixture's body and adapter to FOLDER and FOLDER/adapter.
void copy(const Place& place, const std::string& fixture, const std::string& folder) {
    fs::create_directories(place.path(folder));
    fs::copy(kFixtures / fixture, place.path(folder), fs::copy_options::recursive);
}

void change_config(const Place& place, const std::string& folder, const std::string& key, const json& value) {
    json config = json::parse(place.read(folder + "/adapter_config.json"));
    config[key] = value;
    place.write(folder + "/adapter_config.json", config.dump());
}

std::vector<double> values_of(const fs::path& file, const std::string& name) {
    const auto weights = hekla::model::Weights::open(file);
    REQUIRE_MESSAGE(weights.ok(), weights.message());
    const hekla::model::TensorView* tensor = weights->find(name);
    REQUIRE_MESSAGE(tensor != nullptr, name);
    const auto count = hekla::model::element_count(tensor->dims);
    REQUIRE(count.ok());
    std::vector<double> values(static_cast<std::size_t>(count.value()));
    REQUIRE(hekla::model::load_float64(*tensor, values).ok());
    return values;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
    REQUIRE(a.size() == b.size());
    double largest = 0.0;
    for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
    return largest;
}

} // namespace

TEST_CASE("adapter list finds adapters of all formats, and whether their bodies fit") {
    const Place place;
    copy(place, "lora-gpt2", "all/lora");
    copy(place, "bottleneck-gpt2-gating", "all/bottleneck");
    copy(place, "prompt-gpt2", "all/deeper/prompt"); // too deep
    done(place, {"convert", "all/lora/adapter", "-o", "all/own", "--format", "hekla"});
    const json list = json::parse(done(place, {"list", "all", "--json"}).out);
    REQUIRE(list.size() == 3);
    CHECK(list[0]["folder"] == "all/bottleneck/adapter");
    CHECK(list[0]["format"] == "AdapterHub");
    CHECK(list[0]["fits"] == true);
    CHECK(list[1]["folder"] == "all/lora/adapter");
    CHECK(list[1]["format"] == "PEFT");
    CHECK(list[1]["adapter"] == "lora");
    CHECK(list[1]["ranks"] == json::parse("[4]"));
    CHECK(list[1]["parameters"] == 1024);
    CHECK(list[1]["fits"] == true);
    CHECK(std::abs(list[1]["share"].get<double>() - 0.0335) < 1e-4);
    CHECK(list[2]["format"] == "Hekla");
    CHECK(list[2]["fits"] == true);
    CHECK(list[2]["parameters"] == 1024);

    const std::string text = done(place, {"list", "all/lora", "all/bottleneck", "--body", "all/lora"}).out;
    CHECK(has(text, "all/lora/adapter"));
    CHECK(has(text, "3.35%"));
    CHECK_FALSE(has(text, "does not fit"));
    copy(place, "lora-llama", "llama");
    CHECK(has(done(place, {"list", "llama", "--body", "all/lora"}).out, "(does not fit)"));
    fs::remove_all(place.path("all/lora/model.safetensors"));
    CHECK(has(done(place, {"list", "all/lora"}).out, "(not found)"));
    place.write("all/lora/adapter/adapter_config.json", "{}");
    CHECK(has(done(place, {"list", "all/lora"}).out, "is neither PEFT's"));
    CHECK(has(refused(place, {"list", "nowhere"}), "nowhere: is not a folder"));
    CHECK(has(refused(place, {"list", "all/deeper/prompt/adapter/../../..", "all/deeper/..", "no"}), "no: is not a"));
    fs::create_directory(place.path("empty"));
    CHECK(has(refused(place, {"list", "empty"}), "empty: contains no adapter"));
}

TEST_CASE("adapter inspect shows rank and the norm of the change") {
    const Place place;
    copy(place, "lora-llama-patterns", "it");
    const json found = json::parse(done(place, {"inspect", "it/adapter", "--json"}).out);
    const fs::path file = place.path("it/adapter/adapter_model.safetensors");
    std::size_t checked = 0;
    for (const json& module : found["modules"]) {
        const std::string name = "base_model.model." + module["name"].get<std::string>();
        const std::vector<double> a = values_of(file, name + ".lora_A.weight"),
                                  b = values_of(file, name + ".lora_B.weight");
        const auto rank = module["rank"].get<std::size_t>();
        const double alpha = has(name, "layers.1.self_attn.q_proj") ? 5.0 : 16.0; // alpha_pattern
        double sum = 0.0;
        for (std::size_t row = 0; row < b.size() / rank; ++row)
            for (std::size_t column = 0; column < a.size() / rank; ++column) {
                double one = 0.0;
                for (std::size_t k = 0; k < rank; ++k) one += b[row * rank + k] * a[k * (a.size() / rank) + column];
                sum += std::pow(one * alpha / static_cast<double>(rank), 2);
            }
        CHECK(rank == (has(name, "down_proj") ? 2 : 4));
        CHECK(std::abs(module["norm_of_change"].get<double>() - std::sqrt(sum)) < 1e-9);
        ++checked;
    }
    CHECK(checked == 6);
    const json other = json::parse(done(place, {"inspect", (kFixtures / "ia3-gpt2/adapter").string(), "--json"}).out);
    CHECK(other["modules"][0]["norm_of_change"].is_null());
}

TEST_CASE("adapter combine writes a folder whose merged weights are the weighted sum") {
    const Place place;
    copy(place, "lora-llama-patterns", "one"); // rank 4 with patterns: q_proj, v_proj, down_proj
    copy(place, "lora-llama", "two");          // rank 4: q_proj, v_proj, of the same body
    for (const char* name : {"one", "two"})
        done(place, {"merge", std::string(name) + "/adapter", "-o", std::string(name) + "-merged"});
    const auto merged_sum = [&](const std::string& name) {
        std::vector<double> sum = values_of(place.path("one"), name);
        const std::vector<double> body = sum, one = values_of(place.path("one-merged"), name),
                                  two = values_of(place.path("two-merged"), name);
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += 2.0 * (one[i] - body[i]) - 0.5 * (two[i] - body[i]);
        return sum;
    };
    for (const std::string type : {"cat", "svd"}) {
        CAPTURE(type);
        std::vector<std::string> arguments{
            "combine", "one/adapter", "two/adapter", "--weights", "2,-0.5", "--combination-type", type, "-o", type};
        if (type == "svd") arguments.insert(arguments.end(), {"--svd-rank", "8"});
        CHECK(has(done(place, arguments).out, "2 adapters combined (" + type + ") at 6 modules"));
        const json config = json::parse(place.read(type + "/adapter_config.json"));
        CHECK(config["base_model_name_or_path"] == fs::canonical(place.path("one")).string());
        CHECK(config["r"] == 8);
        CHECK(config["use_rslora"] == false);
        if (type == "cat") CHECK(config["rank_pattern"]["model.layers.0.mlp.down_proj"] == 2);
        CHECK(config["rank_pattern"] == config["alpha_pattern"]);
        done(place, {"merge", type, "-o", type + "-merged"});
        for (const char* name : {"model.layers.0.self_attn.q_proj.weight", "model.layers.1.self_attn.q_proj.weight",
                                 "model.layers.1.self_attn.v_proj.weight", "model.layers.1.mlp.down_proj.weight",
                                 "model.embed_tokens.weight"}) {
            CAPTURE(name);
            CHECK(largest_difference(values_of(place.path(type + "-merged"), name), merged_sum(name)) < 2e-6);
        }
    }
    // The result is used as any adapter is, and the same seed gives the same bytes.
    done(place, {"convert", "cat", "-o", "own", "--format", "hekla"});
    const auto dare = [&](const std::string& seed, const std::string& output) {
        done(place, {"combine", "two/adapter", "two/adapter", "--combination-type", "dare_ties", "--density", "0.5",
                     "--seed", seed, "-o", output});
        return place.read(output + "/adapter_model.safetensors");
    };
    const std::string first = dare("1", "d1");
    CHECK(first == dare("1", "d2"));
    CHECK(first != dare("2", "d3"));
}

TEST_CASE("adapter combine refuses what cannot be combined, by name") {
    const Place place;
    copy(place, "lora-gpt2", "one");
    copy(place, "lora-gpt2", "two");
    const auto combine = [&](std::vector<std::string> more, const std::string& second = "two/adapter") {
        std::vector<std::string> arguments{"combine", "one/adapter", second, "-o", "no"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        const std::string error = refused(place, arguments);
        CHECK_FALSE(place.exists("no"));
        return error;
    };
    CHECK(has(refused(place, {"combine", "one/adapter", "-o", "no"}), "expected two folders or more"));
    CHECK(has(combine({"--weights", "1,2,3"}), "--weights has 3 numbers for 2 adapters"));
    CHECK(has(combine({"--weights", "1,nan"}), "is not finite"));
    CHECK(has(combine({"--combination-type", "ties"}), "--combination-type ties needs --density"));
    CHECK(has(combine({"--combination-type", "dare_linear", "--density", "1.5"}), "needs --density"));
    CHECK(has(combine({"--combination-type", "cat", "--density", "0.5"}), "removes no values"));
    CHECK(has(combine({"--combination-type", "linear", "--svd-rank", "4"}), "has no decomposition"));
    CHECK(has(combine({}, "nowhere"), "nowhere"));
    const auto fixture = [](const char* name) { return (kFixtures / name / "adapter").string(); };
    CHECK(has(combine({}, fixture("ia3-gpt2")), "the adapter is 'ia3', expected 'lora'"));
    CHECK(has(combine({}, fixture("dora-llama")), "use_dora is true"));
    CHECK(has(combine({}, fixture("lora-bert-classifier")), "bias is \"lora_only\""));
    CHECK(has(combine({}, fixture("lora-llama")), "which has other weights; expected adapters of one body"));
    change_config(place, "two/adapter", "lora_alpha", 8);
    done(place, {"combine", "one/adapter", "two/adapter", "--combination-type", "linear", "-o", "yes"});
    done(place, {"combine", "one/adapter", "one/adapter", "--combination-type", "cat", "-o", "eight"});
    CHECK(has(combine({"--combination-type", "linear"}, "eight"), "expected equal sizes and ranks"));
    CHECK(has(refused(place, {"combine", "one/adapter", "two/adapter", "-o", "yes"}), "yes"));
    CHECK(place.run({"adapter", "combine", "one/adapter", "two/adapter", "--combination-type", "sum", "-o", "no"})
              .status == 2);
}

TEST_CASE("adapter extract: the difference of two models as LoRA") {
    const Place place;
    for (const auto& [fixture, full] : {std::pair{"lora-gpt2-all-linear", "32"}, {"lora-llama-patterns", "64"}}) {
        CAPTURE(fixture);
        const std::string body = fixture;
        copy(place, fixture, body);
        const std::string tuned = body + "-tuned", out = body + "-out";
        done(place, {"merge", body + "/adapter", "-o", tuned});
        // The change has rank 4 or less, so that rank 4 keeps all of it.
        const json exact = json::parse(done(place, {"extract", body, tuned, "-r", "4", "-o", out, "--json"}).out);
        REQUIRE(exact["modules"].size() >= 6);
        for (const json& module : exact["modules"]) {
            CHECK(module["energy"].get<double>() > 1.0 - 1e-9);
            CHECK(module["largest_error"].get<double>() < 1e-6);
        }
        done(place, {"merge", out, "-o", out + "-merged"});
        done(place, {"extract", body, tuned, "-r", full, "-o", out + "-full"});
        done(place, {"merge", out + "-full", "-o", out + "-full-merged"});
        const auto weights = hekla::model::Weights::open(place.path(tuned));
        REQUIRE(weights.ok());
        for (const hekla::model::TensorView& tensor : weights->tensors())
            for (const char* end : {"-merged", "-full-merged"})
                CHECK(largest_difference(values_of(place.path(out + end), tensor.name),
                                         values_of(place.path(tuned), tensor.name)) < 1e-6);
        // A part of the energy needs lower ranks, each module its own, and the error is the one that is printed.
        const json part = json::parse(
            done(place, {"extract", body, tuned, "-r", "4", "--energy", "0.8", "-o", out + "-part", "--json"}).out);
        double largest = 0.0;
        int64_t ranks = 0;
        for (const json& module : part["modules"]) {
            CHECK(module["energy"].get<double>() >= 0.8);
            largest = std::max(largest, module["largest_error"].get<double>());
            ranks += module["rank"].get<int64_t>();
        }
        CHECK(ranks < 4 * static_cast<int64_t>(part["modules"].size()));
        done(place, {"merge", out + "-part", "-o", out + "-part-merged"});
        double found = 0.0;
        for (const hekla::model::TensorView& tensor : weights->tensors())
            found = std::max(found, largest_difference(values_of(place.path(out + "-part-merged"), tensor.name),
                                                       values_of(place.path(tuned), tensor.name)));
        CHECK(std::abs(found - largest) < 1e-6);
    }
}

TEST_CASE(
    "adapter extract of a fully trained model: norms, biases and embeddings are refused, saved whole or dropped") {
    const Place place;
    place.write("text.txt", "is there a line of 7 or 9? there is none.\nline 42 of a text that is long enough.\n");
    place.write(
        "body.toml",
        "[model]\narchitecture = \"gpt2\"\nn_layer = 1\nn_head = 2\nn_embd = 16\nn_positions = 16\n"
        "[data]\nvalid_fraction = 0.0\ntrain = \"text.txt\"\n[tokenizer]\nkind = \"char\"\n[train]\nmax_steps = 6\n"
        "learning_rate = 1e-2\ncontext_length = 12\nper_device_train_batch_size = 2\n"
        "eval_steps = 0\n[output]\ndir = \"body\"\n");
    succeed(place.run({"train", "body.toml"}));
    succeed(place.run({"train", "body.toml", "model.from=body", "train.max_steps=4", "output.dir=tuned"}));
    const std::string error = refused(place, {"extract", "body", "tuned", "-r", "16", "-o", "no"});
    CHECK(has(error, "parameters changed that LoRA's matrices do not: "));
    CHECK(has(error, "transformer.h.0.ln_1.weight ("));
    CHECK(has(error, "--others save"));
    CHECK_FALSE(place.exists("no"));
    CHECK(has(done(place, {"extract", "body", "tuned", "-r", "16", "--others", "save", "-o", "saved"}).out,
              "saved whole: transformer.h.0.ln_1\n"));
    const json config = json::parse(place.read("saved/adapter_config.json"));
    CHECK(config["bias"] == "lora_only");
    CHECK(
        config["modules_to_save"] ==
        json::parse(
            R"(["lm_head", "transformer.h.0.ln_1", "transformer.h.0.ln_2", "transformer.ln_f", "transformer.wpe", "transformer.wte"])"));
    done(place, {"merge", "saved", "-o", "merged"});
    const auto weights = hekla::model::Weights::open(place.path("tuned"));
    REQUIRE(weights.ok());
    for (const hekla::model::TensorView& tensor : weights->tensors()) {
        CAPTURE(tensor.name);
        CHECK(largest_difference(values_of(place.path("merged"), tensor.name),
                                 values_of(place.path("tuned"), tensor.name)) < 1e-6);
    }
    CHECK(has(done(place, {"extract", "body", "tuned", "--others", "drop", "-o", "dropped"}).out, "left out: "));
    CHECK(json::parse(place.read("dropped/adapter_config.json"))["bias"] == "none");
    // What else is refused.
    CHECK(has(refused(place, {"extract", "body", "body", "-o", "no"}), "there is nothing to extract"));
    CHECK(has(refused(place, {"extract", "body", "nowhere", "-o", "no"}), "nowhere"));
    CHECK(has(refused(place, {"extract", "body", "tuned", "--energy", "1.5", "-o", "no"}), "--energy is 1.5"));
    CHECK(has(refused(place, {"extract", "body", (kFixtures / "lora-llama").string(), "-o", "no"}),
              "of one architecture"));
    succeed(place.run({"train", "body.toml", "model.n_embd=8", "output.dir=smaller"}));
    const std::string smaller = refused(place, {"extract", "body", "smaller", "-o", "no"});
    CHECK_MESSAGE(has(smaller, "smaller/model.safetensors: "), smaller);
    CHECK_FALSE(place.exists("no"));
}

TEST_CASE("LoRA of AdapterHub's library is read") {
    const Place place;
    copy(place, "lora-llama", "it");
    done(place, {"merge", "it/adapter", "-o", "expected"});
    // The same matrices under AdapterHub's names.
    const std::string file = place.read("it/adapter/adapter_model.safetensors");
    uint64_t size = 0;
    std::memcpy(&size, file.data(), sizeof size);
    const json header = json::parse(file.substr(sizeof size, size));
    const auto write = [&](const json& config, const std::string& version, const std::string& part = ".loras.test.") {
        json renamed = json::object();
        for (const auto& [name, tensor] : header.items()) {
            std::string other = name;
            if (name != "__metadata__") {
                other = name.substr(std::string("base_model.model.").size());
                other = other.substr(0, other.size() - std::string(".weight").size());
                other.replace(other.find(".lora_"), 1, part);
            }
            renamed[other] = tensor;
        }
        const std::string text = renamed.dump();
        const uint64_t length = text.size();
        std::string bytes(sizeof length, '\0');
        std::memcpy(bytes.data(), &length, sizeof length);
        fs::remove_all(place.path("it/adapter"));
        fs::create_directory(place.path("it/adapter"));
        place.write("it/adapter/adapter.safetensors", bytes + text + file.substr(sizeof size + size));
        const json whole = {
            {"config", config}, {"model_type", "llama"}, {"model_name", ".."}, {"name", "test"}, {"version", version}};
        place.write("it/adapter/adapter_config.json", whole.dump());
    };
    const json config = {{"architecture", "lora"},
                         {"selfattn_lora", true},
                         {"intermediate_lora", false},
                         {"output_lora", false},
                         {"attn_matrices", {"q", "v"}},
                         {"r", 4},
                         {"alpha", 16},
                         {"dropout", 0.0},
                         {"composition_mode", "add"},
                         {"init_weights", "lora"},
                         {"use_gating", false},
                         {"leave_out", json::array()},
                         {"vera_d", nullptr},
                         {"dtype", nullptr}};
    write(config, "adapters.1.2.0");
    done(place, {"merge", "it/adapter", "-o", "merged"});
    CHECK(place.read("merged/model.safetensors") == place.read("expected/model.safetensors"));
    done(place, {"convert", "it/adapter", "-o", "peft"});
    CHECK(json::parse(place.read("peft/adapter_config.json"))["lora_alpha"] == 16.0);
    done(place, {"merge", "peft", "-o", "merged-2"});
    CHECK(place.read("merged-2/model.safetensors") == place.read("expected/model.safetensors"));
    CHECK(json::parse(done(place, {"list", "it", "--json"}).out)[0]["format"] == "AdapterHub");
    // Versions before 1.1.0 trained without alpha / r.
    write(config, "adapters.1.0.1");
    done(place, {"convert", "it/adapter", "-o", "old"});
    CHECK(json::parse(place.read("old/adapter_config.json"))["lora_alpha"] == 4.0);
    // What is refused.
    for (const auto& [key, value] : {std::pair{"composition_mode", json("scale")},
                                     {"use_gating", json(true)},
                                     {"vera_d", json(0.1)},
                                     {"r", json(8)},
                                     {"r", json(0)},
                                     {"r", json("4")},
                                     {"alpha", json(nullptr)},
                                     {"shared_ranks", json(true)}}) {
        CAPTURE(key);
        json changed = config;
        changed[key] = value;
        write(changed, "adapters.1.2.0");
        CHECK(has(refused(place, {"inspect", "it/adapter"}), std::string("'") + key + "'"));
    }
    write(config, "adapters.1.2.0", ".adapters.test.");
    CHECK(has(refused(place, {"inspect", "it/adapter"}), "MODULE.loras.NAME.lora_A"));
}

TEST_CASE("modules that PEFT stores twice with bias = all are read once") {
    const Place place;
    copy(place, "lora-bert-classifier", "it");
    done(place, {"merge", "it/adapter", "-o", "expected"});
    const std::string file = place.read("it/adapter/adapter_model.safetensors");
    uint64_t size = 0;
    std::memcpy(&size, file.data(), sizeof size);
    json header = json::parse(file.substr(sizeof size, size));
    std::string data = file.substr(sizeof size + size);
    const json bias = header["base_model.model.classifier.bias"];
    const auto begin = bias["data_offsets"][0].get<std::size_t>(), end = bias["data_offsets"][1].get<std::size_t>();
    const auto add = [&](const std::string& name, const std::string& bytes) {
        header[name] = bias;
        header[name]["data_offsets"] = {data.size(), data.size() + bytes.size()};
        data += bytes;
    };
    add("base_model.model.classifier.modules_to_save.bias", data.substr(begin, end - begin));
    add("base_model.model.classifier.original_module.bias", std::string(end - begin, '\0'));
    const auto write = [&] {
        const std::string text = header.dump();
        const uint64_t length = text.size();
        std::string bytes(sizeof length, '\0');
        std::memcpy(bytes.data(), &length, sizeof length);
        place.write("it/adapter/adapter_model.safetensors", bytes + text + data);
    };
    write();
    done(place, {"merge", "it/adapter", "-o", "merged"});
    CHECK(place.read("merged/model.safetensors") == place.read("expected/model.safetensors"));
    add("base_model.model.nothing.original_module.bias", std::string(end - begin, '\0'));
    write();
    CHECK(has(refused(place, {"inspect", "it/adapter"}), "nothing.original_module.bias"));
}

} // namespace adapter_files_test
