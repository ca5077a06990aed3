// A plugin's own operation in a graph: its checks, its gradient, its text, the passes.
#include "drawing/svg.hpp"
#include "gradient_check.hpp"
#include "graph/passes/fuse.hpp"
#include "graph/passes/recompute.hpp"
#include "graph/passes/simplify.hpp"
#include "graph/text.hpp"
#include "own_operations.hpp"

namespace own_operation_test {

using namespace hekla;
using namespace hekla::graph;
using namespace hekla::test;
namespace own = hekla::test::own;

namespace {

std::string refusal(const std::function<void(OwnDeclaration&)>& change) {
    OwnDeclaration d = own::swish_gate_declaration();
    change(d);
    const auto made = OwnOperation::create(std::move(d));
    REQUIRE_FALSE(made.ok());
    return made.message();
}

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

Graph finished(Builder b) {
    auto graph = b.finish();
    REQUIRE_MESSAGE(graph.ok(), graph.message());
    const Status sound = check(graph.value());
    REQUIRE_MESSAGE(sound.ok(), sound.message());
    return graph.take();
}

// Everything in this file in one graph, with gradients.
Graph whole() {
    Builder b;
    const ValueId x = b.parameter("x", {3, 5}, 0, 0, 0, 0), ids = b.input("ids", Kind::int32, {3});
    b.scope_begin("block.0");
    const ValueId y = own::swish_gate(b, own::center(b, x), b(Op::tanh, {x}), 1.5);
    const auto picked = own::pick(b, y, ids, {4, 0, 2}, {0.5, 2.0});
    b.scope_end();
    const ValueId all = b(Op::sum, {b(Op::mul, {picked[0], picked[0]})}, {{"axes", std::vector<int64_t>{0}}});
    b.output("column", picked[1]);
    b.loss("loss", all, b.scalar(1), 1.0);
    return finished(std::move(b));
}

} // namespace

TEST_CASE("an undeclared operation is rejected with its name") {
    CHECK(contains(refusal([](auto& d) { d.name = "swish"; }), "operation 'swish': its name is not like"));
    CHECK(contains(refusal([](auto& d) { d.name = "Acme.swish"; }), "its name is not like"));
    CHECK(contains(refusal([](auto& d) { d.revision = 0; }), "they begin with 1"));
    CHECK(contains(refusal([](auto& d) { d.outputs.clear(); }), "one output at least"));
    CHECK(contains(refusal([](auto& d) { d.outputs.assign(17, "y"); }), "17 outputs"));
    CHECK(contains(refusal([](auto& d) { d.inputs[0].name = "X"; }), "the input 'X' is not called by"));
    CHECK(contains(refusal([](auto& d) { d.inputs[0].name = "gl_x"; }), "the input 'gl_x'"));
    CHECK(contains(refusal([](auto& d) { d.inputs[0].name = "a__b"; }), "the input 'a__b'"));
    CHECK(contains(refusal([](auto& d) { d.outputs[0] = "gate"; }), "another has too"));
    CHECK(contains(refusal([](auto& d) { d.attributes[0].name = "x_size"; }), "another has too"));
    CHECK(contains(refusal([](auto& d) { d.attributes[0].name = "float"; }), "a word of GLSL"));
    for (const char* word : {"active", "writeonly", "exp", "vec3", "mat4x2", "invocations"})
        CHECK(contains(refusal([&](auto& d) { d.attributes[0].name = word; }), "a word of GLSL"));
    CHECK(contains(refusal([](auto& d) { d.attributes[0].fallback = int64_t{1}; }), "another type"));
    CHECK(contains(refusal([](auto& d) { d.glsl.clear(); }), "it needs a kernel"));
    CHECK(contains(refusal([](auto& d) { d.spirv = {1}; }), "one of the two"));
    CHECK(contains(refusal([](auto& d) { d.glsl += '\r'; }), "control character"));
    CHECK(contains(refusal([](auto& d) { d.local_size = 257; }), "0 to 256 are possible"));
    CHECK(contains(refusal([](auto& d) {
                       d.glsl.clear();
                       d.spirv = {1};
                   }),
                   "1 to 256 are possible"));
}

TEST_CASE("gradients against finite differences, in the middle of a graph") {
    for (const Shape& shape : {Shape{1}, Shape{7}, Shape{3, 5}, Shape{2, 1, 13}}) {
        check_gradients({"swish_gate " + shape.text(), {{shape}, {shape}}, [](Builder& b, auto x) {
                             return std::vector{own::swish_gate(b, x[0], x[1], 1.7)};
                         }});
        check_gradients({"center " + shape.text(), {{shape}}, [](Builder& b, auto x) {
                             return std::vector{own::center(b, x[0])};
                         }});
    }
    check_gradients({"pick", {{{5, 7}}}, [](Builder& b, auto x) {
                         const ValueId ids = b.constant(Kind::int32, {5}, {0, 3, 1, 2, 9});
                         return own::pick(b, x[0], ids, {6, 0, 3}, {0.5, -2.0});
                     }});
}

TEST_CASE("an output that is not read has a gradient of zeros, and a frozen input gets none") {
    Builder b;
    const ValueId x = b.parameter("x", {2, 3}, 0, 0, 0, 0), fixed = b.input("gate", Kind::float32, {2, 3});
    const ValueId y = own::swish_gate(b, x, fixed);
    b.loss("loss", b(Op::sum, {y}, {{"axes", std::vector<int64_t>{0, 1}}}), b.scalar(1), 1.0);
    const auto graph = differentiate(finished(std::move(b)));
    REQUIRE_MESSAGE(graph.ok(), graph.message());
    CHECK(graph.value().outputs.contains("grad.x"));
    const auto pruned = simplify(graph.value());
    REQUIRE(pruned.ok());
    int multiplications = 0; // dx = dy s; no part of dgate is computed
    for (const Node& node : pruned.value().nodes) multiplications += node.op == Op::mul ? 1 : 0;
    CHECK(multiplications <= 3);
}

TEST_CASE("without a gradient, a trainable value before the operation is an error that names the place") {
    Builder b;
    const ValueId x = b.parameter("x", {2}, 0, 0, 0, 0);
    b.scope_begin("block.3");
    const ValueId y = own::swish_gate(b, x, x, 1.0, false);
    b.scope_end();
    b.loss("loss", b(Op::sum, {y}, {{"axes", std::vector<int64_t>{0}}}), b.scalar(1), 1.0);
    const Graph graph = finished(std::move(b));
    const auto refused = differentiate(graph);
    REQUIRE_FALSE(refused.ok());
    CHECK(contains(refused.message(), "acme.swish_gate has no gradient, and something before it learns"));
    CHECK(contains(refused.message(), "block.3"));
    CHECK(differentiate(graph, {"x"}).ok()); // frozen, so nothing is trained
}

TEST_CASE("a gradient's graph must follow its rules") {
    const auto refused = [](const own::Rule& rule) {
        Builder b;
        const ValueId x = b.input("x", Kind::float_, {2, 3});
        own::emit(b, own::made(own::center_declaration()), {x}, {{{Kind::float_, {2, 3}}}, 64, rule});
        auto graph = b.finish();
        REQUIRE_MESSAGE(graph.ok(), graph.message());
        const Status status = check(graph.value());
        REQUIRE_FALSE(status.ok());
        return status.message();
    };
    using own::Values;
    CHECK(contains(refused([](Builder& b, Values, Values, Values) {
                       return std::vector{b.parameter("p", {2, 3}, 0, 0, 0, 0)};
                   }),
                   "it must not use parameter"));
    CHECK(contains(refused([](Builder& b, Values, Values, Values dy) {
                       return std::vector{b(Op::dropout, {dy[0]}, {{"probability", 0.5}})};
                   }),
                   "it must not use dropout"));
    CHECK(contains(refused([](Builder& b, Values, Values, Values dy) {
                       return std::vector{b(Op::sum, {dy[0]}, {{"axes", std::vector<int64_t>{0}}})};
                   }),
                   "for 'x' it gives float [3], expected float [2, 3]"));
    CHECK(contains(refused([](Builder& b, Values, Values, Values) {
                       return std::vector{b.input("other", Kind::float_, {2, 3})};
                   }),
                   "it reads the field 'other'"));
    CHECK(contains(refused([](Builder& b, Values, Values, Values dy) { return std::vector{own::center(b, dy[0])}; }),
                   "has a gradient of its own"));
}

TEST_CASE("a use is valid only for the shapes it was described for") {
    Builder b;
    const ValueId x = b.input("x", Kind::float_, {2, 3}), wide = b.input("wide", Kind::float_, {2, 4});
    OwnUse use;
    use.operation = own::made(own::center_declaration());
    use.inputs = {{2, 3}};
    use.outputs = {{Kind::float_, {2, 3}}};
    use.invocations = 64;
    const auto shared = std::make_shared<const OwnUse>(use);
    CHECK(b.emit_own(shared, {{x}}).size() == 1);
    b.scope_begin("block.0");
    CHECK(b.emit_own(shared, {{wide}}).empty());
    CHECK(b.status().message() == "acme.center: x is [2, 4], and this use was described for [2, 3]; in block.0");
    use.invocations = 65;
    CHECK(contains(check_own_use(use).message(), "65 invocations are not a multiple of its local size 32"));
    use.invocations = int64_t{1} << 31;
    CHECK_FALSE(check_own_use(use).ok());
    use.invocations = 64;
    use.flops = std::nan("");
    CHECK_FALSE(check_own_use(use).ok());
    use.flops = 0;
    use.outputs = {{Kind::float_, {-1}}};
    CHECK_FALSE(check_own_use(use).ok());
    CHECK(contains(Builder().emit(Op::own, {}).empty() ? "refused" : "taken", "refused"));
}

TEST_CASE("text round-trips, with gradients, and its kernel is part of the hash") {
    const Graph graph = whole();
    const std::string text = print(graph);
    CAPTURE(text);
    CHECK(contains(
        text, "operation acme.swish_gate/1(float x, float gate; real sharpness = 1) -> y local 0 glsl\n| \n| float"));
    CHECK(contains(text, "= acme.swish_gate/1("));
    CHECK(contains(text, "operation acme.pick/3(float x, int ids; ints table, reals scales = [1]"));
    const auto again = parse(text);
    REQUIRE_MESSAGE(again.ok(), again.message());
    CHECK(print(again.value()) == text);
    const auto differentiated = differentiate(graph), from_text = differentiate(again.value());
    REQUIRE_MESSAGE(differentiated.ok(), differentiated.message());
    REQUIRE_MESSAGE(from_text.ok(), from_text.message());
    CHECK(print(differentiated.value()) == print(from_text.value()));
    CHECK(parse(print(differentiated.value())).ok());

    const auto hash_with = [](const std::string& glsl, const std::string& file) {
        OwnDeclaration d = own::swish_gate_declaration();
        d.glsl = glsl;
        d.glsl_file = file;
        Builder b;
        const ValueId x = b.input("x", Kind::float_, {2});
        b.output("y", own::swish_gate(b, x, x, 1.0, true, own::made(d)));
        return to_hex(hash(finished(std::move(b))));
    };
    CHECK(hash_with("void operation(uint i) {}", "") == hash_with("void operation(uint i) {}", "there.cpp"));
    CHECK(hash_with("void operation(uint i) {}", "") != hash_with("void operation(uint i) { }", ""));
}

TEST_CASE("a picture shows it with its name and its own line of the text") {
    const std::string picture = drawing::svg(whole());
    CHECK(contains(picture, " acme.swish_gate<"));
    CHECK(contains(picture, "= acme.swish_gate/1("));
}

TEST_CASE("SPIR-V round-trips as words") {
    OwnDeclaration d = own::center_declaration();
    d.glsl.clear();
    for (uint32_t i = 0; i < 21; ++i) d.spirv.push_back(0x07230203u * (i + 1));
    Builder b;
    const ValueId x = b.input("x", Kind::float_, {2, 3});
    b.output("y", own::emit(b, own::made(d), {x}, {{{Kind::float_, {2, 3}}}, 64, {}})[0]);
    const std::string text = print(finished(std::move(b)));
    const auto again = parse(text);
    REQUIRE_MESSAGE(again.ok(), again.message());
    CHECK(print(again.value()) == text);
    for (const Node& node : again.value().nodes)
        if (node.own != nullptr) CHECK(node.own->operation->declaration().spirv == d.spirv);
}

TEST_CASE("incomplete texts are rejected with their line") {
    const std::string text = print(whole());
    // Each line omitted, cut in half, and repeated: an error or a graph, never a crash.
    std::vector<std::string> lines;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = text.find('\n', at);
        lines.push_back(text.substr(at, end + 1 - at));
        at = end + 1;
    }
    for (std::size_t i = 0; i < lines.size(); ++i)
        for (int way = 0; way < 3; ++way) {
            std::string other;
            for (std::size_t k = 0; k < lines.size(); ++k) {
                if (k != i || way == 2) other += lines[k];
                if (k == i && way == 1) other += lines[k].substr(0, lines[k].size() / 2) + "\n";
                if (k == i && way == 2) other += lines[k];
            }
            const auto parsed = parse(other);
            if (parsed.ok()) CHECK(check(parsed.value()).ok());
        }
    const auto message = [](const std::string& given) {
        const auto parsed = parse("hekla graph 1\n" + given);
        REQUIRE_FALSE(parsed.ok());
        return parsed.message();
    };
    CHECK(contains(message("| void"), "belongs to no operation"));
    CHECK(contains(message("x = own() : float [1]\n"), "there is no operation 'own'"));
    CHECK(contains(message("x = acme.y/1() : float [1]\n"), "there is no operation 'acme.y'"));
    CHECK(contains(message("operation acme.y/1() -> y local 0 glsl\n"), "it needs a kernel"));
    CHECK(contains(message("operation acme.y/1() -> y local 0 spirv\n| 123\n"), "eight hexadecimal digits"));
    const std::string declared = "operation acme.y/1() -> y local 0 glsl\n| void operation(uint i) {}\n";
    CHECK(contains(message(declared + declared), "there is an operation acme.y/1 already"));
    CHECK(contains(message(declared + "x = acme.y/1() : float [1, 1, 1, 1, 1, 1, 1] invocations 1 flops 0 bytes 0\n"),
                   "six dimensions at most"));
    CHECK(contains(message(declared + "x = acme.y/1() : float [1] invocations 1 flops 0 bytes 0 gradient 1\n"),
                   "there is no gradient 1 yet"));
    CHECK(contains(message("gradient 1\n| hekla graph 1\n| gradient 1\n| | hekla graph 1\n"),
                   "a gradient in a gradient"));
}

TEST_CASE("passes support it: equal uses are merged, regions are recomputed, neighbors fuse around it") {
    Builder b;
    const ValueId x = b.parameter("x", {4, 6}, 0, 0, 0, 0);
    b.recompute_begin();
    const ValueId y = own::swish_gate(b, b(Op::exp, {x}), b(Op::tanh, {x}));
    const ValueId z = b(Op::mul, {b(Op::sin, {y}), y});
    b.recompute_end();
    b.loss("loss", b(Op::sum, {z}, {{"axes", std::vector<int64_t>{0, 1}}}), b.scalar(1), 1.0);
    const auto differentiated = differentiate(finished(std::move(b)));
    REQUIRE_MESSAGE(differentiated.ok(), differentiated.message());
    const auto again = recompute(differentiated.value());
    REQUIRE_MESSAGE(again.ok(), again.message());
    const auto uses = [](const Graph& graph) {
        return std::ranges::count_if(graph.nodes, [](const Node& node) { return node.op == Op::own; });
    };
    CHECK(uses(differentiated.value()) == 1);
    CHECK(uses(again.value()) == 2);
    Feeds feeds;
    feeds.parameters["x"] = wave({4, 6}, 0.3);
    const ValueId before = differentiated.value().outputs.at("grad.x"), after = again.value().outputs.at("grad.x");
    const auto a = evaluate(differentiated.value(), feeds, {&before, 1}),
               c = evaluate(again.value(), feeds, {&after, 1});
    REQUIRE_MESSAGE(a.ok(), a.message());
    REQUIRE_MESSAGE(c.ok(), c.message());
    CHECK(a.value()[0].data == c.value()[0].data);

    Builder two;
    const ValueId in = two.input("x", Kind::float_, {4});
    two.output("a", own::swish_gate(two, in, in));
    two.output("b", own::swish_gate(two, in, in));
    two.output("c", own::swish_gate(two, in, in, 2.0));
    const auto simple = simplify(finished(std::move(two)));
    REQUIRE_MESSAGE(simple.ok(), simple.message());
    CHECK(uses(simple.value()) == 2);

    for (const Group& group : fuse(differentiated.value()).groups)
        for (const NodeId id : group.nodes)
            if (differentiated.value().nodes[id].op == Op::own) CHECK(group.nodes.size() == 1);
}

TEST_CASE("two operations of one name and revision in a graph are rejected, and so is a text without the reference") {
    OwnDeclaration other = own::swish_gate_declaration();
    other.glsl += "// another\n";
    Builder b;
    const ValueId x = b.input("x", Kind::float_, {2});
    b.output("a", own::swish_gate(b, x, x));
    b.output("b", own::swish_gate(b, x, x, 1.0, true, own::made(other)));
    auto graph = b.finish();
    REQUIRE(graph.ok());
    CHECK(contains(check(graph.value()).message(), "two different operations acme.swish_gate/1"));

    const auto parsed = parse(print(whole()));
    REQUIRE(parsed.ok());
    Feeds feeds;
    feeds.parameters["x"] = wave({3, 5}, 0.1);
    feeds.fields["ids"] = ints({3}, {0, 1, 2});
    const ValueId wanted = parsed.value().outputs.at("column");
    const auto value = evaluate(parsed.value(), feeds, {&wanted, 1});
    REQUIRE_FALSE(value.ok());
    CHECK(contains(value.message(), "is of a plugin's own, and this graph was read from text"));
}

} // namespace own_operation_test
