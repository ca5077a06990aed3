// hk_generate_options.stop: called as often as the header tells.
#include "work.hpp"

namespace stop_callback_test {

using namespace hekla::test;

namespace {

struct Counted {
    int64_t calls = 0, ends_at = 0; // the number of the call that ends the generation; 0: none
};

// Returns what was generated with the model in `folder`, and counts.
hk_generate_result generate(hk_context context, const std::string& folder, Counted& counted,
                            const std::function<void(hk_generate_options&)>& with) {
    Writing writing(folder);
    writing.options.max_new_tokens = 40;
    writing.options.text = nullptr;
    writing.options.user = &counted;
    writing.options.stop = [](void* user) -> int32_t {
        auto& to = *static_cast<Counted*>(user);
        return ++to.calls == to.ends_at ? 1 : 0;
    };
    with(writing.options);
    hk_generate_result result{};
    result.struct_size = sizeof result;
    const Error error;
    const int32_t code = hk_generate(context, &writing.options, &result, error);
    REQUIRE_MESSAGE(code == HK_OK, error.message());
    return result;
}

} // namespace

TEST_CASE("stop is called before the prompt, and before every token that the host chooses or several of the device") {
    FaultDriver::get().reset();
    const Place place;
    const Host host;
    hk_context context{};
    REQUIRE(host.context(context) == HK_OK);
    train(context, Training(place, "whole"));
    const std::string folder = place.at("whole");
    const std::function<void(hk_generate_options&)> of_the_host[] = {
        [](hk_generate_options& o) { o.repetition_penalty = 1.1; },
        [](hk_generate_options& o) { o.no_repeat_ngram_size = 3; }, [](hk_generate_options& o) { o.reference = 1; }};
    for (const auto& with : of_the_host) {
        Counted counted;
        const hk_generate_result result = generate(context, folder, counted, with);
        CHECK(result.new_tokens == 40);
        CHECK(counted.calls == 40); // the first is before the prompt, which gives the first token
        Counted ended{0, 11};
        const hk_generate_result stopped = generate(context, folder, ended, with);
        CHECK(stopped.stopped != 0);
        CHECK(stopped.new_tokens == 10);
    }
    Counted of_beams;
    CHECK(generate(context, folder, of_beams, [](hk_generate_options& o) { o.beams = 2; }).new_tokens == 40);
    CHECK(of_beams.calls == 40);
    Counted of_device;
    CHECK(generate(context, folder, of_device, [](hk_generate_options&) {}).new_tokens == 40);
    CHECK(of_device.calls >= 2);
    CHECK(of_device.calls <= 40);
    Counted at_once{0, 1};
    const hk_generate_result none = generate(context, folder, at_once, [](hk_generate_options&) {});
    CHECK(none.stopped != 0);
    CHECK(none.new_tokens == 0);
    hk_context_destroy(context);
}

} // namespace stop_callback_test
