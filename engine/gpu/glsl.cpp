#include "gpu/glsl.hpp"

#include "gpu/glsl_module.h"

#include <cstring>
#include <fmt/format.h>

namespace hekla::gpu {

namespace {

// A cached module: this header, then the words.
struct ModuleHeader {
    char magic[8] = {'H', 'K', 'S', 'P', 'I', 'R', 'V', '1'};
    uint64_t word_count = 0;
    Hash128 source;
    Hash128 words;
};
static_assert(sizeof(ModuleHeader) == 48);

// The key contains everything that affects the words of a text.
Hash128 key_of(const std::string& source, bool optimize) {
    return hash128(
        fmt::format("hekla glsl {} spirv1.5 vulkan1.2 optimize={}\n{}", HEKLA_GLSL_VERSION, optimize, source));
}

// Returns the words of a cached module if its hashes match, otherwise nothing: a torn or foreign module is recompiled.
std::vector<uint32_t> words_of(std::string_view content, const Hash128& key) {
    if (content.size() < sizeof(ModuleHeader)) return {};
    ModuleHeader header;
    const ModuleHeader expected;
    std::memcpy(&header, content.data(), sizeof header);
    const uint64_t bytes = content.size() - sizeof header;
    if (std::memcmp(header.magic, expected.magic, sizeof header.magic) != 0 || !(header.source == key) ||
        bytes % 4 != 0 || header.word_count != bytes / 4) {
        return {};
    }
    std::vector<uint32_t> words(static_cast<std::size_t>(header.word_count));
    std::memcpy(words.data(), content.data() + sizeof header, static_cast<std::size_t>(bytes));
    if (!(hash128(std::as_bytes(std::span(words))) == header.words)) return {};
    return words;
}

struct Output {
    std::vector<uint32_t> words;
    std::string message;
    bool failed = false;
};

// Called from the module; must not throw.
void take_words(void* user, const uint32_t* words, size_t count) {
    auto* output = static_cast<Output*>(user);
    try {
        output->words.assign(words, words + count);
    } catch (...) { output->failed = true; }
}

void take_message(void* user, const char* text, size_t size) {
    auto* output = static_cast<Output*>(user);
    try {
        output->message.assign(text, size);
    } catch (...) { output->failed = true; }
}

constexpr ModuleName kCompiler{"libhekla_glsl.so", "hekla_glsl_interface", HEKLA_GLSL_VERSION, "a shader compiler",
                               "the run-time shader compiler (libhekla_glsl.so) cannot be opened; kernels generated "
                               "at run time and plugins' own GLSL need it"};

} // namespace

Status GlslCompiler::available() {
    const std::lock_guard guard(mutex_);
    if (module_) return {};
    HK_ASSIGN(module_, Module<HeklaGlslInterface>::open(kCompiler, options_.module));
    return {};
}

Result<Shader> GlslCompiler::compile(const std::string& name, const std::string& source) {
    const bool optimize = options_.optimize && source.find("\n//! no-optimizer\n") == std::string::npos;
    const Hash128 key = key_of(source, optimize);
    const std::string entry = "glsl-" + to_hex(key) + ".spv";
    if (options_.cache != nullptr) {
        const Result<std::optional<std::string>> content = options_.cache->load(entry);
        std::vector<uint32_t> words =
            content.ok() && content.value() ? words_of(*content.value(), key) : std::vector<uint32_t>();
        if (!words.empty()) {
            Result<Shader> cached = Shader::from_words(name, std::move(words));
            if (cached.ok()) return cached;
        }
    }
    HK_TRY(available());
    Output output;
    const HeklaGlslResult result{&output, take_words, take_message};
    const int32_t done = module_->compile(source.data(), source.size(), name.c_str(), optimize ? 1 : 0, &result);
    if (output.failed) return out_of_memory(fmt::format("no memory for the compiled shader \"{}\"", name));
    if (done != 1) return invalid_argument(fmt::format("shader \"{}\" does not compile:\n{}", name, output.message));
    HK_ASSIGN(Shader shader, Shader::from_words(name, std::move(output.words)));
    if (options_.cache != nullptr) {
        ModuleHeader header;
        header.word_count = shader.words().size();
        header.source = key;
        header.words = hash128(std::as_bytes(shader.words()));
        std::string content(reinterpret_cast<const char*>(&header), sizeof header);
        content.append(reinterpret_cast<const char*>(shader.words().data()), shader.words().size_bytes());
        // A cache that cannot be written only costs time, so a warning per file is enough.
        const Status written = options_.cache->store(entry, content);
        if (!written.ok()) options_.log.warning("the compiled shader is not cached: " + written.message());
    }
    return shader;
}

} // namespace hekla::gpu
