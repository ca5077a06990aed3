// hekla.operation/1 from the plugin's side, with plain C tables: what the host calls, caches and rejects.
#include "plugin/host/host_error.hpp"
#include "plugin/host/host_graph.hpp"
#include "plugin/host/host_operation.hpp"

#include "graph/check.hpp"
#include "graph/gradient.hpp"
#include "graph/reference.hpp"
#include "graph/text.hpp"

#include <cstring>
#include <doctest/doctest.h>
#include <stdexcept>
#include <string>

namespace host_operation_test {

using namespace hekla;
using namespace hekla::plugin;
using graph::Kind;

namespace {

hk_string s(const char* text) { return {text, std::strlen(text)}; }
bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }
const hk_graph_interface& api() { return *host_graph_interface(); }

// y = power * x: one input, one attribute without a default.
const hk_operation_input kInputs[] = {{sizeof(hk_operation_input), HK_KIND_FLOAT, {"x", 1}}};
const hk_operation_attribute kAttributes[] = {
    {sizeof(hk_operation_attribute), HK_ATTRIBUTE_REAL, {"power", 5}, nullptr}};
const hk_string kOutputs[] = {{"y", 1}};
constexpr const char* kText = "void operation(uint i) { store_y(i, power * load_x(i)); }";

hk_operation_description described(uint32_t revision) {
    hk_operation_description d{};
    d.struct_size = sizeof d;
    d.revision = revision;
    d.input_count = d.attribute_count = d.output_count = 1;
    d.inputs = kInputs;
    d.attributes = kAttributes;
    d.outputs = kOutputs;
    d.glsl = {kText, std::strlen(kText)};
    return d;
}

int32_t same_shape(const hk_operation_use* use, hk_operation_cost* cost, hk_error* error) {
    if (use->inputs[0].rank != 2) {
        host_error_interface()->set(error, HK_INVALID_ARGUMENT, s("x must have two dimensions"));
        return HK_INVALID_ARGUMENT;
    }
    use->outputs[0].rank = use->inputs[0].rank;
    std::memcpy(use->outputs[0].dims, use->inputs[0].dims, sizeof use->outputs[0].dims);
    cost->flops = 7;
    return HK_OK;
}

// dx = scale(dy), using the operation itself.
int32_t own_gradient(hk_builder* builder, const hk_operation_gradient* use, hk_error* error) {
    hk_attribute power{};
    power.struct_size = sizeof power;
    power.type = HK_ATTRIBUTE_REAL;
    power.name = s("power");
    power.real = use->attributes[0].real;
    api().emit(builder, s("acme.scale"), 2, use->output_gradients, 1, &power, 1, use->input_gradients, 1);
    return api().status(builder, error);
}

int32_t scaled(const hk_operation_use* use, hk_error*) {
    int64_t elements = 1;
    for (uint32_t d = 0; d < use->inputs[0].rank; ++d) elements *= use->inputs[0].dims[d];
    for (int64_t i = 0; i < elements; ++i) use->outputs[0].data[i] = use->attributes[0].real * use->inputs[0].data[i];
    return HK_OK;
}

template<uint32_t revision>
const hk_operation_description* describe() {
    static const hk_operation_description kept = described(revision);
    return &kept;
}

const hk_operation kScale{describe<2>, same_shape, own_gradient, scaled};
const hk_operation kOldScale{describe<1>, same_shape, nullptr, scaled};

// One description, with the tables by their ids.
struct Description {
    explicit Description(std::map<std::string, hk_operation> tables = {{"acme.scale", kScale}})
        : tables(std::move(tables)), own([this](const std::string& id) -> Result<const hk_operation*> {
              const auto found = this->tables.find(id);
              if (found == this->tables.end()) return not_found("no plugin provides " + id);
              ++loads;
              return &found->second;
          }),
          view(joint, next_tag()) {
        joint.own = &own;
    }
    hk_value parameter(std::vector<int64_t> dims) {
        return api().parameter(&view, s("p"), dims.data(), static_cast<uint32_t>(dims.size()), 0, 0, 0, 0);
    }
    hk_value scale(hk_value x, uint32_t revision = 2, const char* name = "acme.scale",
                   const char* attribute = "power") {
        hk_attribute power{};
        power.struct_size = sizeof power;
        power.type = HK_ATTRIBUTE_REAL;
        power.name = s(attribute);
        power.real = 3;
        hk_value y = 0;
        api().emit(&view, s(name), revision, &x, 1, &power, 1, &y, 1);
        return y;
    }
    std::string message() const { return joint.builder.status().message(); }

    std::map<std::string, hk_operation> tables;
    int loads = 0;
    OwnOperations own;
    Joint joint;
    hk_builder view;
};

std::string refusal_of(const hk_operation& table) {
    Description d({{"acme.scale", table}});
    d.scale(d.parameter({2, 3}));
    return d.message();
}

} // namespace

TEST_CASE("a custom operation is queried once, and each use for its shapes and gradient") {
    Description d;
    CHECK(api().operation_revision(&d.view, s("acme.scale")) == 2);
    CHECK(api().operation_revision(&d.view, s("acme.other")) == 0);
    const hk_value x = d.parameter({2, 3});
    const hk_value y = d.scale(d.scale(x));
    REQUIRE_MESSAGE(d.joint.builder.ok(), d.message());
    CHECK(d.loads == 1);
    int64_t dims[HK_MAX_RANK] = {};
    uint32_t rank = 0;
    CHECK(api().shape(&d.view, y, dims, &rank) == HK_KIND_FLOAT);
    CHECK((rank == 2 && dims[0] == 2 && dims[1] == 3));

    graph::Builder& b = d.joint.builder;
    const graph::ValueId value = value_of(&d.view, y, "test");
    b.output("y", value);
    b.loss("loss", b(graph::Op::sum, {value}, {{"axes", std::vector<int64_t>{0, 1}}}), b.scalar(1), 1.0);
    auto finished = b.finish();
    REQUIRE_MESSAGE(finished.ok(), finished.message());
    const Status sound = graph::check(finished.value());
    CHECK_MESSAGE(sound.ok(), sound.message());
    const auto differentiated = graph::differentiate(finished.value());
    REQUIRE_MESSAGE(differentiated.ok(), differentiated.message());
    graph::Feeds feeds;
    feeds.parameters["p"] = {Kind::float_, {2, 3}, {1, 2, 3, 4, 5, 6}};
    const graph::ValueId wanted[] = {differentiated.value().outputs.at("y"),
                                     differentiated.value().outputs.at("grad.p")};
    const auto values = graph::evaluate(differentiated.value(), feeds, wanted);
    REQUIRE_MESSAGE(values.ok(), values.message());
    CHECK(values.value()[0].data == std::vector<double>{9, 18, 27, 36, 45, 54});
    CHECK(values.value()[1].data == std::vector<double>(6, 9.0));
    const std::string text = graph::print(finished.value());
    CHECK(contains(text, "invocations 6 flops 7 bytes 48 gradient 1"));
    CHECK(graph::parse(text).ok());
}

TEST_CASE("without differentiation no gradient is described") {
    Description d;
    d.joint.mode = HK_MODE_DECODE;
    d.scale(d.parameter({2, 3}));
    REQUIRE_MESSAGE(d.joint.builder.ok(), d.message());
    for (const graph::Node& node : d.joint.builder.graph().nodes)
        if (node.own != nullptr) CHECK(node.own->gradient == nullptr);
}

TEST_CASE("revisions: the newest one, an older one that is provided too, and missing ones") {
    Description d({{"acme.scale", kScale}, {"acme.scale/1", kOldScale}});
    const hk_value x = d.parameter({2, 3});
    d.scale(x, 2);
    d.scale(x, 1);
    REQUIRE_MESSAGE(d.joint.builder.ok(), d.message());
    d.scale(x, 3);
    CHECK(contains(d.message(), "acme.scale: revision 3 was asked for, its plugin has 2"));

    Description alone;
    alone.scale(alone.parameter({2, 3}), 1);
    CHECK(contains(alone.message(),
                   "revision 1 was asked for, its plugin has 2: emit that one, or offer 'acme.scale/1' too"));
    Description wrong({{"acme.scale", kScale}, {"acme.scale/1", kScale}});
    wrong.scale(wrong.parameter({2, 3}), 1);
    CHECK(contains(wrong.message(), "operation 'acme.scale/1' describes itself as revision 2"));
    Description none;
    none.scale(none.parameter({2, 3}), 1, "acme.other");
    CHECK(contains(none.message(), "no plugin provides acme.other"));
}

TEST_CASE("invalid uses name the operation, the error, and the author's scope") {
    const auto refused = [](const std::function<void(Description&)>& use) {
        Description d;
        api().scope_begin(&d.view, s("block.3"));
        use(d);
        CHECK_FALSE(d.joint.builder.ok());
        return d.message();
    };
    CHECK(refused([](auto& d) { d.scale(d.parameter({6})); }) == "acme.scale: x must have two dimensions; in block.3");
    CHECK(refused([](auto& d) { d.scale(api().iota(&d.view, 4, 0, 1)); }) ==
          "acme.scale: x is int32, expected float (use cast); in block.3");
    CHECK(contains(refused([](auto& d) {
                       d.scale(d.parameter({2, 3}), 2, "acme.scale", "powr");
                   }),
                   "acme.scale: attribute power is missing"));
    CHECK(contains(refused([](auto& d) { d.scale(0); }), "acme.scale: input x is missing"));
    CHECK(contains(refused([](auto& d) {
                       const hk_value x[] = {d.parameter({2, 3}), d.parameter({2, 3})};
                       api().emit(&d.view, s("acme.scale"), 2, x, 2, nullptr, 0, nullptr, 0);
                   }),
                   "acme.scale: 2 inputs, 1 are expected"));
    CHECK(contains(refused([](auto& d) {
                       const hk_value x = d.parameter({2, 3});
                       hk_value y[2] = {};
                       api().emit(&d.view, s("acme.scale"), 2, &x, 1, nullptr, 0, y, 2);
                   }),
                   "acme.scale: 2 outputs were asked for, it has 1"));
}

TEST_CASE("invalid tables and descriptions are rejected, each by name") {
    hk_operation table = kScale;
    table.reference = nullptr;
    CHECK(contains(refusal_of(table), "operation 'acme.scale': describe, shape or reference is null"));
    table = kScale;
    table.describe = []() -> const hk_operation_description* { return nullptr; };
    CHECK(contains(refusal_of(table), "operation 'acme.scale': its description is null"));
    table.describe = []() -> const hk_operation_description* {
        static const hk_operation_description kept = [] {
            hk_operation_description d = described(1);
            d.struct_size = 8;
            return d;
        }();
        return &kept;
    };
    CHECK(contains(refusal_of(table), "struct_size of another version"));
    table.describe = []() -> const hk_operation_description* {
        static const hk_operation_description kept = [] {
            hk_operation_description d = described(2);
            d.inputs = nullptr;
            return d;
        }();
        return &kept;
    };
    CHECK(contains(refusal_of(table), "null array with a count above 0"));
    table.describe = []() -> const hk_operation_description* { throw std::runtime_error("no"); };
    CHECK(contains(refusal_of(table), "the plugin threw an exception; plugins must not (no)"));
    table = kScale;
    table.shape = [](const hk_operation_use* use, hk_operation_cost*, hk_error*) -> int32_t {
        use->outputs[0].rank = 9;
        return HK_OK;
    };
    CHECK(contains(refusal_of(table), "acme.scale: its shape rule gives output 'y' kind 0 and rank 9"));
    table.shape = [](const hk_operation_use* use, hk_operation_cost*, hk_error*) -> int32_t {
        use->outputs[0].rank = 1;
        use->outputs[0].dims[0] = -4;
        return HK_OK;
    };
    CHECK(contains(refusal_of(table), "output 'y' is [-4]"));
    table.shape = [](const hk_operation_use*, hk_operation_cost* cost, hk_error*) -> int32_t {
        cost->invocations = ~uint64_t{0};
        return HK_OK;
    };
    CHECK(contains(refusal_of(table), "invocations; 0 to"));
    table.shape = [](const hk_operation_use*, hk_operation_cost*, hk_error*) -> int32_t { return HK_UNSUPPORTED; };
    CHECK(contains(refusal_of(table), "acme.scale"));
}

TEST_CASE("invalid gradients are rejected, and so are handles of another builder") {
    const auto refused = [](int32_t (*gradient)(hk_builder*, const hk_operation_gradient*, hk_error*)) {
        hk_operation table = kScale;
        table.gradient = gradient;
        return refusal_of(table);
    };
    CHECK(contains(refused([](hk_builder* b, const hk_operation_gradient* use, hk_error*) -> int32_t {
                       const int64_t dims[] = {2, 3};
                       use->input_gradients[0] = api().parameter(b, s("stolen"), dims, 2, 0, 0, 0, 0);
                       return HK_OK;
                   }),
                   "the gradient of acme.scale: it must not use parameter"));
    CHECK(contains(refused([](hk_builder*, const hk_operation_gradient* use, hk_error*) -> int32_t {
                       use->input_gradients[0] = use->output_gradients[0] ^ (1u << 20);
                       return HK_OK;
                   }),
                   "a value of another graph"));
    CHECK(contains(refused([](hk_builder* b, const hk_operation_gradient* use, hk_error*) -> int32_t {
                       api().offer(b, s("hidden"), use->inputs[0]);
                       return HK_OK;
                   }),
                   "acme.scale: gradient: it offers a port"));
    CHECK(contains(refused([](hk_builder* b, const hk_operation_gradient*, hk_error*) -> int32_t {
                       api().scope_begin(b, s("open"));
                       return HK_OK;
                   }),
                   "acme.scale: gradient: a scope or region is still open"));
    CHECK(contains(refused([](hk_builder* b, const hk_operation_gradient*, hk_error* error) -> int32_t {
                       api().input(b, s("input_ids"));
                       return api().status(b, error);
                   }),
                   "acme.scale: gradient: input: the batch has no field 'input_ids'"));
    CHECK(contains(refused([](hk_builder*, const hk_operation_gradient*, hk_error*) -> int32_t {
                       throw std::runtime_error("sideways");
                   }),
                   "the plugin threw an exception"));
    // Returning no gradients is allowed, as after stop_gradient.
    CHECK(refused([](hk_builder*, const hk_operation_gradient*, hk_error*) -> int32_t { return HK_OK; }).empty());
}

} // namespace host_operation_test
