// Prompts that do not fit into the model's context: with beams and without.
#include "work.hpp"

namespace long_prompts_test {

using namespace hekla::test;

TEST_CASE("a prompt beyond the context is named where rows cannot continue from their last half") {
    FaultDriver::get().reset();
    const Place place;
    const Host host;
    hk_context context{};
    REQUIRE(host.context(context) == HK_OK);
    train(context, Training(place, "whole"));
    const std::string folder = place.at("whole"), lines = "line of the text, and some more line of the text, and some "
                                                          "more line of the text";
    const hk_string prompts[] = {view("line"), view(lines)};
    const auto refusal = [&](const std::function<void(hk_generate_options&)>& with) {
        Writing writing(folder);
        writing.options.prompts = prompts;
        writing.options.prompt_count = 2;
        writing.options.max_new_tokens = 4;
        with(writing.options);
        const Error error;
        const int32_t code = hk_generate(context, &writing.options, nullptr, error);
        CHECK((code == HK_OK) == error.message().empty());
        return error.message();
    };
    const std::string expected = "prompt 2 has " + std::to_string(lines.size()) +
                                 " tokens, which do not fit into the model's context of 64 with 4 new ones";
    for (const int32_t reference : {0, 1}) {
        const std::string by_beams = refusal([&](hk_generate_options& o) {
            o.beams = 2;
            o.reference = reference;
        });
        CHECK_MESSAGE(by_beams.find(expected) != std::string::npos, by_beams);
        CHECK(by_beams.find("or generate without beams") != std::string::npos);
    }
    const std::string fixed = refusal([](hk_generate_options& o) { o.slide_context = 0; });
    CHECK_MESSAGE(fixed.find(expected) != std::string::npos, fixed);
    CHECK(fixed.find("beams") == std::string::npos);
    CHECK(refusal([](hk_generate_options&) {}) == "");
    hk_context_destroy(context);
}

} // namespace long_prompts_test
