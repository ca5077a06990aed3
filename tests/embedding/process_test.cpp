// The process around the library: exit, fork, signals, locale, rounding.
#include "hekla/model.h"
#include "work.hpp"

#include <cfenv>
#include <clocale>
#include <csignal>
#include <sys/wait.h>
#include <unistd.h>

namespace process_test {

using namespace hekla::test;

namespace {

// Returns what is in /proc for a thread of this process, such as "SigBlk".
std::string of_thread(const std::filesystem::path& task, const std::string& key) {
    std::ifstream file(task / "status");
    for (std::string line; std::getline(file, line);)
        if (line.starts_with(key + ":")) return line.substr(line.find_last_of(" \t") + 1);
    return {};
}

} // namespace

TEST_CASE("a signal of the host never reaches a thread of the library") {
    FaultDriver::get().reset();
    const Place place;
    Host host;
    const Error error;
    hk_context context{};
    REQUIRE(host.context(context) == HK_OK);
    const Training training(place, "run");
    hk_session session{};
    REQUIRE(hk_session_train(context, &training.options, nullptr, &session, error) == HK_OK);
    REQUIRE(state_of(session, 120 * kSecond).state == HK_SESSION_WORKING);
    int found = 0;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
        const std::string name = of_thread(task.path(), "Name");
        if (name != "session" && name != "batches") continue; // the last word of "hekla session"
        ++found;
        const uint64_t blocked = std::stoull(of_thread(task.path(), "SigBlk"), nullptr, 16);
        for (const int signal : {SIGINT, SIGTERM, SIGALRM, SIGUSR1, SIGCHLD, SIGPROF, SIGIO})
            CHECK_MESSAGE((blocked >> (signal - 1) & 1) == 1, name, ": signal ", signal);
    }
    CHECK(found >= 2);
    sigset_t own;
    pthread_sigmask(SIG_SETMASK, nullptr, &own);
    CHECK(sigismember(&own, SIGUSR1) == 0);
    hk_session_destroy(session);
    hk_context_destroy(context);
}

TEST_CASE("a forked child can exit, cannot use its parent's context, and can create one") {
    const Error error;
    hk_context context{};
    const auto without_device = [](hk_context_options& o) { o.device_kind = HK_DEVICE_NONE; };
    REQUIRE(make_context(context, error, without_device) == HK_OK);
    const pid_t child = fork();
    if (child == 0) {
        alarm(20);
        const Error of_child;
        hk_model model{};
        const std::string nowhere = "/nowhere";
        if (hk_model_open(context, view(nowhere), &model, of_child) != HK_FAILED_PRECONDITION) _exit(2);
        if (!of_child.says("before fork()")) _exit(3);
        hk_context_destroy(context);
        hk_context own{};
        if (make_context(own, of_child, without_device) != HK_OK || own.id == context.id) _exit(4);
        if (hk_model_open(own, view(nowhere), &model, of_child) == HK_FAILED_PRECONDITION) _exit(5);
        hk_context_destroy(own);
        _exit(0);
    }
    REQUIRE(child > 0);
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
    hk_context_destroy(context);
}

TEST_CASE("the host's rounding mode changes no bits and is restored") {
    FaultDriver::get().reset();
    const Place place;
    Host host;
    const Error error;
    hk_context context{};
    REQUIRE(host.context(context) == HK_OK);
    train(context, Training(place, "nearest"));
    REQUIRE(std::fesetround(FE_UPWARD) == 0);
    const Training training(place, "upward");
    const int32_t code = hk_train(context, &training.options, nullptr, error);
    const int after = std::fegetround();
    REQUIRE(std::fesetround(FE_TONEAREST) == 0);
    REQUIRE_MESSAGE(code == HK_OK, error.message());
    CHECK(after == FE_UPWARD);
    CHECK(place.read("upward/model.safetensors") == place.read("nearest/model.safetensors"));
    hk_context_destroy(context);
}

} // namespace process_test
