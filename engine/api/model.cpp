// Implementation of hekla/model.h: models.
#include "hekla/model.h"
#include "api/arguments.hpp"
#include "api/boundary.hpp"
#include "api/context.hpp"
#include "api/handles.hpp"
#include "api/parameter.hpp"
#include "generate/options.hpp"
#include "infer/exported/exported_model.hpp"
#include "infer/open/model.hpp"
#include "infer/open/open_model.hpp"
#include "infer/texts/prompt_fields.hpp"
#include "infer/texts/source_layout.hpp"
#include "plugin/composition/compose.hpp"
#include "plugin/composition/text_record.hpp"
#include "text/text_encoder.hpp"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>

namespace hekla::api {
namespace {

class Model {
public:
    static constexpr uint64_t kHandleKind = 4;

    static Result<std::shared_ptr<Model>> open(const Context& context, const std::string& path) {
        HK_ASSIGN(infer::Model described,
                  infer::describe_model(context.registry(), path, {.tokenizer_required = false}, context.log()));
        HK_ASSIGN(const graph::Graph graph, infer::describe_smallest(described));
        auto model = std::make_shared<Model>();
        model->folder_ = described.path.string();
        model->architecture_ = described.composition->architecture().id;
        model->head_ = described.composition->head();
        model->encoder_decoder_ = graph.find_leaf(graph::Op::input, "decoder_input_ids") != graph::kNone;
        for (const auto& [name, value] : graph.parameters()) model->parameters_.emplace_back(name, graph.shape(value));
        if (model->encoder_decoder_) model->describe_source(context.registry(), described);
        model->rules_ = plugin::text_rules_of(described.config);
        described.composition.reset(); // it borrows the tokenizer
        model->tokenizer_ = std::move(described.tokenizer);
        model->tokenizer_problem_ = std::move(described.tokenizer_problem);
        return model;
    }

    void describe(hk_model_info& out) const {
        out.encoder_decoder = encoder_decoder_ ? 1 : 0;
        out.architecture = view(architecture_);
        out.head = view(head_);
        out.folder = view(folder_);
        out.parameters = static_cast<int64_t>(parameters_.size());
        out.elements = 0;
        for (const auto& [name, shape] : parameters_) out.elements += shape.elements();
        out.vocabulary = tokenizer_ != nullptr ? tokenizer_->vocabulary_size() : 0;
        out.decoder_start = decoder_start_;
    }
    const std::vector<std::pair<std::string, graph::Shape>>& parameters() const { return parameters_; }
    Result<const text::Tokenizer*> tokenizer() const {
        if (tokenizer_ == nullptr) return tokenizer_problem_;
        return tokenizer_.get();
    }

    Result<std::vector<int32_t>> source_of(const std::string& text) const {
        HK_ASSIGN(const text::Tokenizer* tokenizer, this->tokenizer());
        const text::TextEncoder encoder(*tokenizer, rules_);
        if (text.empty()) return invalid_argument("the text is empty: give at least one character");
        if (!encoder_decoder_) return encoder.encode(text::TextUse::features, text);
        HK_TRY(source_problem_);
        HK_ASSIGN(const std::vector<int32_t> ids,
                  encoder.encode(text::TextUse::continuation, infer::with_prefix(prefix_, text)));
        if (ids.empty()) return invalid_argument("the text has no tokens: give at least one character");
        return infer::laid_out(source_, std::span(&ids, 1)).ids.front();
    }

private:
    void describe_source(const plugin::Registry& registry, const infer::Model& described) {
        const Result<generate::Options> options =
            generate::options_from(described.generation.values, nlohmann::json::object(), 0);
        if (options.ok()) decoder_start_ = options->decoder_start.value_or(-1);
        prefix_ = infer::trained_prefix(described.config, "source");
        Result<infer::SourceLayout> layout =
            described.exported != nullptr ? infer::exported_source_layout(*described.exported)
                                          : infer::source_layout([&](std::span<const std::vector<int32_t>> texts) {
                                                return infer::source_fields(registry, described, texts);
                                            });
        if (!layout.ok())
            source_problem_ = layout.status();
        else if (std::ranges::find(layout->fields, "input_ids", &infer::SourceLayout::Field::name) ==
                 layout->fields.end())
            source_problem_ =
                unsupported(folder_ + ": was exported without the layout of its texts: export it for generation");
        else
            source_ = layout.take();
    }

    std::string folder_, architecture_, head_;
    bool encoder_decoder_ = false;
    int32_t decoder_start_ = -1;
    std::string prefix_;         // of a source
    infer::SourceLayout source_; // valid if source_problem_ is empty
    Status source_problem_;
    std::vector<std::pair<std::string, graph::Shape>> parameters_;
    std::unique_ptr<text::Tokenizer> tokenizer_;
    text::TextRules rules_; // by which the model was trained
    Status tokenizer_problem_;
};

Status find_model(hk_model handle, bool given, std::shared_ptr<Model>& out) {
    if (!given) return invalid_argument("give is null");
    HK_ASSIGN(out, Handles<Model>::all().find(handle.id, "model"));
    return {};
}

} // namespace
} // namespace hekla::api

using hekla::Status;
using hekla::api::complete;
using hekla::api::Context;
using hekla::api::find_model;
using hekla::api::guarded;
using hekla::api::Handles;
using hekla::api::Model;

extern "C" {

int32_t hk_model_open(hk_context context, hk_string path, hk_model* out, hk_error* error) {
    return guarded(error, [&]() -> Status {
        if (out == nullptr) return hekla::invalid_argument("out is null");
        HK_TRY(hekla::api::check_text("path", path));
        HK_ASSIGN(const Context::Call call, Context::begin(context));
        HK_ASSIGN(std::shared_ptr<Model> model, Model::open(call.context(), hekla::api::string_of(path)));
        out->id = Handles<Model>::all().add(std::move(model));
        return {};
    });
}

void hk_model_destroy(hk_model model) {
    guarded(nullptr, [&]() -> Status {
        Handles<Model>::all().remove(model.id);
        return {};
    });
}

int32_t hk_model_describe(hk_model model, hk_model_info* out, hk_error* error) {
    return guarded(error, [&]() -> Status {
        HK_TRY(complete(out, "hk_model_info"));
        std::shared_ptr<Model> found;
        HK_TRY(find_model(model, true, found));
        found->describe(*out);
        return {};
    });
}

int32_t hk_model_parameters(hk_model model, void* user, void (*give)(void* user, const hk_parameter* parameter),
                            hk_error* error) {
    return guarded(error, [&]() -> Status {
        std::shared_ptr<Model> found;
        HK_TRY(find_model(model, give != nullptr, found));
        for (const auto& [name, shape] : found->parameters()) {
            const hk_parameter one = hekla::api::described_parameter(name, shape, false);
            give(user, &one);
        }
        return {};
    });
}

int32_t hk_model_encode(hk_model model, hk_string text, void* user,
                        void (*give)(void* user, const int32_t* ids, uint64_t count), hk_error* error) {
    return guarded(error, [&]() -> Status {
        std::shared_ptr<Model> found;
        HK_TRY(find_model(model, give != nullptr, found));
        HK_TRY(hekla::api::check_text("text", text));
        HK_ASSIGN(const hekla::text::Tokenizer* tokenizer, found->tokenizer());
        HK_ASSIGN(
            const std::vector<int32_t> ids,
            hekla::text::TextEncoder(*tokenizer).encode(hekla::text::TextUse::untrusted, hekla::api::string_of(text)));
        give(user, ids.data(), ids.size());
        return {};
    });
}

int32_t hk_model_encode_source(hk_model model, hk_string text, void* user,
                               void (*give)(void* user, const int32_t* ids, uint64_t count), hk_error* error) {
    return guarded(error, [&]() -> Status {
        std::shared_ptr<Model> found;
        HK_TRY(find_model(model, give != nullptr, found));
        HK_TRY(hekla::api::check_text("text", text));
        HK_ASSIGN(const std::vector<int32_t> ids, found->source_of(hekla::api::string_of(text)));
        give(user, ids.data(), ids.size());
        return {};
    });
}

int32_t hk_model_decode(hk_model model, const int32_t* ids, uint64_t count, void* user,
                        void (*give)(void* user, hk_string text), hk_error* error) {
    return guarded(error, [&]() -> Status {
        std::shared_ptr<Model> found;
        HK_TRY(find_model(model, give != nullptr, found));
        if (ids == nullptr && count > 0)
            return hekla::invalid_argument(fmt::format("ids is null, but count is {}", count));
        HK_ASSIGN(const hekla::text::Tokenizer* tokenizer, found->tokenizer());
        const std::string text = tokenizer->decode(std::span(ids, static_cast<std::size_t>(count)));
        give(user, hekla::api::view(text));
        return {};
    });
}

} // extern "C"
