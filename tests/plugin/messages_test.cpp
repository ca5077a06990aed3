// Values that cross between a host and its worker processes: what is written is read back, and what cannot be is
// refused.
#include "plugin/process/messages.hpp"

#include "graph/text.hpp"

#include <doctest/doctest.h>
#include <limits>

namespace messages_test {

using namespace hekla;
using namespace hekla::plugin;

namespace {

template<class T>
std::string bytes_of(const T& value) {
    MessageWriter out;
    put(out, value);
    return out.bytes();
}

// Returns the value, or the error of the message.
template<class T>
Result<T> read(const std::string& bytes) {
    const Registry none = Registry::of({});
    MessageReader in(bytes, &none);
    T value{};
    get(in, value);
    HK_TRY(in.finish("the other side"));
    return value;
}

// Checks that a value keeps its bytes on the way there and back.
template<class T>
void crosses(const T& value) {
    const std::string bytes = bytes_of(value);
    CHECK(bytes != bytes_of(T{}));
    const Result<T> back = read<T>(bytes);
    REQUIRE_MESSAGE(back.ok(), back.message());
    CHECK(bytes_of(back.value()) == bytes);
    CHECK(read<T>(bytes + std::string(8, '\0')).code() == Code::corrupt);
    CHECK(read<T>(bytes.substr(0, bytes.size() - 8)).code() == Code::corrupt);
}

// Returns the number of members of a struct: of values that it can be made of.
struct Anything {
    template<class T>
    operator T() const {
        return T();
    }
};
template<class T, class... Given>
constexpr std::size_t member_count() {
    if constexpr (requires { T{Given{}..., Anything{}}; })
        return member_count<T, Given..., Anything>();
    else
        return sizeof...(Given);
}
template<class T>
constexpr bool kAllCross = member_count<T>() == std::tuple_size_v<decltype(members(std::declval<T&>()))>;
static_assert(kAllCross<AdapterSpec> && kAllCross<PartsSpec::Head> && kAllCross<BuildRequest> && kAllCross<BatchField>);
static_assert(kAllCross<Described> && kAllCross<GraphPart> && kAllCross<Site> && kAllCross<VirtualTokens>);
static_assert(kAllCross<ColumnNeed> && kAllCross<OptimizedParameter> && kAllCross<UpdateState>);
static_assert(kAllCross<UpdateGraph> && kAllCross<ReadKeys> && kAllCross<PartsSpec> && kAllCross<PartSpec>);

graph::Graph small_graph() {
    graph::Builder b;
    b.output("y", b.iota(3, 0, 1));
    Result<graph::Graph> made = b.finish();
    REQUIRE(made.ok());
    return made.take();
}

} // namespace

TEST_CASE("messages: every struct that crosses is read as it was written") {
    PartsSpec spec;
    spec.architecture =
        PartSpec{"bert", {{"width", 0.1}, {"text", "\xff"}, {"nan", std::numeric_limits<double>::infinity()}}};
    spec.adapters = {{"french", {"lora", {{"r", 2}}}, false}};
    spec.heads = {{{"lm", nlohmann::json::object()}, true, true}};
    spec.combination = "average(a, b)";
    spec.optimizers = {{"muon", {{"lr", -1}}}};
    crosses(spec);
    PartsSpec student = spec;
    student.teacher = std::make_shared<const PartsSpec>(spec);
    crosses(student);
    ReadKeys keys;
    keys.objective = {"a", "b"};
    keys.adapters = {{"r"}, {}};
    keys.value = std::make_shared<const ReadKeys>(keys);
    crosses(keys);
    BuildRequest request;
    request.mode = HK_MODE_DECODE;
    request.fields = {{"input_ids", graph::Kind::int32, {2, 0}}};
    request.calls = -7;
    request.initial = true;
    crosses(request);
    Described described;
    described.graph = small_graph();
    described.parts = {{"head 'lm'", "/m.json", 0, 1}};
    described.sites.emplace_back().trained = 3;
    crosses(described);
    crosses(UpdateGraph{small_graph(), {{"moment", {3}, 0.5}}});
    crosses(std::vector<ColumnNeed>{{"text", HK_COLUMN_SPANS, true, false}});
    crosses(OptimizedParameter{{4, 5}, 6});
    crosses(VirtualTokens{3, true, true});
    crosses(nlohmann::ordered_json{{"z", 1}, {"a", 2}});
}

TEST_CASE("messages: what cannot be is refused") {
    const auto refused = [](const auto& result, const char* part) {
        CAPTURE(result.message());
        CHECK(!result.ok());
        CHECK(result.message().find(part) != std::string::npos);
    };
    Described described;
    described.graph = small_graph();
    described.parts = {{"a", "", 0, described.graph.nodes.size() + 1}};
    refused(read<Described>(bytes_of(described)), "the other side: parts outside of the graph");
    described.parts = {{"a", "", 1, 1}};
    refused(read<Described>(bytes_of(described)), "parts outside of the graph");
    refused(read<graph::Graph>(bytes_of(std::string("no graph")) + bytes_of(int64_t{0})), "an invalid graph");
    refused(read<std::vector<ColumnNeed>>(bytes_of(std::vector<ColumnNeed>{{"x", 99, false, false}})),
            "a column of the unknown kind 99");
    refused(read<graph::Kind>(bytes_of(int64_t{3})), "the unknown kind 3");
    refused(read<graph::Shape>(bytes_of(std::vector<int64_t>{-1})), "a shape of the dimensions [-1]");
    refused(read<graph::Shape>(bytes_of(std::vector<int64_t>(7, 1))), "a shape of the dimensions");
    refused(read<int32_t>(bytes_of(int64_t{1} << 31)), "a number that is too large");
    refused(read<nlohmann::json>(bytes_of(std::string("\x1c"))), "a configuration that is none");
    refused(read<nlohmann::ordered_json>(bytes_of(std::string("[]"))), "a written configuration");
    std::shared_ptr<const ReadKeys> deep = std::make_shared<const ReadKeys>();
    for (int i = 0; i < 9; ++i) {
        ReadKeys outer;
        outer.teacher = deep;
        deep = std::make_shared<const ReadKeys>(outer);
    }
    refused(read<ReadKeys>(bytes_of(*deep)), "a composition inside of too many others");
}

} // namespace messages_test
