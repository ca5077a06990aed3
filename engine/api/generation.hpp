// Generates texts with a model, once or several times.
#pragma once

#include "api/boundary.hpp"
#include "api/call_environment.hpp"
#include "generate/generator.hpp"
#include "hekla/hekla.h"
#include "infer/open/model.hpp"
#include "infer/texts/prompt_style.hpp"
#include "text/chat_template.hpp"

#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace hekla::api {

class Generation {
public:
    // Reads the model. `options`, whose callbacks are called, is copied without the data that it points to, which is
    // read here.
    static Result<std::unique_ptr<Generation>> open(const CallEnvironment& environment,
                                                    const hk_generate_options& options);

    // A set of prompts, with one text for each.
    struct Round {
        std::vector<std::string> prompts;                   // empty: one row without a prompt
        int64_t length = 0;                                 // see generate::Request
        std::function<Status(generate::Decoder&)> prepared; // called before the first token is fed; may be empty
        std::function<void()> token;                        // called after each token; may be empty
        // Called before each token, when rows may be set and slots filled. Returns the rows whose earlier tokens are
        // computed again, or nothing where no row was set. May be empty.
        std::function<Result<std::optional<std::vector<std::size_t>>>()> between = {};
    };
    Result<generate::Output> write(const Round& round);

    const infer::Model& model() const { return model_; }
    bool encoder_decoder() const { return decoder_->encoder_decoder(); }
    // The slot or adapter of each row, -1 for none; empty: rows do not choose.
    const std::vector<int64_t>& rows() const { return adapter_of_; }
    void set_row(std::size_t row, int64_t slot, double scale);
    // Uploads the values of Model::slot_parameters for one slot. Waits for the device.
    Status fill_slot(int64_t slot, const std::vector<std::vector<float>>& values);

private:
    // model: options.model, or a checkpoint of that run.
    static Result<std::unique_ptr<Generation>>
    open(const CallEnvironment& environment, const hk_generate_options& options, const std::filesystem::path& model);
    Generation(const CallEnvironment& environment, const hk_generate_options& options)
        : environment_(environment), options_(options),
          stop_texts_(texts(options.stop_texts, options.stop_text_count)) {}
    Status open_chat();
    // Returns the ids of a prompt of messages.
    Result<std::vector<int32_t>> chat_prompt(const std::string& messages) const;
    Result<generate::Request> request_of(const std::vector<std::string>& prompts) const;
    // Checks that the model's folder publishes settings, and logs those that are not supported.
    Status check_published() const;
    // Sets what hk_generate_options and the folder have of generate::options_from().
    void set_arguments(nlohmann::json& arguments) const;
    Status read_adapters(infer::AdapterUses& uses);
    generate::Fields adapter_fields() const;
    // Calls hk_generate_options.token.
    void tell_token(std::size_t row, std::span<const float> logits, int32_t token) const;

    CallEnvironment environment_;
    hk_generate_options options_;
    infer::Model model_;
    std::unique_ptr<generate::Decoder> decoder_;
    infer::PromptStyle style_;
    std::optional<text::ChatTemplate> chat_; // writes prompts, which are messages
    std::optional<int32_t> turn_end_;        // the token that ends an answer then
    std::vector<std::string> stop_texts_;
    std::vector<generate::LogitBias> logit_bias_;
    std::vector<double> adapter_scale_; // of each prompt's adapter
    std::vector<int64_t> adapter_of_;   // each prompt's number of an adapter, -1 for none; empty: not by prompt
};

} // namespace hekla::api
