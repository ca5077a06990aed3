// `hekla convert --format ollama`: the files that `ollama create` takes. The templates below were executed by Go's
// text/template, with the same texts as the chat templates in Jinja.
#include "base/file.hpp"
#include "support/program.hpp"

#include <doctest/doctest.h>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace ollama_test {

namespace fs = std::filesystem;
using nlohmann::json;
using namespace hekla;
using namespace hekla::test;

namespace {

// A model with a byte-level BPE of a few tokens, and a chat template unless it is empty.
fs::path model_with(const TestFolder& place, const std::string& name, const std::string& chat_template) {
    const fs::path from = fs::path(HEKLA_SOURCE_DIR) / "tests/fixtures/packed/gpt2", folder = place / name;
    fs::create_directory(folder);
    for (const char* file : {"config.json", "model.safetensors"}) fs::copy_file(from / file, folder / file);
    json tokenizer = {
        {"added_tokens", json::array()},
        {"normalizer", nullptr},
        {"pre_tokenizer",
         {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}}},
        {"post_processor", nullptr},
        {"decoder", {{"type", "ByteLevel"}}},
        {"model", {{"type", "BPE"}, {"vocab", {{"a", 3}, {"b", 4}, {"ab", 5}}}, {"merges", {"a b"}}}}};
    int id = 0;
    for (const char* token : {"<s>", "</s>", "<|im_end|>"}) {
        tokenizer["model"]["vocab"][token] = id;
        tokenizer["added_tokens"].push_back({{"id", id++}, {"content", token}, {"special", true}});
    }
    std::ofstream(folder / "tokenizer.json") << tokenizer;
    std::ofstream(folder / "tokenizer_config.json") << R"({"bos_token": "<s>", "eos_token": "</s>"})";
    if (!chat_template.empty()) std::ofstream(folder / "chat_template.jinja") << chat_template;
    return folder;
}

Ran convert(const fs::path& from, const fs::path& to) {
    return shell(".", std::string("'") + HEKLA_PROGRAM + "' convert '" + from.string() + "' '" + to.string() +
                          "' --format ollama 2>&1");
}

std::string modelfile(const fs::path& folder) {
    const auto text = read_file(folder / "Modelfile");
    REQUIRE(text.ok());
    return text.value();
}

// With a system's message of its own where none is given, quotes and braces in it.
constexpr const char* kWithSystem =
    R"({%- if messages[0]['role'] != 'system' %}{{- '<|im_start|>system\nA "model" {{x}}.<|im_end|>\n' }}{%- endif %})"
    R"({%- for message in messages %}{{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }})"
    R"({%- endfor %}{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %})";

} // namespace

TEST_CASE("ollama: a folder with a GGUF file, a template, and how tokens are drawn") {
    const TestFolder place;
    const fs::path model = model_with(place, "model", kWithSystem);
    std::ofstream(model / "generation_config.json")
        << R"({"do_sample": true, "temperature": 0.5, "top_k": 20, "repetition_penalty": 1.25})";
    const Ran ran = convert(model, place / "My model/");
    CHECK_MESSAGE(ran.status == 0, ran.out);
    CHECK(has(ran.out, "ollama create my-model -f"));
    CHECK(has(ran.out, "ollama create -q q4_K_M my-model"));
    CHECK(fs::file_size(place / "My model/model.gguf") > 20000);
    CHECK(modelfile(place / "My model") == R"(FROM ./model.gguf
TEMPLATE """{{- $system := false -}}
{{- range $i, $message := .Messages -}}
{{- if eq .Role "system" -}}
{{- $system = true -}}
{{ "<|im_start|>system\n" }}{{ .Content }}{{ "<|im_end|>\n<|im_start|>user\n" }}
{{- else if eq .Role "user" -}}
{{- if $system -}}{{- $system = false -}}{{- else -}}{{- if eq $i 0 -}}{{ "<|im_start|>system\nA \x22model\x22 {{x}}.<|im_end|>\n" }}{{- end -}}{{ "<|im_start|>user\n" }}{{- end -}}{{ .Content }}{{ "<|im_end|>\n<|im_start|>assistant\n" }}
{{- else if eq .Role "assistant" -}}
{{ .Content }}{{ "<|im_end|>\n" }}
{{- end -}}
{{- end -}}"""
PARAMETER stop "<|im_end|>"
PARAMETER temperature 0.5
PARAMETER top_k 20
PARAMETER repeat_penalty 1.25
)");
    const Ran again = convert(model, place / "My model");
    CHECK(again.status == 1);
    CHECK_MESSAGE(has(again.out, "exists; choose another name"), again.out);
}

TEST_CASE("ollama: a template without a system's message, and one whose answers begin with a space") {
    const TestFolder place;
    const fs::path model = model_with(
        place, "model",
        R"({%- for m in messages %}{%- if m.role == 'user' %}{{- bos_token + '[INST] ' + m.content + ' [/INST]' }})"
        R"({%- elif m.role == 'assistant' %}{{- ' ' + m.content + ' ' + eos_token }}{%- else %})"
        R"({{- raise_exception('no') }}{%- endif %}{%- endfor %})");
    std::ofstream(model / "generation_config.json") << R"({"do_sample": false})";
    const Ran ran = convert(model, place / "out");
    CHECK_MESSAGE(ran.status == 0, ran.out);
    CHECK(modelfile(place / "out") == R"(FROM ./model.gguf
TEMPLATE """{{- range $i, $message := .Messages -}}
{{- if eq .Role "user" -}}
{{ "<s>[INST] " }}{{ .Content }}{{ " [/INST]" }}
{{- else if eq .Role "assistant" -}}
{{ " " }}{{ .Content }}{{ " </s>" }}
{{- end -}}
{{- end -}}"""
PARAMETER stop "</s>"
PARAMETER temperature 0
)");
}

TEST_CASE("ollama: a model without a template completes texts; a template with thoughts is left out") {
    const TestFolder place;
    const Ran plain = convert(model_with(place, "plain", ""), place / "out");
    CHECK_MESSAGE(plain.status == 0, plain.out);
    CHECK(modelfile(place / "out") == "FROM ./model.gguf\nTEMPLATE \"{{ .Prompt }}\"\n");
    const Ran later = convert(
        model_with(
            place, "later",
            R"({%- for m in messages %}{{- m.role + ': ' + (m.content if loop.last else m.content | upper) }})"
            R"({{- '<|im_end|>' }}{%- endfor %}{%- if add_generation_prompt %}{{- 'assistant: ' }}{%- endif %})"),
        place / "without");
    CHECK_MESSAGE(later.status == 0, later.out);
    CHECK(has(later.out, "has no equivalent in Ollama's language"));
    CHECK(modelfile(place / "without") == "FROM ./model.gguf\nPARAMETER stop \"<|im_end|>\"\n");
    const Ran bert = convert(fs::path(HEKLA_SOURCE_DIR) / "tests/fixtures/models/bert-classifier", place / "bert");
    CHECK(bert.status == 1);
    CHECK(has(bert.out, "GGUF is written of language models"));
    CHECK_FALSE(fs::exists(place / "bert"));
}

} // namespace ollama_test
