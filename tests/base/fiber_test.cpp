// Functions that suspend themselves and are resumed, on any thread.
#include "base/fiber.hpp"

#include <doctest/doctest.h>
#include <stdexcept>
#include <string>
#include <thread>

using namespace hekla;

namespace {

std::unique_ptr<Fiber> made(std::function<void()> body) {
    Result<std::unique_ptr<Fiber>> fiber = Fiber::create(std::move(body));
    REQUIRE_MESSAGE(fiber.ok(), fiber.message());
    return fiber.take();
}

} // namespace

TEST_CASE("a fiber resumes where it suspended, on any thread, and nests") {
    Fiber* self = nullptr;
    std::string trace;
    const auto inner = [&](Fiber** own, char letter) {
        for (int i = 0; i < 3; ++i) {
            trace += letter;
            try {
                throw std::runtime_error("inside"); // exceptions may be thrown and caught between suspensions
            } catch (const std::runtime_error&) { trace += '.'; }
            (*own)->pause();
        }
    };
    Fiber* second = nullptr;
    const std::unique_ptr<Fiber> b = made([&] { inner(&second, 'b'); });
    second = b.get();
    const std::unique_ptr<Fiber> a = made([&] {
        b->resume();
        inner(&self, 'a');
    });
    self = a.get();
    CHECK(trace.empty());
    a->resume();
    CHECK(trace == "b.a.");
    std::thread([&] { a->resume(); }).join();
    b->resume();
    CHECK(trace == "b.a.a.b.");
    while (!a->ended()) a->resume();
    while (!b->ended()) b->resume();
    CHECK(trace == "b.a.a.b.a.b.");
    a->resume(); // it has ended, so this does nothing
    CHECK(trace == "b.a.a.b.a.b.");
}

TEST_CASE("a fiber that was never resumed releases its resources; its stack is as large as a thread's") {
    const auto held = std::make_shared<int>(1);
    made([held] {}).reset();
    CHECK(held.use_count() == 1);
    std::size_t sum = 0;
    const std::unique_ptr<Fiber> deep = made([&] {
        volatile char room[std::size_t{6} << 20];
        for (std::size_t i = 0; i < sizeof room; i += 4096) room[i] = 1;
        for (std::size_t i = 0; i < sizeof room; i += 4096) sum += static_cast<std::size_t>(room[i]);
    });
    deep->resume();
    CHECK(deep->ended());
    CHECK(sum == (std::size_t{6} << 20) / 4096);
}
