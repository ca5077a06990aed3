// A LoRA adapter in host memory, for the slots of sessions.
#pragma once

#include "base/status.hpp"
#include "hekla/session.h"
#include "infer/adapters/lora_slots.hpp"

#include <memory>
#include <string>

namespace hekla::api {

class Context;

class LoadedAdapter {
public:
    static constexpr uint64_t kHandleKind = 5;

    // folder: of the adapter; model: of its body.
    static Result<std::shared_ptr<LoadedAdapter>> open(const Context& context, const std::string& folder,
                                                       const std::string& model);
    const infer::SlotContent& content() const { return content_; }
    const std::string& folder() const { return folder_; }
    const std::string& model() const { return model_; }

private:
    LoadedAdapter() = default;
    infer::SlotContent content_;
    std::string folder_, model_;
};

} // namespace hekla::api
