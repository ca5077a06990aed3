// What a model's folder tells about how it can be fine-tuned.
#pragma once

#include "base/status.hpp"
#include "model/dtype.hpp"
#include "plugin/registry/registry.hpp"
#include "text/chat_template.hpp"
#include "text/tokenizer.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace hekla::app {

struct ModelFacts {
    std::string folder; // as it was given
    std::string architecture;
    int64_t parameters = 0;                  // numbers in the folder's weights
    model::DType stored = model::DType::f32; // of most of them
    int64_t positions = 0;                   // longest row, in tokens; 0: the configuration has no limit
    bool causal = false;                     // it can write text
    std::unique_ptr<text::Tokenizer> tokenizer;
    std::optional<text::ChatTemplate> chat; // the folder's own

    std::string text() const; // one line
};

// Looks at a folder. Errors: it is not a model's, or not one that can be fine-tuned with text; it has no tokenizer.
Result<ModelFacts> look_at_model(const plugin::Registry& registry, const std::string& folder);

} // namespace hekla::app
