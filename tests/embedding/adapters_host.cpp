// A host that uses adapters through hekla.hpp:
//
//     adapters_host MODEL ADAPTER FOREIGN
//
// MODEL is a folder or an exported file with two slots, ADAPTER a LoRA of rank 4 for it, and FOREIGN a folder that is
// not an adapter. Prints the texts of three rows after each change. Fails if an object of the header does not do what
// it promises.
#include <cstdio>
#include <cstdlib>
#include <hekla/hekla.hpp>
#include <string>
#include <utility>
#include <vector>

namespace {

using Texts = std::vector<std::string>;

constexpr std::size_t kRows = 3;

void expect(bool holds, const char* what, const std::string& found = "") {
    if (holds) return;
    std::fprintf(stderr, "adapters_host: %s: %s\n", what, found.c_str());
    std::exit(1);
}

// A call that succeeds.
void done(bool succeeded, const hk::Error& error, const char* what) {
    expect(succeeded && !error && error.code() == HK_OK, what, error.message());
}

// A call that fails with this code and these words.
void refused(bool succeeded, const hk::Error& error, int32_t code, const char* words) {
    expect(!succeeded && error, "a call succeeds that should say", words);
    expect(error.code() == code, words, "code " + std::to_string(error.code()));
    expect(error.message().find(words) != std::string::npos, words, error.message());
}

Texts written(const hk::Generation& generation) {
    hk::Error error;
    while (generation.state() < hk::State::idle) generation.advance(2000, error);
    expect(generation.state() == hk::State::idle, "the session has failed",
           std::string(hk::view(generation.session().wait(0).message)));
    Texts texts;
    for (std::size_t row = 0; row < kRows; ++row) texts.push_back(generation.taken(row));
    return texts;
}

hk::GenerationOptions options_for(const std::string& model) {
    hk::GenerationOptions options;
    options.model = model;
    options.prompts = Texts(kRows, "line ");
    options.max_new_tokens = 24;
    options.temperature = 0.0;
    return options;
}

void check_ownership(const hk::Context& context, const std::string& folder, const std::string& model) {
    hk::Error error;
    hk::Adapter none;
    expect(!none && none.c().id == 0, "an adapter that was not opened is not null");
    hk::Adapter first = context.open_adapter(folder, model, error);
    done(static_cast<bool>(first), error, "open_adapter");
    const uint64_t id = first.c().id;
    hk::Adapter second = std::move(first);
    expect(second.c().id == id, "a moved adapter is another one");
    expect(!first, "an adapter that was moved from is not null"); // NOLINT(bugprone-use-after-move): it is promised
    hk::Adapter third = context.open_adapter(folder, model, error);
    expect(third.c().id != id, "two adapters are one");
    third = std::move(second); // destroys the one that it had
    expect(third.c().id == id && !second, "an adapter that was assigned is another one"); // NOLINT: the same
    third.reset();
    expect(!third, "an adapter that was reset is not null");
    third.reset();
}

} // namespace

int main(int argc, char** argv) {
    if (argc != 4) return 2;
    const std::string model = argv[1], folder = argv[2], foreign = argv[3];
    hk::Error error;
    const hk::Context context = hk::Context::create({}, error);
    done(static_cast<bool>(context), error, "create");
    check_ownership(context, folder, model);
    refused(static_cast<bool>(context.open_adapter(foreign, model, error)), error, HK_INVALID_ARGUMENT,
            "is not an adapter");
    refused(static_cast<bool>(context.open_adapter(folder + "/nowhere", model, error)), error, HK_NOT_FOUND, "nowhere");

    // Without slots to fill: each prompt names its adapter.
    hk::GenerationOptions named = options_for(model);
    const Texts body = written(context.generate(named, error));
    expect(body[0] == body[1] && body[0] == body[2] && !body[0].empty(), "rows of one prompt differ", body[0]);
    named.adapters = {"one=" + folder};
    named.prompt_adapters = {"", "one"}; // none for the last
    const Texts chosen = written(context.generate(named, error));
    expect(chosen[0] == body[0] && chosen[2] == body[0], "a row without an adapter is not the body's", chosen[0]);
    expect(chosen[1] != body[0], "the adapter changes nothing", chosen[1]);
    const std::string adapted = chosen[1];

    hk::GenerationOptions with_slots = options_for(model);
    with_slots.adapter_slots = 2;
    with_slots.adapter_rank = 4;
    hk::Generation generation = context.generate(with_slots, error);
    done(static_cast<bool>(generation), error, "generate");
    expect(written(generation) == body, "empty slots change the text");
    const auto texts = [&] {
        done(generation.prompt(with_slots.prompts, error), error, "prompt");
        Texts all = written(generation);
        for (const std::string& text : all) std::printf("%s\n", text.c_str());
        return all;
    };
    const std::string& b = body[0];
    {
        const hk::Adapter adapter = context.open_adapter(folder, model, error);
        done(generation.put_adapter(1, adapter, error), error, "put_adapter");
    } // the slot keeps what it contains
    done(generation.use_slot(0, 1, error), error, "use_slot");
    done(generation.use_slot(2, 1, error, 0.0), error, "use_slot with a scale");
    expect(texts() == Texts{adapted, b, b}, "the rows are not those of their slots");
    const hk::Adapter adapter = context.open_adapter(folder, model, error);
    refused(generation.put_adapter(1, adapter, error), error, HK_FAILED_PRECONDITION, "slot 1 is used by row 0");
    done(generation.put_adapter(0, adapter, error), error, "put_adapter into the other slot");
    done(generation.use_slot(0, -1, error), error, "use_slot for none");
    done(generation.use_slot(1, 0, error), error, "use_slot");
    done(generation.use_slot(2, 1, error, 1.0, HK_ADAPTER_FROM_HERE), error, "use_slot from here");
    expect(texts() == Texts{b, adapted, adapted}, "the rows are not those of their slots");
    done(generation.use_slot(2, -1, error), error, "use_slot for none");
    done(generation.put_adapter(1, hk::Adapter(), error), error, "put_adapter of none");
    done(generation.use_slot(0, 1, error), error, "use_slot");
    expect(texts() == Texts{b, adapted, b}, "an emptied slot changes the text");

    refused(generation.put_adapter(2, adapter, error), error, HK_INVALID_ARGUMENT, "slot is 2, expected 0 to 1");
    refused(generation.use_slot(3, 0, error), error, HK_INVALID_ARGUMENT, "row is 3, expected 0 to 2");
    refused(generation.use_slot(0, 2, error), error, HK_INVALID_ARGUMENT, "slot is 2, expected -1 (none) to 1");
    refused(generation.use_slot(0, 0, error, 1.0, 9), error, HK_INVALID_ARGUMENT, "flags is 9");
    hk::Generation without = context.generate(options_for(model), error);
    static_cast<void>(written(without));
    refused(without.put_adapter(0, adapter, error), error, HK_INVALID_ARGUMENT, "has no adapter slots");
    without = hk::Generation();
    refused(without.put_adapter(0, adapter, error), error, HK_INVALID_ARGUMENT, "session");
    refused(without.use_slot(0, 0, error), error, HK_INVALID_ARGUMENT, "session");
    return 0;
}
