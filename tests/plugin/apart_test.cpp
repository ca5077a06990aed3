// Out-of-process plugins: the same graphs and batches as in process; anything that a plugin does to its process is an
// error that names the plugin.
#include "graph/text.hpp"
#include "hang_limit.hpp"
#include "plugin/composition/compose.hpp"
#include "plugin/host/host_error.hpp"
#include "support/test_folder.hpp"
#include "text/tokenizer_trainer.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <doctest/doctest.h>
#include <fmt/format.h>

namespace apart_test {

using namespace hekla;
using namespace hekla::test;
using namespace hekla::plugin;
using nlohmann::json;

namespace {

namespace fs = std::filesystem;

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

// A fault of faulty.cpp, set in this process and in those that it starts.
class Fault {
public:
    explicit Fault(const char* name) { ::setenv("HEKLA_FAULT", name, 1); }
    ~Fault() { ::unsetenv("HEKLA_FAULT"); }
    Fault(const Fault&) = delete;
    Fault& operator=(const Fault&) = delete;
};

struct Lines {
    std::vector<std::string> all;
    Log log() {
        return Log([this](Severity, std::string_view line) { all.emplace_back(line); });
    }
    std::size_t with(std::string_view part) const {
        return static_cast<std::size_t>(
            std::ranges::count_if(all, [&](const std::string& line) { return has(line, part); }));
    }
};

Processes apart(double seconds = 60.0) {
    Processes p;
    p.describe = Processes::Describe::child;
    p.program = HEKLA_DESCRIBE_PROGRAM;
    p.seconds = seconds;
    p.disable_failing = true;
    return p;
}

Registry registry_of(const char* folder, const Processes& processes, const Log& log = {}) {
    Registry registry = Registry::scan({folder}, log);
    REQUIRE(!registry.manifests().empty());
    registry.set_processes(processes);
    return registry;
}

std::unique_ptr<text::Tokenizer> letters() {
    using enum text::TokenRole;
    const auto trainer = text::make_character_trainer({{"<cls>", {cls, bos}},
                                                       {"<pad>", {pad}},
                                                       {"<sep>", {separator}},
                                                       {"<mask>", {mask}},
                                                       {"<unk>", {unk}},
                                                       {"<eos>", {eos}}});
    REQUIRE(trainer->add("abcdefghijklmnopqrstuvwxyz .!?\n", {}).ok());
    auto made = trainer->finish();
    REQUIRE_MESSAGE(made.ok(), made.message());
    return made.take();
}

CompositionSpec faulty() {
    CompositionSpec spec;
    spec.architecture = "faulty";
    spec.config = {{"width", 8}, {"depth", 1}, {"vocab_size", 60}};
    spec.head = "faulty_head";
    spec.objective = "faulty_next";
    return spec;
}

// Three rows of text, and their corpus.
struct Rows {
    explicit Rows(const text::Tokenizer& tokenizer) {
        for (const char* text :
             {"the cat sat on the mat. it slept!", "a dog barked at it? no.", "birds. birds sing."}) {
            ids.push_back(tokenizer.encode(text).take());
            parts.push_back({0, ids.back().size() / 2});
        }
        for (std::size_t i = 0; i < ids.size(); ++i) {
            hk_column c{};
            c.struct_size = sizeof c;
            c.kind = HK_COLUMN_TOKENS;
            c.name = {"text", 4};
            c.ids = ids[i].data();
            c.size = ids[i].size();
            c.parts = parts[i].data();
            c.part_count = parts[i].size();
            columns.push_back(c);
        }
        for (std::size_t i = 0; i < ids.size(); ++i)
            examples.push_back({sizeof(hk_example), 1, &columns[i], 10 * i, 3, i});
        corpus.struct_size = sizeof corpus;
        corpus.example_count = examples.size();
        corpus.context = this;
        corpus.get = [](void* context, uint64_t index, hk_example* example, hk_error* error) -> int32_t {
            if (example->struct_size != sizeof(hk_example)) { // as the host's corpus requires
                host_error_interface()->set(error, HK_INVALID_ARGUMENT, {"a wrong size", 12});
                return HK_INVALID_ARGUMENT;
            }
            auto& rows = *static_cast<Rows*>(context);
            ++rows.asked;
            if (index >= rows.examples.size()) {
                host_error_interface()->set(error, HK_INVALID_ARGUMENT, {"no such", 7});
                return HK_INVALID_ARGUMENT;
            }
            *example = rows.examples[index];
            return HK_OK;
        };
    }
    Rows(const Rows&) = delete;
    Rows& operator=(const Rows&) = delete;

    // Returns the fields' bytes, or the error.
    Result<std::string> collated(const Composition& composition, int64_t length = 20, uint64_t seed = 7) {
        HK_ASSIGN(const std::vector<BatchField> described, composition.batch_fields(4, length));
        std::vector<std::string> bytes;
        std::vector<hk_field> fields;
        for (const BatchField& one : described)
            bytes.emplace_back(static_cast<std::size_t>(one.shape.elements()) * 4, '\0');
        for (std::size_t i = 0; i < described.size(); ++i) {
            hk_field f{};
            f.struct_size = sizeof f;
            f.kind = described[i].kind == graph::Kind::int32 ? HK_KIND_INT32 : HK_KIND_FLOAT32;
            f.name = {described[i].name.data(), described[i].name.size()};
            f.rank = static_cast<uint32_t>(described[i].shape.rank());
            std::ranges::copy(described[i].shape.dims(), f.dims);
            f.data = bytes[i].data();
            fields.push_back(f);
        }
        hk_batch batch{};
        batch.struct_size = sizeof batch;
        batch.example_count = static_cast<uint32_t>(examples.size());
        batch.examples = examples.data();
        batch.corpus = &corpus;
        batch.seed = seed;
        HK_TRY(composition.collate(batch, fields));
        std::string all;
        for (const std::string& one : bytes) all += one;
        return all;
    }

    std::vector<std::vector<int32_t>> ids;
    std::vector<std::vector<uint64_t>> parts;
    std::vector<hk_column> columns;
    std::vector<hk_example> examples;
    hk_corpus corpus{};
    int asked = 0;
};

std::string refusal(const Result<std::unique_ptr<Composition>>& made) {
    if (!made.ok()) return made.message();
    const auto fields = made.value()->batch_fields(2, 8);
    if (!fields.ok()) return fields.message();
    const auto graph = made.value()->build(HK_MODE_TRAIN, fields.value());
    return graph.ok() ? std::string() : graph.message();
}

} // namespace

TEST_CASE("out of process: every built-in architecture describes the same bits as in process") {
    const Registry here = registry_of(HEKLA_PLUGIN_FOLDER, Processes());
    const Registry there = registry_of(HEKLA_PLUGIN_FOLDER, apart());
    const auto tokenizer = letters();
    int compared = 0;
    for (const Manifest& manifest : here.manifests())
        for (const Provided& provided : manifest.provides) {
            const nlohmann::json check = provided.check.parse();
            if (provided.interface_id != HK_ARCHITECTURE_INTERFACE || !check.contains("config")) continue;
            CAPTURE(provided.id);
            CompositionSpec spec;
            spec.architecture = provided.id;
            spec.config = check["config"];
            for (const char* key : {"vocab_size", "source_vocab_size", "target_vocab_size"})
                if (std::ranges::find(provided.parameters, key) != provided.parameters.end())
                    spec.config.emplace(key, tokenizer->vocabulary_size());
            spec.head = check.value("head", "");
            spec.objective = check.value("objective", "");
            spec.refuse_unknown_keys = false;
            const auto one = Composition::create(here, spec, tokenizer.get());
            const auto other = Composition::create(there, spec, tokenizer.get());
            REQUIRE_MESSAGE(one.ok(), one.message());
            REQUIRE_MESSAGE(other.ok(), other.message());
            CHECK(!one.value()->described_apart());
            CHECK(other.value()->described_apart());
            CHECK(one.value()->write_config().value() == other.value()->write_config().value());
            CHECK(one.value()->decode_ports().value() == other.value()->decode_ports().value());
            std::vector<BatchField> fields{{"input_ids", graph::Kind::int32, {2, 8}}};
            if (!spec.objective.empty()) {
                CHECK(one.value()->example_kind() == other.value()->example_kind());
                CHECK(one.value()->can_collate() == other.value()->can_collate());
                CHECK(one.value()->columns().value().size() == other.value()->columns().value().size());
                fields = one.value()->batch_fields(2, 8).value();
                const auto same = other.value()->batch_fields(2, 8).value();
                REQUIRE(same.size() == fields.size());
                for (std::size_t i = 0; i < fields.size(); ++i) {
                    CHECK(same[i].name == fields[i].name);
                    CHECK(same[i].shape == fields[i].shape);
                }
            }
            for (const int32_t mode : {HK_MODE_TRAIN, HK_MODE_EVALUATE, HK_MODE_ENCODE, HK_MODE_DECODE}) {
                constexpr int64_t kCapacity = 5; // less than the positions of any model
                const auto a = one.value()->build(mode, fields, {}, true, -1, kCapacity);
                const auto b = other.value()->build(mode, fields, {}, true, -1, kCapacity);
                REQUIRE(a.ok() == b.ok());
                if (!a.ok()) CHECK(a.message() == b.message());
                if (!a.ok()) continue;
                CHECK(graph::print(a.value()) == graph::print(b.value()));
                ++compared;
            }
            const auto names = one.value()->body_parameters(fields);
            if (names.ok()) CHECK(names.value() == other.value()->body_parameters(fields).value());
        }
    CHECK(compared > 30);
}

TEST_CASE("out of process: a plugin's own errors are the same as in process") {
    const Registry here = registry_of(HEKLA_FAULTS_FOLDER, Processes());
    const Registry there = registry_of(HEKLA_FAULTS_FOLDER, apart());
    CompositionSpec spec = faulty();
    spec.config["depth"] = 65;
    const auto one = Composition::create(here, spec, nullptr), other = Composition::create(there, spec, nullptr);
    REQUIRE(!one.ok());
    CHECK(one.message() == other.message());
    CHECK(one.code() == other.code());
    // This is not a crash, so the plugin is not disabled.
    CHECK(refusal(Composition::create(there, faulty(), nullptr)).empty());
    spec = faulty();
    spec.config["widht"] = 3;
    CHECK(Composition::create(there, spec, nullptr).message() == Composition::create(here, spec, nullptr).message());
    spec = faulty();
    spec.config["width"] = "wide";
    CHECK(Composition::create(there, spec, nullptr).message() == Composition::create(here, spec, nullptr).message());
}

TEST_CASE("out of process: a plugin that exits, hangs or throws is named, with file, function and a reproducer") {
    struct Case {
        const char* fault;
        const char* function;
        const char* expected;
        double seconds = 60.0;
    };
    for (const Case& c : {
             Case{"crash_at_load", "load", "crashed with SIGSEGV (Segmentation fault)"},
                 Case{"throw_in_create", "create",
                      "the plugin threw an exception; plugins must not (thrown by create)"},
                 Case{"throw_in_build", "build", "the plugin threw an exception; plugins must not (thrown by build)"},
                 Case{"abort_in_build", "build", "crashed with SIGABRT (Aborted)"},
                 Case{"exit_in_build", "build", "ended its process with status 0"},
                 Case{"hang_in_build", "build", test::kHangText, test::kHangLimit},
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
                 Case{"eats_memory", "build", "exceeded the memory limit of its process (512 MiB)"},
#endif
                 Case {
                 "garbles_the_pipe", "build", "wrote to the pipe reserved for Hekla"
             }
         }) {
        CAPTURE(c.fault);
        Lines lines;
        Processes processes = apart(c.seconds);
        processes.memory_bytes = uint64_t{512} << 20;
        const Registry registry = registry_of(HEKLA_FAULTS_FOLDER, processes, lines.log());
        std::string message;
        {
            const Fault fault(c.fault);
            message = refusal(Composition::create(registry, faulty(), nullptr));
        }
        CAPTURE(message);
        CHECK(has(message, c.expected));
        CHECK(has(message, "plugin 'faulty' (" + (fs::path(HEKLA_FAULTS_FOLDER) / "faulty.so").string() + ")"));
        CHECK(has(message, fmt::format("in {}()", c.function)));
        CHECK(has(message, fmt::format("to see it again: `hekla --plugin-path {} describe faulty --config",
                                       HEKLA_FAULTS_FOLDER)));
        CHECK(has(message, fmt::format("`hekla plugin check {}/faulty.so`", HEKLA_FAULTS_FOLDER)));
        CHECK(lines.with("plugin 'faulty' is disabled for this run") == 1);
        // It stays disabled even without the fault.
        const std::string again = refusal(Composition::create(registry, faulty(), nullptr));
        CHECK(has(again, "is disabled for this run"));
        CHECK(has(again, fmt::format("in {}()", c.function)));
        // The errors of other plugins are unchanged.
        CHECK(!registry.check_enabled(registry.manifests().front()).ok());
    }
}

TEST_CASE("out of process: a composition created before its plugin crashed does not call it again") {
    const Registry registry = registry_of(HEKLA_FAULTS_FOLDER, apart());
    const Fault fault("abort_in_build");
    const auto made = Composition::create(registry, faulty(), nullptr);
    REQUIRE_MESSAGE(made.ok(), made.message());
    const auto fields = made.value()->batch_fields(2, 8).value();
    CHECK(has(made.value()->build(HK_MODE_TRAIN, fields).message(), "crashed with SIGABRT (Aborted)"));
    CHECK(has(made.value()->build(HK_MODE_TRAIN, fields).message(), "is disabled for this run: it crashed"));
    CHECK(has(made.value()->write_config().message(), "is disabled for this run: it crashed"));
}

TEST_CASE("out of process: a hung process is killed, and so is one whose host forgets it") {
    const auto before = std::chrono::steady_clock::now();
    const Fault fault("hang_in_build");
    const Registry registry = registry_of(HEKLA_FAULTS_FOLDER, apart(0.3));
    CHECK(has(refusal(Composition::create(registry, faulty(), nullptr)), "timed out after"));
    CHECK(std::chrono::steady_clock::now() - before < std::chrono::seconds(30));
}

TEST_CASE("out of process: a missing program, or one that is not hekla-describe, is an error") {
    Processes processes = apart();
    processes.program = "/nowhere/hekla-describe";
    CHECK(has(refusal(Composition::create(registry_of(HEKLA_FAULTS_FOLDER, processes), faulty(), nullptr)),
              "hekla-describe, the program that runs plugins in their own process, was not found at "
              "/nowhere/hekla-describe"));
    processes.program = "/bin/true";
    CHECK(has(refusal(Composition::create(registry_of(HEKLA_FAULTS_FOLDER, processes), faulty(), nullptr)),
              "ended its process with status 0"));
}

TEST_CASE("isolated: batches have the same bits as in process") {
    const auto tokenizer = letters();
    Rows rows(*tokenizer);
    for (const char* objective : {"clm", "mlm", "permutation", "denoising", "prefix_lm"}) {
        CAPTURE(objective);
        CompositionSpec spec;
        spec.architecture = std::string_view(objective) == "denoising" ? "bart" : "gpt2";
        if (std::string_view(objective) == "mlm") {
            spec.architecture = "bert";
            spec.objective_config = {{"whole_words", true}, {"next", "sentence"}};
        }
        if (std::string_view(objective) == "permutation") spec.architecture = "xlnet";
        spec.config = {{"vocab_size", tokenizer->vocabulary_size()}, {"pad_token_id", 1}};
        spec.objective = objective;
        spec.refuse_unknown_keys = false;
        const Registry here = registry_of(HEKLA_PLUGIN_FOLDER, Processes());
        Processes processes = apart();
        processes.isolate = true;
        const Registry there = registry_of(HEKLA_PLUGIN_FOLDER, processes);
        const auto one = Composition::create(here, spec, tokenizer.get());
        const auto other = Composition::create(there, spec, tokenizer.get());
        REQUIRE_MESSAGE(one.ok(), one.message());
        REQUIRE_MESSAGE(other.ok(), other.message());
        CHECK(other.value()->isolated());
        for (const int64_t length : {20, 37, 20}) {
            const int before = rows.asked;
            const auto a = rows.collated(*one.value(), length);
            const int asked = rows.asked - before;
            const auto b = rows.collated(*other.value(), length);
            REQUIRE_MESSAGE(a.ok(), a.message());
            REQUIRE_MESSAGE(b.ok(), b.message());
            CHECK(a.value() == b.value());
            CHECK(rows.asked - before == 2 * asked); // including the corpus
        }
        for (const hk_example& example : rows.examples)
            CHECK(one.value()->example_length(example) == other.value()->example_length(example));
    }
}

TEST_CASE("isolated: a worker that crashes is named and restarted, and its batch repeated with the same bits") {
    const auto tokenizer = letters();
    Rows rows(*tokenizer);
    const TestFolder folder;
    const std::string mark = (folder.path() / "crashed").string();
    ::setenv("HEKLA_FAULT_ONCE", mark.c_str(), 1);
    const Registry plain = registry_of(HEKLA_FAULTS_FOLDER, Processes());
    const auto here = Composition::create(plain, faulty(), tokenizer.get());
    REQUIRE_MESSAGE(here.ok(), here.message());
    const auto right = rows.collated(*here.value());
    REQUIRE_MESSAGE(right.ok(), right.message());

    Lines lines;
    Processes processes = apart(2.0);
    processes.isolate = true;
    const Registry registry = registry_of(HEKLA_FAULTS_FOLDER, processes, lines.log());
    const auto made = Composition::create(registry, faulty(), tokenizer.get());
    REQUIRE_MESSAGE(made.ok(), made.message());
    const std::string who = fmt::format("plugin 'faulty' ({}/faulty.so)", HEKLA_FAULTS_FOLDER);
    {
        const Fault fault("crash_once_in_collate");
        const auto repeated = rows.collated(*made.value());
        REQUIRE_MESSAGE(repeated.ok(), repeated.message());
        CHECK(repeated.value() == right.value());
        CHECK(fs::exists(mark));
        CHECK(lines.with(who + " crashed with SIGSEGV (Segmentation fault) in collate() (seed 7, examples 0, 10, 20): "
                               "restarting its process (restart 1 of at most 16) and repeating the batch") == 1);
    }
    // The current process was started without a fault and continues without one.
    CHECK(rows.collated(*made.value()).value() == right.value());
    ::unsetenv("HEKLA_FAULT_ONCE");

    const auto always = [&](const char* name, const std::string& expected) {
        const Fault fault(name);
        const auto other = Composition::create(registry, faulty(), tokenizer.get());
        REQUIRE_MESSAGE(other.ok(), other.message());
        const auto batch = rows.collated(*other.value());
        REQUIRE(!batch.ok());
        CAPTURE(batch.message());
        CHECK(has(batch.message(), who + " " + expected));
        CHECK(has(batch.message(), "in collate(), 3 times with the same batch (seed 7, examples 0, 10, 20)"));
        CHECK(has(batch.message(), "hekla plugin check"));
    };
    always("crash_in_collate", "crashed with SIGSEGV");
    always("hang_in_collate", "timed out after 2 s");
    // An error that a plugin returns is passed on without a retry.
    const std::size_t restarts = lines.with("restarting its process");
    const Fault fault("throw_in_collate");
    const auto other = Composition::create(registry, faulty(), tokenizer.get());
    CHECK(has(rows.collated(*other.value()).message(), "thrown by collate"));
    CHECK(lines.with("restarting its process") == restarts);
}

TEST_CASE("isolated: decode gives the same result, and may crash") {
    const auto tokenizer = letters();
    const std::vector<float> logits{0, 3, 1, 0, 2, 0, 0, 9, 1, 4, 0, 0};
    const auto decoded = [&](const Composition& composition) {
        hk_output output{};
        output.struct_size = sizeof output;
        output.rank = 3;
        output.port = {"logits", 6};
        output.values = logits.data();
        output.dims[0] = 2;
        output.dims[1] = 2;
        output.dims[2] = 3;
        std::vector<int32_t> ids(4, 1);
        hk_field field{};
        field.struct_size = sizeof field;
        field.kind = HK_KIND_INT32;
        field.name = {"input_ids", 9};
        field.rank = 2;
        field.dims[0] = field.dims[1] = 2;
        field.data = ids.data();
        hk_decode_input input{};
        input.struct_size = sizeof input;
        input.output_count = input.field_count = 1;
        input.outputs = &output;
        input.fields = &field;
        input.row_count = 2;
        input.tokenizer = composition.tokenizer();
        return composition.decode(input);
    };
    Processes processes = apart();
    processes.isolate = true;
    const Registry plain = registry_of(HEKLA_FAULTS_FOLDER, Processes());
    const Registry registry = registry_of(HEKLA_FAULTS_FOLDER, processes);
    const auto here = Composition::create(plain, faulty(), tokenizer.get());
    const auto there = Composition::create(registry, faulty(), tokenizer.get());
    REQUIRE(here.ok());
    REQUIRE_MESSAGE(there.ok(), there.message());
    const auto one = decoded(*here.value()), other = decoded(*there.value());
    REQUIRE_MESSAGE(one.ok(), one.message());
    REQUIRE_MESSAGE(other.ok(), other.message());
    CHECK(one.value() == other.value());
    CHECK(one.value().front() == "{\"label\": 1}");
    const Fault fault("crash_in_decode");
    const auto crashing = Composition::create(registry, faulty(), tokenizer.get());
    REQUIRE(crashing.ok());
    CHECK(has(decoded(*crashing.value()).message(), "crashed with SIGSEGV (Segmentation fault) in decode()"));
}

// test_plugin -tc='measure*' --no-skip: measures the cost of separate processes.
TEST_CASE("measure: describing in a child process, and isolated batches" * doctest::skip()) {
    const auto tokenizer = letters();
    const auto milliseconds = [](int times, auto&& f) {
        const auto begin = std::chrono::steady_clock::now();
        for (int i = 0; i < times; ++i) f();
        return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count() / times;
    };
    CompositionSpec spec;
    spec.architecture = "gpt2";
    spec.config = {{"vocab_size", 50257}};
    spec.head = "lm";
    spec.objective = "clm";
    Processes isolated = apart();
    isolated.isolate = true;
    for (const auto& [where, processes] :
         {std::pair("in this process", Processes()), {"in a child", apart()}, {"isolated", isolated}}) {
        const Registry registry = registry_of(HEKLA_PLUGIN_FOLDER, processes);
        const auto make = [&] {
            auto made = Composition::create(registry, spec, tokenizer.get());
            REQUIRE_MESSAGE(made.ok(), made.message());
            return made.take();
        };
        make();
        const double created = milliseconds(20, make);
        const auto model = make();
        const auto fields = model->batch_fields(12, 1024).value();
        const double built = milliseconds(20, [&] { REQUIRE(model->build(HK_MODE_TRAIN, fields).ok()); });
        Rows rows(*tokenizer);
        std::vector<int32_t> row(1025, 3);
        for (std::size_t i = 0; i < rows.columns.size(); ++i) {
            rows.columns[i].ids = row.data();
            rows.columns[i].size = row.size();
            rows.columns[i].part_count = 0;
        }
        (void)rows.collated(*model, 1024);
        const double batch = milliseconds(200, [&] { REQUIRE(rows.collated(*model, 1024).ok()); });
        MESSAGE(fmt::format("{}: create {:.2f} ms, GPT-2's graph of 12 blocks {:.2f} ms, a batch of 4 x 1024 {:.3f} ms",
                            where, created, built, batch));
    }
}

} // namespace apart_test
