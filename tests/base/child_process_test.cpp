// How a child process ended, also where the host waits for all child processes.
#include "base/child_process.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>

using namespace hekla;

namespace child_process_test {
namespace {

std::unique_ptr<ChildProcess> started() {
    Result<std::unique_ptr<ChildProcess>> child = ChildProcess::start("/bin/sh", {"-c", "exit 3"}, {});
    REQUIRE_MESSAGE(child.ok(), child.message());
    return child.take();
}

} // namespace

TEST_CASE("a child process ends with its status") {
    const std::unique_ptr<ChildProcess> child = started();
    ::siginfo_t ended{};
    REQUIRE(::waitid(P_ALL, 0, &ended, WEXITED | WNOWAIT) == 0); // leaves the status
    const ProcessEnd end = child->end();
    CHECK(end.status == 3);
    CHECK(end.signal == 0);
}

TEST_CASE("the status of a child process that the host has waited for is unknown, and is not taken for another") {
    const std::unique_ptr<ChildProcess> child = started();
    REQUIRE(::waitpid(-1, nullptr, 0) > 0);
    const ProcessEnd end = child->end();
    CHECK(end.status == -1);
    CHECK(end.signal == 0);
}

} // namespace child_process_test
