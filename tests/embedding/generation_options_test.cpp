// Options of hk_generate_options that end texts and change how tokens are chosen: on the device, in the reference and
// in a session.
#include "work.hpp"

#include <cmath>

namespace generation_options_test {

using namespace hekla::test;

namespace {

using With = std::function<void(hk_generate_options&)>;

// A trained model, and its texts for two prompts, drawn with a seed.
struct Writer {
    Writer() {
        FaultDriver::get().reset();
        REQUIRE(host.context(context) == HK_OK);
        train(context, Training(place, "whole"));
    }
    ~Writer() { hk_context_destroy(context); }
    Writer(const Writer&) = delete;
    Writer& operator=(const Writer&) = delete;

    static void fill(hk_generate_options& options, const hk_string* prompts) {
        options.prompts = prompts;
        options.prompt_count = 2;
        options.greedy = 0;
        options.seed = 5;
        options.max_new_tokens = 40;
    }
    std::vector<std::string> texts(const With& with, hk_generate_result* result = nullptr) const {
        std::vector<std::string> rows(2);
        Writing writing(folder());
        fill(writing.options, prompts);
        writing.options.user = &rows;
        writing.options.text = [](void* user, uint64_t row, hk_string piece) {
            auto& to = *static_cast<std::vector<std::string>*>(user);
            to.at(row).append(piece.data, static_cast<std::size_t>(piece.size));
        };
        with(writing.options);
        const Error error;
        const int32_t code = hk_generate(context, &writing.options, result, error);
        REQUIRE_MESSAGE(code == HK_OK, error.message());
        return rows;
    }
    std::string refusal(const With& with) const {
        Writing writing(folder());
        fill(writing.options, prompts);
        with(writing.options);
        const Error error;
        CHECK(hk_generate(context, &writing.options, nullptr, error) != HK_OK);
        return error.message();
    }
    std::string folder() const { return place.at("whole"); }

    Place place;
    Host host;
    hk_context context{};
    const std::string first = "line ", second = "of the text, and ";
    const hk_string prompts[2] = {view(first), view(second)};
};

std::string before(const std::string& text, const std::string& stop) { return text.substr(0, text.find(stop)); }

} // namespace

TEST_CASE("a stop text ends its row, and is not part of the text") {
    const Writer writer;
    const std::vector<std::string> whole = writer.texts([](auto&) {});
    REQUIRE(whole[0].size() == 40);
    const std::string inside = whole[0].substr(11, 3);
    const hk_string stops[] = {view(inside)};
    for (const int32_t reference : {0, 1}) {
        hk_generate_result result{};
        result.struct_size = sizeof result;
        const std::vector<std::string> ended = writer.texts(
            [&](hk_generate_options& o) {
                o.stop_texts = stops;
                o.stop_text_count = 1;
                o.reference = reference;
            },
            &result);
        CHECK(ended == std::vector{before(whole[0], inside), before(whole[1], inside)});
        CHECK(result.stopped == 0);
        CHECK(result.new_tokens < 80);
    }

    // A session, whose second prompts are answered as if they were the first.
    Writing writing(writer.folder());
    Writer::fill(writing.options, writer.prompts);
    writing.options.prompt_count = 1;
    writing.options.stop_texts = stops;
    writing.options.stop_text_count = 1;
    hk_session session{};
    const Error error;
    REQUIRE(hk_session_generate(writer.context, &writing.options, nullptr, &session, error) == HK_OK);
    run_until(session, HK_SESSION_IDLE, 1e6);
    CHECK(writing.taken() == before(whole[0], inside));
    REQUIRE(hk_session_prompt(session, writer.prompts, 1, error) == HK_OK);
    run_until(session, HK_SESSION_IDLE, 1e6);
    CHECK(writing.taken() == before(whole[0], inside));
    hk_session_destroy(session);
}

TEST_CASE("a bias of -inf forbids a token, and one of 1000 forces it") {
    const Writer writer;
    const auto with = [&](const std::vector<std::string>& biases, int32_t reference, int64_t beams = 0) {
        std::vector<hk_string> views;
        for (const std::string& one : biases) views.push_back(view(one));
        return writer.texts([&](hk_generate_options& o) {
            o.logit_biases = views.data();
            o.logit_bias_count = views.size();
            o.reference = reference;
            o.beams = beams;
        });
    };
    const std::vector<std::string> whole = writer.texts([](auto&) {});
    const std::string letter = whole[0].substr(whole[0].find_first_of("abcdefghijklmnopqrstuvwxyz0123456789"), 1);
    const std::string quoted = "\"" + letter + "\"";
    for (const int32_t reference : {0, 1}) {
        CHECK(with({quoted + "=0"}, reference) == whole);
        const std::vector<std::string> without = with({quoted + "=-inf"}, reference);
        CHECK(without[0].size() == 40);
        CHECK((without[0] + without[1]).find(letter) == std::string::npos);
        CHECK(with({"\"m\"=1000"}, reference) == std::vector{std::string(40, 'm'), std::string(40, 'm')});
    }
    CHECK(with({"\"m\"=1000"}, 0, 3) == std::vector{std::string(40, 'm'), std::string(40, 'm')});
    CHECK(with({"\"m\"=-inf"}, 0, 3)[0].find('m') == std::string::npos);

    const auto refusal = [&](const std::string& bias) {
        const hk_string one = view(bias);
        return writer.refusal([&](hk_generate_options& o) {
            o.logit_biases = &one;
            o.logit_bias_count = 1;
        });
    };
    CHECK(refusal("m").find("logit bias 'm': expected TOKEN=NUMBER") != std::string::npos);
    CHECK(refusal("1000=2").find("logit_bias has the token 1000; the model knows 0 to ") != std::string::npos);
}

TEST_CASE("each token comes with its log probability and the most likely ones, and the text is the same") {
    struct Heard {
        std::vector<std::string> texts = std::vector<std::string>(2), tokens = texts;
        double sum = 0.0; // of the probabilities of all tokens
        int64_t count = 0, likeliest = 0, greatest = 0;
    };
    const With listen = [](hk_generate_options& o) {
        o.text = [](void* user, uint64_t row, hk_string piece) {
            static_cast<Heard*>(user)->texts.at(row).append(piece.data, static_cast<std::size_t>(piece.size));
        };
        o.token = [](void* user, uint64_t row, const hk_generated_token* token) {
            auto& to = *static_cast<Heard*>(user);
            to.tokens.at(row).append(token->text.data, static_cast<std::size_t>(token->text.size));
            ++to.count;
            double before = 0.0;
            for (uint64_t i = 0; i < token->likeliest_count; ++i) {
                const hk_token_score& score = token->likeliest[i];
                to.sum += std::exp(score.log_probability);
                CHECK(score.log_probability <= before);
                before = score.log_probability;
                if (score.id != token->id) continue;
                CHECK(score.log_probability == token->log_probability);
                CHECK(score.text.size == token->text.size);
                ++to.likeliest;
                to.greatest += i == 0 ? 1 : 0;
            }
        };
    };
    const Writer writer;
    const std::vector<std::string> whole = writer.texts([](auto&) {});
    for (const int32_t reference : {0, 1}) {
        Heard heard;
        writer.texts([&](hk_generate_options& o) {
            listen(o);
            o.user = &heard;
            o.reference = reference;
            o.likeliest_tokens = 1000; // more than the vocabulary has
        });
        CHECK(heard.texts == whole);
        CHECK(heard.tokens == whole); // the tokenizer has characters
        CHECK(heard.count == 80);
        CHECK(heard.likeliest == 80);
        CHECK(std::abs(heard.sum - 80.0) < 1e-9);
        CHECK(heard.greatest < 80);
    }
    Heard greedy;
    writer.texts([&](hk_generate_options& o) {
        listen(o);
        o.user = &greedy;
        o.greedy = 1;
        o.likeliest_tokens = 1;
    });
    CHECK(greedy.greatest == 80);

    Heard heard;
    Writing writing(writer.folder());
    Writer::fill(writing.options, writer.prompts);
    listen(writing.options);
    writing.options.user = &heard;
    hk_session session{};
    const Error error;
    REQUIRE(hk_session_generate(writer.context, &writing.options, nullptr, &session, error) == HK_OK);
    run_until(session, HK_SESSION_IDLE, 1e6);
    hk_session_destroy(session);
    CHECK(heard.tokens == whole);
    CHECK(heard.count == 80);
    CHECK(heard.likeliest == 0);
}

TEST_CASE("settings that a folder publishes are taken by bit, and others named in the log") {
    const Writer writer;
    const std::string file = writer.folder() + "/generation_config.json";
    const auto publish = [&](const std::string& more) {
        std::ofstream(file) << "{\"transformers_version\": \"5.12.1\"" << more << "}";
    };
    const auto published = [&](int32_t bits, const With& with = {}) {
        return writer.texts([&](hk_generate_options& o) {
            o.published = bits;
            if (with) with(o);
        });
    };
    const With draws = [](hk_generate_options& o) {
        o.temperature = 0.7;
        o.top_k = 9;
        o.top_p = 0.95;
        o.min_p = 0.02;
        o.repetition_penalty = 1.2;
    };
    const With greedy = [](hk_generate_options& o) { o.greedy = 1; };
    const std::vector<std::string> whole = writer.texts([](auto&) {});
    publish(", \"do_sample\": true, \"temperature\": 0.7, \"top_k\": 9, \"top_p\": 0.95, \"min_p\": 0.02, "
            "\"repetition_penalty\": 1.2");
    CHECK(writer.texts([](auto&) {}) == whole);
    CHECK(writer.texts(draws) != whole);
    CHECK(published(HK_PUBLISHED_ALL) == writer.texts(draws));
    CHECK(published(HK_PUBLISHED_ALL, greedy) == writer.texts(draws)); // do_sample instead of greedy
    CHECK(published(HK_PUBLISHED_ALL & ~HK_PUBLISHED_TEMPERATURE) == writer.texts([&](hk_generate_options& o) {
        draws(o);
        o.temperature = 1.0;
    }));
    CHECK(published(HK_PUBLISHED_TEMPERATURE) == writer.texts([](auto& o) { o.temperature = 0.7; }));
    CHECK(published(HK_PUBLISHED_ALL & ~HK_PUBLISHED_SAMPLING, greedy) == writer.texts([](auto& o) {
        o.greedy = 1;
        o.repetition_penalty = 1.2;
    }));
    publish(", \"do_sample\": true");
    CHECK(published(HK_PUBLISHED_ALL, draws) == writer.texts([](auto& o) { o.top_k = 50; }));
    publish(", \"temperature\": 0.0");
    CHECK(published(HK_PUBLISHED_ALL, draws) == writer.texts(greedy)); // temperature is of the draw
    publish(", \"min_p\": 1.5, \"do_sample\": true");
    CHECK(writer.texts([](auto&) {}) == whole);
    const std::string wrong = writer.refusal([](auto& o) { o.published = HK_PUBLISHED_ALL; });
    CHECK_MESSAGE(wrong.find("generation_config.json: min_p is 1.5, expected 0 to 1") != std::string::npos, wrong);
    std::filesystem::remove(file);
    const std::string none = writer.refusal([](auto& o) { o.published = HK_PUBLISHED_ALL; });
    CHECK_MESSAGE(none.find("has no generation_config.json whose settings could be used") != std::string::npos, none);
}

} // namespace generation_options_test
