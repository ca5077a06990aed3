// The tensors in a model's files: parameters, and buffers, which are not trained.
#include "infer/open/model_tensors.hpp"
#include "program/parameter_store.hpp"
#include "program/program.hpp"
#include "program/runtime.hpp"

#include "graph/builder.hpp"
#include "program/harness.hpp"
#include "support/test_folder.hpp"

#include <cstdlib>
#include <filesystem>

using namespace hekla;
using namespace hekla::test;
namespace fs = std::filesystem;

namespace {

// y = x + weight + table[which], where the table and the index are buffers.
Graph graph_with_buffers() {
    graph::Builder b;
    const graph::ValueId x = b.input("x", Kind::float_, {3});
    const graph::ValueId weight = b.parameter("weight", {3}, 0, 0, 0, 0);
    const graph::ValueId table = b.buffer("table", Kind::float_, {2, 3}, {1, 2, 3, 4, 5, 6});
    const graph::ValueId which = b.buffer("which", Kind::int32, {1}, {1});
    const graph::ValueId row = b(Op::reshape, {b(Op::embedding, {table, which})}, {{"shape", std::vector<int64_t>{3}}});
    b.output("y", b(Op::add, {b(Op::add, {x, weight}), row}));
    auto graph = b.finish();
    REQUIRE_MESSAGE(graph.ok(), graph.message());
    return graph.take();
}

std::vector<float> run(program::Runtime& runtime, program::ParameterStore& store, const Graph& graph) {
    auto program = program::Program::compile(runtime, graph, store, {.outputs = {"y"}});
    REQUIRE_MESSAGE(program.ok(), program.message());
    const std::vector<float> x{100, 200, 300};
    REQUIRE(program.value()->set_input("x", std::as_bytes(std::span(x))).ok());
    REQUIRE(program.value()->run().ok());
    auto y = program.value()->read_output("y");
    REQUIRE(y.ok());
    return {y->floats().begin(), y->floats().end()};
}

std::unique_ptr<program::ParameterStore> new_store(program::Runtime& runtime, const Graph& graph) {
    auto store = program::ParameterStore::create(runtime, program::parameter_table(graph));
    REQUIRE_MESSAGE(store.ok(), store.message());
    return store.take();
}

} // namespace

TEST_CASE("buffers are used as described, saved, and loaded if a file contains them") {
    Bench bench;
    const TestFolder folder;
    const fs::path file = folder / "model.safetensors";
    const Graph graph = graph_with_buffers();
    const auto store = new_store(*bench, graph);
    REQUIRE(infer::upload_described_buffers(*store, graph).ok());
    REQUIRE(store->upload("weight", std::vector<float>{10, 20, 30}).ok());
    CHECK(run(*bench, *store, graph) == std::vector<float>{114, 225, 336});

    REQUIRE(model::write_safetensors_file(file, infer::tensor_sources(*store, graph)).ok());
    auto saved = model::Weights::open(file);
    REQUIRE_MESSAGE(saved.ok(), saved.message());
    CHECK(saved->tensors().size() == 3);
    REQUIRE(saved->find("which") != nullptr);
    CHECK(saved->find("which")->dtype == model::DType::i32);
    CHECK(saved->find("table")->dims == std::vector<int64_t>{2, 3});

    // Other values in the file are used.
    const int32_t zero = 0;
    REQUIRE(store->upload_state(program::buffer_state("which"), std::as_bytes(std::span(&zero, 1))).ok());
    const float other[] = {7, 8, 9};
    REQUIRE(store->upload_state(program::buffer_state("table"), std::as_bytes(std::span(other))).ok());
    REQUIRE(model::write_safetensors_file(file, infer::tensor_sources(*store, graph)).ok());
    const auto fresh = new_store(*bench, graph);
    REQUIRE(infer::upload_described_buffers(*fresh, graph).ok());
    auto changed = model::Weights::open(file);
    REQUIRE(changed.ok());
    auto found = plugin::find_tensors(graph, changed.value(), {});
    REQUIRE_MESSAGE(found.ok(), found.message());
    CHECK(found->size() == 3);
    for (const plugin::StoredTensor& tensor : found.value()) REQUIRE(infer::upload(*fresh, tensor).ok());
    CHECK(run(*bench, *fresh, graph) == std::vector<float>{117, 228, 339});
}

TEST_CASE("a file without a buffer keeps the described one; one without a parameter is rejected") {
    Bench bench;
    const TestFolder folder;
    const Graph graph = graph_with_buffers();
    const std::vector<float> values{1, 1, 1};
    const auto write = [&](const char* name) {
        model::TensorSource source;
        source.name = name;
        source.dtype = model::DType::f32;
        source.dims = {3};
        source.stream = [&](const model::Sink& sink) { return sink(std::as_bytes(std::span(values))); };
        REQUIRE(model::write_safetensors_file(folder / "model.safetensors", std::span(&source, 1)).ok());
        auto weights = model::Weights::open(folder / "model.safetensors");
        REQUIRE(weights.ok());
        auto found = plugin::find_tensors(graph, weights.value(), {});
        if (found.ok()) CHECK(found->size() == 1);
        return found.status();
    };
    CHECK(write("weight").ok());
    const Status refused = write("table");
    CHECK(!refused.ok());
    CHECK_MESSAGE(refused.message().find("missing \"weight\"") != std::string::npos, refused.message());
}
