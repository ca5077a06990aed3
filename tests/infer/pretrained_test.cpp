// Real trained models, if the checkout has ../shared/data/pretrained: an ALBERT that maps atoms of reactions, an
// encoder-decoder of Transformers that transliterates Arabic names into Latin letters, and GRUs that convert English
// words to pronunciations. Files with other systems' names are first renamed into a Hugging Face folder, as a converter
// would.
#include "program/runtime.hpp"
#include "support.hpp"

#include "generate/decoder_program.hpp"
#include "generate/generator.hpp"
#include "infer/open/open_model.hpp"
#include "model/folder.hpp"
#include "support/test_folder.hpp"

#include <cmath>
#include <cstring>
#include <map>
#include <unistd.h>

using namespace hekla;
using namespace hekla::test;
using nlohmann::json;

namespace {

const fs::path kPretrained = fs::path(HEKLA_SOURCE_DIR) / ".." / "shared" / "data" / "pretrained";

bool absent(const char* name) {
    if (fs::exists(kPretrained / name)) return false;
    MESSAGE("skipped: there is no ../shared/data/pretrained/" << name);
    return true;
}

json read_json(const fs::path& path) {
    const Result<std::string> text = read_file(path);
    REQUIRE_MESSAGE(text.ok(), text.message());
    return json::parse(text.value());
}

Tensors tensors_of(const fs::path& path) {
    Result<Tensors> tensors = infer::read_fields(path);
    REQUIRE_MESSAGE(tensors.ok(), tensors.message());
    return tensors.take();
}

// Returns the largest difference over the largest value.
double difference(std::span<const double> a, std::span<const double> b) {
    REQUIRE(a.size() == b.size());
    double worst = 0.0, largest = 0.0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        worst = std::max(worst, std::abs(a[i] - b[i]));
        largest = std::max(largest, std::abs(b[i]));
    }
    return worst / largest;
}

Tensor ids_row(const std::vector<int32_t>& ids) {
    return {Kind::int32, Shape{1, static_cast<int64_t>(ids.size())}, {ids.begin(), ids.end()}};
}

// A model folder with these tensors, deleted at the end of the test.
class ModelFile {
public:
    ModelFile(const json& config, const Tensors& tensors) {
        std::vector<std::vector<float>> values;
        std::vector<model::TensorView> views;
        for (const auto& [name, tensor] : tensors) {
            values.emplace_back(tensor.data.begin(), tensor.data.end());
            model::TensorView view;
            view.name = name;
            view.dtype = model::DType::f32;
            view.dims = tensor.shape.vector();
            view.bytes = std::as_bytes(std::span(values.back()));
            views.push_back(std::move(view));
        }
        model::ModelContents contents;
        contents.config_json = config.dump();
        contents.tensors = model::sources_of(views);
        const Status saved = model::save_folder(folder_, contents);
        REQUIRE_MESSAGE(saved.ok(), saved.message());
    }
    infer::Model open(program::Runtime* runtime, const char* class_name) const {
        infer::ModelOptions options;
        options.class_name = class_name;
        options.tokenizer_required = false;
        Result<infer::Model> model = infer::open_model(registry(), runtime, folder_, options, {});
        REQUIRE_MESSAGE(model.ok(), model.message());
        return model.take();
    }

private:
    TestFolder folder_;
};

std::vector<int32_t> greedy(infer::Model& model, const std::vector<int32_t>& source, int32_t start, int32_t end,
                            int64_t most) {
    const auto decoder = generate::make_program_decoder(*model.runtime, *model.store, *model.composition);
    REQUIRE_MESSAGE(decoder.ok(), decoder.message());
    generate::Request request;
    request.prompts = {source};
    generate::Options options;
    options.max_new_tokens = most;
    options.decoder_start = start;
    options.eos = {end};
    const Result<generate::Output> output = generate::generate(*decoder.value(), request, options);
    REQUIRE_MESSAGE(output.ok(), output.message());
    std::vector<int32_t> ids = output->rows.at(0).ids;
    ids.erase(ids.begin());
    if (!ids.empty() && ids.back() == end) ids.pop_back();
    return ids;
}

TEST_CASE("ALBERT: every layer, the scores and an attention head for two reactions") {
    if (absent("albert_rxnmapper")) return;
    const fs::path folder = kPretrained / "albert_rxnmapper";
    const Tensors reference = tensors_of(folder / "reference_f64run.safetensors");
    Result<infer::Model> model = infer::open_model(registry(), &device(), folder,
                                                   {.class_name = {}, .head = {}, .tokenizer_required = false}, {});
    REQUIRE_MESSAGE(model.ok(), model.message());
    for (const std::string name : {"case0", "case1"}) {
        CAPTURE(name);
        Tensor ids = reference.at(name + ".input_ids");
        const int64_t length = ids.shape[0];
        ids.shape = Shape{1, length};
        const Tensors fields{{"input_ids", ids}};
        std::vector<std::string> ports{"logits"};
        for (int layer = 0; layer <= 12; ++layer) ports.push_back("layer." + std::to_string(layer) + ".hidden");
        const auto forward = infer::Forward::create(model.value(), fields, ports, true);
        REQUIRE_MESSAGE(forward.ok(), forward.message());
        const Result<Tensors> outputs = forward.value()->run(fields);
        REQUIRE_MESSAGE(outputs.ok(), outputs.message());
        CHECK(difference(outputs->at("logits").data, reference.at(name + ".mlm_logits").data) < 1e-5);
        const Tensor& hidden = reference.at(name + ".hidden_states");
        const std::size_t size = hidden.data.size() / 13;
        for (std::size_t layer = 0; layer <= 12; ++layer) {
            CAPTURE(layer);
            const std::span<const double> expected(hidden.data.data() + layer * size, size);
            CHECK(difference(outputs->at("layer." + std::to_string(layer) + ".hidden").data, expected) < 1e-5);
        }
        REQUIRE(forward.value()->attention_maps().size() == 12);
        const Tensor& map = outputs->at(forward.value()->attention_maps()[10].output);
        const auto head = static_cast<std::size_t>(length * length);
        CHECK(difference({map.data.data() + 5 * head, head}, reference.at(name + ".attention_l10_h5").data) < 1e-5);
    }
}

constexpr int64_t kWidth = 32, kPositions = 64; // of the encoder-decoder

// Returns the tensors of the encoder-decoder by our names.
Tensors transliteration_tensors(const Tensors& given) {
    Tensors named;
    const auto put = [&](const std::string& to, const Tensor& whole, int64_t part, int64_t parts) {
        Tensor t{whole.kind, whole.shape, {}};
        t.shape[0] = whole.shape[0] / parts;
        const auto size = static_cast<std::ptrdiff_t>(whole.data.size()) / parts;
        t.data.assign(whole.data.begin() + part * size, whole.data.begin() + (part + 1) * size);
        named.emplace(to, std::move(t));
    };
    // Layer by layer, from that system's names to ours; projections that share one matrix are split.
    for (const auto& [name, tensor] : given) {
        const std::string tail = name.ends_with("bias") || name.ends_with("beta") ? ".bias" : ".weight";
        const std::string side = name.starts_with("encoder") ? "encoder" : "decoder";
        if (name == side + ".embeddings.weight")
            put("model." + side + ".embed_tokens.weight", tensor, 0, 1);
        else if (name.starts_with(side + ".layer_norm"))
            put("model." + side + ".layer_norm" + tail, tensor, 0, 1);
        else if (name == "decoder.projection.weight")
            put("lm_head.weight", tensor, 0, 1);
        else if (name == "decoder.projection.bias")
            named.emplace("final_logits_bias", Tensor{tensor.kind, Shape{1, tensor.shape[0]}, tensor.data});
        else {
            const std::size_t dot = name.find('.', side.size() + 7);
            const std::string index = name.substr(side.size() + 7, dot - side.size() - 7);
            const std::string rest = name.substr(dot + 1, name.rfind('.') - dot - 1);
            const std::string base = "model." + side + ".layers." + index + ".";
            const std::map<std::string, std::vector<std::string>> parts{
                {"self_attention.layer_norm", {"self_attn_layer_norm"}},
                {"self_attention.linear_0", {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"}},
                {"self_attention.linear_1", {"self_attn.out_proj"}},
                {"attention.layer_norm", {"encoder_attn_layer_norm"}},
                {"attention.linear_0", {"encoder_attn.q_proj"}},
                {"attention.linear_1", {"encoder_attn.k_proj", "encoder_attn.v_proj"}},
                {"attention.linear_2", {"encoder_attn.out_proj"}},
                {"ffn.layer_norm", {"final_layer_norm"}},
                {"ffn.linear_0", {"fc1"}},
                {"ffn.linear_1", {"fc2"}}};
            const std::vector<std::string>& to = parts.at(rest);
            for (std::size_t i = 0; i < to.size(); ++i)
                put(base + to[i] + tail, tensor, static_cast<int64_t>(i), static_cast<int64_t>(to.size()));
        }
    }
    // Its sinusoids begin at position 1 and have different timescales: a stored table, as the file format allows.
    Tensor table{Kind::float_, Shape{kPositions, kWidth}, {}};
    for (int64_t p = 0; p < kPositions; ++p)
        for (int64_t column = 0; column < kWidth; ++column) {
            const int64_t i = column % (kWidth / 2);
            const double angle = static_cast<double>(p + 1) *
                                 std::exp(-std::log(10000.0) / (kWidth / 2.0 - 1.0) * static_cast<double>(i));
            table.data.push_back(column < kWidth / 2 ? std::sin(angle) : std::cos(angle));
        }
    named.emplace("model.encoder.embed_positions.weight", table);
    named.emplace("model.decoder.embed_positions.weight", table);
    return named;
}

json transliteration_config(const json& vectors) {
    return {{"model_type", "marian"},
            {"is_encoder_decoder", true},
            {"vocab_size", vectors["source_vocabulary"].size()},
            {"decoder_vocab_size", vectors["target_vocabulary"].size()},
            {"share_encoder_decoder_embeddings", false},
            {"tie_word_embeddings", false},
            {"max_position_embeddings", kPositions},
            {"d_model", kWidth},
            {"encoder_layers", 6},
            {"decoder_layers", 6},
            {"encoder_ffn_dim", 128},
            {"decoder_ffn_dim", 128},
            {"encoder_attention_heads", 8},
            {"decoder_attention_heads", 8},
            {"activation_function", "relu"},
            {"scale_embedding", true},
            {"normalize_before", true},
            {"layer_norm_eps", 1e-6},
            {"pad_token_id", 0},
            {"decoder_start_token_id", 1},
            {"eos_token_id", 2}};
}

TEST_CASE("an encoder-decoder with pre-norm: its encoder, its scores, the names it generates") {
    if (absent("aren_transliteration_ct2")) return;
    const fs::path folder = kPretrained / "aren_transliteration_ct2";
    const Tensors given = tensors_of(folder / "model.safetensors");
    const json vectors = read_json(folder / "vectors.json");
    const ModelFile file(transliteration_config(vectors), transliteration_tensors(given));
    infer::Model model = file.open(&device(), "MarianMTModel");
    const Tensors reference = tensors_of(folder / "reference_f64run.safetensors");
    int written = 0;
    for (std::size_t c = 0; c < vectors["cases"].size(); ++c) {
        CAPTURE(c);
        const json& one = vectors["cases"][c];
        const auto source = one["source_ids"].get<std::vector<int32_t>>();
        std::vector<int32_t> expected;
        for (const json& letter : one["upstream_expected"]) {
            const json& all = vectors["target_vocabulary"];
            expected.push_back(static_cast<int32_t>(std::find(all.begin(), all.end(), letter) - all.begin()));
        }
        if (one["target_prefix"].empty()) {
            CHECK(greedy(model, source, 1, 2, 20) == expected);
            ++written;
        }
        const std::string name = "case" + std::to_string(c);
        if (!reference.contains(name + ".step_logits")) continue;
        std::vector<int32_t> target{1};
        target.insert(target.end(), expected.begin(), expected.end());
        const Tensors fields{{"input_ids", ids_row(source)}, {"decoder_input_ids", ids_row(target)}};
        CHECK(difference(run_port(model, fields, "encoder.hidden").data, reference.at(name + ".encoder_output").data) <
              1e-5);
        CHECK(difference(run_port(model, fields, "logits").data, reference.at(name + ".step_logits").data) < 1e-5);
    }
    CHECK(written == 3);
}

TEST_CASE("GRUs without attention: pronunciations of words") {
    if (absent("g2p_en_gru")) return;
    const fs::path folder = kPretrained / "g2p_en_gru";
    const Tensors given = tensors_of(folder / "model.safetensors");
    const std::map<std::string, std::string> names{{"enc_emb", "source_embedding.weight"},
                                                   {"enc_w_ih", "encoder.weight_ih_l0"},
                                                   {"enc_w_hh", "encoder.weight_hh_l0"},
                                                   {"enc_b_ih", "encoder.bias_ih_l0"},
                                                   {"enc_b_hh", "encoder.bias_hh_l0"},
                                                   {"dec_emb", "target_embedding.weight"},
                                                   {"dec_w_ih", "decoder.weight_ih"},
                                                   {"dec_w_hh", "decoder.weight_hh"},
                                                   {"dec_b_ih", "decoder.bias_ih"},
                                                   {"dec_b_hh", "decoder.bias_hh"},
                                                   {"fc_w", "output.weight"},
                                                   {"fc_b", "output.bias"}};
    Tensors named;
    for (const auto& [name, tensor] : given) named.emplace(names.at(name), tensor);
    const json vectors = read_json(folder / "vectors.json");
    const auto graphemes = vectors["graphemes"].get<std::vector<std::string>>();
    const auto phonemes = vectors["phonemes"].get<std::vector<std::string>>();
    const json config{{"model_type", "attention-seq2seq"},
                      {"is_encoder_decoder", true},
                      {"source_vocab_size", graphemes.size()},
                      {"target_vocab_size", phonemes.size()},
                      {"embedding_size", 256},
                      {"hidden_size", 256},
                      {"attention", "none"},
                      {"bidirectional", false},
                      {"decoder_start_token_id", 2}};
    const ModelFile file(config, named);
    infer::Model model = file.open(&device(), "AttentionSeq2Seq");
    for (const auto& [word, spoken] : vectors["our_numpy_f64"].items()) {
        CAPTURE(word);
        std::vector<int32_t> source;
        for (const char letter : word)
            source.push_back(
                static_cast<int32_t>(std::ranges::find(graphemes, std::string(1, letter)) - graphemes.begin()));
        source.push_back(2); // </s>
        std::string pronunciation;
        for (const int32_t id : greedy(model, source, 2, 3, 20))
            pronunciation += (pronunciation.empty() ? "" : " ") + phonemes.at(static_cast<std::size_t>(id));
        CHECK(pronunciation == spoken.get<std::string>());
    }
}

} // namespace
