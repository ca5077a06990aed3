// Plans predict exactly the memory that is then allocated, on a device and without one.
#include "recurrent.hpp"
#include "work.hpp"

#include "hekla/plan.h"

#include <cmath>

namespace plan_test {

using namespace hekla::test;

namespace {

struct Planned {
    int reports = 0;
    hk_plan_report report{};
    std::vector<std::pair<std::string, hk_plan_node>> nodes;
    std::string text;
};

Planned plan(hk_context context, hk_plan_options options, int32_t expected = HK_OK, std::string* message = nullptr) {
    Planned planned;
    options.struct_size = sizeof options;
    options.user = &planned;
    options.report = [](void* user, const hk_plan_report* r) {
        auto& to = *static_cast<Planned*>(user);
        ++to.reports;
        to.report = *r;
        to.text.assign(r->text.data, static_cast<std::size_t>(r->text.size));
        for (uint64_t i = 0; i < r->node_count; ++i)
            to.nodes.emplace_back(std::string(r->nodes[i].name.data, static_cast<std::size_t>(r->nodes[i].name.size)),
                                  r->nodes[i]);
    };
    const Error error;
    const int32_t code = hk_plan(context, &options, error);
    REQUIRE_MESSAGE(code == expected, error.message());
    CHECK(planned.reports == (code == HK_OK ? 1 : 0));
    if (message != nullptr) *message = error.message();
    return planned;
}

hk_plan_options of_training(const Training& training) {
    hk_plan_options options{};
    options.mode = HK_PLAN_TRAIN;
    options.recipe = training.options.recipe;
    options.overrides = training.options.overrides;
    options.override_count = training.options.override_count;
    return options;
}

hk_plan_options of_model(int32_t mode, const std::string& model, int64_t rows, int64_t length) {
    hk_plan_options options{};
    options.mode = mode;
    options.model = view(model);
    options.rows = rows;
    options.length = length;
    return options;
}

uint64_t sum(const hk_plan_report& r) {
    return r.weights + r.gradients + r.optimizer + r.states + r.activations + r.programs + r.staging;
}

} // namespace

TEST_CASE("a plan is exact: a memory cap of its size suffices, a slightly smaller one does not") {
    FaultDriver::get().reset();
    const Place place;
    Host host;
    const Error error;
    hk_context context{};
    REQUIRE(host.context(context) == HK_OK);
    const Training training(place, "planned", {"train.ema_decay=0.9", "train.gradient_accumulation_steps=2"});
    const uint64_t allocations = FaultDriver::get().calls("vkAllocateMemory");
    const Planned planned = plan(context, of_training(training));
    CHECK(FaultDriver::get().calls("vkAllocateMemory") == allocations);
    CHECK(FaultDriver::get().calls("vkQueueSubmit2") == 0);
    CHECK(!std::filesystem::exists(place.folder / "planned"));
    const hk_plan_report& r = planned.report;
    CHECK(r.total == sum(r));
    CHECK(r.gradients == r.weights);
    CHECK(r.optimizer > 3 * r.weights); // two moments and an average
    CHECK(r.rows == 4);
    CHECK(r.length == 32);
    CHECK(r.units == 6);
    CHECK(r.time == HK_TIME_ESTIMATED);
    CHECK(r.microseconds > 0);
    CHECK(planned.text.find("most expensive operations") != std::string::npos);
    double microseconds = 0, flops = 0;
    uint64_t dispatches = 0;
    for (const auto& [name, node] : planned.nodes) {
        microseconds += node.microseconds;
        flops += node.flops;
        dispatches += node.dispatches;
    }
    CHECK(std::abs(microseconds - r.microseconds) < 1e-6 * r.microseconds);
    CHECK(std::abs(flops - r.flops) < 1e-6 * r.flops);
    CHECK(dispatches == r.dispatches);
    hk_context_destroy(context);

    const auto with_cap = [&](double share, const hk_plan_report& of, const std::function<int32_t()>& run) {
        const auto cap = static_cast<uint64_t>(static_cast<double>(of.total) * share);
        REQUIRE(host.context(context, error, [&](hk_context_options& o) { o.memory_cap = cap; }) == HK_OK);
        const int32_t code = run();
        hk_context_destroy(context);
        return code;
    };
    const auto trains = [&] { return hk_train(context, &training.options, nullptr, error); };
    CHECK(with_cap(0.99, r, trains) == HK_OUT_OF_MEMORY);
    CHECK_MESSAGE(with_cap(1.0, r, trains) == HK_OK, error.message());

    // For a model: a forward session and a generation session; their staging memory is added.
    REQUIRE(host.context(context) == HK_OK);
    const std::string model = place.at("planned"), port = "hidden";
    const hk_string ports = view(port);
    hk_plan_options pass = of_model(HK_PLAN_FORWARD, model, 2, 16);
    pass.ports = &ports;
    pass.port_count = 1;
    hk_plan_report of_pass = plan(context, pass).report;
    hk_plan_report of_text = plan(context, of_model(HK_PLAN_GENERATE, model, 1, 60)).report;
    hk_context_destroy(context);
    CHECK(of_pass.gradients == 0);
    CHECK(of_text.states > 2 * 2 * 32 * 64 * sizeof(float)); // keys and values of two blocks
    constexpr uint64_t kStaging = 4 * ((uint64_t{1} << 20) + 16384);
    const auto session_of = [&](bool writes) {
        return [&, writes]() -> int32_t {
            hk_session session{};
            const Writing writing(model);
            hk_session_options own{};
            own.struct_size = sizeof own;
            own.length = 60;
            hk_forward_options forward{};
            forward.struct_size = sizeof forward;
            forward.model = view(model);
            forward.rows = 2;
            forward.length = 16;
            forward.ports = &ports;
            forward.port_count = 1;
            REQUIRE((writes ? hk_session_generate(context, &writing.options, &own, &session, error)
                            : hk_session_forward(context, &forward, nullptr, &session, error)) == HK_OK);
            const hk_session_info info = state_of(session, 120 * kSecond);
            const int32_t code = info.code;
            hk_session_destroy(session);
            return code;
        };
    };
    of_pass.total += kStaging;
    of_text.total += kStaging;
    CHECK(with_cap(0.98, of_pass, session_of(false)) == HK_OUT_OF_MEMORY);
    CHECK(with_cap(1.0, of_pass, session_of(false)) == HK_OK);
    CHECK(with_cap(0.98, of_text, session_of(true)) == HK_OUT_OF_MEMORY);
    CHECK(with_cap(1.0, of_text, session_of(true)) == HK_OK);
    CHECK(FaultDriver::get().leaks().empty());
}

TEST_CASE("a context without a device plans for a described device; measured times need a real one") {
    FaultDriver::get().reset();
    const Place place;
    Host host;
    const Error error;
    hk_context real{}, none{};
    REQUIRE(host.context(real) == HK_OK);
    const auto without = [](hk_context_options& o) {
        o.device_kind = HK_DEVICE_NONE;
        o.vulkan = nullptr;
    };
    REQUIRE(host.context(none, error, without) == HK_OK);
    const Training training(place, "planned");
    hk_plan_options options = of_training(training);
    std::string message;
    plan(none, options, HK_FAILED_PRECONDITION, &message);
    CHECK_MESSAGE(message.find("hk_plan_options.limits") != std::string::npos, message);

    const Planned here = plan(real, options);
    hk_device_limits limits{};
    limits.struct_size = sizeof limits;
    CHECK(hk_device_limits_of(none, &limits, error) == HK_FAILED_PRECONDITION);
    REQUIRE(hk_device_limits_of(real, &limits, error) == HK_OK);
    options.limits = &limits;
    const Planned described = plan(none, options);
    CHECK(described.report.total == here.report.total);
    CHECK(described.report.dispatches == here.report.dispatches);
    CHECK(described.report.microseconds == here.report.microseconds);
    CHECK(described.report.available == limits.memory);

    options.measure = 1;
    plan(none, options, HK_INVALID_ARGUMENT, &message);
    CHECK_MESSAGE(message.find("only described") != std::string::npos, message);
    options.limits = nullptr;
    const Planned measured = plan(real, options);
    CHECK(measured.report.time == HK_TIME_MEASURED);
    CHECK(measured.report.microseconds > 0);
    CHECK(measured.report.total == here.report.total);
    CHECK(!std::filesystem::exists(place.folder / "planned"));
    options.measure = 0;

    // Times scale with the given speeds; device limits are selected by name.
    options.limits = &limits;
    double before = 0;
    for (const char* name : {"desktop", "mobile", "cpu"}) {
        REQUIRE(hk_device_limits_named(view(name), &limits, error) == HK_OK);
        const double microseconds = plan(none, options).report.microseconds;
        CHECK(microseconds > before);
        before = microseconds;
    }
    CHECK(hk_device_limits_named(view("toaster"), &limits, error) == HK_NOT_FOUND);
    CHECK_MESSAGE(error.says("cpu, desktop, mobile"), error.message());
    limits.subgroup_size = 33;
    plan(none, options, HK_INVALID_ARGUMENT, &message);
    CHECK_MESSAGE(message.find("hk_device_limits.subgroup_size is 33") != std::string::npos, message);
    options.mode = 7;
    plan(none, options, HK_INVALID_ARGUMENT, &message);
    CHECK_MESSAGE(message.find("mode is 7") != std::string::npos, message);
    hk_plan_options silent{};
    silent.struct_size = sizeof silent;
    CHECK(hk_plan(none, &silent, error) == HK_INVALID_ARGUMENT);
    CHECK(error.says("report is null"));
    hk_context_destroy(none);
    hk_context_destroy(real);
    CHECK(FaultDriver::get().leaks().empty());
}

TEST_CASE("a recurrent encoder-decoder is planned for generation") {
    const Recurrent recurrent;
    Host host;
    const Error error;
    hk_context none{};
    const auto without = [](hk_context_options& o) {
        o.device_kind = HK_DEVICE_NONE;
        o.vulkan = nullptr;
    };
    REQUIRE(host.context(none, error, without) == HK_OK);
    hk_device_limits limits{};
    limits.struct_size = sizeof limits;
    const std::string kind = "desktop", model = recurrent.folder();
    REQUIRE(hk_device_limits_named(view(kind), &limits, error) == HK_OK);
    hk_plan_options options = of_model(HK_PLAN_GENERATE, model, 2, 12);
    options.limits = &limits;
    const Planned planned = plan(none, options);
    CHECK(planned.report.rows == 2);
    CHECK(planned.report.states > 2 * 12 * 24 * sizeof(float)); // the encoder's output is kept for every token
    hk_context_destroy(none);
}

} // namespace plan_test
