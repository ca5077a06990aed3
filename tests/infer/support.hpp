// The fixture models, opened as by a host, on a device or for the interpreter.
#pragma once

#include "base/file.hpp"
#include "infer/open/open_model.hpp"
#include "infer/passes/embed.hpp"
#include "infer/passes/forward.hpp"
#include "plugin/composition/compose.hpp"
#include "program/parameter_store.hpp"
#include "program/runtime.hpp"

#include <algorithm>
#include <cstdlib>
#include <doctest/doctest.h>
#include <filesystem>
#include <memory>

namespace hekla::test {

namespace fs = std::filesystem;
using graph::Kind;
using graph::Shape;
using graph::Tensor;
using infer::Tensors;

inline const plugin::Registry& registry() {
    static const plugin::Registry found = plugin::Registry::scan({HEKLA_PLUGIN_FOLDER});
    return found;
}

// Creates a runtime. HEKLA_TEST_KERNELS=gpu in the environment: with the kernels chosen on a GPU.
inline std::unique_ptr<program::Runtime> make_runtime(gpu::ContextOptions options) {
    program::RuntimeOptions kernels;
    if (const char* of = std::getenv("HEKLA_TEST_KERNELS")) {
        REQUIRE_MESSAGE(std::string_view(of) == "gpu", "HEKLA_TEST_KERNELS is ", of, ", expected gpu");
        kernels.kernels_of_gpus = true;
        options.device.overrides.disable.emplace_back("uniform_loads"); // kernels with them would be preferred
    }
    Result<gpu::Context> context = gpu::create_context(options);
    REQUIRE_MESSAGE(context.ok(), context.message());
    Result<std::unique_ptr<program::Runtime>> runtime = program::Runtime::create(context.take(), kernels);
    REQUIRE_MESSAGE(runtime.ok(), runtime.message());
    return runtime.take();
}

inline program::Runtime& device() {
    static const std::unique_ptr<program::Runtime> made = make_runtime({});
    return *made;
}

inline fs::path fixture_folder(const std::string& name) {
    return fs::path(HEKLA_SOURCE_DIR) / "tests" / "fixtures" / "models" / name;
}

inline std::vector<std::string> fixture_names() {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(fs::path(HEKLA_SOURCE_DIR) / "tests" / "fixtures" / "models"))
        if (entry.is_directory()) names.push_back(entry.path().filename().string());
    std::ranges::sort(names);
    return names;
}

inline infer::Model open_fixture(const std::string& name, program::Runtime* runtime) {
    const Result<std::string> info = read_file(fixture_folder(name) / "fixture.json");
    REQUIRE_MESSAGE(info.ok(), info.message());
    infer::ModelOptions options;
    options.class_name = nlohmann::json::parse(info.value()).at("class").get<std::string>();
    options.tokenizer_required = false;
    Result<infer::Model> model = infer::open_model(registry(), runtime, fixture_folder(name), options, {});
    REQUIRE_MESSAGE(model.ok(), model.message());
    return model.take();
}

// Returns the input fields of the fixture's model; labels are only for losses.
inline Tensors fixture_fields(const std::string& name) {
    Result<Tensors> fields = infer::read_fields(fixture_folder(name) / "inputs.safetensors");
    REQUIRE_MESSAGE(fields.ok(), fields.message());
    Tensors kept;
    for (auto& [field, tensor] : fields.value())
        if (field.find("label") == std::string::npos) kept.emplace(field, std::move(tensor));
    return kept;
}

inline Tensor run_port(infer::Model& model, const Tensors& fields, const std::string& port) {
    const auto forward = infer::Forward::create(model, fields, {port});
    REQUIRE_MESSAGE(forward.ok(), forward.message());
    const Result<Tensors> outputs = forward.value()->run(fields);
    REQUIRE_MESSAGE(outputs.ok(), outputs.message());
    return outputs->at(port);
}

} // namespace hekla::test
