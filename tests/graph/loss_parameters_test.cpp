// Losses that name their parameters: who gets which gradient, and what is refused.
#include "graph/gradient/loss_parameters.hpp"

#include "graph/gradient.hpp"
#include "graph/passes/recompute.hpp"
#include "graph/passes/simplify.hpp"
#include "graph/text.hpp"
#include "support.hpp"

namespace hekla::test::loss_parameters_test {

namespace {

// Losses a = sum(x y), b = sum(x x y), with the names given; empty: none.
Graph two_losses(const std::string& a, const std::string& b_names, bool third = false) {
    Builder b;
    const ValueId x = b.parameter("net.x", {3}, 0, 0, 0, 0), y = b.parameter("net.y", {3}, 0, 0, 0, 0);
    const auto total = [&](ValueId value, const std::string& names) {
        const ValueId sum = b(Op::sum, {value}, {{"axes", std::vector<int64_t>{0}}});
        return names.empty() ? sum : b(Op::for_parameters, {sum}, {{"names", names}});
    };
    const ValueId product = b(Op::mul, {x, y});
    b.loss("a", total(product, a), b.scalar(1), 1.0);
    b.loss("b", total(b(Op::mul, {x, product}), b_names), b.scalar(1), 2.0);
    if (third) b.loss("c", total(b(Op::mul, {y, y}), b_names), b.scalar(1), 1.0);
    auto made = b.finish();
    REQUIRE_MESSAGE(made.ok(), made.message());
    return made.take();
}

std::map<std::string, std::vector<double>> gradients(const Graph& graph) {
    Feeds feeds;
    feeds.parameters["net.x"] = floats({3}, {1, 2, 3});
    feeds.parameters["net.y"] = floats({3}, {4, 5, 6});
    feeds.step_scalars["loss_scale.0"] = 1.0;
    feeds.step_scalars["loss_scale.1"] = 2.0;
    feeds.step_scalars["loss_scale.2"] = 1.0;
    std::vector<ValueId> wanted;
    std::vector<std::string> names;
    for (const auto& [name, value] : graph.outputs)
        if (name.starts_with("grad.")) {
            wanted.push_back(value);
            names.push_back(name.substr(5));
        }
    const auto values = evaluate(graph, feeds, wanted);
    REQUIRE_MESSAGE(values.ok(), values.message());
    std::map<std::string, std::vector<double>> all;
    for (std::size_t i = 0; i < names.size(); ++i) all[names[i]] = values.value()[i].data;
    return all;
}

std::map<std::string, std::vector<double>> gradients(const std::string& a, const std::string& b,
                                                     const std::set<std::size_t>& active = {}) {
    const auto graph = differentiate(two_losses(a, b), {}, active);
    REQUIRE_MESSAGE(graph.ok(), graph.message());
    REQUIRE(check(graph.value()).ok());
    const auto simple = simplify(graph.value());
    REQUIRE_MESSAGE(simple.ok(), simple.message());
    const auto all = gradients(graph.value());
    CHECK(all == gradients(simple.value()));
    for (const Node& node : simple->nodes) CHECK(node.op != Op::for_parameters); // it costs nothing
    return all;
}

std::string refusal(Graph graph, const std::set<std::string, std::less<>>& frozen = {}) {
    const auto refused = differentiate(std::move(graph), frozen);
    CHECK(refused.code() == Code::invalid_argument);
    return refused.message();
}

} // namespace

TEST_CASE("each loss gives gradients to the parameters that it names") {
    using Values = std::vector<double>;
    const auto apart = gradients("net.x", "net.y");
    CHECK(apart.at("net.x") == Values{4, 5, 6});  // y
    CHECK(apart.at("net.y") == Values{2, 8, 18}); // 2 x x
    const auto crossed = gradients("net.y", "net.x");
    CHECK(crossed.at("net.x") == Values{16, 40, 72}); // 2 * 2 x y
    CHECK(crossed.at("net.y") == Values{1, 2, 3});    // x
    // Where both name a parameter, it gets the sum.
    const auto both = gradients("net.x", "*");
    CHECK(both.at("net.x") == Values{20, 45, 78});
    CHECK(both.at("net.y") == Values{2, 8, 18});
    CHECK(gradients("net.x, net.y", " net.y,net.x ") == gradients("", ""));
    CHECK(gradients("*", "*") == gradients("", ""));
    CHECK(gradients("net.x", "net.x").size() == 1); // y gets none, and is left as it is
}

TEST_CASE("losses that do not count in a step give gradients of zeros to what they name") {
    using Values = std::vector<double>;
    const auto first = gradients("net.x", "net.y", {0});
    CHECK(first.at("net.x") == Values{4, 5, 6});
    CHECK(first.at("net.y") == Values{0, 0, 0});
    const auto second = gradients("net.x", "*", {1});
    CHECK(second.at("net.x") == Values{16, 40, 72});
    CHECK(second.at("net.y") == Values{2, 8, 18});
    // Two losses of one group, of which one counts and does not reach all of the group.
    const auto third = differentiate(two_losses("net.x", "net.x, net.y", true), {}, {2});
    REQUIRE_MESSAGE(third.ok(), third.message());
    const auto all = gradients(third.value());
    CHECK(all.at("net.x") == Values{0, 0, 0});
    CHECK(all.at("net.y") == Values{8, 10, 12});
    CHECK(third->find_leaf(Op::step_scalar, "loss_scale.2") != kNone);
    CHECK(third->find_leaf(Op::step_scalar, "loss_scale.0") == kNone);
    CHECK(third->outputs.contains("loss_sum.0"));
}

TEST_CASE("groups of losses") {
    const auto groups = loss_groups(two_losses("net.x", "net.x,net.y", true));
    REQUIRE_MESSAGE(groups.ok(), groups.message());
    REQUIRE(groups->size() == 2);
    CHECK(groups.value()[0].losses == std::vector<std::size_t>{0});
    CHECK(groups.value()[1].losses == std::vector<std::size_t>{1, 2});
    CHECK(groups.value()[1].parameters == ParameterNames{"net.x", "net.y"});
    const auto frozen = loss_groups(two_losses("*", "net.y"), {"net.x"});
    REQUIRE(frozen.ok());
    CHECK(frozen->size() == 1); // without the frozen one they train the same
    CHECK(!losses_name_parameters(two_losses("", "")));
    // The text form keeps the names.
    const auto again = parse(print(two_losses("net.x", "net.y")));
    REQUIRE_MESSAGE(again.ok(), again.message());
    CHECK(loss_groups(again.value())->size() == 2);
}

TEST_CASE("activations that two losses need are recomputed with the same bits") {
    Builder b;
    const ValueId x = b.parameter("net.x", {3}, 0, 0, 0, 0), y = b.parameter("net.y", {3}, 0, 0, 0, 0);
    b.recompute_begin();
    const ValueId product = b(Op::tanh, {b(Op::mul, {x, y})});
    const ValueId hidden = b(Op::tanh, {b(Op::mul, {product, product})});
    b.recompute_end();
    const auto total = [&](ValueId value, const std::string& names) {
        const ValueId sum = b(Op::sum, {value}, {{"axes", std::vector<int64_t>{0}}});
        return b(Op::for_parameters, {sum}, {{"names", names}});
    };
    b.loss("a", total(hidden, "net.x"), b.scalar(1), 1.0);
    b.loss("b", total(b(Op::mul, {hidden, hidden}), "net.y"), b.scalar(1), 1.0);
    const auto graph = differentiate(b.finish().take());
    REQUIRE_MESSAGE(graph.ok(), graph.message());
    const auto again = recompute(graph.value());
    REQUIRE_MESSAGE(again.ok(), again.message());
    CHECK(again->nodes.size() > graph->nodes.size());
    CHECK(gradients(again.value()) == gradients(graph.value()));
}

TEST_CASE("losses that name their parameters: what is refused") {
    CHECK(refusal(two_losses("net.z", "net.y")) ==
          "loss 'a' names the parameters 'net.z', and no parameter matches; did you mean 'net.x'?");
    CHECK(refusal(two_losses("net.x, ", "net.y")) ==
          "loss 'a' names the parameters '', and no parameter matches: `hekla inspect` lists their names");
    CHECK(refusal(two_losses("net.x", "")) ==
          "loss 'b' names no parameters, and loss 'a' names 'net.x': name those of every loss by for_parameters (\"*\" "
          "is all of them), or of none");
    CHECK(refusal(two_losses("net.x", "net.y"), {"net.y"}) ==
          "loss 'b' names the parameters 'net.y', which are all frozen, so that nothing learns from it: leave them out "
          "of the loss, or out of train.freeze");
    Builder inside;
    const ValueId x = inside.parameter("x", {}, 0, 0, 0, 0);
    const ValueId named = inside(Op::for_parameters, {x}, {{"names", std::string("x")}});
    inside.loss("a", inside(Op::mul, {named, named}), inside.scalar(1), 1.0);
    CHECK(refusal(inside.finish().take()) ==
          "mul reads the result of for_parameters(\"x\"); expected loss() alone, whose sum it must be");
    Builder unused;
    const ValueId y = unused.parameter("y", {}, 0, 0, 0, 0);
    (void)unused(Op::for_parameters, {y}, {{"names", std::string("y")}});
    unused.loss("a", y, unused.scalar(1), 1.0);
    CHECK(refusal(unused.finish().take()) ==
          "the result of for_parameters(\"y\") is not the sum of a loss: pass it to loss()");
}

} // namespace hekla::test::loss_parameters_test
