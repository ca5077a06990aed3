// Stop requests that long work polls.
#include "base/stop_poll.hpp"

#include <chrono>
#include <doctest/doctest.h>
#include <functional>
#include <thread>

using namespace hekla;

TEST_CASE("stop poll: a default or an empty one never stops") {
    CHECK(!StopPoll().stopped());
    CHECK(StopPoll().check("reading").ok());
    CHECK(!StopPoll(std::function<bool()>()).stopped());
    CHECK(StopPoll(std::function<bool()>()).check("reading").ok());
}

TEST_CASE("stop poll: stopped() asks each time, check() at most every 20 milliseconds") {
    int asked = 0;
    const StopPoll stop = [&asked] { return ++asked > 3; };
    CHECK(stop.check("reading").ok());
    for (int i = 0; i < 1000; ++i) CHECK(stop.check("reading").ok());
    CHECK(asked < 1000);
    asked = 3;
    CHECK(stop.stopped());
    CHECK(stop.check_now("reading").code() == Code::cancelled);
    const StopPoll copy = stop;
    CHECK(copy.stopped());
    std::this_thread::sleep_for(std::chrono::milliseconds(25));
    const Status status = stop.check("reading");
    CHECK(status.code() == Code::cancelled);
    CHECK(status.message() == "stopped while reading");
}
