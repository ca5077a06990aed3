// Several adapters on one trained model: trained together, saved, opened again, and what is rejected.
#include "program.hpp"

#include <cstring>
#include <doctest/doctest.h>
#include <filesystem>
#include <nlohmann/json.hpp>

using hekla::test::generated_texts;
using hekla::test::has;
using hekla::test::joined;
using hekla::test::Place;
using hekla::test::Ran;
using hekla::test::succeed;
using nlohmann::json;

namespace {

const char* const kSmallBody = R"([model]
architecture = "gpt2"
n_layer = 2
n_head = 2
n_embd = 16
n_positions = 16
[data]
valid_fraction = 0.0
train = "text.txt"
[tokenizer]
kind = "char"
[train]
max_steps = 40
learning_rate = 1e-2
context_length = 12
per_device_train_batch_size = 4
lr_scheduler_type = "constant"
eval_steps = 0
save_steps = 0
[output]
dir = "body"
)";

// A trained body, and adapters `one` (bottleneck) and `two` (LoRA) on it.
void prepare(const Place& place) {
    place.write("text.txt", "is there a line of 7 or 9? there is none.\nline 42 of a text that is long enough.\n");
    place.write("body.toml", kSmallBody);
    succeed(place.run({"train", "body.toml"}));
    succeed(place.run({"train", "body.toml", "model.from=body", "adapter.id=bottleneck", "adapter.reduction_factor=4",
                       "output.dir=one", "train.max_steps=10"}));
    succeed(place.run({"train", "body.toml", "model.from=body", "adapter.id=lora",
                       "adapter.target_modules=[\"mlp.c_fc\", \"mlp.c_proj\"]", "adapter.r=2", "output.dir=two",
                       "train.max_steps=10", "train.seed=2"}));
}

const std::vector<std::string> kBoth{"train",          "body.toml",          "model.from=body", "adapters.a=one",
                                     "adapters.b=two", "train.max_steps=12", "output.dir=both", "train.save_steps=6"};

std::string text_of(const Place& place, const std::string& folder, const std::vector<std::string>& options) {
    return generated_texts(place,
                           joined({folder, "--prompt", "is", "--prompt", "line 4", "--max-new-tokens", "7"}, options));
}

// Returns the tensor's bytes in a safetensors file, or nothing.
std::string bytes_of(const std::string& file, const std::string& name) {
    uint64_t size = 0;
    REQUIRE(file.size() > sizeof size);
    std::memcpy(&size, file.data(), sizeof size);
    const json header = json::parse(file.substr(sizeof size, size));
    if (!header.contains(name)) return {};
    const auto begin = header[name]["data_offsets"][0].get<std::size_t>(),
               end = header[name]["data_offsets"][1].get<std::size_t>();
    return file.substr(sizeof size + size + begin, end - begin);
}

} // namespace

TEST_CASE("adapters: several act on one body, their values stay, and what combines them is trained and saved") {
    const Place place;
    prepare(place);
    const std::string body = place.read("body/model.safetensors");
    const std::string mine = "transformer.h.0.mlp.c_proj.";
    const std::pair<const char*, const char*> cases[] = {
        {"stack(a, b)", ""}, {"average(a, b)", ""}, {"soft(a, b)", ""},
        {"hard(a, b)", ""},  {"fusion(a, b)", ""},  {"soft(a, b)", "combine.per=\"prefix\""}};
    for (const auto& [how, option] : cases) {
        CAPTURE(how);
        CAPTURE(option);
        const bool trains = !std::string(how).starts_with("stack") && !std::string(how).starts_with("average");
        std::vector<std::string> train = joined(kBoth, {std::string("combine.how=\"") + how + "\""});
        if (!trains) {
            const Ran nothing = place.run(train);
            CHECK(nothing.status == 1);
            CHECK(has(nothing.err, "nothing is trained: the adapters stay as their folders have them"));
            train.emplace_back("adapters.b.train=true");
        }
        if (*option != 0) train.emplace_back(option);
        const Ran ran = succeed(place.run(train));
        CHECK(has(ran.out + ran.err, "one: 8 tensors of the adapter loaded"));
        CHECK(place.read("body/model.safetensors") == body);
        const std::string saved = place.read("both/model.safetensors"), own = place.read("one/model.safetensors");
        const std::string down = mine + "adapter_down.0.weight";
        CHECK(bytes_of(saved, "adapter.a." + down) == bytes_of(own, "adapter." + down));
        const std::string b = mine + "lora_B.weight";
        CHECK((bytes_of(saved, "adapter.b." + b) == bytes_of(place.read("two/model.safetensors"), "adapter." + b)) ==
              trains);
        if (std::string(how).starts_with("hard")) { // interrupted and resumed, it is the same
            std::filesystem::rename(place.path("both"), place.path("whole"));
            std::vector<std::string> half = train;
            for (std::string& argument : half)
                if (argument == "train.max_steps=12") argument = "train.max_steps=6";
            succeed(place.run(half));
            succeed(place.run(train));
            CHECK(place.read("both/model.safetensors") == saved);
        }
        const std::string greedy = text_of(place, "both", {"--greedy"});
        CHECK(greedy == text_of(place, "both", {"--greedy", "--reference"}));
        // A prompt has the text that it has alone.
        const std::string alone =
            succeed(place.run({"generate", "both", "--prompt", "line 4", "--max-new-tokens", "7", "--greedy"})).out;
        CHECK(has(alone, greedy.substr(greedy.find("line 4"))));
        CHECK(text_of(place, "both", {"--beams", "3"}) == text_of(place, "both", {"--beams", "3", "--reference"}));
        const Ran inspected = succeed(place.run({"adapter", "inspect", "both", "--json"}));
        const json found = json::parse(inspected.out);
        CHECK(found["adapter"] == json::parse(place.read("both/config.json"))["hekla"]["combination"]);
        CHECK(found["config"]["b"]["id"] == "lora");
        if (std::string(how).starts_with("soft")) { // it is listed, and exported with what joins the adapters
            const Ran listed = succeed(place.run({"adapter", "list", "both", "--json"}));
            CHECK(has(listed.out, "\"soft(a, b)\""));
            succeed(place.run({"export", "both", "both.hekla"}));
            CHECK(text_of(place, "both.hekla", {"--greedy"}) == greedy);
        }
        std::filesystem::remove_all(place.path("both"));
        std::filesystem::remove_all(place.path("whole"));
    }
    // Training of one adapter continues from its folder; with a learning rate of 0 it is unchanged.
    succeed(place.run({"train", "body.toml", "model.from=body", "adapter.from=two", "output.dir=again",
                       "train.max_steps=1", "train.learning_rate=0"}));
    const std::string name = "adapter." + mine + "lora_B.weight";
    CHECK(bytes_of(place.read("again/model.safetensors"), name) == bytes_of(place.read("two/model.safetensors"), name));
}

TEST_CASE("adapters: arrow routes trained LoRAs without training") {
    const Place place;
    prepare(place);
    succeed(place.run({"train", "body.toml", "model.from=body", "adapter.id=lora", "adapter.r=3", "output.dir=three",
                       "train.max_steps=10", "train.seed=3"}));
    const auto train = [&](const std::string& output, const std::vector<std::string>& more) {
        return place.run(joined({"train", "body.toml", "model.from=body", "adapters.a=two", "adapters.b=three",
                                 "combine.how=\"arrow(a, b)\"", "combine.top_k=1", "output.dir=" + output},
                                more));
    };
    CHECK(has(train("no", {}).err, "or train.max_steps = 0 to combine them without training"));
    succeed(train("arrow", {"train.max_steps=0"}));
    const std::string greedy = text_of(place, "arrow", {"--greedy"});
    CHECK(greedy == text_of(place, "arrow", {"--greedy", "--reference"}));
    CHECK(has(place.run({"adapter", "merge", "arrow", "-o", "no"}).err, "'arrow(a,b)' cannot be merged"));
    // Prototypes stay where a LoRA learns, also in a run that is continued.
    succeed(train("learns", {"train.max_steps=6", "train.save_steps=3", "adapters.b.train=true"}));
    succeed(train("again", {"train.max_steps=3", "train.save_steps=3", "adapters.b.train=true"}));
    succeed(train("again", {"train.max_steps=6", "train.save_steps=3", "adapters.b.train=true"}));
    CHECK(place.read("learns/model.safetensors") == place.read("again/model.safetensors"));
    const std::string name = "adapter.combine.transformer.h.0.attn.c_attn.prototypes";
    const std::string prototypes = bytes_of(place.read("arrow/model.safetensors"), name);
    CHECK(prototypes.size() == 16 * sizeof(float)); // b alone acts there
    CHECK(prototypes == bytes_of(place.read("learns/model.safetensors"), name));
    // Without trained matrices there is nothing to compare.
    CHECK(has(train("no", {"adapters.c.id=lora", "combine.how=\"arrow(a, b, c)\""}).err,
              "its initial value needs trained adapters: set adapters.NAME.from"));
    succeed(place.run(
        {"train", "body.toml", "model.from=body", "adapter.id=lora", "output.dir=zeros", "train.max_steps=0"}));
    CHECK(has(train("no", {"adapters.b=zeros", "train.max_steps=0"}).err, "whose matrices are not zeros"));
    CHECK_FALSE(place.exists("no/model.safetensors"));
}

TEST_CASE("adapters: arrow routes the adapters that a command is given like the folder of a run" *
          doctest::test_suite("long")) {
    const Place place;
    prepare(place);
    for (const auto& [name, option] :
         {std::pair{"three", "adapter.use_dora=false"}, std::pair{"dora", "adapter.use_dora=true"}})
        succeed(place.run({"train", "body.toml", "model.from=body", "adapter.id=lora", "adapter.r=3", option,
                           "adapter.target_modules=[\"mlp.c_fc\", \"attn.c_attn\"]", std::string("output.dir=") + name,
                           "train.max_steps=10", "train.seed=3"}));
    const auto use = [](const std::string& b, const std::string& how, const std::vector<std::string>& more = {}) {
        return joined({"--adapter", "a=two", "--adapter", "b=" + b, "--combine", how}, more);
    };
    const std::vector<std::string> options[] = {{"--greedy"}, {"--beams", "3"}, {"--greedy", "--reference"}};
    for (const char* top_k : {"top_k=1", "top_k=2"}) {
        CAPTURE(top_k);
        std::filesystem::remove_all(place.path("arrow"));
        succeed(place.run({"train", "body.toml", "model.from=body", "adapters.a=two", "adapters.b=three",
                           "combine.how=\"arrow(a, b)\"", std::string("combine.") + top_k,
                           "combine.router_temperature=0.1", "output.dir=arrow", "train.max_steps=0"}));
        const std::vector<std::string> routed =
            use("three", "arrow(a, b)", {"--combine", top_k, "--combine", "router_temperature=0.1"});
        for (const std::vector<std::string>& option : options) {
            CAPTURE(option.back());
            CHECK(text_of(place, "body", joined(option, routed)) == text_of(place, "arrow", option));
        }
        CHECK(succeed(place.run(joined({"embed", "body", "is there"}, routed))).out ==
              succeed(place.run({"embed", "arrow", "is there"})).out);
    }
    // With PEFT's folder of one of them; and one alone, or combined in another way, is that.
    succeed(place.run({"adapter", "convert", "three", "-o", "peft"}));
    const std::vector<std::string> greedy{"--greedy"};
    CHECK(text_of(place, "body", joined(greedy, use("peft", "arrow(a, b)"))) ==
          text_of(place, "body", joined(greedy, use("three", "arrow(a, b)"))));
    CHECK(text_of(place, "body", joined(greedy, {"--adapter", "a=two", "--combine", "arrow(a)"})) ==
          text_of(place, "body", joined(greedy, {"--adapter", "a=two"})));
    CHECK(text_of(place, "body",
                  joined(greedy, use("three", "average(a, b)",
                                     {"--combine", "weights=[1, 0]", "--combine", "normalize=false"}))) ==
          text_of(place, "body", joined(greedy, {"--adapter", "a=two"})));
    const std::vector<std::string> plan{"generate", "body", "--plan", "2x8"};
    succeed(place.run(joined(plan, use("three", "arrow(a, b)"))));

    const auto refused = [&](const std::vector<std::string>& arguments) {
        const Ran ran = place.run(joined({"generate", "body", "--prompt", "is", "--prompt", "a"}, arguments));
        CHECK(ran.status == 1);
        CHECK(ran.out.empty());
        return ran.err;
    };
    CHECK(has(refused(use("three", "arrow(a, b)", {"--adapter-rows", "a,b"})),
              "combine.how is 'arrow(a, b)', which acts on every row, but rows choose"));
    CHECK(has(refused(use("three:0.5", "arrow(a, b)")), "adapter 'b' has the scale 0.5, which does not act with"));
    CHECK(has(refused(use("one", "arrow(a, b)")), "arrow compares LoRA's matrices at linear layers, and 'b' at"));
    CHECK(has(refused(use("dora", "arrow(a, b)")), "arrow compares LoRA's matrices at linear layers, and 'b' at"));
    CHECK(has(refused(use("three", "soft(a, b)")), "is trained, and the adapters' folders do not have it"));
    CHECK(has(refused(use("three", "arrow(a, c)")), "combine.how: 'arrow(a, c)', character 10: 'c' is not an adapter"));
    CHECK(has(refused(use("three", "top_k=1")), "combine.top_k is given without combine.how"));
    succeed(place.run(
        {"train", "body.toml", "model.from=body", "adapter.id=lora", "output.dir=zeros", "train.max_steps=0"}));
    CHECK(has(refused(use("zeros", "arrow(a, b)")), "whose matrices are not zeros"));
    const Ran slots = place.run(joined(plan, use("three", "arrow(a, b)", {"--adapter-slots", "2"})));
    CHECK(slots.status == 1);
    CHECK(has(slots.err, "combine.how is 'arrow(a, b)', which acts on every row"));
    CHECK(place.run({"generate", "body", "--combine", "arrow(a, b)"}).status == 2); // it needs --adapter
}

TEST_CASE("adapters: a wrong combination, folder or section is one error") {
    const Place place;
    prepare(place);
    const auto refused = [&](const std::vector<std::string>& more) {
        const Ran ran = place.run(joined({"train", "body.toml", "model.from=body", "output.dir=bad"}, more));
        CHECK(ran.status == 1);
        CHECK_FALSE(std::filesystem::exists(place.path("bad/model.safetensors")));
        return ran.err;
    };
    const std::string how = "combine.how=\"fusion(a, b)\"";
    CHECK(has(refused({"adapters.a=one", "adapters.b=two"}), "[combine] needs `how` for the adapters a, b"));
    CHECK(has(refused({"adapters.a=one", how}), "combine.how: 'fusion(a, b)', character 11: 'b' is not an adapter"));
    CHECK(has(refused({"adapters.a=one", "adapter.id=lora"}), "both [adapter] and [adapters] are given"));
    CHECK(has(refused({"adapters.a=one", "adapters.b.r=4", how}), "[adapters.b] needs `id`"));
    CHECK(has(refused({"adapters.a.from=one", "adapters.a.id=lora"}), "[adapters.a] has both `id`"));
    CHECK(has(refused({"adapters.a.from=one", "adapters.a.r=4"}), "[adapters.a] has the key 'r', but `from` = one"));
    CHECK(
        has(refused({"adapters.a.id=lora", "adapters.a.train=false"}), "adapters.a.train = false, but the adapter is"));
    CHECK(has(refused({"adapters.combine=one"}), "'combine' is not the name of an adapter"));
    CHECK(has(refused({how}), "[combine] joins the adapters of [adapters.NAME], and there are none"));
    CHECK(has(refused({"adapters.a=nowhere", "adapters.b=two", how}), "adapters.a.from: "));
    CHECK(has(refused({"adapters.a=body", "adapters.b=two", how}), "is not an adapter: expected the folder of a run"));
    CHECK(has(refused({"adapters.a=one", "adapters.b=two", how, "combine.keys=true"}), "did you mean 'key'?"));
    succeed(place.run({"train", "body.toml", "output.dir=other", "train.seed=9"}));
    CHECK(has(refused({"model.from=other", "adapters.a=one", "adapters.b=two", how}),
              "adapters.a.from: one: was trained with another body"));
    // Norms that were trained with an adapter are of the body.
    succeed(place.run(
        {"train", "body.toml", "model.from=body", "adapter.id=ln_tuning", "output.dir=norms", "train.max_steps=2"}));
    CHECK(has(refused({"adapters.a=norms", "adapters.b=two", how}), "used together cannot have a body each"));
    succeed(place.run(joined(kBoth, {how})));
    CHECK(has(refused({"adapters.a=both", "adapters.b=two", how}), "contains several adapters"));
}

TEST_CASE("adapters: each prompt of a batch has its own, or none, and gets what it gets alone" *
          doctest::test_suite("long")) {
    const Place place;
    prepare(place);
    const auto rows_of = [&](const std::vector<std::string>& options) {
        const Ran ran = succeed(place.run(joined({"generate", "body", "--prompt", "is", "--prompt", "line 4",
                                                  "--prompt", "is", "--max-new-tokens", "7", "--json"},
                                                 options)));
        return json::parse(ran.out)["rows"];
    };
    for (const std::vector<std::string>& how :
         {std::vector<std::string>{"--greedy"}, {"--beams", "3"}, {"--greedy", "--reference"}}) {
        CAPTURE(how[0]);
        const json none = rows_of(how), a = rows_of(joined(how, {"--adapter", "a=one"})),
                   b = rows_of(joined(how, {"--adapter", "b=two"}));
        const std::vector<std::string> both = joined(how, {"--adapter", "a=one", "--adapter", "b=two"});
        CHECK(rows_of(joined(both, {"--adapter-rows", "a,b,-"})) == json::array({a[0], b[1], none[2]}));
        if (how.size() > 1) continue;
        CHECK(a != b);
        CHECK(rows_of(joined(both, {"--adapter-rows", "-,a,b"})) == json::array({none[0], a[1], b[2]}));
        CHECK(rows_of(joined(both, {"--adapter-rows", "-,-,-"})) == none);
        CHECK(rows_of(joined(how, {"--adapter", "a=one:0"})) == none);
        CHECK(rows_of(joined(how, {"--adapter", "a=one", "--adapter", "b=two:0"})) == a);
    }
    // PEFT's folder is the same adapter; features and predictions have it too.
    succeed(place.run({"adapter", "convert", "two", "-o", "peft"}));
    CHECK(rows_of({"--greedy", "--adapter", "b=peft"}) == rows_of({"--greedy", "--adapter", "b=two"}));
    const std::string plain = succeed(place.run({"embed", "body", "is"})).out;
    CHECK(succeed(place.run({"embed", "body", "is", "--adapter", "a=one"})).out ==
          succeed(place.run({"embed", "one", "is"})).out);
    CHECK(succeed(place.run({"embed", "body", "is", "--adapter", "a=one"})).out != plain);

    const auto refused = [&](const std::vector<std::string>& options) {
        const Ran ran = place.run(joined({"generate", "body", "--prompt", "is", "--prompt", "a"}, options));
        CHECK(ran.status == 1);
        return ran.err;
    };
    CHECK(has(refused({"--adapter", "one"}), "the adapter 'one' does not match NAME=FOLDER or NAME=FOLDER:SCALE"));
    CHECK(has(refused({"--adapter", "a="}), "does not match NAME=FOLDER"));
    CHECK(has(refused({"--adapter", "a=one:inf"}), "its scale is not finite"));
    CHECK(has(refused({"--adapter", "a=one", "--adapter", "a=two"}), "two adapters have the name 'a'"));
    CHECK(has(refused({"--adapter", "a=body"}), "adapter 'a': body: is not an adapter"));
    CHECK(has(refused({"--adapter", "a=one", "--adapter-rows", "a"}), "--adapter-rows has 1 names; expected one for"));
    CHECK(has(refused({"--adapter", "a=one", "--adapter-rows", "a,c"}), "prompt 2: 'c' is not an adapter; expected"));
    CHECK(has(refused({"--adapter-rows", "-,-"}), "hk_generate_options.prompt_adapters is not null, but there are no"));
    const Ran twice = place.run({"generate", "one", "--prompt", "is", "--adapter", "b=two"});
    CHECK(has(twice.err, "the model's folder is that of an adapter"));
    succeed(place.run({"train", "body.toml", "output.dir=other", "train.seed=9"}));
    const Ran other = place.run({"generate", "other", "--prompt", "is", "--adapter", "b=two"});
    CHECK(has(other.err, "adapter 'b': two: was trained with another body"));
    succeed(place.run({"train", "body.toml", "model.from=body", "adapter.id=prompt_tuning",
                       "adapter.num_virtual_tokens=2", "output.dir=prompt", "train.max_steps=2"}));
    CHECK(has(refused({"--adapter", "a=one", "--adapter", "p=prompt", "--adapter-rows", "a,p"}),
              "has virtual tokens, which a combiner cannot weigh"));
    succeed(place.run({"generate", "body", "--prompt", "is", "--adapter", "a=one", "--adapter", "p=prompt"}));
}
