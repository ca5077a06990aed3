// Copies of options that sessions keep have every member after the host's strings were destroyed.
#include "api/captured_call.hpp"
#include "api/owned.hpp"
#include "work.hpp"

#include <algorithm>

namespace owned_test {

using namespace hekla::test;

TEST_CASE("a copy of options has every string and array of them, after the host's are overwritten") {
    std::vector<std::string> texts{"model", "first prompt", "", "a=folder", "a", "c_attn", "auto", "2026-01-31"};
    std::vector<hk_string> prompts{view(texts[1]), view(texts[2])}, adapters{view(texts[3])},
        names{view(texts[4]), view(texts[2])};
    hk_generate_options options{};
    hk_generate_defaults(&options);
    options.model = view(texts[0]);
    options.prompts = prompts.data();
    options.prompt_count = prompts.size();
    options.adapters = adapters.data();
    options.adapter_count = adapters.size();
    options.prompt_adapters = names.data();
    options.adapter_slots = 2;
    options.adapter_targets = view(texts[5]);
    options.chat_template = view(texts[6]);
    options.chat_date = view(texts[7]);
    const nlohmann::ordered_json before = hekla::api::fields_of(&options);
    REQUIRE(before.at("prompt_adapters").at(0) == "a");

    const hekla::api::Owned<hk_generate_options> copy(options);
    for (std::string& text : texts) std::ranges::fill(text, 'x');
    for (auto* all : {&prompts, &adapters, &names}) std::ranges::fill(*all, hk_string{});
    CHECK(hekla::api::fields_of(&options) != before);
    CHECK(hekla::api::fields_of(&copy.get()) == before);

    std::string recipe = "r.toml", override = "train.max_steps=1";
    const hk_string one = view(override);
    hk_train_options training{};
    training.struct_size = sizeof training;
    training.recipe = view(recipe);
    training.overrides = &one;
    training.override_count = 1;
    const hekla::api::Owned<hk_train_options> trained(training);
    recipe[0] = override[0] = 'x';
    const nlohmann::ordered_json kept = hekla::api::fields_of(&trained.get());
    CHECK(kept.at("recipe") == "r.toml");
    CHECK(kept.at("overrides").at(0) == "train.max_steps=1");
}

} // namespace owned_test
