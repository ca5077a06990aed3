// The text of a graph: exact in both directions, and safe for any input.
#include "graph/gradient.hpp"
#include "graph/text.hpp"
#include "random_graph.hpp"

#include <limits>

namespace hekla::test::text_test {
namespace {

bool same_value(const AttributeValue& a, const AttributeValue& b) {
    const auto* x = std::get_if<std::vector<double>>(&a);
    const auto* y = std::get_if<std::vector<double>>(&b);
    if (x == nullptr || y == nullptr) return a == b;
    return x->size() == y->size() && (x->empty() || std::memcmp(x->data(), y->data(), x->size() * sizeof(double)) == 0);
}

// Compares member by member instead of the texts.
void check_equal(const Graph& a, const Graph& b) {
    REQUIRE(a.nodes.size() == b.nodes.size());
    REQUIRE(a.values.size() == b.values.size());
    REQUIRE(a.scopes.size() == b.scopes.size());
    for (std::size_t i = 0; i < a.nodes.size(); ++i) {
        const Node &x = a.nodes[i], &y = b.nodes[i];
        CAPTURE(a.describe(static_cast<NodeId>(i)));
        CHECK(x.op == y.op);
        CHECK(x.inputs == y.inputs);
        CHECK(x.outputs == y.outputs);
        CHECK(x.scope == y.scope);
        CHECK(x.region == y.region);
        REQUIRE(x.attributes.size() == y.attributes.size());
        for (std::size_t k = 0; k < x.attributes.size(); ++k) {
            CHECK(std::string_view(x.attributes[k].name) == y.attributes[k].name);
            CHECK(same_value(x.attributes[k].value, y.attributes[k].value));
        }
    }
    for (std::size_t i = 1; i < a.values.size(); ++i) {
        CHECK(a.values[i].node == b.values[i].node);
        CHECK(a.values[i].output == b.values[i].output);
        CHECK(a.values[i].kind == b.values[i].kind);
        CHECK(a.values[i].shape == b.values[i].shape);
    }
    for (std::size_t i = 1; i < a.scopes.size(); ++i) {
        CHECK(a.scopes[i].name == b.scopes[i].name);
        CHECK(a.scopes[i].parent == b.scopes[i].parent);
    }
    CHECK(a.outputs == b.outputs);
    REQUIRE(a.losses.size() == b.losses.size());
    for (std::size_t i = 0; i < a.losses.size(); ++i) {
        CHECK(a.losses[i].name == b.losses[i].name);
        CHECK(a.losses[i].sum == b.losses[i].sum);
        CHECK(a.losses[i].count == b.losses[i].count);
        CHECK(a.losses[i].weight == b.losses[i].weight);
    }
    REQUIRE(a.metrics.size() == b.metrics.size());
    for (std::size_t i = 0; i < a.metrics.size(); ++i) {
        CHECK(a.metrics[i].name == b.metrics[i].name);
        CHECK(a.metrics[i].sum == b.metrics[i].sum);
        CHECK(a.metrics[i].count == b.metrics[i].count);
    }
}

void check_round_trip(const Graph& graph) {
    const std::string text = print(graph);
    CAPTURE(text);
    const Result<Graph> parsed = parse(text);
    REQUIRE_MESSAGE(parsed.ok(), parsed.message());
    check_equal(graph, parsed.value());
    CHECK(print(parsed.value()) == text);
    CHECK(hash(parsed.value()) == hash(graph));
}

std::string error_of(const std::string& text) {
    const Result<Graph> parsed = parse(text);
    REQUIRE(!parsed.ok());
    return parsed.message();
}

} // namespace

TEST_CASE("a graph reads like mathematics") {
    Builder b;
    const ValueId ids = b.input("ids", Kind::int32, {2, 3});
    const ValueId wte = b.parameter("wte", {5, 4}, 1, 0.0, 0.02, 0);
    b.scope_begin("block.0");
    const ValueId x = b(Op::embedding, {wte, ids});
    b.scope_begin("attention");
    const ValueId bias = b.parameter("h.0.bias", {4}, 0, 0, 0, 1);
    const ValueId odd = b.parameter("an odd name", {4, 4}, 0, 0.1, 0, 0);
    const ValueId y = b(Op::linear, {x, odd, bias});
    b.scope_end();
    b.scope_begin("attention");
    b.recompute_begin();
    const ValueId z = b(Op::layer_norm, {y, kNone, bias}, {{"epsilon", 1e-6}});
    b.recompute_end();
    b.scope_end();
    b.scope_end();
    const ValueId sum = b(Op::sum, {z}, {{"axes", std::vector<int64_t>{0, 1, 2}}});
    b.loss("lm", sum, b.scalar(6), 0.5);
    b.output("hidden", z);
    const Result<Graph> graph = b.finish();
    REQUIRE(graph.ok());
    CHECK(print(graph.value()) ==
          "hekla graph 1\n"
          "ids = input(field=\"ids\", kind=2, shape=[2, 3]) : int32 [2, 3]\n"
          "wte = parameter(name=\"wte\", shape=[5, 4], initializer=1, b=0.02) : float [5, 4]\n"
          "scope block.0\n"
          "%3 = embedding(wte, ids) : float [2, 3, 4]  # block.0\n"
          "scope block.0/attention\n"
          "h.0.bias = parameter(name=\"h.0.bias\", shape=[4], flags=1) : float [4]  # block.0/attention\n"
          "%5 = parameter(name=\"an odd name\", shape=[4, 4], a=0.1) : float [4, 4]  # block.0/attention\n"
          "%6 = linear(%3, %5, h.0.bias) : float [2, 3, 4]  # block.0/attention\n"
          "scope block.0/attention~2\n"
          "%7, %8, %9 = layer_norm(%6, bias=h.0.bias, epsilon=1e-06) : float [2, 3, 4], float32 [2, 3], float32 [2, 3] "
          "recompute 1  # block.0/attention~2\n"
          "%10 = sum(%7, axes=[0, 1, 2]) : float []\n"
          "%11 = fill(kind=0, shape=[], value=6) : float []\n"
          "loss \"lm\" = 0.5 * %10 / %11\n"
          "output \"hidden\" = %7\n");
    check_round_trip(graph.value());
}

TEST_CASE("random graphs and their gradients round-trip exactly") {
    for (uint64_t seed = 0; seed < 60; ++seed) {
        CAPTURE(seed);
        const RandomGraph random = random_graph(seed);
        check_round_trip(random.graph);
        const Result<Graph> gradient = differentiate(random.graph);
        REQUIRE_MESSAGE(gradient.ok(), gradient.message());
        check_round_trip(gradient.value());
    }
}

TEST_CASE("extreme numbers, names and scopes round-trip exactly") {
    Builder b;
    const double infinity = std::numeric_limits<double>::infinity();
    b.constant(Kind::float_, Shape{8},
               {0.1, -0.0, 5e-324, 1.7976931348623157e308, infinity, -infinity,
                std::numeric_limits<double>::quiet_NaN(), 1.0 / 3.0});
    b.constant(Kind::int32, Shape{2}, {-2147483648.0, 2147483647.0});
    b.constant(Kind::float_, Shape{0}, {});
    b.fill(Kind::float_, Shape{}, -infinity);
    for (const char* name : {"", "a/b", "~2", "x~2", "x", "x", "\"", "\\", "\x01\x7f\n\t", "# x", "π", " "}) {
        b.scope_begin(name);
        b.input(std::string("f ") + name, Kind::float_, {1});
        b.scope_begin(name);
        b.scope_end();
        b.scope_end();
    }
    // Names that are keywords of the text, and one name for two kinds of leaf.
    for (const char* name : {"scope", "loss", "metric", "output", "_", "hekla", "recompute", "both", "1", "x=y", "a,b"})
        b.parameter(name, {1}, 0, 0, 0, 0);
    b.input("both", Kind::float_, {1});
    b.buffer("counts", Kind::int32, {3}, {});
    b.step_scalar("temperature", 0.7);
    const Result<Graph> graph = b.finish();
    REQUIRE_MESSAGE(graph.ok(), graph.message());
    check_round_trip(graph.value());
}

TEST_CASE("an error in the text names the line and what was expected") {
    const std::string head = "hekla graph 1\nx = input(field=\"x\", kind=0, shape=[2, 3]) : float [2, 3]\n";
    REQUIRE(parse(head).ok());
    const auto says = [](const std::string& text, const std::string& what) {
        const std::string message = error_of(text);
        CAPTURE(message);
        CHECK(message.find(what) != std::string::npos);
    };
    says("", "hekla graph 1");
    says("hekla graph 2\n", "line 1");
    says(head + "%2 = nothing(x) : float [2, 3]\n", "line 3: there is no operation 'nothing'");
    says(head + "%2 = neg(y) : float [2, 3]\n", "there is no value y yet");
    says(head + "%2 = neg() : float [2, 3]\n", "input x is missing");
    says(head + "%2 = neg(x, x) : float [2, 3]\n", "too many inputs");
    says(head + "%2 = neg(x, axis=1) : float [2, 3]\n", "no input or attribute 'axis'");
    says(head + "%2 = neg(x) : float [3, 2]\n", "[2, 3] by the operation, float [3, 2] by the text");
    says(head + "%2 = neg(x) : int32 [2, 3]\n", "by the text");
    says(head + "%2 = neg(x) : float [2, 3] # a\n", "scope \"a\" was not opened");
    says(head + "%2 = neg(x) : float [2, 3] rest\n", "expected the end of the line, found \"rest\"");
    says(head + "x = neg(x) : float [2, 3]\n", "there is a value x already");
    says(head + "%2, %3 = neg(x) : float [2, 3], float [2, 3]\n", "1 outputs, 2 are named");
    says(head + "%2 = softmax(x, axis=1, axis=1) : float [2, 3]\n", "given twice");
    says(head + "%2 = softmax(x, axis=9223372036854775808) : float [2, 3]\n", "expected an integer");
    says(head + "%2 = slice(x, axis=0, start=0) : float [2, 3]\n", "attribute length is missing");
    says(head + "%2 = input(field=\"x\", kind=0, shape=[2, 3]) : float [2, 3]\n", "is there already");
    says(head + "%2 = sum(x, axes=[0, 0]) : float [3]\n", "named twice");
    says(head + "%2 = fill(kind=0, shape=[], value=nan) : float []\n", "not a number");
    says(head + "loss \"l\" = 1 * x / x\n", "expected a scalar []");
    says(head + "output \"a\" = x\noutput \"a\" = x\n", "is there already");
    // Gradient operations, which plugins cannot use, are checked in the same way.
    says(head + "%2 = unslice(x, axis=0, start=0, stride=9223372036854775807, length=4) : float [4, 3]\n",
         "are outside");
    says(head + "%2, %3, %4 = layer_norm_gradient(x, x, x, x) : float [2, 3], float32 [3], float32 [3]\n",
         "mean is [2, 3], expected [2]");
    says(head + "scope a/b\n", "is in no scope that was opened");
    says(head + "scope \"a\\q\"\n", "escape");
}

TEST_CASE("damaged text is an error or a valid graph, never a crash") {
    const RandomGraph random = random_graph(3);
    const Result<Graph> gradient = differentiate(random.graph);
    REQUIRE(gradient.ok());
    const std::string good = print(gradient.value());
    RandomStream stream(99, 0);
    const std::string_view alphabet = "0123456789-+.,=()[]%#\"\\~/ \n:_axeftnul*\x01\xff";
    const char* words[] = {
        "9223372036854775807", "-9223372036854775808", "1e308", "attention", "kind=2", "[0]", "recompute", "inf"};
    int parsed_well = 0;
    for (int round = 0; round < 3000; ++round) {
        // A part of the valid text with a few bytes or words changed; its start is kept so that much of the parser is
        // reached.
        std::string text = good;
        const std::size_t changes = 1 + stream.next_below(4);
        for (std::size_t i = 0; i < changes && !text.empty(); ++i) {
            const std::size_t at = stream.next_below(text.size());
            switch (stream.next_below(6)) {
            case 0: text[at] = alphabet[stream.next_below(alphabet.size())]; break;
            case 1: text.erase(at, 1 + stream.next_below(20)); break;
            case 2: text.insert(at, text.substr(stream.next_below(text.size()), stream.next_below(30))); break;
            case 3: text.resize(at); break;
            case 4: {
                const std::size_t digit = text.find_first_of("0123456789", at);
                if (digit != std::string::npos) text.replace(digit, 1, words[stream.next_below(std::size(words))]);
                break;
            }
            default: text.insert(at, words[stream.next_below(std::size(words))]);
            }
        }
        const Result<Graph> parsed = parse(text);
        if (!parsed.ok()) {
            CHECK(!parsed.message().empty());
            continue;
        }
        ++parsed_well;
        CHECK(check(parsed.value()).ok());
        CHECK(print(parse(print(parsed.value())).value()) == print(parsed.value()));
    }
    CHECK(parsed_well > 0);
}

} // namespace hekla::test::text_test
