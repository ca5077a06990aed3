#include "text/support.hpp"

#include "data/batcher.hpp"
#include "data/token_view.hpp"
#include "data/window_order.hpp"

#include <atomic>
#include <chrono>
#include <cstring>
#include <fmt/format.h>
#include <stdexcept>
#include <thread>

using namespace hekla;
using namespace hekla::data;
using namespace hekla::test;

namespace {

std::vector<uint16_t> count_up(std::size_t size) {
    std::vector<uint16_t> tokens(size);
    for (std::size_t i = 0; i < size; ++i) tokens[i] = static_cast<uint16_t>(i);
    return tokens;
}

Field int_field(const std::string& name, std::vector<int64_t> shape, const std::vector<int32_t>& values) {
    return {name, FieldKind::int32, std::move(shape), ResourceArray<std::byte>(std::as_bytes(std::span(values)))};
}

std::vector<int32_t> values(const Field& field) {
    std::vector<int32_t> out(field.bytes.size() / 4);
    std::memcpy(out.data(), field.bytes.data(), field.bytes.size());
    return out;
}

constexpr uint64_t kBatch = 3, kMicroSteps = 2, kWindow = 5;

WindowOrder sampler_for(const std::vector<uint16_t>& tokens) {
    return must(WindowOrder::create({Order::shuffle, tokens.size(), kWindow, 0, 11, "the data"}));
}

// Draws windows of the tokens, kBatch per batch.
MakeBatch windows_of(const std::vector<uint16_t>& tokens) {
    return [&tokens, sampler = sampler_for(tokens)](Batch& batch) {
        const TokenView view{std::span(tokens)};
        std::vector<int32_t> ids;
        std::vector<int32_t> numbers;
        const uint64_t first = WindowOrder::first_number(batch.step, batch.micro_step, kMicroSteps, kBatch);
        for (uint64_t number = first; number < first + kBatch; ++number) {
            std::vector<int32_t> window(kWindow);
            view.copy(sampler.at(number).begin, window);
            ids.insert(ids.end(), window.begin(), window.end());
            numbers.push_back(static_cast<int32_t>(number));
        }
        batch.fields.push_back(int_field("ids", {kBatch, kWindow}, ids));
        batch.fields.push_back(int_field("numbers", {kBatch}, numbers));
        return Status();
    };
}

BatcherOptions options_for() {
    BatcherOptions options;
    options.micro_steps = kMicroSteps;
    options.end_step = 20;
    return options;
}

std::vector<Batch> take_all(Batcher& batcher) {
    std::vector<Batch> batches;
    for (;;) {
        std::optional<Batch> batch = must(batcher.next());
        if (!batch) return batches;
        batches.push_back(std::move(*batch));
    }
}

} // namespace

TEST_CASE("batcher: the same batches in the same order for any number of threads and any first step") {
    const std::vector<uint16_t> tokens = count_up(500);
    std::vector<std::vector<int32_t>> expected;
    for (const unsigned threads : {1u, 2u, 5u, 0u})
        for (const unsigned depth : {1u, 3u}) {
            BatcherOptions options = options_for();
            options.threads = threads;
            options.depth = depth;
            const auto batcher = must(Batcher::start(options, windows_of(tokens)));
            const std::vector<Batch> batches = take_all(*batcher);
            REQUIRE(batches.size() == 40);
            for (std::size_t i = 0; i < batches.size(); ++i) {
                CHECK(batches[i].step == i / 2);
                CHECK(batches[i].micro_step == i % 2);
                const std::vector<int32_t> numbers = values(batches[i].fields[1]);
                const std::vector<int32_t> ids = values(batches[i].fields[0]);
                for (std::size_t row = 0; row < 3; ++row) {
                    CHECK(numbers[row] == static_cast<int32_t>(i * 3 + row));
                    const uint64_t begin = sampler_for(tokens).at(i * 3 + row).begin;
                    for (std::size_t k = 0; k < 5; ++k) CHECK(ids[row * 5 + k] == static_cast<int32_t>(begin + k));
                }
                if (expected.size() < 40) {
                    expected.push_back(ids);
                } else {
                    CHECK(ids == expected[i]);
                }
            }
            CHECK(!must(batcher->next()));
        }
    BatcherOptions options = options_for();
    options.first_step = 13;
    options.threads = 3;
    const auto batcher = must(Batcher::start(options, windows_of(tokens)));
    const std::vector<Batch> batches = take_all(*batcher);
    REQUIRE(batches.size() == 14);
    for (std::size_t i = 0; i < batches.size(); ++i) CHECK(values(batches[i].fields[0]) == expected[26 + i]);
}

TEST_CASE("batcher: never prepares more than its depth ahead") {
    const std::vector<uint16_t> tokens = count_up(500);
    BatcherOptions options = options_for();
    options.threads = 4;
    options.depth = 3;
    std::atomic<uint64_t> made = 0;
    std::atomic<uint64_t> taken = 0;
    std::atomic<uint64_t> most = 0;
    const auto batcher = must(Batcher::start(options, [&](Batch& batch) {
        const uint64_t ahead = ++made - taken.load();
        for (uint64_t seen = most; ahead > seen && !most.compare_exchange_weak(seen, ahead);) {}
        return windows_of(tokens)(batch);
    }));
    for (int i = 0; i < 40; ++i) {
        if (i % 8 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
        REQUIRE(must(batcher->next()));
        ++taken;
    }
    CHECK(most <= 4); // depth, plus the one that next() freed before the counter was updated
    CHECK(made == 40);
}

TEST_CASE("batcher: an error or exception is returned in place of its batch, and again afterwards") {
    const std::vector<uint16_t> tokens = count_up(500);
    for (const int kind : {0, 1, 2, 3})
        for (const unsigned threads : {1u, 4u}) {
            BatcherOptions options = options_for();
            options.threads = threads;
            const auto batcher = must(Batcher::start(options, [&](Batch& batch) -> Status {
                if (batch.step == 7 && batch.micro_step == 1) {
                    if (kind == 0) return invalid_argument("the mask rate is 2");
                    if (kind == 1) throw std::runtime_error("boom");
                    if (kind == 2) throw 7;
                    batch.fields.push_back(int_field("ids", {4}, {1, 2, 3}));
                    return {};
                }
                return windows_of(tokens)(batch);
            }));
            for (int i = 0; i < 15; ++i) REQUIRE(must(batcher->next()));
            for (int again = 0; again < 2; ++again) {
                const auto result = batcher->next();
                REQUIRE(!result.ok());
                CHECK(contains(result.message(), "step 7, micro-step 1"));
                const char* parts[] = {"mask rate", "boom", "threw", "12 bytes, the shape [4] needs 16"};
                CHECK_MESSAGE(contains(result.message(), parts[kind]), result.message());
            }
        }
}

TEST_CASE("batcher: can be destroyed at any time") {
    const std::vector<uint16_t> tokens = count_up(500);
    for (int i = 0; i < 50; ++i) {
        BatcherOptions options = options_for();
        options.threads = 3;
        options.end_step = std::numeric_limits<uint64_t>::max();
        const auto batcher = must(Batcher::start(options, windows_of(tokens)));
        for (int k = 0; k < i % 7; ++k) REQUIRE(must(batcher->next()));
    }
}

TEST_CASE("batcher: waiting and destruction have timeouts if a batch is not finished") {
    using std::chrono::milliseconds;
    std::atomic<bool> release = false;
    BatcherOptions options;
    options.end_step = 8;
    const auto batcher = must(Batcher::start(options, [&](Batch& batch) {
        while (batch.step == 1 && !release) std::this_thread::sleep_for(milliseconds(1));
        return Status();
    }));
    CHECK(batcher->wait(std::chrono::hours(1)));
    REQUIRE(must(batcher->next()));
    CHECK(!batcher->wait(milliseconds(20))); // step 1 is not finished
    CHECK(!batcher->end(milliseconds(20)));
    release = true;
    CHECK(batcher->end(std::chrono::hours(1)));

    options.threads = 0; // next() prepares the batch itself
    const auto alone = must(Batcher::start(options, [](Batch&) { return Status(); }));
    CHECK(alone->wait(milliseconds(0)));
    CHECK(alone->end(milliseconds(0)));
}

TEST_CASE("batcher: invalid options") {
    const std::vector<uint16_t> tokens = count_up(500);
    const auto refused = [&](const auto& change) {
        BatcherOptions options = options_for();
        change(options);
        CHECK(Batcher::start(options, windows_of(tokens)).code() == Code::invalid_argument);
    };
    refused([](BatcherOptions& o) { o.micro_steps = 0; });
    refused([](BatcherOptions& o) { o.depth = 0; });
}
