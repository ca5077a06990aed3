// hekla embed: features from any named point of a network, through hekla.h as any host would.
#include "adapter_option.hpp"
#include "base/interrupts.hpp"
#include "base/json.hpp"
#include "command.hpp"
#include "numpy.hpp"
#include "output.hpp"
#include "similarity.hpp"
#include "word_vectors.hpp"

#include "base/file.hpp"
#include "infer/open/weights_folder.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fmt/format.h>
#include <fmt/printf.h>

namespace hekla::app {
namespace {

using nlohmann::json;

struct EmbedArguments {
    std::vector<std::string> adapters;
    std::string model, file, fields, pairs, format, output, port = "hidden", pooling = "model", prompt;
    std::vector<std::string> texts, nearest, columns;
    int64_t batch = 8, neighbors = 10;
    bool reference = false, json = false, plain = false;
};

struct Item {
    std::string text;
    std::vector<int32_t> ids; // given instead of text
};

struct Row {
    std::vector<int64_t> dims;
    std::vector<float> values;
};

// Reads one text per line; from .jsonl, one object per line with "text" or "input_ids".
Result<std::vector<Item>> read_items(const std::string& path) {
    HK_ASSIGN(const std::string content, read_file(path));
    std::vector<Item> items;
    const bool objects = path.ends_with(".jsonl");
    std::size_t begin = 0, number = 0;
    while (begin < content.size()) {
        std::size_t end = content.find('\n', begin);
        if (end == std::string::npos) end = content.size();
        std::string line = content.substr(begin, end - begin);
        begin = end + 1;
        ++number;
        if (!line.empty() && line.back() == '\r') line.pop_back();
        if (line.empty()) continue;
        if (!objects) {
            items.push_back({std::move(line), {}});
            continue;
        }
        const json object = json_or_null(line);
        const auto text = object.is_object() ? object.find("text") : object.end();
        const auto ids = object.is_object() ? object.find("input_ids") : object.end();
        const bool all_ids =
            ids != object.end() && ids->is_array() && !ids->empty() && std::ranges::all_of(*ids, [](const json& id) {
                return id.is_number_integer() && id >= 0 && id <= INT32_MAX;
            });
        if (text != object.end() && text->is_string())
            items.push_back({text->get<std::string>(), {}});
        else if (all_ids)
            items.push_back({{}, ids->get<std::vector<int32_t>>()});
        else
            return invalid_argument(fmt::format(
                "{}:{}: expected an object with \"text\": a string, or \"input_ids\": a list of ids", path, number));
    }
    if (items.empty()) return invalid_argument(fmt::format("{}: contains no text", path));
    const bool given = !items[0].ids.empty();
    for (const Item& item : items)
        if (given == item.ids.empty())
            return invalid_argument(
                fmt::format("{}: some lines have text and others input_ids; use one of them", path));
    return items;
}

// Formats one row as nested lists, each number with the fewest digits that read back exactly.
void print_nested(const Row& row, std::size_t axis, std::size_t& at, std::string& out) {
    if (axis == row.dims.size()) {
        const float value = row.values[at++];
        out += std::isfinite(value) ? fmt::format("{}", value) : "null";
        return;
    }
    out += '[';
    for (int64_t i = 0; i < row.dims[axis]; ++i) {
        if (i > 0) out += ',';
        print_nested(row, axis + 1, at, out);
    }
    out += ']';
}

std::string json_lines(const std::vector<Row>& rows, const std::vector<Item>& items) {
    std::string out;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        out += fmt::format("{{\"row\":{}", i);
        if (i < items.size() && items[i].ids.empty()) out += ",\"text\":" + json_line(items[i].text);
        out += ",\"embedding\":";
        std::size_t at = 0;
        print_nested(rows[i], 0, at, out);
        out += "}\n";
    }
    return out;
}

Result<std::string> one_array(const std::vector<Row>& rows) {
    std::vector<int64_t> dims{static_cast<int64_t>(rows.size())};
    std::vector<float> values;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        if (rows[i].dims != rows[0].dims)
            return invalid_argument(
                fmt::format("row {} has {} tokens and row 1 has {}, which do not fit in one array; pool "
                            "over tokens (--pooling mean) or write .jsonl",
                            i + 1, rows[i].dims[0], rows[0].dims[0]));
        values.insert(values.end(), rows[i].values.begin(), rows[i].values.end());
    }
    dims.insert(dims.end(), rows[0].dims.begin(), rows[0].dims.end());
    return numpy_file(dims, values);
}

// Reads the embedding table, [rows, width]: the port's value for any one token.
int read_table(const Globals& globals, const EmbedArguments& a, VectorTable& table) {
    const HostError error;
    HostContext context;
    if (const int code = context.create(globals, error); code != kDone) return code;
    const int32_t id = 0;
    const int32_t* ids = &id;
    const uint64_t length = 1;
    const std::vector<hk_string> adapters = host_strings(a.adapters);
    hk_embed_options options;
    hk_embed_defaults(&options);
    options.adapters = adapters.data();
    options.adapter_count = adapters.size();
    options.reference = a.reference ? 1 : 0;
    options.model = text(a.model);
    options.port = text("embedding.weight");
    options.pooling = HK_POOLING_NONE;
    options.rows = &ids;
    options.row_lengths = &length;
    options.row_count = 1;
    options.user = &table;
    options.row = [](void* user, uint64_t, const float* values, const int64_t* dims, uint32_t rank) -> int32_t {
        auto& into = *static_cast<VectorTable*>(user);
        if (rank != 2) return 1;
        into.rows = static_cast<std::size_t>(dims[0]);
        into.width = static_cast<std::size_t>(dims[1]);
        into.values.assign(values, values + into.rows * into.width);
        return 0;
    };
    if (hk_embed(context.context, &options, error.error) != HK_OK) return error.report();
    return kDone;
}

// Runs --nearest, or writes a .vec; both use the token embedding itself.
int run_table(const Globals& globals, const EmbedArguments& a) {
    const Result<std::filesystem::path> folder = infer::weights_folder(a.model);
    if (!folder.ok()) return fail(folder.status());
    const Result<std::unique_ptr<text::Tokenizer>> tokenizer = text::load_tokenizer(folder.value());
    if (!tokenizer.ok()) return fail(tokenizer.status());
    VectorTable table;
    if (const int code = read_table(globals, a, table); code != kDone) return code;
    if (a.nearest.empty()) {
        const Status written = write_output(a.output, word2vec_text(table, *tokenizer.value()));
        return written.ok() ? kDone : fail(written);
    }
    std::string out;
    for (const std::string& word : a.nearest) {
        const auto found = nearest(table, *tokenizer.value(), word, static_cast<std::size_t>(a.neighbors));
        if (!found.ok()) return fail(found.status());
        json neighbors = json::array();
        std::string line = word + ":";
        for (const Neighbor& one : found.value()) {
            neighbors.push_back({{"token", one.token}, {"cosine", one.cosine}});
            line += fmt::format(" {} {:.3f}", one.token, one.cosine);
        }
        out +=
            (a.json ? json{{"word", word}, {"nearest", neighbors}}.dump(-1, ' ', false, json::error_handler_t::replace)
                    : line) +
            "\n";
    }
    const Status written = write_output(a.output, out);
    return written.ok() ? kDone : fail(written);
}

// Computes the port's values for texts, for rows of ids, or for the fields of a file, one row each.
int embed(const Globals& globals, const EmbedArguments& a, const std::vector<Item>& items, std::vector<Row>& rows) {
    std::vector<hk_string> texts;
    std::vector<const int32_t*> ids;
    std::vector<uint64_t> lengths;
    for (const Item& item : items) {
        if (item.ids.empty()) {
            texts.push_back(text(item.text));
        } else {
            ids.push_back(item.ids.data());
            lengths.push_back(item.ids.size());
        }
    }
    const HostError error;
    HostContext context;
    if (const int code = context.create(globals, error); code != kDone) return code;
    rows.resize(items.size());
    const std::vector<hk_string> adapters = host_strings(a.adapters);
    hk_embed_options options;
    hk_embed_defaults(&options);
    options.adapters = adapters.data();
    options.adapter_count = adapters.size();
    options.reference = a.reference ? 1 : 0;
    options.model = text(a.model);
    options.port = text(a.port);
    options.pooling = a.pooling == "none"    ? HK_POOLING_NONE
                      : a.pooling == "first" ? HK_POOLING_FIRST
                      : a.pooling == "last"  ? HK_POOLING_LAST
                      : a.pooling == "mean"  ? HK_POOLING_MEAN
                                             : HK_POOLING_MODEL;
    options.prompt = text(a.prompt);
    options.batch = a.batch;
    options.plain_tokens = a.plain ? 1 : 0;
    options.texts = texts.data();
    options.text_count = texts.size();
    options.rows = ids.data();
    options.row_lengths = lengths.data();
    options.row_count = ids.size();
    options.fields_file = text(a.fields);
    options.user = &rows;
    options.row = [](void* user, uint64_t row, const float* values, const int64_t* dims, uint32_t rank) -> int32_t {
        auto& into = *static_cast<std::vector<Row>*>(user);
        if (row >= into.size()) into.resize(row + 1);
        Row& r = into[row];
        r.dims.assign(dims, dims + rank);
        int64_t count = 1;
        for (const int64_t d : r.dims) count *= d;
        r.values.assign(values, values + count);
        return interrupted() ? 1 : 0;
    };
    watch_interrupts(kStoppedEarly);
    return hk_embed(context.context, &options, error.error) == HK_OK ? kDone : error.report();
}

// Runs --pairs: the correlation between human scores and the cosine of two texts' features.
int run_pairs(const Globals& globals, const EmbedArguments& a) {
    if (!a.texts.empty() || !a.file.empty() || !a.fields.empty() || a.pooling == "none") {
        std::fprintf(stderr,
                     "hekla: error: --pairs takes its texts from its file, each as one vector: remove other texts "
                     "and --pooling none\n");
        return kUsage;
    }
    const Result<Pairs> pairs = read_pairs(a.pairs, a.format, a.columns);
    if (!pairs.ok()) return fail(pairs.status());
    std::vector<Item> items;
    for (const auto* side : {&pairs->first, &pairs->second})
        for (const std::string& one : *side) items.push_back({one, {}});
    std::vector<Row> rows;
    if (const int code = embed(globals, a, items, rows); code != kDone) return code;
    const std::size_t count = pairs->first.size();
    std::vector<double> cosines;
    for (std::size_t i = 0; i < count; ++i) cosines.push_back(cosine_of(rows[i].values, rows[count + i].values));
    const Result<Agreement> agreement = agreement_of(cosines, pairs->scores);
    if (!agreement.ok()) return fail(agreement.status());
    if (!a.output.empty()) {
        std::string lines;
        for (std::size_t i = 0; i < count; ++i) {
            json line{{"text_a", pairs->first[i]},
                      {"text_b", pairs->second[i]},
                      {"cosine", cosines[i]},
                      {"score", pairs->scores[i]}};
            lines += line.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
        }
        if (const Status written = write_output(a.output, lines); !written.ok()) return fail(written);
    }
    if (a.json)
        std::printf(
            "%s\n",
            json{{"pairs", count}, {"pearson", agreement->pearson}, {"spearman", agreement->spearman}}.dump().c_str());
    else
        fmt::printf("%zu pairs: pearson %.4f, spearman %.4f\n", count, agreement->pearson, agreement->spearman);
    return kDone;
}

int run_embed(const Globals& globals, const EmbedArguments& a) {
    if (!a.pairs.empty()) return run_pairs(globals, a);
    const bool table = !a.nearest.empty() || a.output.ends_with(".vec");
    if (table && a.texts.empty() && a.file.empty() && a.fields.empty()) return run_table(globals, a);
    if (table) {
        std::fprintf(stderr, "hekla: error: --nearest and a .vec file use the token embedding: remove the texts\n");
        return kUsage;
    }
    std::vector<Item> items;
    for (const std::string& text : a.texts) items.push_back({text, {}});
    if (!a.file.empty()) {
        Result<std::vector<Item>> read = read_items(a.file);
        if (!read.ok()) return fail(read.status());
        items = read.take();
    }
    if ((a.texts.empty() ? 0 : 1) + (a.file.empty() ? 0 : 1) + (a.fields.empty() ? 0 : 1) != 1) {
        std::fprintf(stderr, "hekla: error: give one of: texts, --file, --fields\n");
        return kUsage;
    }
    const bool numpy = a.output.ends_with(".npy");
    if (!a.output.empty() && !numpy && !a.output.ends_with(".jsonl")) {
        std::fprintf(stderr, "hekla: error: --output %s: expected a name that ends in .npy or .jsonl\n",
                     a.output.c_str());
        return kUsage;
    }
    std::vector<Row> rows;
    if (const int code = embed(globals, a, items, rows); code != kDone) return code;
    Result<std::string> content = numpy ? one_array(rows) : Result<std::string>(json_lines(rows, items));
    if (!content.ok()) return fail(content.status());
    const Status written = write_output(a.output, content.value());
    return written.ok() ? kDone : fail(written);
}

} // namespace

void add_embed(CLI::App& app, const Globals& globals, Verbs& verbs) {
    CLI::App* parser =
        app.add_subcommand("embed", "Compute features of texts at any named point of a model's network.");
    const auto a = std::make_shared<EmbedArguments>();
    parser->add_option("model", a->model, "folder of a run or model, or a file that `hekla export` wrote")->required();
    parser->add_option("texts", a->texts, "texts to embed");
    add_adapter_option(*parser, a->adapters);
    parser->add_option("--file", a->file,
                       "texts to embed: one per line, or .jsonl objects with \"text\" or \"input_ids\"");
    parser->add_option("--pairs", a->pairs,
                       "table of two texts and a score per row (text_a, text_b, score): prints the correlation of the "
                       "scores with the cosines of the features");
    parser->add_option("--format", a->format, "format of --pairs (default: by its name): tsv, csv, jsonl, ...");
    parser->add_option(
        "--column", a->columns,
        "which column of --pairs has which part: score=relatedness, score=4; may be given several times");
    parser->add_option("--fields", a->fields,
                       ".safetensors file with one batch of the model's fields (input_ids, pixel_values, ...)");
    parser
        ->add_option("--port", a->port,
                     "point of the network: hidden, layer.N.hidden, pooled, logits, ...; an unknown name lists all")
        ->capture_default_str();
    parser
        ->add_option(
            "--pooling", a->pooling,
            "how the features of a text's tokens become one vector; model: as a folder of sentence-transformers "
            "has it (modules.json), and the mean for other models; none: they do not")
        ->check(CLI::IsMember({"model", "mean", "first", "last", "none"}))
        ->capture_default_str();
    parser->add_option("--prompt-name", a->prompt,
                       "name of the text that a folder of sentence-transformers puts before every text, as query or "
                       "document; not given: its default one, if it has one");
    parser->add_flag("--no-special-tokens", a->plain,
                     "texts without the tokens that the tokenizer puts around them, such as [CLS] and [SEP]");
    parser->add_option("--batch", a->batch, "rows per batch")->check(CLI::Range(1, 1 << 16))->capture_default_str();
    parser->add_option("--nearest", a->nearest, "words whose nearest tokens by cosine are printed");
    parser->add_option("--neighbors", a->neighbors, "nearest tokens per word")
        ->check(CLI::Range(1, 1 << 20))
        ->capture_default_str();
    parser->add_flag("--json", a->json, "print the result of --nearest or --pairs as JSON");
    parser->add_option("-o,--output", a->output,
                       "file to write: .npy, .jsonl, or .vec for the vectors of all tokens in word2vec's text format "
                       "(default: JSON lines on standard output)");
    parser->add_flag("--reference", a->reference, "compute with the float64 interpreter instead of the device (slow)");
    parser->footer("Example: hekla embed out/quickstart --file sentences.txt --port layer.2.hidden -o features.npy");
    verbs.push_back({parser, [&globals, a] { return run_embed(globals, *a); }});
}

} // namespace hekla::app
