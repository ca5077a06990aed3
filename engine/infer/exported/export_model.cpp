// export_model(): stores in advance everything that the engine requests from a model's plugins and the shader compiler.
#include "generate/decoder_graph.hpp"
#include "generate/decoder_program.hpp"
#include "gpu/glsl.hpp"
#include "graph/passes/decode_mode.hpp"
#include "graph/text.hpp"
#include "graph/text_form/sized_text.hpp"
#include "infer/exported/exported_model.hpp"
#include "infer/open/base_model.hpp"
#include "infer/open/open_model.hpp"
#include "infer/open/sentence_modules.hpp"
#include "infer/passes/forward.hpp"
#include "infer/texts/prompt_fields.hpp"
#include "infer/texts/prompt_style.hpp"
#include "model/auxiliary_files.hpp"
#include "model/finite.hpp"
#include "model/folder.hpp"
#include "plugin/composition/compose.hpp"
#include "plugin/composition/model_names.hpp"
#include "plugin/process/stored_plugins.hpp"
#include "program/estimate.hpp"
#include "program/parameter_store.hpp"
#include "program/speed.hpp"
#include "text/files/tokenizer_files.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <optional>
#include <set>

namespace hekla::infer {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using plugin::GraphFamily;
using program::Storage;

constexpr int64_t kMostRows = 65536;
constexpr int kMostParts = 16;                           // of a graph that changes at certain sizes
constexpr std::size_t kMostText = std::size_t{16} << 20; // of a graph, if no length was requested
constexpr int64_t kFewestTokens = 64;                    // minimum length, however long the text is

// Classes of devices for which lowering generates different kernels: a GPU, a CPU, and Mesa's own with 4, 8 or 16
// lanes.
std::vector<program::Limits> tiers() {
    std::vector<program::Limits> all;
    const auto add = [&](bool cpu, bool uniform_loads, uint32_t lanes) {
        program::Limits limits;
        limits.cpu = cpu;
        limits.uniform_loads = uniform_loads;
        limits.subgroup_size = lanes;
        limits.storage16 = true;
        limits.chains = false; // their text depends on the number of lanes and on which dispatches are small
        all.push_back(limits);
    };
    add(false, false, 32);
    add(true, false, 8);
    for (const uint32_t lanes : {4u, 8u, 16u}) add(true, true, lanes);
    return all;
}

// Returns the values of a size at which a graph is described: the first two define the text, all others are compared
// with it.
std::vector<int64_t> sampled(const GraphFamily::Size& size) {
    std::vector<int64_t> values;
    const auto add = [&](int64_t value) {
        const bool fits = value >= size.least && value <= size.most;
        if (fits && std::ranges::find(values, value) == values.end()) values.push_back(value);
    };
    const int64_t first = std::max<int64_t>(size.least, 2);
    add(first);
    add(first + 1);
    for (const int64_t value : {1, 4, 5, 7, 8, 15, 16, 17, 32, 64, 100, 128, 500}) add(value);
    if (size.most < kMostRows) add(size.most);
    return values;
}

// Returns combinations: every size at its first two values, then each at every value with the others' first, then all
// at once.
std::vector<std::vector<int64_t>> sampled(const std::vector<GraphFamily::Size>& sizes) {
    std::vector<std::vector<int64_t>> values, all;
    for (const GraphFamily::Size& size : sizes) values.push_back(sampled(size));
    std::size_t longest = 0;
    for (std::size_t corner = 0; corner < std::size_t{1} << sizes.size(); ++corner) {
        std::vector<int64_t>& one = all.emplace_back();
        for (std::size_t i = 0; i < sizes.size(); ++i) one.push_back(values[i][corner >> i & 1]);
    }
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        longest = std::max(longest, values[i].size());
        for (const int64_t value : values[i]) all.emplace_back(all[0])[i] = value;
    }
    for (std::size_t k = 0; k < longest; ++k) {
        std::vector<int64_t>& one = all.emplace_back();
        for (const std::vector<int64_t>& of_one : values) one.push_back(of_one[std::min(k, of_one.size() - 1)]);
    }
    return all;
}

// A head of the model and all its graphs.
struct Head {
    Model model;
    std::vector<GraphFamily> families;
    std::vector<std::string> texts; // in the order of the families
    graph::Graph smallest;
    Status not_of_tokens;                      // why it does not read rows of tokens
    std::optional<SlotOptions> slots;          // rows choose adapters in slots
    std::vector<plugin::StoredTensor> tensors; // of the folder
};

class Exporter {
public:
    Exporter(const plugin::Registry& registry, const ExportOptions& options, const Log& log)
        : registry_(registry), options_(options), log_(log) {}

    // Opens the model and describes everything.
    Status describe(const fs::path& folder) {
        if (options_.length < 0)
            return invalid_argument(fmt::format("a longest row of {} tokens: 1 or more", options_.length));
        HK_TRY(open(folder, ""));
        HK_TRY(take(embedding(*heads_[0]), "embed"));
        if (heads_[0]->model.composition->head() != "lm") {
            const Status opened = open(folder, "lm");
            if (!opened.ok()) heads_.resize(1);
            HK_TRY(take(opened.ok() ? generation(*heads_[1]) : opened, "generate"));
            if (report_.can.empty() || report_.can.back() != "generate") heads_.resize(1);
        } else {
            HK_TRY(take(generation(*heads_[0]), "generate"));
        }
        if (options_.slots.count > 0) HK_TRY(slots(folder));
        HK_ASSIGN(const std::optional<SentenceModules> modules, read_sentence_modules(folder, false));
        has_modules_ = modules.has_value();
        if (has_modules_)
            report_.left_out.emplace_back("pooling by modules.json", "the file gives hidden states, which --pooling "
                                                                     "first, last or mean makes one vector of");
        report_.left_out.emplace_back("predict, eval and train", "what they need of plugins is code");
        if (!report_.can.empty()) return {};
        std::string why;
        for (const auto& [what, reason] : report_.left_out) why += fmt::format("\n  {}: {}", what, reason);
        return unsupported(fmt::format("{}: nothing of this model can be exported:{}", folder.string(), why));
    }

    Result<ExportReport> write(gpu::GlslCompiler& compiler, const fs::path& file) {
        const Model& model = heads_[0]->model;
        ExportedContents contents;
        json& manifest = contents.manifest;
        manifest["version"] = options_.version;
        manifest["architecture"] = model.composition->architecture().id;
        manifest["config"] = model.config;
        if (model.generation.values != model.config) manifest["generation"] = model.generation.values;
        manifest["length"] = report_.length;
        manifest["can"] = report_.can;
        manifest["both_sides"] = style_.both_sides;
        manifest["begin"] = style_.begin;
        manifest["source"] = source_;
        if (has_modules_) manifest["modules_left_out"] = true;
        if (report_.slots) {
            HK_ASSIGN(const nlohmann::ordered_json body, base_of(model.path));
            manifest["weights"] = body.at("weights");
        }
        HK_TRY(add_tokenizer(model, contents));
        add_graphs(contents);
        HK_TRY(add_kernels(compiler, contents));
        add_tensors(contents);
        HK_TRY(write_exported_file(file, std::move(contents)));
        std::error_code ignored;
        report_.bytes = fs::file_size(file, ignored);
        return report_;
    }

private:
    Status open(const fs::path& folder, const std::string& head, const SlotOptions& slots = {}) {
        auto one = std::make_unique<Head>();
        ModelOptions options;
        options.head = head;
        options.slots = slots;
        if (slots.count > 0) one->slots = slots;
        options.tokenizer_required = false;
        HK_ASSIGN(one->model, describe_model(registry_, folder, options, log_));
        if (one->model.exported != nullptr)
            return invalid_argument(fmt::format("{}: is exported already: give the model's folder", folder.string()));
        if (!one->model.composition->invocations().empty())
            return unsupported(fmt::format("{}: the adapter has {}, and a file has no form of it", folder.string(),
                                           plugin::kInvocationTokens));
        if (one->model.composition->virtual_tokens().count > 0) // rows of an exported model begin with their own tokens
            return unsupported(
                fmt::format("{}: a model with an adapter's virtual tokens (prompt or prefix tuning) cannot "
                            "be exported: use the adapter's folder itself",
                            folder.string()));
        HK_ASSIGN(one->smallest, describe_smallest(one->model));
        if (!folder_) {
            HK_ASSIGN(folder_, model::ModelFolder::open(one->model.path));
            HK_ASSIGN(base_, open_base(one->model.config, one->model.path));
        }
        const plugin::NameRules& names = one->model.composition->architecture().names;
        if (one->slots) { // no folder has their matrices, and the others were found before
            one->not_of_tokens = add_smallest(*one);
            heads_.push_back(std::move(one));
            return {};
        }
        HK_ASSIGN(one->tensors,
                  base_ ? find_with_base(one->smallest, folder_->weights(), base_->weights(), names)
                        : plugin::find_tensors(one->smallest, folder_->weights(),
                                               plugin::model_rules(names, one->model.composition->head().empty())));
        for (const plugin::StoredTensor& tensor : one->tensors) {
            if (options_.allow_non_finite || tensor.tensor.buffer) continue; // masks contain infinities by design
            if (const Status finite = model::check_finite(*tensor.stored); !finite.ok())
                return corrupt(fmt::format("{}: {}; --allow-non-finite writes it all the same",
                                           folder_->weights().path().string(), finite.message()));
        }
        one->not_of_tokens = add_smallest(*one);
        heads_.push_back(std::move(one));
        return {};
    }

    // Records whether the model supports something. An unsupported length ends the export.
    Status take(const Status& status, const std::string& what) {
        if (status.ok()) {
            report_.can.push_back(what);
            return {};
        }
        HK_TRY(too_long_);
        report_.left_out.emplace_back(what, status.message());
        return {};
    }

    // Adds features: rows of tokens, with a mask if the model reads one.
    Status embedding(Head& head) {
        HK_TRY(head.not_of_tokens);
        const plugin::Composition& composition = *head.model.composition;
        const auto row = [](const char* name, int64_t length) {
            return plugin::BatchField{name, graph::Kind::int32, graph::Shape{1, length}};
        };
        const std::vector<plugin::BatchField> fields{row("input_ids", 1), row("attention_mask", 1)};
        HK_ASSIGN(const graph::Graph both, composition.build(HK_MODE_EVALUATE, fields));
        if (both.find_leaf(graph::Op::input, "input_ids") == graph::kNone)
            return unsupported("the model reads no tokens, and graphs are exported for rows of these");
        if (report_.length == 0) {
            HK_ASSIGN(report_.length, longest([&](int64_t length) {
                          return composition.check(HK_MODE_EVALUATE, std::vector{row("input_ids", length)});
                      }));
            // If rows have no length limit, tables of all distances would make long texts.
            const bool endless =
                options_.length == 0 &&
                composition.check(HK_MODE_EVALUATE, std::vector{row("input_ids", 2 * kUsualLength)}).ok();
            while (endless && report_.length > kFewestTokens) {
                HK_ASSIGN(const graph::Graph longest,
                          composition.build(HK_MODE_EVALUATE, std::vector{row("input_ids", report_.length)}));
                if (graph::print(longest).size() <= kMostText) break;
                report_.length /= 2;
            }
        }
        const std::vector<std::string> shape{"rows", "tokens"};
        const GraphFamily::Field ids{"input_ids", graph::Kind::int32, shape},
            mask{"attention_mask", graph::Kind::int32, shape};
        HK_TRY(add_family(head, HK_MODE_EVALUATE, {ids}, sizes_of_rows(report_.length)));
        HK_TRY(add_family(head, HK_MODE_EVALUATE, {ids, mask}, sizes_of_rows(report_.length)));

        const bool masked = both.find_leaf(graph::Op::input, "attention_mask") != graph::kNone;
        HK_ASSIGN(const std::vector<std::string> ports, port_names(head.model, fields_of(1, 1, masked)));
        return on_every_tier(head, {Storage::f32}, [&](program::Estimator& estimator) -> Status {
            for (const int64_t rows : {1, 8})
                for (const int64_t length : {1, 3, 8, 16, 20})
                    for (const std::string& port : ports)
                        if (length <= report_.length)
                            HK_TRY(Forward::estimate(estimator, head.model, fields_of(rows, length, masked), {port},
                                                     false));
            return {};
        });
    }

    // Adds the graphs of generation whose rows choose adapters in slots.
    Status slots(const fs::path& folder) {
        if (report_.can.empty() || report_.can.back() != "generate") {
            const auto why =
                std::ranges::find(report_.left_out, "generate", &std::pair<std::string, std::string>::first);
            return unsupported(fmt::format("{}: adapter slots are for generation, to which it cannot be exported: {}",
                                           folder.string(), why->second));
        }
        SlotOptions all = options_.slots;
        if (all.rank == 0) all.rank = kSlotRank;
        if (all.targets.empty()) all.targets = kAllLinear;
        const auto with_slots = [&]() -> Status {
            HK_TRY(open(folder, "lm", all));
            return generation(*heads_.back());
        };
        HK_TRY(with_slots().with_context(folder.string() + ": adapter slots"));
        ExportedSlots made{all};
        const std::vector<program::ParameterEntry> table = program::parameter_table(heads_.back()->smallest);
        std::vector<program::ParameterEntry> body;
        program::StoreOptions own;
        for (const program::ParameterEntry& entry : table) {
            if (!entry.name.starts_with(plugin::kAdapter)) {
                body.push_back(entry);
                continue;
            }
            own.own.insert(entry.name);
            made.modules += entry.name.ends_with(".lora_A.weight") ? 1 : 0;
        }
        HK_TRY(check_slots_exist(folder.string(), made.modules));
        HK_ASSIGN(const uint64_t with, weights_of(table, own));
        HK_ASSIGN(const uint64_t without, weights_of(body, {}));
        made.bytes = with - without;
        report_.slots = made;
        return {};
    }

    // Returns the device memory of parameters.
    static Result<uint64_t> weights_of(const std::vector<program::ParameterEntry>& table,
                                       const program::StoreOptions& options) {
        const program::Limits limits = tiers().front();
        HK_ASSIGN(const program::Target target,
                  program::described_target(limits, program::speed_of(limits), uint64_t{1} << 40, true));
        program::Estimator estimator(target);
        HK_TRY(estimator.add_store(table, options));
        return estimator.finish().weights;
    }

    static Tensors fields_of(int64_t rows, int64_t length, bool masked) {
        const graph::Shape shape{rows, length};
        const graph::Tensor one{graph::Kind::int32, shape,
                                std::vector<double>(static_cast<std::size_t>(shape.elements()))};
        Tensors fields{{"input_ids", one}};
        if (masked) fields.emplace("attention_mask", one);
        return fields;
    }

    Status generation(Head& head) {
        HK_TRY(head.not_of_tokens);
        const plugin::Composition& composition = *head.model.composition;
        HK_ASSIGN(const generate::DecoderGraphs graphs, generate::DecoderGraphs::create(composition));
        const bool encodes = graphs.encoder_decoder();
        std::vector<std::string> sources; // fields of the encoder
        if (encodes) {
            HK_ASSIGN(const SourceLayout layout, source_layout([&](std::span<const std::vector<int32_t>> texts) {
                          return source_fields(registry_, head.model, texts);
                      }));
            for (const SourceLayout::Field& field : layout.fields) sources.push_back(field.name);
            source_ = layout_json(layout);
        } else {
            HK_ASSIGN(style_, prompt_style(registry_, head.model));
        }
        HK_ASSIGN(const int64_t length,
                  longest([&](int64_t n) { return graphs.check_length(n, source_tensors(head, sources, 1, n)); }));
        report_.length = report_.length == 0 ? length : std::min(length, report_.length);
        HK_TRY(add_turns(head, graphs, sources));
        // Rows of different lengths get a mask if the objective creates none.
        const bool masked = std::ranges::find(sources, "attention_mask") != sources.end();
        if (encodes && !masked) {
            std::vector<std::string> with_mask = sources;
            with_mask.emplace_back("attention_mask");
            HK_TRY(add_turns(head, graphs, with_mask));
        }
        return on_every_tier(
            head, {Storage::f32, Storage::f16, Storage::bf16}, [&](program::Estimator& estimator) -> Status {
                for (const int64_t rows : {1, 2, 3, 4, 8}) {
                    for (int64_t capacity = generate::capacity_for(1);; capacity *= 2) {
                        generate::DecodeBatch session;
                        session.rows = rows;
                        session.length = std::min(capacity, report_.length);
                        session.sources = source_tensors(head, sources, rows, std::min(capacity + 1, report_.length));
                        if (style_.both_sides) session.prompt_chunk = session.length;
                        HK_TRY(generate::estimate_decoder(estimator, composition, session));
                        if (capacity >= report_.length) break;
                    }
                }
                return {};
            });
    }

    static GraphFamily::Field one_token(const char* name) { return {name, graph::Kind::int32, {"1", "1"}}; }

    // Adds the graph of describe_smallest().
    Status add_smallest(Head& head) {
        return add_family(head, HK_MODE_EVALUATE, {one_token("input_ids"), one_token("decoder_input_ids")}, {});
    }

    // Adds the graphs of DecoderGraphs::create(), of the encoder's pass and of the decoder's steps.
    Status add_turns(Head& head, const generate::DecoderGraphs& graphs, const std::vector<std::string>& sources) {
        std::vector<GraphFamily::Field> fields;
        for (const std::string& name : sources) fields.push_back({name, graph::Kind::int32, {"rows", "source"}});
        if (head.slots)
            for (const auto& [name, tensor] : slot_fields(1)) fields.push_back({name, tensor.kind, {"rows"}});
        fields.push_back({graphs.token_field(), graph::Kind::int32, {"rows", "tokens"}});
        std::vector<GraphFamily::Size> sizes = sizes_of_rows(report_.length);
        if (!sources.empty()) sizes.push_back({"source", 1, report_.length});
        HK_TRY(add_family(head, HK_MODE_DECODE, {one_token("input_ids"), one_token("decoder_input_ids")}, {}));
        HK_TRY(add_family(head, HK_MODE_ENCODE, fields, sizes));
        if (graphs.recurrent()) sizes[1].most = 1; // one token per step
        return add_family(head, HK_MODE_DECODE, fields, sizes);
    }

    static generate::Fields source_tensors(const Head& head, const std::vector<std::string>& names, int64_t rows,
                                           int64_t length) {
        generate::Fields fields;
        if (head.slots) fields = slot_fields(rows);
        for (const std::string& name : names)
            fields[name] = graph::Tensor{graph::Kind::int32, graph::Shape{rows, length},
                                         std::vector<double>(static_cast<std::size_t>(rows * length))};
        return fields;
    }

    template<class Check>
    Result<int64_t> longest(const Check& check) {
        HK_TRY(check(1));
        if (options_.length > 0) {
            too_long_ = check(options_.length);
            HK_TRY(too_long_);
            return options_.length;
        }
        if (check(kUsualLength).ok()) return kUsualLength;
        int64_t fits = 1, too_long = kUsualLength;
        while (too_long - fits > 1) {
            const int64_t middle = fits + (too_long - fits) / 2;
            (check(middle).ok() ? fits : too_long) = middle;
        }
        return fits;
    }

    static std::vector<GraphFamily::Size> sizes_of_rows(int64_t length) {
        return {{"rows", 1, kMostRows}, {"tokens", 1, length}};
    }

    // Adds one text for all of these sizes, or several, if the graph is different for one row or one token, or from the
    // length on at which a table of distances stops growing.
    Status add_family(Head& head, int32_t mode, const std::vector<GraphFamily::Field>& fields,
                      const std::vector<GraphFamily::Size>& sizes) {
        GraphFamily family = family_of(mode, fields, sizes);
        Result<std::string> text = text_of(head, family);
        if (text.ok()) {
            head.families.push_back(std::move(family));
            head.texts.push_back(text.take());
            return {};
        }
        for (std::size_t i = 0; i < sizes.size(); ++i) {
            if (sizes[i].least != 1 || sizes[i].most == 1) continue;
            return add_parts(head, mode, fields, sizes, i, 1);
        }
        for (std::size_t i = 0; i < sizes.size() && parts_ < kMostParts; ++i) {
            const int64_t least = sizes[i].least;
            // Finds the greatest value that one text covers; with only two samples any numbers would match.
            std::vector<GraphFamily::Size> part = sizes;
            part[i].most = least + 2;
            if (part[i].most >= sizes[i].most || !text_of(head, family_of(mode, fields, part)).ok()) continue;
            int64_t serves = part[i].most, too_far = sizes[i].most;
            while (too_far - serves > 1) {
                part[i].most = serves + (too_far - serves) / 2;
                const bool one_text = text_of(head, family_of(mode, fields, part)).ok();
                (one_text ? serves : too_far) = part[i].most;
            }
            ++parts_;
            return add_parts(head, mode, fields, sizes, i, serves);
        }
        return text.status();
    }

    // Calls add_family() for sizes up to this value of one of them, and for sizes above it.
    Status add_parts(Head& head, int32_t mode, const std::vector<GraphFamily::Field>& fields,
                     std::vector<GraphFamily::Size> sizes, std::size_t i, int64_t value) {
        const int64_t most = sizes[i].most;
        sizes[i].most = value;
        HK_TRY(add_family(head, mode, fields, sizes));
        sizes[i].least = value + 1;
        sizes[i].most = most;
        return add_family(head, mode, fields, sizes);
    }

    static GraphFamily family_of(int32_t mode, const std::vector<GraphFamily::Field>& fields,
                                 const std::vector<GraphFamily::Size>& sizes) {
        GraphFamily family;
        family.mode = mode;
        family.fields = fields;
        for (const GraphFamily::Size& size : sizes) {
            if (size.least < size.most) {
                family.sizes.push_back(size);
                continue;
            }
            for (GraphFamily::Field& field : family.fields)
                std::ranges::replace(field.shape, size.name, std::to_string(size.least));
        }
        return family;
    }

    // Tables of positions end at the length that the file is for.
    Result<std::string> text_of(const Head& head, const GraphFamily& family) const {
        const bool encodes = family.mode == HK_MODE_ENCODE; // then everything after the encoder is not needed
        std::vector<graph::SizedText> texts;
        for (std::vector<int64_t>& at : sampled(family.sizes)) {
            HK_ASSIGN(graph::Graph graph, head.model.composition->build(family.mode, family.fields_at(at), {},
                                                                        /*all_ports=*/!encodes, -1, report_.length));
            if (encodes) { HK_ASSIGN(graph, graph::encoding_part(graph)); }
            texts.push_back({std::move(at), graph::print(graph)});
            // For a graph that is unrolled token by token, this fails with the small sizes, before the large ones are
            // built.
            if (texts.size() == std::size_t{1} << family.sizes.size()) HK_TRY(graph::open_text(texts).status());
        }
        return graph::open_text(texts);
    }

    // Records the kernels of everything that `add` adds.
    template<class Add>
    Status on_every_tier(const Head& head, std::initializer_list<Storage> storages, const Add& add) {
        const std::vector<program::ParameterEntry> table = program::parameter_table(head.smallest);
        for (const program::Limits& limits : tiers()) {
            HK_ASSIGN(const program::Target target,
                      program::described_target(limits, program::speed_of(limits), uint64_t{1} << 40, true));
            for (const Storage weights : storages) {
                program::Estimator estimator(target);
                HK_TRY(estimator.add_store(table, {.weights = weights}));
                HK_TRY(add(estimator));
                sources_.insert(estimator.sources().begin(), estimator.sources().end());
            }
        }
        return {};
    }

    Status add_tokenizer(const Model& model, ExportedContents& contents) {
        json& names = contents.manifest["tokenizer"] = json::array();
        if (model.tokenizer == nullptr) {
            report_.left_out.emplace_back("a tokenizer", model.tokenizer_problem.message());
            return {};
        }
        const FilePlace folder(model.path);
        HeldFiles held;
        for (const std::string& name : text::tokenizer_files_in(folder)) {
            HK_ASSIGN(std::string content, (folder / name).read());
            HK_TRY(model::check_auxiliary(model.path / name, content));
            names.push_back(name);
            held[name] = contents.contents["tokenizer/" + name] = std::move(content);
        }
        HK_ASSIGN(const std::unique_ptr<text::Tokenizer> again, text::load_tokenizer(FilePlace(held, model.path)));
        if (again->hash() == model.tokenizer->hash()) return {};
        return internal_error(fmt::format("{}: its tokenizer would become another one", model.path.string()));
    }

    void add_graphs(ExportedContents& contents) {
        json& heads = contents.manifest["heads"] = json::array();
        std::map<std::string_view, std::string> known; // text -> name
        for (const std::unique_ptr<Head>& head : heads_) {
            json graphs = json::array();
            for (std::size_t i = 0; i < head->families.size(); ++i) {
                const auto [at, fresh] = known.emplace(head->texts[i], fmt::format("graphs/{}", known.size()));
                if (fresh) contents.contents[at->second] = head->texts[i];
                graphs.push_back(plugin::family_json(head->families[i]));
                graphs.back()["text"] = at->second;
            }
            heads.push_back({{"head", head->model.composition->head()}, {"graphs", graphs}});
            if (head->slots)
                heads.back()["slots"] = {
                    {"count", head->slots->count}, {"rank", head->slots->rank}, {"targets", head->slots->targets}};
        }
        report_.graphs = known.size();
    }

    Status add_kernels(gpu::GlslCompiler& compiler, ExportedContents& contents) {
        json& names = contents.manifest["kernels"] = json::object();
        for (const auto& [shader, source] : sources_) {
            HK_ASSIGN(const gpu::Shader compiled, compiler.compile(shader, source));
            const std::string name = fmt::format("kernels/{}", names.size());
            contents.contents[name].assign(reinterpret_cast<const char*>(compiled.words().data()),
                                           compiled.words().size_bytes());
            names[shader] = name;
        }
        report_.kernels = sources_.size();
        return {};
    }

    void add_tensors(ExportedContents& contents) {
        std::set<std::string> known;
        for (const std::unique_ptr<Head>& head : heads_) {
            for (const plugin::StoredTensor& tensor : head->tensors) {
                if (!known.insert(tensor.tensor.name).second) continue;
                contents.tensors.push_back(*tensor.stored);
                contents.tensors.back().name = tensor.tensor.name;
            }
        }
        report_.tensors = known.size();
    }

    const plugin::Registry& registry_;
    const ExportOptions& options_;
    const Log& log_;
    std::optional<model::ModelFolder> folder_, base_; // of an adapter: the model whose body it was trained with
    std::vector<std::unique_ptr<Head>> heads_;        // the model's own first
    PromptStyle style_;
    json source_;                                // layout_json()
    Status too_long_;                            // the requested length
    bool has_modules_ = false;                   // a folder of sentence-transformers
    int parts_ = 0;                              // number of splits so far
    std::map<std::string, std::string> sources_; // GLSL by program::Dispatch::shader
    ExportReport report_;
};

} // namespace

Result<ExportReport> export_model(const plugin::Registry& registry, gpu::GlslCompiler& compiler, const fs::path& folder,
                                  const fs::path& file, const ExportOptions& options, const Log& log) {
    Exporter exporter(registry, options, log);
    HK_TRY(exporter.describe(folder));
    return exporter.write(compiler, file);
}

} // namespace hekla::infer
