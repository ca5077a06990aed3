// hekla predict: predictions of trained models, through hekla.h as any host would.
#include "adapter_option.hpp"
#include "command.hpp"
#include "output.hpp"

#include "base/interrupts.hpp"

#include <algorithm>
#include <cstdio>

namespace hekla::app {
namespace {

struct PredictArguments {
    std::vector<std::string> adapters;
    std::string model, file, format, output;
    std::vector<std::string> texts, seconds, columns;
    int64_t batch = 8, length = 0;
    bool reference = false;
};

int run_predict(const Globals& globals, const PredictArguments& a) {
    if (a.texts.empty() == a.file.empty()) {
        std::fprintf(stderr, "hekla: error: give --text or --file, and not both\n");
        return kUsage;
    }
    if (!a.seconds.empty() && a.seconds.size() != a.texts.size()) {
        std::fprintf(stderr, "hekla: error: %zu --second for %zu --text; expected one for each\n", a.seconds.size(),
                     a.texts.size());
        return kUsage;
    }
    const HostError error;
    HostContext context;
    if (const int code = context.create(globals, error); code != kDone) return code;
    const std::vector<hk_string> texts = host_strings(a.texts), seconds = host_strings(a.seconds),
                                 columns = host_strings(a.columns), adapters = host_strings(a.adapters);
    std::vector<std::string> rows;
    hk_predict_options options;
    hk_predict_defaults(&options);
    options.reference = a.reference ? 1 : 0;
    options.model = text(a.model);
    options.batch = a.batch;
    options.length = a.length;
    options.texts = texts.data();
    options.second_texts = seconds.empty() ? nullptr : seconds.data();
    options.text_count = texts.size();
    options.file = text(a.file);
    options.format = text(a.format);
    options.columns = columns.data();
    options.column_count = columns.size();
    options.adapters = adapters.data();
    options.adapter_count = adapters.size();
    options.user = &rows;
    options.row = [](void* user, uint64_t row, hk_string json) -> int32_t {
        auto& into = *static_cast<std::vector<std::string>*>(user);
        into.resize(std::max(into.size(), static_cast<std::size_t>(row) + 1));
        into[row] = view(json);
        return 0;
    };
    options.stop = [](void*) -> int32_t { return interrupted() ? 1 : 0; };
    watch_interrupts(kStoppedEarly);
    if (hk_predict(context.context, &options, error.error) != HK_OK) return error.report();
    std::string out;
    for (const std::string& row : rows) out += row + "\n";
    const Status written = write_output(a.output, out);
    return written.ok() ? kDone : fail(written);
}

} // namespace

void add_predict(CLI::App& app, const Globals& globals, Verbs& verbs) {
    CLI::App* parser =
        app.add_subcommand("predict", "Predict labels, numbers or tags of texts with a fine-tuned model.");
    const auto a = std::make_shared<PredictArguments>();
    parser->add_option("model", a->model, "folder of a run or model")->required();
    add_adapter_option(*parser, a->adapters);
    parser->add_option("--text", a->texts, "text to predict for; may be given several times");
    parser->add_option("--second", a->seconds, "second text of each --text, for models that read pairs");
    parser->add_option("--file", a->file, "table of examples: .tsv, .csv, .jsonl, .conllu, .txt, also .gz and .zst");
    parser->add_option("--format", a->format, "format of --file (default: by its name): tsv, csv, jsonl, lines, ...");
    parser->add_option("--column", a->columns,
                       "which column of --file has which part: text=sentence, text=1; may be given several times");
    parser->add_option("--batch", a->batch, "rows per batch")->capture_default_str();
    parser->add_option("--length", a->length, "length limit of a row in tokens; 0: as in training")
        ->capture_default_str();
    parser->add_flag("--reference", a->reference, "compute with the float64 interpreter instead of the device (slow)");
    parser->add_option("-o,--output", a->output, "file to write (default: standard output)");
    parser->footer("Example: hekla predict out/sst2 --text \"a film that is worth every minute\"\n"
                   "Each example is one line of JSON.");
    verbs.push_back({parser, [&globals, a] { return run_predict(globals, *a); }});
}

} // namespace hekla::app
