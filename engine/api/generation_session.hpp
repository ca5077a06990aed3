// A session that generates text, then waits for the next prompts.
#pragma once

#include "api/session.hpp"

namespace hekla::api {

class GenerationSession final : public Session {
public:
    static Result<std::shared_ptr<Session>> create(const std::shared_ptr<Context>& context,
                                                   const hk_generate_options& options, const hk_session_options* own);
    Status prompt(std::vector<std::string> prompts) override;
    Status set_scalar(const std::string& name, double value) override;

private:
    friend class Session;
    explicit GenerationSession(const hk_generate_options& options);
    Status work() override;

    hk_generate_options given_; // without its strings
    std::vector<std::string> adapters_, prompt_adapters_;
    std::string model_;
    std::size_t rows_;                                // of the first prompts
    std::optional<std::vector<std::string>> prompts_; // not yet taken; mutex_
    bool interrupted_ = false;                        // new prompts arrived during generation; mutex_
};

} // namespace hekla::api
