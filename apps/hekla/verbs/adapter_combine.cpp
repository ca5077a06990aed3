// hekla adapter combine: one LoRA adapter from several, as PEFT's add_weighted_adapter makes it.
#include "adapted_model.hpp"
#include "command.hpp"
#include "infer/adapters/adapter_use.hpp"
#include "lora/combination.hpp"
#include "lora_model.hpp"
#include "model/folder.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <set>

namespace hekla::app {
namespace adapter_combine {

using nlohmann::json;

struct Arguments {
    std::vector<std::string> folders;
    std::vector<double> weights;
    std::string body, output, type = "svd", majority = "total";
    double density = 0.0; // 0: not given
    int64_t svd_rank = 0; // 0: not given
    uint64_t seed = 0;
};

struct Opened {
    AdaptedModel model;
    std::vector<LoraModule> modules;
};

// Errors: what add_weighted_adapter cannot combine.
Result<Opened> open_for_combining(const plugin::Registry& registry, const std::string& folder, const std::string& body,
                                  const Log& log) {
    Opened opened;
    HK_ASSIGN(opened.model, open_adapted_model(registry, folder, body, false, log));
    const json config = opened.model.adapter_config();
    const auto refuse = [&](const std::string& what) {
        return unsupported(fmt::format("{}: {}; only LoRA matrices alone can be combined", folder, what));
    };
    if (!opened.model.is_lora())
        return refuse(fmt::format("the adapter is '{}', expected 'lora'", opened.model.adapter_text()));
    if (config.value("use_dora", false)) return refuse("use_dora is true (DoRA)");
    if (!opened.model.composition->invocations().empty())
        return refuse(fmt::format("{} is given (aLoRA)", plugin::kInvocationTokens));
    if (const std::string bias = config.value("bias", "none"); bias != "none")
        return refuse(fmt::format("bias is \"{}\", expected \"none\"", bias));
    for (const model::TensorView& tensor : opened.model.adapter_tensors)
        if (!tensor.name.starts_with(plugin::kAdapter))
            return refuse(fmt::format("it has {}, which is saved whole (modules_to_save)", tensor.name));
    Result<std::vector<LoraModule>> modules = lora_modules(opened.model);
    if (!modules.ok()) return modules.status().with_context(folder);
    opened.modules = modules.take();
    return opened;
}

Status check_bases(const std::vector<Opened>& all, const Arguments& a) {
    const auto weights_of = [](const Opened& one) { return one.model.config["hekla"]["base"]["weights"]; };
    for (std::size_t i = 1; i < all.size(); ++i)
        if (weights_of(all[i]) != weights_of(all[0]))
            return invalid_argument(fmt::format("{} is of the body {} and {} of {}, which has other weights; expected "
                                                "adapters of one body",
                                                a.folders[0], all[0].model.body.path().string(), a.folders[i],
                                                all[i].model.body.path().string()));
    return {};
}

Result<lora::CombinationOptions> options_of(const Arguments& a, const std::vector<Opened>& all) {
    lora::CombinationOptions options{*lora::combination_named(a.type)};
    const bool prunes = options.how.pruning != lora::Pruning::none;
    if (prunes && !(a.density > 0.0 && a.density <= 1.0))
        return invalid_argument(
            fmt::format("--combination-type {} needs --density: the part of the values that is kept, "
                        "above 0 and up to 1, e.g. 0.2",
                        a.type));
    if (!prunes && a.density != 0.0)
        return invalid_argument(
            fmt::format("--density is {}, but --combination-type {} removes no values", a.density, a.type));
    options.density = prunes ? a.density : 1.0;
    options.majority = a.majority == "total" ? lora::MajoritySign::total : lora::MajoritySign::frequency;
    if (options.how.form != lora::Form::changes && a.svd_rank != 0)
        return invalid_argument(
            fmt::format("--svd-rank is {}, but --combination-type {} has no decomposition; expected "
                        "svd or a type that ends with _svd",
                        a.svd_rank, a.type));
    options.rank = a.svd_rank;
    if (options.rank == 0)
        for (const Opened& one : all)
            for (const LoraModule& module : one.modules) options.rank = std::max(options.rank, module.factors.rank());
    return options;
}

Result<std::vector<LoraModule>> combine_modules(const Arguments& a, const std::vector<Opened>& all) {
    HK_ASSIGN(const lora::CombinationOptions options, options_of(a, all));
    std::vector<LoraModule> combined;
    std::set<std::string> done;
    for (const plugin::Site& site : all[0].model.described.sites) {
        if (!done.insert(site.name).second) continue;
        std::vector<lora::Term> terms;
        LoraModule made{site.name, site.kind == HK_SITE_EMBEDDING, {}, 1.0};
        for (std::size_t i = 0; i < all.size(); ++i) {
            const auto module = std::ranges::find(all[i].modules, site.name, &LoraModule::name);
            if (module != all[i].modules.end()) terms.push_back({module->factors, module->scale, a.weights[i]});
        }
        if (terms.empty()) continue;
        lora::CombinationOptions here = options;
        here.rank = std::min({options.rank, site.in, site.out});
        RandomStream random(a.seed, combined.size());
        Result<lora::LowRank> factors = lora::combine(terms, here, random);
        if (!factors.ok()) return factors.status().with_context(site.name);
        made.factors = factors.take();
        combined.push_back(std::move(made));
    }
    return combined;
}

Status combine(const Globals& globals, Arguments a) {
    if (a.folders.size() < 2)
        return invalid_argument(fmt::format("{} is a single adapter; expected two folders or more", a.folders[0]));
    if (a.weights.empty()) a.weights.assign(a.folders.size(), 1.0);
    if (a.weights.size() != a.folders.size())
        return invalid_argument(fmt::format("--weights has {} numbers for {} adapters; expected one for each",
                                            a.weights.size(), a.folders.size()));
    for (const double weight : a.weights)
        if (!std::isfinite(weight))
            return invalid_argument(fmt::format("--weights: {} is not finite; expected numbers such as 0.5", weight));
    const plugin::Registry registry = scan_plugins(globals);
    std::vector<Opened> all;
    for (const std::string& folder : a.folders) {
        HK_ASSIGN(Opened one, open_for_combining(registry, folder, a.body, globals.log()));
        all.push_back(std::move(one));
    }
    HK_TRY(check_bases(all, a));
    HK_ASSIGN(const std::vector<LoraModule> modules, combine_modules(a, all));
    const bool conv1d = std::ranges::any_of(all, [](const Opened& one) {
        return std::ranges::any_of(one.model.described.sites,
                                   [](const plugin::Site& site) { return site.wanted && site.input_first; });
    });
    HK_TRY(model::save_folder(a.output, lora_contents(modules, all[0].model.body.path(), conv1d)));
    int64_t parameters = 0;
    std::set<int64_t> ranks;
    for (const LoraModule& module : modules) {
        parameters += static_cast<int64_t>(module.factors.a.data.size() + module.factors.b.data.size());
        ranks.insert(module.factors.rank());
    }
    std::printf("%s\n", fmt::format("{}: {} adapters combined ({}) at {} modules, rank {}, {} parameters", a.output,
                                    all.size(), a.type, modules.size(), fmt::join(ranks, ", "), parameters)
                            .c_str());
    return {};
}

} // namespace adapter_combine

void add_adapter_combine(CLI::App& adapter, const Globals& globals, Verbs& verbs) {
    CLI::App* parser = adapter.add_subcommand(
        "combine", "Combine LoRA adapters of one body into one, as PEFT's add_weighted_adapter does.");
    const auto a = std::make_shared<adapter_combine::Arguments>();
    parser->add_option("folders", a->folders, "folders of adapters, of Hekla or PEFT, two or more")->required();
    parser->add_option("--body", a->body, "folder of the body (default: the one that each adapter names)");
    parser->add_option("--weights", a->weights, "a number for each adapter, which may be negative (default: 1 each)")
        ->delimiter(',');
    std::vector<std::string> types;
    for (const lora::Combination& one : lora::combinations()) types.emplace_back(one.name);
    parser->add_option("--combination-type", a->type, "how they are combined")
        ->check(CLI::IsMember(types))
        ->capture_default_str();
    parser->add_option("--density", a->density, "part of the values that ties, dare and magnitude_prune keep");
    parser->add_option("--majority-sign-method", a->majority, "what decides a sign in ties: the sum, or the count")
        ->check(CLI::IsMember({"total", "frequency"}))
        ->capture_default_str();
    parser->add_option("--svd-rank", a->svd_rank, "rank of the result of svd (default: the largest of the adapters')")
        ->check(CLI::Range(int64_t{1}, int64_t{65536}));
    parser->add_option("--seed", a->seed, "seed of dare's random choice (default: 0)");
    parser->add_option("-o,--output", a->output, "folder to write, as PEFT loads it; it must not exist")->required();
    parser->footer(
        "Example: hekla adapter combine out/formal out/short --weights 1,0.5 --combination-type cat -o out/both");
    verbs.push_back({parser, [&globals, a] {
                         const Status status = adapter_combine::combine(globals, *a);
                         return status.ok() ? kDone : fail(status);
                     }});
}

} // namespace hekla::app
