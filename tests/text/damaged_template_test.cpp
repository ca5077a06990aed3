// Chat templates that are damaged, or written to harm: each is a text or one error, in bounded time and memory.
#include "support.hpp"

#include "text/chat_template.hpp"
#include "text/files/tokenizer_files.hpp"

#include <limits>
#include <sys/resource.h>

namespace damaged_template_test {

using namespace hekla;
using namespace hekla::text;
using namespace hekla::test;

namespace {

const std::filesystem::path kFixtures = std::filesystem::path(HEKLA_SOURCE_DIR) / "tests/fixtures/chat";

// The built-in templates and those of the fixtures.
std::vector<std::string> whole_templates() {
    std::vector<std::string> all;
    for (const std::string_view name : ChatTemplate::names()) all.push_back(must(ChatTemplate::named(name)).text());
    for (const char* name : {"thinking.jinja", "expressions.jinja"}) all.push_back(must(read_file(kFixtures / name)));
    return all;
}

// Changes a template in a few places: bytes, cuts, repeated and foreign pieces, and pieces of the language.
class Damage {
public:
    Damage(const std::vector<std::string>& sources, uint64_t seed) : sources_(sources), random_(seed, 1) {}

    std::string next() {
        std::string text = sources_[draw(sources_.size())];
        for (std::size_t changes = 1 + draw(3) / 2; changes > 0 && !text.empty(); --changes) {
            const std::size_t at = draw(text.size());
            switch (draw(6)) {
            case 0: text.erase(at, draw(40)); break;
            case 1: text.insert(at, piece_of(text)); break;
            case 2: text.insert(at, piece_of(sources_[draw(sources_.size())])); break;
            case 3: text[at] = static_cast<char>(draw(256)); break;
            case 4: text.insert(at, kPieces[draw(std::size(kPieces))]); break;
            default: text.resize(at); break;
            }
        }
        return text;
    }

private:
    static constexpr const char* kPieces[] = {"{{",
                                              "}}",
                                              "{%",
                                              "%}",
                                              "{#",
                                              "#}",
                                              "-",
                                              "|",
                                              "(",
                                              ")",
                                              "[",
                                              "]",
                                              "'",
                                              "\"",
                                              "not ",
                                              " is ",
                                              " in ",
                                              "loop.",
                                              "messages",
                                              "{% for m in messages %}",
                                              "{% endfor %}",
                                              "{% if x %}",
                                              "{% else %}",
                                              "{% endif %}",
                                              "{% set ns = namespace(x=messages) %}",
                                              "{% set ns.x = [ns.x, ns.x] %}",
                                              "{% macro f(x) %}",
                                              "{% endmacro %}",
                                              "{{ f(messages) }}",
                                              "| tojson(indent=16)",
                                              "| join(messages)",
                                              "[::-1]",
                                              "* 99999",
                                              "range(99999)",
                                              "1e999",
                                              "99999999999999999999",
                                              "\xff",
                                              "{% generation %}",
                                              "{% endgeneration %}"};

    std::size_t draw(std::size_t below) { return static_cast<std::size_t>(random_.next_below(below)); }
    std::string piece_of(const std::string& text) { return text.substr(draw(text.size() + 1), draw(60)); }

    const std::vector<std::string>& sources_;
    RandomStream random_;
};

constexpr const char* kMessages = R"([{"role": "system", "content": "S"}, {"role": "user", "content": "a\u00e4 'b'"},
    {"role": "assistant", "content": "c", "tool_calls": [{"type": "function", "function": {"name": "f",
    "arguments": {"x": [1, 2.5, null, true]}}}]}, {"role": "user", "content": "d"}, {"role": "assistant", "content": "e"}])";

int64_t largest_memory() { // MiB of this process so far
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss / 1024;
}

// Renders a template with some messages, and the largest integer as `last`.
Result<std::string> rendered(const std::string& text) {
    const Result<jinja::Template> parsed = jinja::Template::parse(text);
    if (!parsed.ok()) return parsed.status();
    jinja::Dict variables;
    variables.set("messages", jinja::Value::from_json(Messages::parse(kMessages)));
    variables.set("last", jinja::Value(std::numeric_limits<int64_t>::max()));
    const Result<jinja::Rendered> made = parsed.value().render(variables);
    if (!made.ok()) return made.status();
    return made.value().text;
}

std::string repeated(const std::string& text, int count) {
    std::string all;
    for (int i = 0; i < count; ++i) all += text;
    return all;
}

} // namespace

TEST_CASE("damaged chat templates are one error or a text, and always the same one") {
    const std::unique_ptr<Tokenizer> tokenizer = must(load_tokenizer(kFixtures));
    const Vocabulary& tokens = tokenizer->vocabulary();
    const std::vector<std::string> sources = whole_templates();
    const Messages messages = Messages::parse(kMessages);
    constexpr int kCases = 5000;
    int refused = 0, unreadable = 0;
    Damage damage(sources, 11);
    for (int i = 0; i < kCases; ++i) {
        const std::string text = damage.next();
        CAPTURE(i);
        const Result<ChatTemplate> parsed = ChatTemplate::parse(text, "damaged.jinja");
        if (!parsed.ok()) {
            ++unreadable;
            CHECK_MESSAGE(parsed.message().find("damaged.jinja: line ") != std::string::npos, parsed.message());
            CHECK(parsed.message().find('\n') == std::string::npos);
            continue;
        }
        const auto made = parsed.value().render(messages, true, tokens);
        if (!made.ok()) {
            ++refused;
            CHECK_MESSAGE(made.message().find("damaged.jinja: line ") != std::string::npos, made.message());
            CHECK(made.message().find('\n') == std::string::npos);
            CHECK(made.message().size() < 1000);
        }
        if (i % 10 != 0) continue;
        const auto again = parsed.value().render(messages, true, tokens);
        CHECK(again.ok() == made.ok());
        CHECK((made.ok() ? again.value() == made.value() : again.message() == made.message()));
        // What is learned is a part of the text, and the end of a turn is found or refused.
        if (const auto conversation = parsed.value().conversation(messages, tokens); conversation.ok())
            for (const ByteRange& answer : conversation.value().answers) {
                CHECK(answer.begin <= answer.end);
                CHECK(answer.end <= conversation.value().text.size());
            }
        const Result<int32_t> end = parsed.value().turn_end(*tokenizer);
        CHECK((end.ok() || !end.message().empty()));
    }
    // All three happen, or the damage would be of one kind.
    CHECK(unreadable > kCases / 10);
    CHECK(refused > kCases / 100);
    CHECK(kCases - unreadable - refused > kCases / 10);
}

TEST_CASE("chat templates that are written to harm are refused in bounded time and memory") {
    const int64_t before = largest_memory();
    const auto refused = [&](const std::string& text, const std::string& message) {
        CAPTURE(text.substr(0, 200));
        const Result<std::string> made = rendered(text);
        REQUIRE_FALSE(made.ok());
        CHECK(made.message().starts_with("line "));
        CHECK_MESSAGE(made.message().find(message) != std::string::npos, made.message());
    };
    // Bytes that do not make a character, where an error quotes them.
    refused("a\n{{ 'b' '\xF0", "line 2: not valid UTF-8 (byte 0xF0); convert the template to UTF-8");
    refused("\xC3", "line 1: not valid UTF-8 (byte 0xC3)");
    const std::string space = "{% set ns = namespace(x='a', l=[]) %}", big = "{% set big = 'a' * 9000000 %}";
    // Namespaces inside themselves, or inside what they hold.
    refused(space + "{% set ns.x = ns %}{{ ns }}", "a namespace cannot be a part");
    refused(space + "{% set ns.x = [ns] %}{{ ns }}", "a namespace cannot be a part");
    refused(space + "{% set ns.x = {'a': ns} %}{{ ns }}", "a namespace cannot be a part");
    refused(space + "{{ namespace(x=ns) }}", "a namespace cannot be a part");
    // Values that are small until they are printed, compared or freed.
    refused(space + repeated("{% set ns.x = [ns.x, ns.x] %}", 60) + "{{ ns.x }}", "has more than");
    refused(space + repeated("{% set ns.x = {'a': ns.x, 'b': ns.x} %}", 60) + "{{ ns.x == ns.x }}", "has more than");
    refused(space + "{% for i in range(99999) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}", "deeper than 64");
    refused(space + "{% for i in range(99999) %}{% set ns.x = {'a': ns.x} %}{% endfor %}{{ ns.x }}", "deeper than 64");
    // Texts that one operation makes.
    refused(big + "{{ big.replace('a', big) }}", "a text is longer than");
    refused(big + "{{ big | replace('a', big) }}", "a text is longer than");
    refused(big + "{{ big.join(range(99999)) }}", "a text is longer than");
    refused(big + "{{ range(99999) | join(big) }}", "a text is longer than");
    refused("{% set big = 'a' * 1000000 %}{{ range(9) | map('string') | map('replace', '1', big) | list }}"
            "{{ range(99) | map('string') | map('replace', '1', big) | list }}",
            "takes more than");
    refused("{{ ('1' * 2000) | list | map('replace', '1', 'a' * 9000) | list | length }}",
            "the filter 'map' makes more than");
    refused("{{ messages | tojson(separators=['a' * 1000, ':']) }}", "'separators' has 16 bytes at most");
    // Work that is quadratic, or repeated.
    refused("{% set l = range(99999) | list %}{% for i in l %}{% if 'q' in l %}{% endif %}{% endfor %}",
            "takes more than");
    refused("{% set l = range(99999) | list %}{% for i in l %}{% for j in l %}{% break %}{% endfor %}{% endfor %}",
            "takes more than");
    refused("{% set l = range(99999) | list %}{% for i in l %}{{ l == l }}{% endfor %}", "takes more than");
    refused(space +
                "{% set ns.x = 'a' * 1000000 %}{% for i in range(99) %}{% set ns.l = ns.l + [ns.x ~ i] %}{% endfor %}",
            "takes more than");
    std::string dictionary = "{", arguments, sets;
    for (int i = 0; i < 60'000; ++i) {
        const std::string name = "k" + std::to_string(100'000 + i);
        dictionary += "'" + name + "': 1, ";
        arguments += (i > 0 ? ", " : "") + name + "=1";
        sets += "{% set " + name + " = 1 %}";
    }
    refused("{{ " + dictionary + "} | length }}", "takes more than");
    refused("{{ dict(" + arguments + ") | length }}", "takes more than");
    refused(sets + sets, "takes more than");
    std::string entries = "{";
    for (int i = 0; i < 9000; ++i) entries += "'" + std::string(99, 'k') + std::to_string(10'000 + i) + "': 1, ";
    const std::string for_each = "{% for i in range(99999) %}", last = "'" + std::string(99, 'k') + "99999'";
    refused("{% set d = " + entries + "} %}" + for_each + "{{ d[" + last + "] }}{% endfor %}", "takes more than");
    refused("{% set d = " + entries + "} %}" + for_each + "{{ d.get(" + last + ") }}{% endfor %}", "takes more than");
    refused("{% set d = " + entries + "} %}" + for_each + "{{ d.k }}{{ 'k' in d }}{% endfor %}", "takes more than");
    refused("{% set s = 'a' * 900000 %}" + for_each + "{{ s[5] }}{% endfor %}", "takes more than");
    refused("{% set s = 'a' * 900000 %}" + for_each + "{{ s[5:9] }}{{ s[-1] }}{% endfor %}", "takes more than");
    refused("{% set s = 'a' * 90000 %}" + for_each + "{{ s | title }}{% endfor %}", "takes more than");
    refused("{% set s = 'a' * 90000 %}" + for_each + "{{ s.title() | length }}{% endfor %}", "takes more than");
    refused("{{ range(99999) | select('in', range(99999)) | list | length }}", "takes more than");
    refused("{{ range(99999) | map('default', 'a' * 90000) | list | length }}", "takes more than");
    refused("{{ range(99999) | join(',', 'a' * 90000) }}", "too long for 99999 items");
    refused("{{ ('a ' * 900000).split() | length }}", "a list has more than");
    refused("{{ ('a\n' * 900000).splitlines() | length }}", "a list has more than");
    refused("{{ ('a' * 900000) | list | length }}", "characters to list");
    refused("{{ raise_exception('a\n' * 1000000) }}", "refuses these messages: a a a");
    // Recursion of the evaluation, which the parser does not see.
    refused("{{ x" + repeated(".a", 100'000) + " }}", "more than 300 operators in a row");
    refused("{{ x" + repeated(" | trim", 100'000) + " }}", "more than 300 operators in a row");
    refused("{{ 1" + repeated(" + 1", 100'000) + " }}", "more than 300 operators in a row");
    refused("{{ 1" + repeated(" if 1", 100'000) + " }}", "more than 300 operators in a row");
    refused("{{ x" + repeated("()", 100'000) + " }}", "more than 300 operators in a row");
    refused("{% macro f() %}{{ 1" + repeated(" + (1", 60) + " + f()" + repeated(")", 60) + " }}{% endmacro %}{{ f() }}",
            "nested deeper than");
    CHECK(largest_memory() - before < 1500);
}

TEST_CASE("jinja: long texts take linear time, and numbers at the ends of their range are allowed") {
    const auto text_of = [](const std::string& text) { return must(rendered(text)); };
    CHECK(text_of("{{ ('ab ' * 90000 ~ ' ' * 500000).split() | length }}") == "90000");
    CHECK(text_of("{{ ('a' * 500000 ~ 'b').strip('a' * 1000) }}") == "b");
    const std::string texts = "{% set t = 'a' * 2000000 %}{% set p = 'a' * 1000000 ~ 'b' %}";
    CHECK(text_of(texts + "{{ p in t }} {{ t.find(p) }} {{ (t ~ 'b').find(p) }} {{ (t ~ 'b' ~ t ~ 'b').count(p) }}") ==
          "False -1 1000000 2");
    CHECK(text_of(texts + "{{ (t ~ 'b').replace(p, 'c') | length }} {{ (t ~ 'b').split(p) | length }}") == "1000001 2");
    CHECK(text_of("{{ range(1, last, last) | length }}") == "1");
    CHECK(text_of(
              "{{ 'a b c'.split(' ', 'nan' | float) | length }} {{ 'a b c'.split(' ', '1e300' | float) | length }}") ==
          "3 3");
    CHECK(text_of("{{ 'abc'[::last] }}") == "a");
    CHECK(text_of("{{ 'äbç'[1:] }} {{ 'äbç'[:-1] }} {{ 'äbç'[2:1] }} {{ 'äbç'[::-1] }} {{ 'äbç'[0] }}{{ 'äbç'[-1] }} "
                  "{{ 'äbç'[3] is defined }} {{ [1, 2, 3][::2] }} {{ [1, 2, 3][5:1:-1] }}") ==
          "bç äb  çbä äç False [1, 3] [3]");
    CHECK(text_of("{{ ('ä' * 900000)[899998:] }} {{ {'B': 1, 'a': 2} | dictsort }}") == "ää [['a', 2], ['B', 1]]");
    CHECK(text_of("{{ ('x' ~ 'ab' * 40 ~ 'aab' * 40).find('ab' * 39 ~ 'aab') }}") == "3");
}

} // namespace damaged_template_test
