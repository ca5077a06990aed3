// A session that generates text, then waits for the next prompts.
#pragma once

#include "api/owned.hpp"
#include "api/session.hpp"

#include <variant>

namespace hekla::plugin {
struct ModelTensor;
}

namespace hekla::api {

class Generation;

class GenerationSession final : public Session {
public:
    static Result<std::shared_ptr<Session>> create(const std::shared_ptr<Context>& context,
                                                   const hk_generate_options& options, const hk_session_options* own);
    ~GenerationSession() override;
    Status prompt(std::vector<std::string> prompts) override;
    Status set_scalar(const std::string& name, double value) override;
    Status put_adapter(int32_t slot, const LoadedAdapter* adapter) override;
    Status set_adapter_row(uint64_t row, int32_t slot, double scale, int32_t flags) override;

private:
    friend class Session;
    explicit GenerationSession(const hk_generate_options& options);
    Status work() override;

    // What the host asked for since the last token.
    struct FilledSlot {
        int64_t slot = 0;
        std::vector<std::vector<float>> values; // of Slots::parameters
    };
    struct SetRow {
        std::size_t row = 0;
        int64_t slot = -1;
        double scale = 1.0;
        bool computed = false; // its earlier tokens again
    };
    using SlotChange = std::variant<FilledSlot, SetRow>;
    // Published when the model has been read.
    struct Slots {
        std::vector<plugin::ModelTensor> parameters;
        std::string weights, folder; // of the body
        std::vector<int64_t> rows;   // the slot of each, as the host asked
        int64_t count = 0;
    };
    Status usable_slots() const; // mutex_
    // Does what the host asked for. Returns Generation::Round::between.
    Result<std::optional<std::vector<std::size_t>>> change_slots(Generation& generation);

    Owned<hk_generate_options> given_;
    std::optional<Slots> slots_;                      // mutex_
    std::vector<SlotChange> slot_changes_;            // mutex_
    std::size_t rows_;                                // of the first prompts
    std::optional<std::vector<std::string>> prompts_; // not yet taken; mutex_
    bool interrupted_ = false;                        // new prompts arrived during generation; mutex_
};

} // namespace hekla::api
