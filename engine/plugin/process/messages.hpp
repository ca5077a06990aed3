// The format of the messages between a host and a worker process with plugins (base/channel.hpp): their kinds, and how
// values are written and read. The host sends one request at a time (worker.hpp); before the answer, the process
// (serve.hpp) may report what it runs, log, and ask questions.
#pragma once

#include "base/wire.hpp"
#include "plugin/composition/plugin_set.hpp"
#include "plugin/registry/registry.hpp"

#include <concepts>
#include <deque>
#include <tuple>
#include <utility>

namespace hekla::plugin {

// Version of the format and its contents; both sides must be from the same build.
inline constexpr const char* kProtocol = "hekla-describe 5 of 0.1.0";

enum class MessageKind : uint32_t {
    // From the host.
    create = 1,
    reply, // to ask_*
// A method of PluginSet: the arguments; of a memory method: two sizes of the shared memory, which holds the rest.
#define HK_PLUGIN_METHOD(value, name, parameters, arguments) name,
#define HK_PLUGIN_MEMORY_METHOD(returns, name, parameters, arguments) name,
#include "plugin/composition/plugin_methods.inc"
#undef HK_PLUGIN_METHOD
#undef HK_PLUGIN_MEMORY_METHOD
    // From the process.
    answer = 64,   // flag: ok, then the result; else code, message, and the manifest of the plugin that failed, or ""
    doing,         // manifest, function: the plugin function that runs now
    out_of_memory, // sent by a signal handler when an allocation failed
    log,           // severity, text
    ask_special,   // role
    ask_words,     // one byte per id: bit 0: begins a word, bit 1: ends a sentence
    ask_decode,    // ids
    ask_example,   // index, of the batch's corpus
};

class MessageWriter : public WireWriter {};

// A reader of the caller's memory. After the first error every value is zero or empty. Owns what the columns of
// examples are listed in; their numbers stay in the message.
class MessageReader : public WireReader {
public:
    // registry: finds the references of plugins' own operations in graphs; null: no graph is read.
    explicit MessageReader(std::string_view bytes, const Registry* registry = nullptr)
        : WireReader(bytes), registry_(registry) {}
    explicit MessageReader(std::span<const std::byte> bytes) : WireReader(bytes) {}

    const Registry& registry() const { return *registry_; }
    std::vector<hk_column>& add_columns(std::size_t count) { return columns_.emplace_back(count); }
    // Refuses a value that was read.
    void refuse(Status why) {
        if (problem_.ok()) problem_ = std::move(why);
        fail();
    }
    // Begins a value inside of one of its own type, such as the teacher of a teacher; false if it is too deep.
    bool descend() {
        constexpr int kDeepest = 8;
        if (++depth_ > kDeepest) refuse(corrupt("a composition inside of too many others"));
        return depth_ <= kDeepest;
    }
    void ascend() { --depth_; }
    // Fails unless everything was read and nothing follows. sender: "the worker process".
    Status finish(const char* sender) const {
        HK_TRY(problem_.with_context(sender));
        return WireReader::finish(sender);
    }

private:
    const Registry* registry_ = nullptr;
    std::deque<std::vector<hk_column>> columns_;
    Status problem_;
    int depth_ = 0;
};

// The members of the structs that cross, in the order in which they are written and read.
template<class S, class T>
concept MaybeConst = std::same_as<std::remove_const_t<S>, T>;
auto members(MaybeConst<PartSpec> auto& s) { return std::tie(s.id, s.config); }
auto members(MaybeConst<AdapterSpec> auto& s) { return std::tie(s.name, s.part, s.trained); }
auto members(MaybeConst<PartsSpec::Head> auto& s) { return std::tie(s.part, s.plugin, s.asked_for); }
auto members(MaybeConst<PartsSpec> auto& s) {
    return std::tie(s.architecture, s.objective, s.adapters, s.combination, s.combiners, s.optimizers, s.heads,
                    s.teacher, s.value);
}
auto members(MaybeConst<ReadKeys> auto& s) {
    return std::tie(s.architecture, s.objective, s.adapters, s.combiners, s.heads, s.optimizers, s.teacher, s.value);
}
auto members(MaybeConst<BuildRequest> auto& s) {
    return std::tie(s.mode, s.fields, s.ports, s.all_ports, s.body_frozen, s.objective, s.calls, s.cache_capacity,
                    s.merged, s.merge_pairs, s.initial);
}
auto members(MaybeConst<BatchField> auto& s) { return std::tie(s.name, s.kind, s.shape); }
auto members(MaybeConst<Described> auto& s) { return std::tie(s.graph, s.parts, s.sites); }
auto members(MaybeConst<GraphPart> auto& s) { return std::tie(s.what, s.manifest, s.first, s.end); }
auto members(MaybeConst<Site> auto& s) {
    return std::tie(s.kind, s.name, s.parameter, s.bias, s.in, s.out, s.index, s.flags, s.trained, s.input_first,
                    s.wanted);
}
auto members(MaybeConst<VirtualTokens> auto& s) { return std::tie(s.count, s.hidden, s.without_positions); }
auto members(MaybeConst<ColumnNeed> auto& s) { return std::tie(s.name, s.kind, s.optional, s.target); }
auto members(MaybeConst<OptimizedParameter> auto& s) { return std::tie(s.shape, s.flags); }
auto members(MaybeConst<UpdateState> auto& s) { return std::tie(s.name, s.shape, s.initial); }
auto members(MaybeConst<UpdateGraph> auto& s) { return std::tie(s.graph, s.states); }

// Return why a struct that was read cannot be; empty if it can. Structs without one can have any values.
std::string problem_of(const Described& described);
std::string problem_of(const ColumnNeed& need);

// put() writes a value, get() reads it back. Of a graph, put() also writes where plugins' kernels are in source files,
// for messages. Of an hk_example, get() gives one that points into the message and the reader.
void put(MessageWriter& out, const graph::Graph& graph);
void put(MessageWriter& out, const graph::Shape& shape);
void put(MessageWriter& out, const nlohmann::json& value);
void put(MessageWriter& out, const nlohmann::ordered_json& value);
void put(MessageWriter& out, const hk_example& example);
void get(MessageReader& in, graph::Graph& graph);
void get(MessageReader& in, graph::Shape& shape);
void get(MessageReader& in, graph::Kind& kind);
void get(MessageReader& in, nlohmann::json& value);
void get(MessageReader& in, nlohmann::ordered_json& value);
void get(MessageReader& in, hk_example& example);

inline void put(MessageWriter& out, bool value) { out.flag(value); }
inline void put(MessageWriter& out, double value) { out.real(value); }
inline void put(MessageWriter& out, graph::Kind kind) { out.integer(static_cast<int64_t>(kind)); }
inline void put(MessageWriter& out, const std::string& value) { out.text(value); }
void put(MessageWriter& out, std::signed_integral auto value) { out.integer(value); }
void put(MessageWriter& out, std::unsigned_integral auto value) { out.number(value); }
inline void get(MessageReader& in, bool& value) { value = in.flag(); }
inline void get(MessageReader& in, double& value) { value = in.real(); }
inline void get(MessageReader& in, std::string& value) { value = in.text(); }
template<std::integral T>
void get(MessageReader& in, T& value) {
    const auto wide = [&] {
        if constexpr (std::signed_integral<T>)
            return in.integer();
        else
            return in.number();
    }();
    if (!std::in_range<T>(wide)) return in.refuse(corrupt("a number that is too large"));
    value = static_cast<T>(wide);
}

template<class T>
void put(MessageWriter& out, const std::vector<T>& list) {
    out.number(list.size());
    for (const T& value : list) put(out, value);
}
template<class T>
void get(MessageReader& in, std::vector<T>& list) {
    list.resize(in.count());
    for (T& value : list) get(in, value);
}

inline void put(MessageWriter& out, const std::set<std::string>& texts) {
    out.number(texts.size());
    for (const std::string& text : texts) out.text(text);
}
inline void get(MessageReader& in, std::set<std::string>& texts) {
    for (std::size_t left = in.count(); left > 0; --left) texts.emplace(in.text());
}

template<class T>
void put(MessageWriter& out, const std::optional<T>& value) {
    out.flag(value.has_value());
    if (value) put(out, *value);
}
template<class T>
void get(MessageReader& in, std::optional<T>& value) {
    if (in.flag()) get(in, value.emplace());
}

template<class T>
void put(MessageWriter& out, const std::shared_ptr<const T>& value) {
    out.flag(value != nullptr);
    if (value != nullptr) put(out, *value);
}
template<class T>
void get(MessageReader& in, std::shared_ptr<const T>& value) {
    if (!in.flag() || !in.descend()) return;
    T inner;
    get(in, inner);
    value = std::make_shared<const T>(std::move(inner));
    in.ascend();
}

template<class T>
requires requires(const T& value) { members(value); }
void put(MessageWriter& out, const T& value) {
    std::apply([&](const auto&... member) { (put(out, member), ...); }, members(value));
}
template<class T>
requires requires(T& value) { members(value); }
void get(MessageReader& in, T& value) {
    std::apply([&](auto&... member) { (get(in, member), ...); }, members(value));
    if constexpr (requires { problem_of(value); })
        if (const std::string problem = problem_of(value); in.ok() && !problem.empty()) in.refuse(corrupt(problem));
}

} // namespace hekla::plugin
