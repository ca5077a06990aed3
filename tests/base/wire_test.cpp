// Messages between processes: values round-trip, and invalid data is rejected safely.
#include "base/channel.hpp"
#include "base/wire.hpp"

#include <array>
#include <doctest/doctest.h>
#include <random>
#include <sys/socket.h>
#include <thread>

using namespace hekla;

namespace {

std::pair<Channel, FileHandle> ends() {
    std::array<int, 2> sockets{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()) == 0);
    return {Channel(FileHandle(sockets[0])), FileHandle(sockets[1])};
}

} // namespace

TEST_CASE("wire: values round-trip") {
    WireWriter out;
    out.number(7);
    out.integer(-3);
    out.real(-0.0);
    out.flag(true);
    out.text("");
    out.text("nine long");
    const std::vector<int32_t> ids{1, -2, 3};
    out.array(std::span<const int32_t>(ids));
    const std::vector<std::string> names{"a", "", std::string("\0b", 2)};
    out.texts(names);
    CHECK(out.bytes().size() % 8 == 0);
    WireReader in(out.bytes());
    CHECK(in.number() == 7);
    CHECK(in.integer() == -3);
    CHECK(std::signbit(in.real()));
    CHECK(in.flag());
    CHECK(in.text().empty());
    CHECK(in.text() == "nine long");
    const std::span<const int32_t> read = in.array<int32_t>();
    CHECK(std::vector<int32_t>(read.begin(), read.end()) == ids);
    CHECK(in.texts() == names);
    CHECK(in.finish("test").ok());
}

TEST_CASE("wire: a truncated or random message is rejected safely") {
    WireWriter out;
    out.text("a text");
    out.texts(std::vector<std::string>{"one", "two"});
    out.array(std::span<const double>(std::vector<double>{1, 2, 3}));
    const auto read = [](const std::string& bytes) {
        WireReader in(bytes);
        in.text();
        in.texts();
        in.array<double>();
        return in.finish("test");
    };
    CHECK(read(out.bytes()).ok());
    CHECK(!read(out.bytes() + std::string(8, '\0')).ok());
    for (std::size_t size = 0; size < out.bytes().size(); ++size) CHECK(!read(out.bytes().substr(0, size)).ok());
    std::mt19937 random(1);
    for (int round = 0; round < 2000; ++round) {
        std::string bytes = out.bytes();
        for (int flips = 0; flips < 3; ++flips) bytes[random() % bytes.size()] = static_cast<char>(random());
        (void)read(bytes); // also under the sanitizers
    }
    // A wrong count allocates no memory.
    WireWriter huge;
    huge.number(~uint64_t{0});
    WireReader in(huge.bytes());
    CHECK(in.texts().empty());
    CHECK(!in.ok());
}

TEST_CASE("channel: messages of any size in both directions; noise, timeouts and a closed end have different errors") {
    {
        auto [here, there_end] = ends();
        Channel there(std::move(there_end));
        const std::string large(3'000'001, 'x');
        std::thread other([&] {
            const Result<Message> got = there.receive();
            REQUIRE(got.ok());
            CHECK(got.value().kind == 5);
            CHECK(there.send(6, got.value().bytes).ok());
        });
        CHECK(here.send(5, large).ok());
        const Result<Message> back = here.receive();
        other.join();
        REQUIRE(back.ok());
        CHECK(back.value().kind == 6);
        CHECK(back.value().bytes == large);
        CHECK(here.receive(Channel::Clock::now() + std::chrono::milliseconds(20)).code() == Code::cancelled);
        there.close();
        CHECK(here.receive().code() == Code::io);
        CHECK(here.send(1, "x").code() == Code::io); // and no signal
    }
    auto [here, there] = ends();
    const std::string noise(64, 'n');
    REQUIRE(::send(there.get(), noise.data(), noise.size(), 0) == 64);
    CHECK(here.receive().code() == Code::corrupt);
    auto [again, other] = ends();
    const struct {
        uint32_t magic = Channel::kMagic;
        uint32_t kind = 1;
        uint64_t size = ~uint64_t{0};
    } boast;
    REQUIRE(::send(other.get(), &boast, sizeof boast, 0) == sizeof boast);
    CHECK(again.receive().code() == Code::corrupt);
}
