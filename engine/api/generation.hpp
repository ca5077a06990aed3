// Texts of a model as a host asks for them, once or again and again.
#pragma once

#include "api/call_environment.hpp"
#include "generate/generator.hpp"
#include "hekla/hekla.h"
#include "infer/model.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace hekla::api {

class Generation {
public:
    // Reads the model. `options`, whose callbacks are called, is copied but for what it points to, which is read here.
    static Result<std::unique_ptr<Generation>> open(const CallEnvironment& place, const hk_generate_options& options);

    struct Turn {
        std::vector<std::string> prompts;                // none: one row from nothing
        int64_t length = 0;                              // see generate::Request
        std::function<Status(generate::Decoder&)> begun; // everything is there, and no token was fed; may be empty
        std::function<void()> token;                     // after each one; may be empty
    };
    // May be called again.
    Result<generate::Output> say(const Turn& turn);

private:
    Generation(const CallEnvironment& place, const hk_generate_options& options) : place_(place), options_(options) {}
    Result<generate::Request> request_of(const std::vector<std::string>& prompts) const;

    CallEnvironment place_;
    hk_generate_options options_;
    infer::Model model_;
    std::unique_ptr<generate::Decoder> decoder_;
    infer::PromptStyle style_;
};

} // namespace hekla::api
