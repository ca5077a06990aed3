// Prompts as conversations: the messages and delimiters of lm-evaluation-harness, by a chat template.
#include "harness/prompt.hpp"
#include "harness/task_file.hpp"

#include <doctest/doctest.h>

using namespace hekla;
using namespace hekla::harness;

namespace chat_prompt_test {
namespace {

// Writes roles and contents, the system message only at the beginning, and refuses it if it is "refused".
constexpr const char* kTemplate =
    R"({% for m in messages %}{% if m.role == "system" and m.content == "refused" %}{{ raise_exception("no system") }}{% endif %}<{{ m.role }}>{{ m.content }}</>{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %})";

constexpr const char* kTask = R"(task = "t"
output_type = "multiple_choice"
dataset = "rows.jsonl"
doc_to_text = "Q: {{q}}"
doc_to_target = "{{a}}"
doc_to_choice = ["no", "yes"]
)";

struct Case {
    Case(const std::string& more = {}, const char* of = kTemplate)
        : task(parse_task(kTask + more, "t.toml").take()), chat(text::ChatTemplate::parse(of, "test").take()) {
        for (const char* name : {"a", "b", "c"}) {
            Document& document = pool.documents.emplace_back();
            document.id = pool.documents.size() - 1;
            document.columns = {{"q", name}};
            document.text = std::string("Q: ") + name;
            document.target = name == std::string("b") ? "yes" : "no";
            document.prefix = task.gen_prefix.text([](std::string_view) { return std::string_view(); });
        }
        task.first_n = true;
        pool.source = "rows.jsonl";
        layout.chat = &chat;
        layout.tokens = &tokens;
    }
    std::string prompt(int64_t shots = 2) const {
        const Result<Prompts> prompts = Prompts::create(task, pool, shots, 1, layout);
        REQUIRE_MESSAGE(prompts.ok(), prompts.message());
        const Result<Prompt> made = prompts->of(pool.documents[2]);
        REQUIRE_MESSAGE(made.ok(), made.message());
        CHECK(made->without_system == expects_no_system);
        return made->text;
    }
    std::string delimiter() const { return answer_delimiter(task, pool.documents[2], layout.chat != nullptr); }

    Task task;
    text::ChatTemplate chat;
    text::Vocabulary tokens;
    FewShotPool pool;
    PromptLayout layout;
    bool expects_no_system = false;
};

} // namespace

TEST_CASE("demonstrations are turns, or parts of one message") {
    Case c;
    CHECK(c.prompt(0) == "<user>Q: c</><assistant>");
    CHECK(c.prompt() == "<user>Q: a</><assistant>no</><user>Q: b</><assistant>yes</><user>Q: c</><assistant>");
    CHECK(c.delimiter().empty()); // the template ends where the assistant's text begins
    c.layout.fewshot_as_multiturn = false;
    CHECK(c.prompt() == "<user>Q: a no\n\nQ: b yes\n\nQ: c</><assistant>");
    c.layout.chat = nullptr;
    CHECK(c.prompt() == "Q: a no\n\nQ: b yes\n\nQ: c");
    CHECK(c.delimiter() == " ");
}

TEST_CASE("instruction and description are the system message") {
    Case c("description = \"Answer.\"\n");
    c.layout.system_instruction = "You are kind.";
    CHECK(c.prompt(0) == "<system>You are kind.\n\nAnswer.</><user>Q: c</><assistant>");
    c.layout.system_instruction = "You are kind. ";
    CHECK(c.prompt(0) == "<system>You are kind. Answer.</><user>Q: c</><assistant>");
    c.layout.chat = nullptr;
    CHECK(c.prompt(0) == "You are kind. Answer.Q: c");

    Case refuses;
    refuses.layout.system_instruction = "refused";
    refuses.expects_no_system = true;
    CHECK(refuses.prompt(0) == "<user>Q: c</><assistant>");
}

TEST_CASE("the answer begins with gen_prefix, which the model goes on from") {
    Case c("gen_prefix = \"It is\"\n");
    CHECK(c.prompt() ==
          "<user>Q: a</><assistant>It is no</><user>Q: b</><assistant>It is yes</><user>Q: c</><assistant>It is");
    CHECK(c.delimiter() == " ");
    c.layout.fewshot_as_multiturn = false;
    CHECK(c.prompt() == "<user>Q: a It is no\n\nQ: b It is yes\n\nQ: c</><assistant>It is");
    c.layout.chat = nullptr;
    CHECK(c.prompt() == "Q: a It is no\n\nQ: b It is yes\n\nQ: c It is");

    Case spaced("gen_prefix = \"It is \"\n");
    CHECK(spaced.prompt(0) == "<user>Q: c</><assistant>It is ");
    CHECK(spaced.delimiter().empty());
    // A template that trims what messages contain.
    const char* const trims = "{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}</>{% endfor %}{% if "
                              "add_generation_prompt %}<assistant>{% endif %}";
    CHECK(Case("gen_prefix = \"It is \"\n", trims).prompt(0) == "<user>Q: c</><assistant>It is");
}

TEST_CASE("a template that cannot write a prompt is an error with the document") {
    const auto problem = [](const std::string& more, const char* of) {
        Case c(more, of);
        c.pool.documents[2].place = "rows.jsonl: line 3";
        return Prompts::create(c.task, c.pool, 0, 1, c.layout)->of(c.pool.documents[2]).message();
    };
    CHECK(problem("", "{{ raise_exception('nothing works') }}").find("rows.jsonl: line 3: chat template test") == 0);
    CHECK(problem("gen_prefix = \"It is\"\n", "{{ messages[0].content }}").find("does not write the last message") !=
          std::string::npos);
}

} // namespace chat_prompt_test
