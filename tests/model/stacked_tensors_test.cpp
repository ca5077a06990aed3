#include "model/stacked_tensors.hpp"

#include "model/finite.hpp"
#include "model/parameter_names.hpp"
#include "model/weights.hpp"

#include <doctest/doctest.h>
#include <limits>
#include <map>

namespace stacked_tensors_test {

using namespace hekla;
using namespace hekla::model;

namespace {

const std::vector<std::string> kPatterns{"experts.#.up.weight", "experts.#.down.weight"};

// float32 tensors by name.
struct Stored {
    std::map<std::string, std::vector<float>> values;
    std::vector<TensorView> views;
    void add(const std::string& name, std::vector<int64_t> dims, std::vector<float> of) {
        std::vector<float>& kept = values[name] = std::move(of);
        TensorView& view = views.emplace_back();
        view.name = name;
        view.dims = std::move(dims);
        view.bytes = std::as_bytes(std::span<const float>(kept));
    }
};

Stored two_layers() {
    Stored stored;
    stored.add("h.0.experts.1.up.weight", {2, 1}, {3, 4});
    stored.add("h.0.experts.0.up.weight", {2, 1}, {1, 2});
    stored.add("h.0.router.weight", {2}, {9, 9});
    stored.add("h.1.experts.0.up.weight", {2, 1}, {5, 6});
    stored.add("experts.0.down.weight", {1}, {7});
    return stored;
}

std::string message_of(const Stored& stored) { return stack_tensors(stored.views, kPatterns, "FILE").message(); }

std::vector<float> read(const TensorSource& source) {
    std::vector<float> values;
    const Status status = source.stream([&](std::span<const std::byte> bytes) -> Status {
        const std::size_t before = values.size();
        values.resize(before + bytes.size() / sizeof(float));
        std::memcpy(values.data() + before, bytes.data(), bytes.size());
        return {};
    });
    REQUIRE_MESSAGE(status.ok(), status.message());
    return values;
}

} // namespace

TEST_CASE("numbered tensors become one, in the order of their numbers") {
    const Stored stored = two_layers();
    const auto all = with_stacks(stored.views, kPatterns, "FILE");
    REQUIRE_MESSAGE(all.ok(), all.message());
    std::map<std::string, TensorView> by_name;
    for (const TensorView& tensor : all.value()) by_name.emplace(tensor.name, tensor);
    REQUIRE(by_name.size() == 4);
    const TensorView& up = by_name.at("h.0.experts.up.weight");
    CHECK(up.dims == std::vector<int64_t>{2, 2, 1});
    CHECK(up.byte_size() == 16);
    std::vector<float> values(4);
    REQUIRE(load_float32(up, values).ok());
    CHECK(values == std::vector<float>{1, 2, 3, 4});
    CHECK(read(source_of(up)) == values);
    CHECK(by_name.at("h.1.experts.up.weight").dims == std::vector<int64_t>{1, 2, 1});
    CHECK(by_name.at("experts.down.weight").dims == std::vector<int64_t>{1, 1}); // without anything before it
    CHECK(by_name.at("h.0.router.weight").parts.empty());
}

TEST_CASE("names that only look like a stack's") {
    Stored stored;
    for (const char* name :
         {"h.0.my_experts.0.up.weight", "experts.0.up.weight.scale", "experts.x.up.weight", "experts.00.up.weight",
          "experts..up.weight", "experts.up.weight", "experts.99999999999.up.weight", "experts.-1.up.weight"})
        stored.add(name, {1}, {1});
    const auto stacks = stack_tensors(stored.views, kPatterns, "FILE");
    REQUIRE(stacks.ok());
    CHECK(stacks->tensors.empty());
}

TEST_CASE("a stack that is not whole is refused by name") {
    Stored gap = two_layers();
    gap.add("h.0.experts.3.up.weight", {2, 1}, {0, 0});
    CHECK(message_of(gap) ==
          "FILE: has \"h.0.experts.3.up.weight\", but no \"h.0.experts.2.up.weight\": the parts of a "
          "stack are numbered from 0 on");
    Stored shape = two_layers();
    shape.add("h.0.experts.2.up.weight", {1, 2}, {0, 0});
    CHECK(message_of(shape) == "FILE: \"h.0.experts.2.up.weight\" is f32 [1, 2], expected f32 [2, 1] as "
                               "\"h.0.experts.0.up.weight\"");
}

TEST_CASE("parameters find their stacks") {
    const Stored stored = two_layers();
    NameRules rules;
    rules.stacks = kPatterns;
    rules.ignorable = {"*"};
    const std::vector<ParameterSpec> wanted{{"h.0.experts.up.weight", DType::f32, {2, 2, 1}}};
    const auto found = resolve_names(wanted, stored.views, rules, "FILE");
    REQUIRE_MESSAGE(found.ok(), found.message());
    CHECK(found->tensors[0]->parts.size() == 2);
    const std::vector<ParameterSpec> more{{"h.0.experts.up.weight", DType::f32, {3, 2, 1}}};
    CHECK(resolve_names(more, stored.views, rules, "FILE").message() ==
          "FILE: \"h.0.experts.up.weight\" is stacked of 2 stored tensors, 3 were expected");
    rules.stacks.clear();
    CHECK_FALSE(resolve_names(wanted, stored.views, rules, "FILE").ok());
}

TEST_CASE("conversions and checks go through all parts") {
    Stored stored = two_layers();
    stored.values.at("h.0.experts.1.up.weight")[1] = std::numeric_limits<float>::infinity();
    const auto stacks = stack_tensors(stored.views, kPatterns, "FILE");
    REQUIRE(stacks.ok());
    for (const auto& tensor : stacks->tensors)
        if (tensor->name == "h.0.experts.up.weight") {
            CHECK(check_finite(*tensor).message() ==
                  "tensor \"h.0.experts.up.weight\" (f32 [2, 2, 1]): element 3 is inf");
            std::vector<double> few(3);
            CHECK_FALSE(load_float64(*tensor, few).ok());
            const TensorSource half = converted_source("half", *tensor, DType::bf16);
            std::size_t bytes = 0;
            REQUIRE(half.stream([&](std::span<const std::byte> piece) -> Status {
                            bytes += piece.size();
                            return {};
                        })
                        .ok());
            CHECK(bytes == 8);
        }
}

TEST_CASE("stacks are divided when they are written, each read once") {
    int streams = 0;
    const std::vector<float> values{1, 2, 3, 4, 5, 6};
    TensorSource stack;
    stack.name = "h.0.experts.up.weight";
    stack.dims = {3, 2, 1};
    stack.stream = [&](const Sink& sink) -> Status {
        ++streams;
        HK_TRY(sink(std::as_bytes(std::span(values)).first(4)));
        return sink(std::as_bytes(std::span(values)).subspan(4));
    };
    TensorSource other = stack;
    other.name = "h.0.other.weight";
    const std::vector<TensorSource> all = divide_stacks({stack, other}, kPatterns);
    REQUIRE(all.size() == 4);
    CHECK(all[3].name == "h.0.other.weight");
    CHECK(all[1].name == "h.0.experts.1.up.weight");
    CHECK(all[1].dims == std::vector<int64_t>{2, 1});
    for (const int pass : {1, 2}) { // in any order, and again
        CHECK(read(all[2]) == std::vector<float>{5, 6});
        CHECK(read(all[0]) == std::vector<float>{1, 2});
        CHECK(read(all[1]) == std::vector<float>{3, 4});
        CHECK(streams == pass);
    }
    // And back.
    std::vector<TensorView> views;
    std::vector<std::vector<float>> kept;
    kept.reserve(3);
    for (std::size_t i = 0; i < 3; ++i) {
        const std::vector<float>& one = kept.emplace_back(read(all[i]));
        TensorView& view = views.emplace_back();
        static_cast<TensorInfo&>(view) = all[i];
        view.bytes = std::as_bytes(std::span<const float>(one));
    }
    const auto again = with_stacks(views, kPatterns, "FILE");
    REQUIRE(again.ok());
    std::vector<float> whole(6);
    REQUIRE(load_float32(again->front(), whole).ok());
    CHECK(whole == values);
}

} // namespace stacked_tensors_test
