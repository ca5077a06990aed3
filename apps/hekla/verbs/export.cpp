// hekla export: writes a model as one file for an application to ship.
#include "command.hpp"
#include "output.hpp"

#include "infer/exported/exported_model.hpp"

#include <cstdio>
#include <fmt/ranges.h>

namespace hekla::app {
namespace {

struct ExportArguments {
    std::string model, file;
    infer::ExportOptions options;
};

Status run_export(const Globals& globals, ExportArguments a) {
    std::error_code problem;
    if (std::filesystem::is_directory(a.file, problem))
        return failed_precondition(fmt::format("{}: is a folder; expected a file name such as game.hekla", a.file));
    const Log log = globals.log();
    const plugin::Registry registry = scan_plugins(globals);
    gpu::GlslOptions glsl;
    glsl.log = log;
    glsl.cache = folder_cache(globals.cache_folder());
    gpu::GlslCompiler compiler(std::move(glsl));
    a.options.version = HEKLA_VERSION;
    HK_ASSIGN(const infer::ExportReport report,
              infer::export_model(registry, compiler, a.model, a.file, a.options, log));
    std::printf("%s\n", fmt::format("{}: {}, to {} with rows of up to {} tokens: {} tensors, {} graphs, {} kernels",
                                    a.file, size_text(report.bytes), fmt::join(report.can, " and "), report.length,
                                    report.tensors, report.graphs, report.kernels)
                            .c_str());
    if (report.slots)
        std::printf("%s\n", fmt::format("  {} adapter slots of rank {} at {} linear layers: {} of device memory",
                                        report.slots->options.count, report.slots->options.rank, report.slots->modules,
                                        size_text(report.slots->bytes))
                                .c_str());
    for (const auto& [what, why] : report.left_out) std::printf("  without %s: %s\n", what.c_str(), why.c_str());
    return {};
}

} // namespace

void add_export(CLI::App& app, const Globals& globals, Verbs& verbs) {
    CLI::App* parser = app.add_subcommand("export", "Write a model as one file to ship. It has the graphs, weights, "
                                                    "tokenizer and kernels, and runs without plugins "
                                                    "or a shader compiler.");
    const auto a = std::make_shared<ExportArguments>();
    parser->add_option("model", a->model, "folder of a run or model")->required();
    parser->add_option("file", a->file, "file to write, usually ending in .hekla")->required();
    parser
        ->add_option("--length", a->options.length,
                     fmt::format("longest row in tokens (default: the model's limit, at most {}, less if its graph has "
                                 "large tables)",
                                 infer::kUsualLength))
        ->check(CLI::Range(1, 1 << 20));
    CLI::Option* const slots =
        parser
            ->add_option("--adapter-slots", a->options.slots.count,
                         "slots for LoRA adapters, which the rows of a generation choose and exchange "
                         "(hk_session_adapter_put); no adapter is in the file")
            ->check(CLI::Range(1, 65536));
    parser
        ->add_option(
            "--adapter-rank", a->options.slots.rank,
            fmt::format("rank of the slots: the largest that an adapter may have (default: {})", infer::kSlotRank))
        ->check(CLI::Range(1, 65536))
        ->needs(slots);
    parser
        ->add_option("--adapter-targets", a->options.slots.targets,
                     fmt::format("modules with slots: ends of their names, separated by commas (default: {})",
                                 infer::kAllLinear))
        ->needs(slots);
    parser->add_flag("--allow-non-finite", a->options.allow_non_finite,
                     "write weights that are NaN or infinite instead of refusing them");
    parser->footer("Example: hekla export out/quickstart quickstart.hekla\n"
                   "         hekla generate quickstart.hekla --prompt \"namespace\"");
    verbs.push_back({parser, [&globals, a] {
                         const Status status = run_export(globals, *a);
                         return status.ok() ? kDone : fail(status);
                     }});
}

} // namespace hekla::app
