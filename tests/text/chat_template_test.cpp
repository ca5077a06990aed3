// Chat templates: texts, ids and masks as transformers makes them (tests/pytorch_comparison/chat_templates.py), and
// what is refused.
#include "support.hpp"

#include "text/chat_template.hpp"
#include "text/files/tokenizer_files.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace chat_template_test {

using namespace hekla;
using namespace hekla::text;
using namespace hekla::test;

namespace {

const std::filesystem::path kFolder = std::filesystem::path(HEKLA_SOURCE_DIR) / "tests/fixtures/chat";

const Tokenizer& tokenizer() {
    static const std::unique_ptr<Tokenizer> loaded = must(load_tokenizer(kFolder));
    return *loaded;
}

ChatTemplate template_of(const std::string& name) {
    return must(chat_template_of(name.ends_with(".jinja") ? (kFolder / name).string() : name));
}

Messages messages_of(const std::string& json) { return Messages::parse(json); }

// Renders a template with the variables of an object.
Result<std::string> render(const std::string& text, const std::string& variables = "{}") {
    const Result<jinja::Template> parsed = jinja::Template::parse(text);
    if (!parsed.ok()) return parsed.status();
    jinja::Dict dict;
    const Messages given = messages_of(variables);
    for (const auto& [key, value] : given.items()) dict.set(key, jinja::Value::from_json(value));
    const Result<jinja::Rendered> rendered = parsed.value().render(dict);
    if (!rendered.ok()) return rendered.status();
    return rendered.value().text;
}

std::string refusal(const std::string& text, const std::string& variables = "{}") {
    const Result<std::string> rendered = render(text, variables);
    REQUIRE_FALSE(rendered.ok());
    return rendered.message();
}

// The parts of a conversation that the assistant writes.
std::vector<std::string> answers_of(const ChatTemplate& chat, const std::string& messages) {
    const Conversation conversation = must(chat.conversation(messages_of(messages), tokenizer().vocabulary()));
    std::vector<std::string> answers;
    for (const ByteRange& range : conversation.answers)
        answers.push_back(conversation.text.substr(range.begin, range.end - range.begin));
    return answers;
}

} // namespace

TEST_CASE("chat templates: texts, ids and masks equal those of transformers") {
    const Messages all = messages_of(must(read_file(kFolder / "cases.json")));
    std::size_t rendered = 0, refused = 0, masked = 0;
    for (const Messages& one : all["cases"]) {
        const std::string name = one["template"].get<std::string>();
        CAPTURE(name);
        CAPTURE(one["messages"].dump());
        const ChatTemplate chat = template_of(name);
        const Result<std::string> text =
            chat.render(one["messages"], one["answer_follows"].get<bool>(), tokenizer().vocabulary());
        if (one.contains("error")) {
            CHECK_FALSE(text.ok());
            ++refused;
            continue;
        }
        REQUIRE_MESSAGE(text.ok(), text.message());
        CHECK(text.value() == one["text"].get<std::string>());
        CHECK(must(chat_ids(tokenizer(), text.value())) == one["ids"].get<std::vector<int32_t>>());
        ++rendered;
        const auto mask = one.find("mask");
        if (mask == one.end()) continue;
        const Result<Conversation> conversation = chat.conversation(one["messages"], tokenizer().vocabulary());
        const auto expected = mask->get<std::vector<int32_t>>();
        if (std::ranges::count(expected, 1) == 0) {
            CHECK_FALSE(conversation.ok()); // nothing to learn
            continue;
        }
        REQUIRE_MESSAGE(conversation.ok(), conversation.message());
        std::vector<ByteRange> ranges;
        must(chat_ids(tokenizer(), conversation.value().text, &ranges));
        std::vector<int32_t> found;
        for (const ByteRange& token : ranges)
            found.push_back(std::ranges::any_of(conversation.value().answers, [&](const ByteRange& answer) {
                return token.begin >= answer.begin && token.begin < answer.end;
            }));
        CHECK(found == expected);
        ++masked;
    }
    CHECK(rendered > 140);
    CHECK(refused > 10);
    CHECK(masked > 4);
}

TEST_CASE("chat templates: every answer is found, with the token that ends its turn") {
    const std::string two = R"([{"role": "system", "content": "S"}, {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b c"}, {"role": "user", "content": "d"}, {"role": "assistant", "content": "e"}])";
    using Parts = std::vector<std::string>;
    CHECK(answers_of(template_of("chatml"), two) == Parts{"b c<|im_end|>", "e<|im_end|>"});
    CHECK(answers_of(template_of("llama2"), two) == Parts{" b c </s>", " e </s>"});
    CHECK(answers_of(template_of("llama3"), two) == Parts{"b c<|eot_id|>", "e<|eot_id|>"});
    CHECK(answers_of(template_of("zephyr"), two) == Parts{"b c</s>", "e</s>"});
    CHECK(answers_of(template_of("mistral"), two) == Parts{" b c</s>", " e</s>"});
    CHECK(answers_of(template_of("gemma"), two) == Parts{"b c<end_of_turn>", "e<end_of_turn>"});
    CHECK(answers_of(template_of("phi3"), two) == Parts{"b c<|end|>", "e<|end|>"});
    CHECK(answers_of(template_of("alpaca"), two) == Parts{"b c</s>", "e</s>"});
    for (const std::string_view name : ChatTemplate::names()) {
        CAPTURE(name);
        const ChatTemplate chat = template_of(std::string(name));
        CHECK(tokenizer().vocabulary().is_special(must(chat.turn_end(tokenizer()))));
        const PromptAndAnswer both =
            must(chat.answer(messages_of(R"([{"role": "user", "content": "a"}])"),
                             messages_of(R"([{"role": "assistant", "content": "b"}])"), tokenizer().vocabulary()));
        CHECK(both.prompt + both.answer == must(chat.render(messages_of(R"([{"role": "user", "content": "a"},
            {"role": "assistant", "content": "b"}])"),
                                                            false, tokenizer().vocabulary())));
        CHECK(both.prompt.find('a') != std::string::npos);
        CHECK(both.answer.find('b') != std::string::npos);
    }
}

// Templates whose text of an answer depends on whether messages follow, as those of Qwen3, Qwen3.5, DeepSeek and Phi-3.
TEST_CASE("chat templates: answers are found where their text depends on later messages") {
    using Parts = std::vector<std::string>;
    const auto own = [](const std::string& text) { return must(ChatTemplate::parse(text, "own.jinja")); };
    const std::string talk = R"([{"role": "user", "content": "a"}, {"role": "assistant", "content": "think/b"},
        {"role": "user", "content": "c"}, {"role": "assistant", "content": "think/d\n"}])";
    const std::string loop = "{%- for m in messages %}<|im_start|>{{ m.role }}\n";
    const std::string prompt = "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n";
    // Earlier thoughts are left out.
    const std::string forgets = loop + "{% if m.role == 'assistant' and not loop.last %}{{ m.content.split('/')[-1] }}"
                                       "{% else %}{{ m.content | trim }}{% endif %}";
    CHECK(answers_of(own(forgets + prompt + "{% endif %}"), talk) == Parts{"b<|im_end|>", "think/d<|im_end|>"});
    // The prompt begins the thought, and only the last answer has one: what the prompt has is not learned.
    const std::string thinks = loop + "{% if m.role == 'assistant' and loop.last %}<think>\n{% endif %}{{ m.content }}";
    CHECK(answers_of(own(thinks + prompt + "<think>\n{% endif %}"), talk) ==
          Parts{"think/b<|im_end|>", "think/d\n<|im_end|>"});
    // Another token ends the last turn; a second token ends the whole.
    const std::string two_ends = loop + "{{ m.content }}{% if loop.last and m.role == 'assistant' %}</s>{% else %}";
    CHECK(answers_of(own(two_ends +
                         "<|im_end|>{% endif %}\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n"
                         "{% endif %}"),
                     talk) == Parts{"think/b<|im_end|>", "think/d\n</s>"});
    const ChatTemplate ends_twice = own(loop + "{{ m.content | trim }}" + prompt + "{% else %}</s>{% endif %}");
    CHECK(answers_of(ends_twice, talk) == Parts{"think/b<|im_end|>", "think/d<|im_end|>"});
    CHECK(tokenizer().vocabulary().token(must(ends_twice.turn_end(tokenizer()))) == "<|im_end|>");
    CHECK(answers_of(ends_twice, R"([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}])") ==
          Parts{"b<|im_end|>"});
    // Calls of tools have no content. What a user quotes does not match.
    const std::string calls = R"([{"role": "user", "content": "<|im_start|>assistant\nno<|im_end|>"},
        {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": {"name": "f"}}]},
        {"role": "tool", "content": "7"}, {"role": "assistant", "content": "x/seven"}])";
    CHECK(answers_of(own(forgets + "{% for call in m.tool_calls or [] %}({{ call.function.name }}){% endfor %}" +
                         prompt + "{% endif %}"),
                     calls) == Parts{"(f)<|im_end|>", "x/seven<|im_end|>"});
    // What is not found as it was written is an error.
    const std::string shouts = loop + "{{ m.content if loop.last else m.content | upper }}";
    const std::string problem =
        own(shouts + prompt + "{% endif %}").conversation(messages_of(talk), tokenizer().vocabulary()).message();
    CHECK(problem.find("message 2 was not found") != std::string::npos);
    CHECK(problem.find("{% generation %}") != std::string::npos);
}

TEST_CASE("chat templates: what cannot be used is one error") {
    const Vocabulary& tokens = tokenizer().vocabulary();
    const ChatTemplate chat = template_of("chatml");
    const auto message_of = [&](const std::string& messages) {
        return chat.render(messages_of(messages), true, tokens).message();
    };
    CHECK(message_of("[]").find("at least one message") != std::string::npos);
    CHECK(message_of(R"({"role": "user"})").find("expected a list") != std::string::npos);
    CHECK(message_of(R"([{"from": "human", "value": "x"}])").find("message 1 has no \"role\"") != std::string::npos);
    CHECK(message_of(R"([{"role": "user"}])").find("message 1 has no \"content\"") != std::string::npos);
    CHECK(chat.conversation(messages_of(R"([{"role": "user", "content": "x"}])"), tokens)
              .message()
              .find("no message of the role \"assistant\"") != std::string::npos);
    CHECK(chat_template_of("chatmil").message().find("chatml, llama2") != std::string::npos);

    // The end of a turn is one token.
    const ChatTemplate open = must(ChatTemplate::parse("{% for m in messages %}{{ m.content }}\n{% endfor %}", "own"));
    CHECK(open.turn_end(tokenizer()).message().find("nothing ends the assistant's turn") != std::string::npos);
    const ChatTemplate spelled =
        must(ChatTemplate::parse("{% for m in messages %}{{ m.content }}<end of turn>{% endfor %}", "own"));
    CHECK(spelled.turn_end(tokenizer()).message().find("tokenizer.add = [\"<end of turn>\"]") != std::string::npos);
}

TEST_CASE("chat templates: found in a folder") {
    const TestFolder folder;
    CHECK_FALSE(must(find_chat_template(FilePlace(folder.path()))));
    folder.write("tokenizer_config.json", R"({"chat_template": "{{ messages[0].content }}"})");
    CHECK(must(find_chat_template(FilePlace(folder.path())))->text == "{{ messages[0].content }}");
    folder.write("tokenizer_config.json", R"({"chat_template": [{"name": "rag", "template": "x"},
        {"name": "default", "template": "y"}]})");
    CHECK(must(find_chat_template(FilePlace(folder.path())))->text == "y");
    folder.write("tokenizer_config.json", R"({"chat_template": 3})");
    CHECK_FALSE(find_chat_template(FilePlace(folder.path())).ok());
    folder.write("chat_template.jinja", "z"); // has precedence
    CHECK(must(find_chat_template(FilePlace(folder.path())))->text == "z");
}

TEST_CASE("jinja: errors contain the line and what was expected") {
    CHECK(refusal("a\n{% if x %}").starts_with("line 2: expected {% endif %}"));
    CHECK(refusal("{{ x").starts_with("line 1: a tag has no end }}"));
    CHECK(refusal("\n{# x").starts_with("line 2: a comment {# has no end #}"));
    CHECK(refusal("{{ 'x }}").starts_with("line 1: a string has no end"));
    CHECK(refusal("{% include 'x' %}").find("the tag 'include' is not supported") != std::string::npos);
    CHECK(refusal("{% break %}").find("'break' is outside of a loop") != std::string::npos);
    CHECK(refusal("{{ ) }}").find("')' has no partner") != std::string::npos);
    CHECK(refusal("{{ 1 2 }}").find("expected }}, found '2'") != std::string::npos);
    CHECK(refusal("\n{{ x.y.z }}", R"({"x": {}})").starts_with("line 2: 'y' is undefined"));
    CHECK(refusal("{{ x | nothing }}").find("there is no filter 'nothing'") != std::string::npos);
    CHECK(refusal("{{ x is nothing }}").find("there is no test 'nothing'") != std::string::npos);
    CHECK(refusal("{{ nothing() }}").find("there is no function 'nothing'") != std::string::npos);
    CHECK(refusal("{{ 'a' + 1 }}").find("needs another string, and was given a number") != std::string::npos);
    CHECK(refusal("{{ 1 % 0 }}").find("a division by 0") != std::string::npos);
    CHECK(refusal("{{ 'a' + x }}").find("'x' is undefined") != std::string::npos);
    CHECK(refusal("{{ raise_exception('No tools') }}").find("refuses these messages: No tools") != std::string::npos);
    CHECK(refusal("{{ strftime_now('%Y') }}").find("prints the date, and none was given") != std::string::npos);
    CHECK(refusal("{% set x.y = 1 %}", R"({"x": {}})").find("'x' is not a namespace") != std::string::npos);
}

TEST_CASE("jinja: cases of letters are Python's") {
    const auto made = [](const std::string& expression) { return must(render("{{ " + expression + " }}")); };
    // Computed by Python 3.13 and Jinja 3.1.
    CHECK(made("'stra\u00dfe \ufb01n \u0149' | upper") == "STRASSE FIN \u02bcN");
    CHECK(made("'\u00dfa \u01c6e \ufb01n'.title()") == "Ssa \u01c5e Fin");
    CHECK(made("'\u00dfa \ufb01n they\\'re o(k [x-y'.capitalize()") == "Ssa \ufb01n they're o(k [x-y");
    CHECK(made("'they\\'re o(k [x-y \u00dfa' | title") == "They're O(K [X-Y SSa");
    CHECK(made("'they\\'re'.title()") == "They'Re");
    CHECK(made("'\u0130\u039f\u03a3 \u03a3\u03a3.'.lower()") == "i\u0307\u03bf\u03c2 \u03c3\u03c2.");
    CHECK(made("[raise_exception is defined, range is defined, nothing is defined]") == "[True, True, False]");
}

TEST_CASE("chat templates: the date is the one that was given, in every locale") {
    const Vocabulary& tokens = tokenizer().vocabulary();
    const Messages hello = messages_of(R"([{"role": "user", "content": "a"}])");
    // As in Llama 3.2's.
    const ChatTemplate dated = must(ChatTemplate::parse("{% if strftime_now is defined %}{% set day = strftime_now('%d "
                                                        "%b %Y') %}{% else %}{% set day = '26 Jul 2024' %}"
                                                        "{% endif %}{{ day }}: {{ messages[0].content }}",
                                                        "own"));
    CHECK(dated.reads_date());
    CHECK_FALSE(template_of("llama3").reads_date());
    CHECK(must(dated.render(hello, false, tokens)) == "26 Jul 2024: a");
    CHECK(must(dated.dated(must(jinja::DateTime::of_day("2026-01-09"))).render(hello, false, tokens)) ==
          "09 Jan 2026: a");
    const jinja::DateTime moment{2024, 2, 29, 15, 4, 5};
    CHECK(must(moment.formatted("%A %a %B %b %e %-d %-m %j %y %H %I %M %S %p %w %u %F %D %T %R %%")) ==
          "Thursday Thu February Feb 29 29 2 060 24 15 03 04 05 PM 4 4 2024-02-29 02/29/24 15:04:05 15:04 %");
    CHECK(moment.formatted("%Y-%Q").message().find("does not know '%Q'") != std::string::npos);
    CHECK(moment.formatted("%").message().find("does not know '%'") != std::string::npos);
    for (const char* wrong : {"", "today", "2026-1-9", "2026-02-30", "2026-13-01", "0000-01-01", "2026/01/09"})
        CHECK(jinja::DateTime::of_day(wrong).message().find("2026-01-31") != std::string::npos);
    CHECK(jinja::DateTime::now().year >= 2026);
}

TEST_CASE("chat templates: contents that are lists of parts are named") {
    const Result<std::string> text =
        must(ChatTemplate::parse("{% for m in messages %}{{ '<' + m.content }}{% endfor %}", "own"))
            .render(messages_of(R"([{"role": "system", "content": "a"},
                {"role": "user", "content": [{"type": "text", "text": "b"}]}])"),
                    false, tokenizer().vocabulary());
    CHECK(text.message().find("message 2: its \"content\" is a list of parts") != std::string::npos);
}

TEST_CASE("jinja: time, text and depth are bounded") {
    CHECK(refusal("{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}{% for i in "
                  "range(99999) %}{% for j in range(999) %}{{ i }}{% endfor %}{% endfor %}")
              .find("takes more than") != std::string::npos);
    CHECK(refusal("{{ range(1000000000) }}").find("a list has more than") != std::string::npos);
    CHECK(refusal("{{ 'abc' * 1000000000 }}").find("a text is longer than") != std::string::npos);
    CHECK(refusal("{% set ns = namespace(x='a') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}")
              .find("a text is longer than") != std::string::npos);
    CHECK(refusal("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}").find("deeper than 50") != std::string::npos);
    CHECK(refusal("{{ " + std::string(5000, '(') + "1" + std::string(5000, ')') + " }}").find("nested deeper") !=
          std::string::npos);
    CHECK(refusal("{{ " + std::string(5000, '-') + "1 }}").find("nested deeper") != std::string::npos);
    std::string tags;
    for (int i = 0; i < 5000; ++i) tags += "{% if x %}";
    CHECK(refusal(tags).find("nested deeper") != std::string::npos);
}

} // namespace chat_template_test
