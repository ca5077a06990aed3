// Exported models: the same bits as the folders they were exported from, without plugins and without a compiler; and
// damaged or invalid files.
#include "model/folder.hpp"
#include "program/estimate.hpp"
#include "program/runtime.hpp"
#include "support.hpp"

#include "base/hash.hpp"
#include "generate/decoder_program.hpp"
#include "generate/generator.hpp"
#include "infer/exported/exported_model.hpp"
#include "infer/open/open_model.hpp"
#include "infer/open/weights_folder.hpp"
#include "infer/texts/prompt_fields.hpp"

#include <cstring>
#include <fstream>
#include <unistd.h>

using namespace hekla;
using namespace hekla::test;

namespace {

// A temporary file, deleted by the destructor.
struct TestFile {
    explicit TestFile(const std::string& name)
        : path(fs::temp_directory_path() / ("hekla-export-" + std::to_string(::getpid()) + "-" + name + ".hekla")) {}
    ~TestFile() {
        std::error_code ignored;
        fs::remove(path, ignored);
    }
    fs::path path;
};

infer::ExportReport exported(const fs::path& folder, const fs::path& file, int64_t length = 0) {
    gpu::GlslCompiler compiler(gpu::GlslOptions{});
    infer::ExportOptions options;
    options.length = length;
    options.version = "test";
    const Result<infer::ExportReport> report = infer::export_model(registry(), compiler, folder, file, options, {});
    REQUIRE_MESSAGE(report.ok(), report.message());
    return report.value();
}

// Returns a device without a compiler and plugins.
program::Runtime& bare_device() {
    static const std::unique_ptr<program::Runtime> made = [] {
        gpu::ContextOptions options;
        options.glsl_module = "/nowhere/libhekla_glsl.so";
        return make_runtime(options);
    }();
    return *made;
}

const plugin::Registry& no_plugins() {
    static const plugin::Registry none = plugin::Registry::scan({});
    return none;
}

infer::ModelOptions without_tokenizer(const std::string& head = "") {
    infer::ModelOptions options;
    options.head = head;
    options.tokenizer_required = false;
    return options;
}

infer::Model opened(const plugin::Registry& plugins, program::Runtime& runtime, const fs::path& path,
                    const std::string& head = "") {
    Result<infer::Model> model = infer::open_model(plugins, &runtime, path, without_tokenizer(head), {});
    REQUIRE_MESSAGE(model.ok(), model.message());
    return model.take();
}

std::vector<std::vector<int32_t>> rows_of(std::size_t count, std::size_t longest, int32_t vocabulary) {
    std::vector<std::vector<int32_t>> rows(count);
    for (std::size_t row = 0; row < count; ++row)
        for (std::size_t i = 0; i < longest - row * longest / (2 * count); ++i)
            rows[row].push_back(static_cast<int32_t>((row * 31 + i * 7 + 5) % static_cast<std::size_t>(vocabulary)));
    return rows;
}

// The generated text, and the scores of the first token.
std::pair<std::vector<std::vector<int32_t>>, generate::Logits>
written(infer::Model& model, program::Runtime& runtime, std::size_t rows, std::size_t longest, int64_t tokens) {
    Result<std::unique_ptr<generate::Decoder>> made =
        generate::make_program_decoder(runtime, *model.store, *model.composition);
    REQUIRE_MESSAGE(made.ok(), made.message());
    generate::Decoder& decoder = *made.value();
    generate::Request request;
    request.prompts = rows_of(rows, longest, 20);
    generate::Options options;
    options.max_new_tokens = tokens;
    options.slide_context = !decoder.encoder_decoder();
    if (decoder.encoder_decoder()) {
        infer::SourceRows sources;
        if (model.exported != nullptr) {
            const Result<infer::SourceLayout> layout = infer::exported_source_layout(*model.exported);
            REQUIRE_MESSAGE(layout.ok(), layout.message());
            sources = infer::laid_out(layout.value(), request.prompts);
        } else {
            const auto fields = infer::source_fields(registry(), model, request.prompts);
            REQUIRE_MESSAGE(fields.ok(), fields.message());
            Result<infer::SourceRows> made = infer::source_rows(fields.value());
            REQUIRE_MESSAGE(made.ok(), made.message());
            sources = made.take();
        }
        request.prompts = std::move(sources.ids);
        request.fields = std::move(sources.fields);
        options.decoder_start = 1;
        options.max_new_tokens = std::min<int64_t>(tokens, 25);
        options.beams = rows == 3 ? 2 : 1;
    }
    const Result<generate::Output> output = generate::generate(decoder, request, options);
    REQUIRE_MESSAGE(output.ok(), output.message());
    std::pair<std::vector<std::vector<int32_t>>, generate::Logits> all;
    for (const generate::Output::Row& row : output->rows) all.first.push_back(row.ids);
    const std::size_t of_decoder = rows * static_cast<std::size_t>(options.beams);
    const std::vector<int32_t> zeros(of_decoder, 0), ones(of_decoder, 1);
    std::vector<int32_t> own(of_decoder * static_cast<std::size_t>(decoder.capacity()));
    for (std::size_t i = 0; i < own.size(); ++i)
        own[i] = static_cast<int32_t>(i / static_cast<std::size_t>(decoder.capacity()));
    const Status decoded = decoder.decode({1, ones, zeros, ones, own, {}}, all.second);
    REQUIRE_MESSAGE(decoded.ok(), decoded.message());
    return all;
}

std::string bytes_of(const fs::path& file) {
    const Result<std::string> content = read_file(file);
    REQUIRE_MESSAGE(content.ok(), content.message());
    return content.value();
}

void write(const fs::path& file, const std::string& content) {
    std::ofstream out(file, std::ios::binary);
    out << content;
    out.close();
    REQUIRE(out);
}

void check_writing(const fs::path& from, int64_t length_of_file = 0) {
    const std::string name = from.filename();
    CAPTURE(name);
    const TestFile file(name);
    const infer::ExportReport report = exported(from, file.path, length_of_file);
    CAPTURE(report.length);
    REQUIRE(std::ranges::count(report.can, "generate") == 1);
    infer::Model folder = opened(registry(), device(), from, "lm");
    infer::Model one = opened(no_plugins(), bare_device(), file.path, "lm");
    for (const auto& [rows, longest, tokens] :
         {std::tuple<std::size_t, std::size_t, int64_t>{1, 5, 20}, {3, 19, 8}, {7, 17, 60}}) {
        CAPTURE(rows);
        CHECK(written(folder, device(), rows, longest, tokens) == written(one, bare_device(), rows, longest, tokens));
    }
}

void check_saying(const std::string& name) {
    CAPTURE(name);
    const Result<model::ModelFolder> found = model::ModelFolder::open(fixture_folder(name));
    REQUIRE(found.ok());
    const auto config = nlohmann::json::parse(found->config_json());
    if (config.value("is_encoder_decoder", false) || !config.contains("architectures") || config.contains("image_size"))
        return;
    const TestFile file(name);
    gpu::GlslCompiler compiler(gpu::GlslOptions{});
    infer::ExportOptions length; // for models without a maximum length
    if (name.starts_with("xlnet") || name.starts_with("deberta")) length.length = 32;
    const Result<infer::ExportReport> report =
        infer::export_model(registry(), compiler, fixture_folder(name), file.path, length, {});
    infer::Model folder = opened(registry(), device(), fixture_folder(name));
    const Tensors smallest{{"input_ids", {Kind::int32, Shape{1, 1}, {0}}}};
    const Result<std::vector<std::string>> ports = infer::port_names(folder, smallest);
    if (!report.ok() || std::ranges::count(report->can, "embed") == 0) {
        CHECK(!ports.ok()); // a head that compares choices does not take rows
        CHECK((report.ok() || report.code() == Code::unsupported));
        return;
    }
    infer::Model one = opened(no_plugins(), bare_device(), file.path);
    REQUIRE_MESSAGE(ports.ok(), ports.message());
    for (const std::string& port : ports.value()) {
        CAPTURE(port);
        std::vector<std::vector<double>> features[2];
        for (infer::Model* model : {&folder, &one}) {
            infer::EmbedOptions options;
            options.port = port;
            options.pooling = infer::Pooling::none;
            options.batch = 4;
            auto& into = features[model == &one ? 1 : 0];
            const Status status =
                infer::embed_rows(*model, rows_of(7, 21, 20), options, [&](std::size_t, const Tensor& values) {
                    into.push_back(values.data);
                    return true;
                });
            REQUIRE_MESSAGE(status.ok(), status.message());
        }
        CHECK(features[0] == features[1]);
    }
}

} // namespace

TEST_CASE("an exported model generates what its folder generates, to the bit" * doctest::test_suite("long")) {
    for (const char* name : {"gpt2-clm", "llama-clm", "bart-denoising"}) check_writing(fixture_folder(name));
}

TEST_CASE("features of an exported model equal its folder's, to the bit, at every port" * doctest::test_suite("long")) {
    for (const char* name : {"gpt2-clm", "roberta-mlm", "deberta-mlm", "xlnet-plm"}) check_saying(name);
}

TEST_CASE("a network whose graph grows step by step is exported for generation, one token at a time") {
    const fs::path fixture = fixture_folder("rnn-attention-additive"), folder = TestFile("recurrent").path;
    fs::create_directories(folder);
    auto config = nlohmann::json::parse(bytes_of(fixture / "config.json"));
    config["model_type"] = "attention-seq2seq";
    config["architectures"] = {"AttentionSeq2Seq"};
    write(folder / "config.json", config.dump());
    fs::copy_file(fixture / "model.safetensors", folder / "model.safetensors", fs::copy_options::overwrite_existing);
    check_writing(folder, 64);
    fs::remove_all(folder);
}

TEST_SUITE("long") {
    TEST_CASE("all other exported models generate and embed like their folders") {
        for (const char* name : {"gpt-clm", "qk-norm-clm", "parallel-block-clm", "gpt2-classifier", "vaswani-seq2seq"})
            check_writing(fixture_folder(name));
        check_writing(fixture_folder("t5-span-corruption"), 32); // which has no maximum length
        for (const std::string& name : fixture_names()) check_saying(name);
    }
}

TEST_CASE("the file contains the kernels that this device needs") {
    const TestFile file("kernels");
    static_cast<void>(exported(fixture_folder("gpt2-clm"), file.path));
    const auto opened_file = infer::ExportedFile::open(file.path);
    REQUIRE(opened_file.ok());
    const auto kernels = infer::exported_kernels(*opened_file.value());
    REQUIRE_MESSAGE(kernels.ok(), kernels.message());
    infer::Model model = opened(no_plugins(), bare_device(), file.path, "lm");
    program::Target target = program::target_of(device());
    REQUIRE(target.limits.generated_shaders);
    target.limits.chains = false; // as Runtime::limits() with compiled kernels
    program::Estimator estimator(target);
    REQUIRE(estimator.add_store(model.table, {}).ok());
    for (const int64_t rows : {1, 2, 5, 8, 11}) {
        for (const int64_t length : {3, 17, 32}) {
            generate::DecodeBatch session;
            session.rows = rows;
            session.length = length;
            const Status added = generate::estimate_decoder(estimator, *model.composition, session);
            REQUIRE_MESSAGE(added.ok(), added.message());
        }
    }
    REQUIRE(!estimator.sources().empty());
    for (const auto& [shader, source] : estimator.sources()) CHECK(kernels.value()->shaders.contains(shader));
}

TEST_CASE("a shorter context is used as requested, and a longer one is rejected with a remedy") {
    const TestFile file("short");
    CHECK(exported(fixture_folder("gpt2-clm"), file.path, 20).length == 20);
    const infer::Model model = opened(no_plugins(), bare_device(), file.path, "lm");
    const plugin::BatchField longer[] = {{"input_ids", Kind::int32, Shape{1, 21}}};
    const Status status = model.composition->check(HK_MODE_EVALUATE, longer);
    CHECK(status.code() == Code::unsupported);
    CHECK(status.message().find("--length N") != std::string::npos);
    CHECK(status.message().find("up to 20 tokens") != std::string::npos);
    gpu::GlslCompiler compiler(gpu::GlslOptions{});
    infer::ExportOptions options;
    options.length = 33; // the model's maximum is 32
    CHECK(!infer::export_model(registry(), compiler, fixture_folder("gpt2-clm"), file.path, options, {}).ok());
}

TEST_CASE("unsupported uses of an exported model are errors with a reason") {
    const TestFile file("cannot");
    static_cast<void>(exported(fixture_folder("gpt2-clm"), file.path));
    infer::ModelOptions options = without_tokenizer();
    options.objective = true;
    Status status = infer::open_model(no_plugins(), nullptr, file.path, options, {}).status();
    CHECK(status.code() == Code::unsupported);
    CHECK(status.message().find("folder that it was exported from") != std::string::npos);
    status = infer::open_model(no_plugins(), nullptr, file.path, without_tokenizer("mlm"), {}).status();
    CHECK(status.message().find("no head 'mlm'; it was exported with 'lm'") != std::string::npos);
    options = {}; // a tokenizer is required, and the fixtures have none
    status = infer::open_model(no_plugins(), nullptr, file.path, options, {}).status();
    CHECK(status.message().find("without a tokenizer") != std::string::npos);
    CHECK(infer::weights_folder(file.path).status().message().find("exported from") != std::string::npos);
    const auto again = [&] {
        gpu::GlslCompiler compiler(gpu::GlslOptions{});
        return infer::export_model(registry(), compiler, file.path, file.path, {}, {}).status();
    }();
    CHECK(again.message().find("is exported already") != std::string::npos);
    gpu::GlslCompiler compiler(gpu::GlslOptions{});
    const TestFile none("none");
    status = infer::export_model(registry(), compiler, fixture_folder("vit-classifier"), none.path, {}, {}).status();
    CHECK(status.code() == Code::unsupported);
    CHECK(status.message().find("nothing of this model can be exported") != std::string::npos);
    CHECK(!fs::exists(none.path));
}

TEST_CASE("a damaged file is one error, whatever was changed") {
    const TestFile file("whole"), changed("changed");
    static_cast<void>(exported(fixture_folder("gpt2-clm"), file.path, 8));
    const std::string whole = bytes_of(file.path);
    uint64_t header = 0;
    std::memcpy(&header, whole.data(), sizeof header);
    header += sizeof header;
    write(changed.path, whole);
    const auto is_refused = [&] {
        const Status status =
            infer::open_model(no_plugins(), nullptr, changed.path, without_tokenizer("lm"), {}).status();
        REQUIRE(!status.ok());
        CHECK(status.message().find(changed.path.string()) != std::string::npos);
        CHECK(status.message().find('\n') == std::string::npos);
    };
    // Every byte of the header, and bytes throughout the rest.
    for (std::size_t at = 0; at < whole.size(); at += at < header ? 1 : 997) {
        CAPTURE(at);
        const auto put = [&](int byte) {
            std::fstream out(changed.path, std::ios::binary | std::ios::in | std::ios::out);
            out.seekp(static_cast<std::streamoff>(at));
            out.put(static_cast<char>(byte));
            out.close();
            REQUIRE(out);
        };
        put(whole[at] ^ (at % 3 == 0 ? 0x01 : at % 3 == 1 ? 0x10 : 0x80));
        is_refused();
        put(whole[at]);
    }
    REQUIRE(infer::open_model(no_plugins(), nullptr, changed.path, without_tokenizer("lm"), {}).ok());
    for (std::size_t size = whole.size(); size > 0; size -= std::min<std::size_t>(size, size > header ? 4999 : 7)) {
        CAPTURE(size);
        fs::resize_file(changed.path, size - 1);
        is_refused();
    }
    for (const std::string& content : {whole + std::string(8, '\0'), std::string("not a model")}) {
        write(changed.path, content);
        is_refused();
    }
}

TEST_CASE("a manifest nested 100,000 deep is one error") {
    const TestFile file("deep");
    const std::string placeholder(200'000, '-');
    infer::ExportedContents contents;
    contents.manifest["deep"] = placeholder;
    REQUIRE(infer::write_exported_file(file.path, contents).ok());
    std::string content = bytes_of(file.path);
    // Replaces the placeholder with arrays, and hekla/hash with the changed manifest's.
    const std::size_t at = content.find('"' + placeholder + '"');
    REQUIRE(at != std::string::npos);
    content.replace(at, placeholder.size() + 2, ' ' + std::string(100'000, '[') + std::string(100'000, ']') + ' ');
    const std::size_t begin = content.rfind("{\n", at), end = content.rfind('}') + 1;
    const std::string hash = to_hex(hash128(std::string_view(content).substr(begin, end - begin)));
    content.replace(content.size() - hash.size(), hash.size(), hash);
    write(file.path, content);
    const Status status = infer::ExportedFile::open(file.path).status();
    CHECK(status.code() == Code::corrupt);
    CHECK_MESSAGE(status.message().find("hekla/manifest: line ") != std::string::npos, status.message());
    CHECK_MESSAGE(status.message().find("nested deeper than 64 levels") != std::string::npos, status.message());
}

TEST_CASE("a newer file version is rejected with a remedy") {
    const TestFile file("newer");
    static_cast<void>(exported(fixture_folder("gpt2-clm"), file.path, 8));
    std::string content = bytes_of(file.path);
    const std::string version = "\"hekla.export\":\"1\"";
    const std::size_t at = content.find(version);
    REQUIRE(at != std::string::npos);
    content[at + version.size() - 2] = '2';
    write(file.path, content);
    const Status status = infer::ExportedFile::open(file.path).status();
    CHECK(status.code() == Code::unsupported);
    CHECK(status.message().find("newer Hekla (version 2 of the file, this one reads 1)") != std::string::npos);
    CHECK(status.message().find("export the model again") != std::string::npos);
}
