// hekla eval --adapter: trained adapters on a body, compared with the runs that trained them and with merged models.
#include "tasks.hpp"

#include <doctest/doctest.h>
#include <filesystem>
#include <nlohmann/json.hpp>

using hekla::test::Arguments;
using hekla::test::has;
using hekla::test::joined;
using hekla::test::Place;
using hekla::test::Ran;
using hekla::test::succeed;
using nlohmann::json;

namespace {

const char* const kText = R"([model]
architecture = "gpt2"
n_layer = 2
n_head = 2
n_embd = 16
n_positions = 16
[data]
train = "text.txt"
[tokenizer]
kind = "char"
[train]
max_steps = 60
learning_rate = 1e-2
context_length = 12
per_device_train_batch_size = 4
lr_scheduler_type = "constant"
eval_steps = 30
eval_batches = 3
[output]
dir = "body"
)";

// Returns the scores that hekla eval prints, as text.
std::string scores(const Place& place, const Arguments& more) {
    return succeed(place.run(joined({"eval"}, joined(more, {"--json"})))).out;
}

double loss(const std::string& scores) { return json::parse(scores)["loss"].get<double>(); }

// A body of text, and the adapters `one` (bottleneck, by a recipe of its own) and `two` (LoRA, by the body's recipe).
void prepare_evaluation(const Place& place) {
    std::string text;
    for (int i = 0; i < 40; ++i) text += "line " + std::to_string(i * 7919 % 1000) + " of a text that is long.\n";
    place.write("text.txt", text);
    place.write("text.toml", kText);
    place.write("one.toml", std::string(kText).replace(0, std::string("[model]").size(),
                                                       "[adapter]\nid = \"bottleneck\"\nreduction_factor = 4\n"
                                                       "[model]\nfrom = \"body\"") +
                                "\n");
    succeed(place.run({"train", "text.toml"}));
    succeed(place.run({"train", "one.toml", "output.dir=one", "train.max_steps=10"}));
    succeed(place.run({"train", "text.toml", "model.from=body", "adapter.id=lora", "adapter.r=2", "output.dir=two",
                       "train.max_steps=10", "train.seed=2"}));
}

} // namespace

TEST_CASE("eval --adapter: the loss is that of the run that trained the adapter, and of the merged model") {
    const Place place;
    prepare_evaluation(place);
    const Arguments lora{"text.toml",      "model.from=body",    "adapter.id=lora", "adapter.r=2",
                         "output.dir=two", "train.max_steps=10", "train.seed=2"};
    const std::string two = scores(place, lora);
    const std::string plain = scores(place, {"text.toml"});
    CHECK(loss(two) < loss(plain));
    // By the recipe that trained it, and by the body's.
    CHECK(scores(place, joined(lora, {"--adapter", "a=two"})) == two);
    CHECK(loss(scores(place, {"text.toml", "--adapter", "a=two"})) == doctest::Approx(loss(two)).epsilon(1e-6));
    // The recipe's own adapter is not used.
    const std::string one = scores(place, {"one.toml", "output.dir=one", "train.max_steps=10"});
    CHECK(loss(one) != doctest::Approx(loss(two)).epsilon(1e-4));
    CHECK(loss(scores(place, {"one.toml", "output.dir=one", "--adapter", "a=two"})) ==
          doctest::Approx(loss(two)).epsilon(1e-6));
    CHECK(loss(scores(place, {"text.toml", "--adapter", "b=one"})) == doctest::Approx(loss(one)).epsilon(1e-6));

    succeed(place.run({"adapter", "merge", "two", "-o", "merged"}));
    CHECK(loss(scores(place, {"text.toml", "model.from=merged", "tokenizer.kind=from", "output.dir=none"})) ==
          doctest::Approx(loss(two)).epsilon(1e-5));
    succeed(place.run({"adapter", "convert", "two", "-o", "peft"}));
    CHECK(loss(scores(place, {"text.toml", "--adapter", "a=peft"})) == doctest::Approx(loss(two)).epsilon(1e-6));

    // Scales, and several together.
    CHECK(loss(scores(place, {"text.toml", "--adapter", "a=two:0"})) == doctest::Approx(loss(plain)).epsilon(1e-6));
    CHECK(loss(scores(place, {"text.toml", "--adapter", "a=two", "--adapter", "b=one:0"})) ==
          doctest::Approx(loss(two)).epsilon(1e-6));
    const double half = loss(scores(place, {"text.toml", "--adapter", "a=two:0.5"}));
    CHECK(half != doctest::Approx(loss(two)).epsilon(1e-6));
    CHECK(half != doctest::Approx(loss(plain)).epsilon(1e-6));
    const Arguments both{"text.toml", "--adapter", "a=two", "--adapter", "b=one"};
    succeed(place.run({"train", "text.toml", "model.from=body", "adapters.a=two", "adapters.b=one",
                       "combine.how=\"stack(a, b)\"", "adapters.b.train=true", "output.dir=both", "train.max_steps=1",
                       "train.learning_rate=0"}));
    CHECK(loss(scores(place, both)) ==
          doctest::Approx(loss(scores(place, {"text.toml", "model.from=body", "adapters.a=two", "adapters.b=one",
                                              "combine.how=\"stack(a, b)\"", "adapters.b.train=true", "output.dir=both",
                                              "train.max_steps=1", "train.learning_rate=0"})))
              .epsilon(1e-6));
    // Arrow, whose prototypes are computed, but nothing that would have to be trained.
    succeed(place.run({"train", "text.toml", "model.from=body", "adapter.id=lora", "adapter.r=4", "output.dir=three",
                       "train.max_steps=10", "train.seed=3"}));
    const Arguments routed{
        "text.toml",       "model.from=body",  "adapters.a=two",   "adapters.b=three", "combine.how=\"arrow(a, b)\"",
        "combine.top_k=1", "output.dir=arrow", "train.max_steps=0"};
    succeed(place.run(joined({"train"}, routed)));
    const Arguments given{"text.toml", "--adapter", "a=two", "--adapter", "b=three", "--combine"};
    CHECK(loss(scores(place, joined(given, {"arrow(a, b)", "--combine", "top_k=1"}))) ==
          doctest::Approx(loss(scores(place, routed))).epsilon(1e-6));
    const Ran trained = place.run(joined(joined({"eval"}, given), {"soft(a, b)"}));
    CHECK(trained.status == 1);
    CHECK(has(trained.err, "combine.how is 'soft(a, b)', whose 'adapter.combine."));
    // The page names what was evaluated; the run's curves are not of it.
    succeed(place.run({"eval", "text.toml", "--adapter", "a=two", "--report", "page.html"}));
    const std::string page = place.read("page.html");
    CHECK(has(page, "text.toml with a=two"));
    CHECK_FALSE(has(page, "<h2>Curves</h2>"));
}

TEST_CASE("eval --adapter: parameters of the body that were trained with the only adapter are used") {
    const Place place;
    prepare_evaluation(place);
    const Arguments norms{"text.toml", "model.from=body", "adapter.id=ln_tuning", "output.dir=norms",
                          "train.max_steps=5"};
    succeed(place.run(joined({"train"}, norms)));
    CHECK(loss(scores(place, {"text.toml", "--adapter", "n=norms"})) ==
          doctest::Approx(loss(scores(place, norms))).epsilon(1e-6));
    const Ran together = place.run({"eval", "text.toml", "--adapter", "n=norms", "--adapter", "a=two"});
    CHECK(together.status == 1);
    CHECK(has(together.err, "adapters that are used together cannot have a body each"));
}

TEST_CASE("eval --adapter: the head that was trained with the adapter is used") {
    const Place place;
    hekla::test::write_task(place);
    succeed(place.run({"train", "task.toml", "train.max_steps=3"}));
    const Arguments tuned{"task.toml",        "model.from=run",    "adapter.id=lora",
                          "output.dir=tuned", "head.pooling=mean", "train.max_steps=20"};
    succeed(place.run(joined({"train"}, tuned)));
    const std::string own = scores(place, tuned);
    CHECK(scores(place, joined(tuned, {"--adapter", "a=tuned"})) == own);
    const Arguments body{"task.toml", "model.from=run", "adapter.id=lora", "head.pooling=mean"};
    CHECK(loss(scores(place, joined(body, {"--adapter", "a=tuned:0.5"}))) != doctest::Approx(loss(own)).epsilon(1e-6));
    const Ran two = place.run(joined(joined({"eval"}, body), {"--adapter", "a=tuned", "--adapter", "b=tuned"}));
    CHECK(two.status == 1);
    CHECK(has(two.err, "would be random: the body run does not have it, and of several adapters none brings a head"));
}

TEST_CASE("eval --adapter: a wrong adapter or body is one error") {
    const Place place;
    prepare_evaluation(place);
    const auto refused = [&](const Arguments& more) {
        const Ran ran = place.run(joined({"eval", "text.toml"}, more));
        CHECK(ran.status == 1);
        CHECK(ran.out.empty());
        return ran.err;
    };
    CHECK(has(refused({"--adapter", "two"}), "the adapter 'two' does not match NAME=FOLDER or NAME=FOLDER:SCALE"));
    CHECK(has(refused({"--adapter", "a=two:nan"}), "its scale is not finite"));
    CHECK(has(refused({"--adapter", "a=one", "--adapter", "a=two"}), "two adapters have the name 'a'"));
    CHECK(has(refused({"--adapter", "a=nowhere"}), "adapter 'a': nowhere: is not a folder"));
    CHECK(has(refused({"--adapter", "a=body"}), "adapter 'a': body: is not an adapter"));
    CHECK(has(refused({"output.dir=nowhere", "--adapter", "a=two"}),
              "output.dir, whose trained model the adapters act on: train it first"));
    CHECK(has(refused({"output.dir=one", "--adapter", "a=two"}), "holds a trained adapter without a body"));
    succeed(place.run({"train", "text.toml", "output.dir=other", "train.seed=9", "train.max_steps=2"}));
    CHECK(has(refused({"output.dir=other", "--adapter", "a=two"}), "two: was trained with another body"));
    CHECK(place.run({"eval", "text.toml", "--seeds", "2", "--adapter", "a=two"}).status == 2);
}

TEST_CASE("eval --report: the weights of adapters that a router joins") {
    const Place place;
    prepare_evaluation(place);
    succeed(place.run({"train", "text.toml", "model.from=body", "adapter.id=lora", "adapter.r=4", "output.dir=three",
                       "train.max_steps=10", "train.seed=3"}));
    const auto page_of = [&](const std::string& how, const Arguments& more) {
        const Arguments run = joined({"text.toml", "model.from=body", "adapters.a=three", "adapters.b=two",
                                      "output.dir=routed", "train.max_steps=4", "combine.how=\"" + how + "\""},
                                     more);
        std::filesystem::remove_all(place.path("routed"));
        succeed(place.run(joined({"train"}, run)));
        const std::string plain = scores(place, run);
        CHECK(loss(scores(place, joined(run, {"--report", "page.html"}))) ==
              doctest::Approx(loss(plain)).epsilon(1e-6));
        return place.read("page.html");
    };
    const std::string soft = page_of("soft(a, b)", {});
    CHECK(has(soft, "<h2>Weights of adapters</h2>"));
    CHECK(has(soft, ">transformer.h.1.attn.c_attn</text>"));
    CHECK(has(soft, "<h3>b</h3>"));
    // 3 to 1 where both act, and 0 where one of them does not.
    const std::string average = page_of("average(a, b)", {"combine.weights=[3, 1]", "adapters.b.train=true"});
    CHECK(has(average, ">0.75</text>"));
    CHECK(has(average, ">0.25</text>"));
    const Arguments other{"combine.weights=[3, 1]", "adapters.b.train=true", "adapters.a=one"};
    CHECK(has(page_of("average(a, b)", other), ">0.00</text>"));
    // Of a combiner in another, both are shown.
    const std::string nested = page_of("soft(a, average(b))", {});
    CHECK(has(nested, "<h3>average(b)</h3>"));
    CHECK(has(nested, "<h3>b</h3>"));
    CHECK_FALSE(has(page_of("stack(a, b)", {"adapters.b.train=true"}), "Weights of adapters"));
}
