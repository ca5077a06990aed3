// Conversations: what the assistant writes is trained, and nothing else.
#include "bench.hpp"

namespace chat_objective_test {

using namespace hekla;
using namespace hekla::test;

namespace {

// parts: alternately what is given and what the assistant writes.
batch::DrawnExample talk(const Objective& o, const char* text, std::vector<uint64_t> parts) {
    return row_of({{"messages", HK_COLUMN_MESSAGES, o.ids(text), {}, std::move(parts)}});
}

} // namespace

TEST_CASE("chat: every part of the assistant is trained, and a long row loses its end") {
    const Objective task("chat", json::object(), "gpt2", "lm");
    const auto id = [&](const char* one) { return task.ids(one)[0]; };
    // "ab" given, "cd!" written, "ef" given, "g!" written, "\n" given.
    const Fields fields = collate(task, {talk(task, "abcd!efg!\n", {0, 2, 5, 7, 9})}, 2, 12);
    CHECK(task.text(fields.row("input_ids", 0)) == "abcd!efg!<pad><pad><pad>");
    CHECK(fields.row("next_ids", 0) ==
          std::vector<int32_t>{-100, id("c"), id("d"), id("!"), -100, -100, id("g"), id("!"), -100, -100, -100, -100});
    CHECK(fields.row("attention_mask", 0) == std::vector<int32_t>{1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0});
    CHECK(fields.row("next_ids", 1) == std::vector<int32_t>(12, -100)); // no example
    const Fields cut = collate(task, {talk(task, "abcd!efg!\n", {0, 2, 5, 7, 9})}, 1, 3);
    CHECK(task.text(cut.row("input_ids", 0)) == "abc");
    CHECK(cut.row("next_ids", 0) == std::vector<int32_t>{-100, id("c"), id("d")});
    // A conversation that the assistant begins: its first token has nothing before it.
    const Fields first = collate(task, {talk(task, "cd!", {0, 0, 3})}, 1, 4);
    CHECK(first.row("next_ids", 0) == std::vector<int32_t>{id("d"), id("!"), -100, -100});
    const Fields empty = collate(task, {talk(task, "", {0})}, 1, 4);
    CHECK(empty.row("next_ids", 0) == std::vector<int32_t>(4, -100));
}

} // namespace chat_objective_test
