#include "report/decisions.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <iterator>
#include <map>

namespace hekla::report {
namespace {

using Sentences = std::vector<std::string>;

// Ratios from which a difference is acted on.
constexpr double kOtherKernel = 1.05;    // another kernel than the preferred one
constexpr double kOtherShape = 1.1;      // another shape of the matrix units
constexpr double kOtherStore = 1.15;     // a mapping of stores, of one layout
constexpr double kOtherDepth = 1.1;      // twice as much of K between barriers
constexpr double kOtherEpilogue = 1.2;   // a shorter epilogue
constexpr double kOtherOrder = 1.03;     // another order of tiles
constexpr double kOtherForm = 1.03;      // another form of attention
constexpr double kWholeGroups = 1.1;     // matrices of a workgroup in place of a subgroup's
constexpr double kFullRate = 2400;       // operations per clock and core of an NVIDIA card: its mma.sync at full rate
constexpr double kRisingClock = 1.1;     // of the first dispatches
constexpr double kSlowLayout = 0.9;      // of the fastest layout
constexpr double kSlowRows = 0.6;        // of the bandwidth of a copy
constexpr double kShareOfStep = 0.01;    // below: not worth work
constexpr double kCached = 1.3;          // of the bandwidth at the largest size: the size is in a cache
constexpr double kTokenOfGpt2 = 102;     // dispatches of a token of GPT-2 124M
constexpr double kBytesOfGpt2 = 0.267e9; // its weights in 16 bits

double tera(double flops) { return flops / 1e12; }

// Returns the element with the largest "flops", null if none has any.
const Line* fastest(const Line& rows, const char* key = "flops") {
    const Line* best = nullptr;
    for (const Line& row : rows)
        if (row.value(key, 0.0) > 0 && (best == nullptr || row.value(key, 0.0) > best->value(key, 0.0))) best = &row;
    return best;
}

const Line* find(const Line& rows, const char* key, const std::string& value) {
    for (const Line& row : rows)
        if (row.value(key, "") == value) return &row;
    return nullptr;
}

Sentences of_clock(const Line& result) {
    const double first = result.value("first_ns", 0.0), warm = result.value("warm_ns", 0.0);
    if (first <= 0 || warm <= 0) return {};
    Sentences sentences;
    if (first >= kRisingClock * warm)
        sentences.push_back(
            fmt::format("a multiply-add that waits for the one before takes {:.2f} ns at first and {:.2f} after {:.1f} "
                        "s of work: measure after work only",
                        first, warm, result.value("seconds_of_work", 0.0)));
    else
        sentences.push_back(fmt::format("a multiply-add that waits for the one before takes {:.2f} ns at first and "
                                        "{:.2f} after work: the clock is stable",
                                        first, warm));
    if (const double hz = result.value("hz", 0.0); hz > 0)
        sentences.push_back(fmt::format(
            "the clock of a core has {:.4g} GHz under load, and a multiply-add that waits takes {:.2g} ticks", hz / 1e9,
            warm * hz / 1e9));
    return sentences;
}

Sentences of_memory(const Line& result) {
    const double all = result.value("copy_gb_per_s", 0.0);
    if (all <= 0 || !result.contains("sizes")) return {};
    double cached = 0, best = 0;
    for (const Line& size : result["sizes"])
        if (size.value("copy_gb_per_s", 0.0) >= kCached * all) {
            cached = std::max(cached, size.value("mib", 0.0));
            best = std::max(best, size.value("copy_gb_per_s", 0.0));
        }
    if (cached == 0)
        return {
            fmt::format("no size is copied {} times as fast as the largest ({:.0f} GB/s): no cache hides memory, and "
                        "every read of a factor counts",
                        kCached, all)};
    return {
        fmt::format("{:g} MiB are copied at {:.0f} GB/s, the largest size at {:.0f}: a cache holds about {:g} MiB; a "
                    "factor that is larger and read once for every row of tiles needs super-tiles",
                    cached, best, all, 2 * cached)};
}

Sentences of_units(const Line& result, const std::vector<Line>& lines) {
    Sentences sentences;
    if (!result.contains("shapes")) return {};
    for (const char* type : {"f16", "bf16"}) {
        Line of_type = Line::array();
        for (const Line& row : result["shapes"])
            if (row.value("factors", "") == type && row.value("sums", "") == "f32") of_type.push_back(row);
        const Line* const best = fastest(of_type);
        const std::string used = result.contains("used") && result["used"].value(type, Line()).is_string()
                                     ? result["used"].value(type, "")
                                     : std::string();
        if (best == nullptr) continue;
        const Line* const own = find(of_type, "shape", used);
        const double ours = own != nullptr ? own->value("flops", 0.0) : 0.0;
        if (ours <= 0)
            sentences.push_back(
                fmt::format("{}: no kernel uses a shape of this device; {} reaches {:.4g} TFLOP/s: add it", type,
                            best->value("shape", ""), tera(best->value("flops", 0.0))));
        else if (best->value("flops", 0.0) >= kOtherShape * ours)
            sentences.push_back(fmt::format(
                "{}: {} reaches {:.4g} TFLOP/s and {}, which kernels use, {:.4g}: prefer {}", type,
                best->value("shape", ""), tera(best->value("flops", 0.0)), used, tera(ours), best->value("shape", "")));
        else
            sentences.push_back(
                fmt::format("{}: {}, which kernels use, reaches {:.4g} TFLOP/s; no shape reaches {} times "
                            "as much: keep it",
                            type, used, tera(ours), kOtherShape));
    }
    // Operations of a core in a tick of its clock: independent of what clock a card runs at.
    const Line* const clock = result_of(lines, "clock");
    const double hz = clock != nullptr ? clock->value("hz", 0.0) : 0.0;
    const Line* const device = result_of(lines, "device");
    const bool nvidia =
        device != nullptr && device->contains("device") && (*device)["device"].value("vendor_id", 0) == 0x10de;
    for (const char* type : {"f16", "bf16"}) {
        double most = 0;
        for (const Line& row : result["shapes"])
            if (row.value("factors", "") == type && row.value("sums", "") == "f32")
                most = std::max(most, row.value("flops_per_core", 0.0));
        if (hz <= 0 || most <= 0) continue;
        std::string text = fmt::format("{}: {:.0f} operations per tick and core", type, most / hz);
        if (nvidia)
            text += most >= kFullRate * hz
                        ? fmt::format(" (above {:.0f}): its units run at their full rate", kFullRate)
                        : fmt::format(" (below {:.0f}): another shape or matrices of a workgroup may "
                                      "be faster",
                                      kFullRate);
        sentences.push_back(std::move(text));
    }
    double half = 0, full = 0;
    for (const Line& row : result["shapes"])
        if (row.value("factors", "") == "f16")
            (row.value("sums", "") == "f16" ? half : full) =
                std::max(row.value("sums", "") == "f16" ? half : full, row.value("flops", 0.0));
    if (half >= 1.5 * full && full > 0)
        sentences.push_back(fmt::format("sums in float16 reach {:.4g} TFLOP/s, in float32 {:.4g}: worth an option for "
                                        "inference",
                                        tera(half), tera(full)));
    const double pairs = result.value("pairs_of_f16_flops", 0.0);
    const double single = result.contains("peak_flops") ? result["peak_flops"].value("f32", 0.0) : 0.0;
    if (full <= 0 && pairs >= 1.5 * single && single > 0)
        sentences.push_back(fmt::format("there are no matrix units, and pairs of float16 reach {:.4g} TFLOP/s of "
                                        "float32's {:.4g}: tiles in float16 are worth a kernel",
                                        tera(pairs), tera(single)));
    return sentences;
}

// The choice of a kernel where several were measured; empty if there is nothing to decide.
std::string kernel_choice(const std::string& what, const Line& row) {
    if (!row.contains("kernels")) return {};
    const Line* const best = fastest(row["kernels"]);
    const std::string preferred = row.value("preferred", "");
    const Line* const ours = find(row["kernels"], "kernel", preferred);
    if (best == nullptr || best->value("kernel", "") == preferred) return {};
    const double own = ours != nullptr ? ours->value("flops", 0.0) : 0.0;
    if (own > 0 && best->value("flops", 0.0) < kOtherKernel * own) return {};
    return fmt::format("{}: {} reaches {:.4g} TFLOP/s and {}, the preferred one, {:.4g}: prefer {} here", what,
                       best->value("kernel", ""), tera(best->value("flops", 0.0)), preferred, tera(own),
                       best->value("kernel", ""));
}

Sentences of_products(const Line& result) {
    Sentences sentences;
    if (!result.contains("products")) return {};
    std::map<std::string, std::map<std::string, double>> squares; // factors -> layout -> speed
    std::map<std::string, double> shares;                         // factors -> the best share of the peak
    bool measured = false;
    for (const Line& row : result["products"]) {
        if (row.value("best_flops", 0.0) <= 0) continue;
        measured = true;
        const std::string factors = row.value("factors", "");
        const std::string choice =
            kernel_choice(fmt::format("{} {} {}", row.value("name", ""), row.value("layout", ""), factors), row);
        if (!choice.empty()) sentences.push_back(choice);
        if (row.value("name", "") == "square") squares[factors][row.value("layout", "")] = row.value("best_flops", 0.0);
        if (row.value("peak_flops", 0.0) > 0)
            shares[factors] = std::max(shares[factors], row.value("best_flops", 0.0) / row.value("peak_flops", 0.0));
    }
    if (!measured) return {};
    if (sentences.empty()) sentences.emplace_back("products: the preferred kernels are the fastest: keep them");
    for (const auto& [factors, layouts] : squares) {
        const auto best = std::ranges::max_element(layouts, {}, [](const auto& one) { return one.second; });
        for (const auto& [layout, flops] : layouts)
            if (flops > 0 && flops < kSlowLayout * best->second)
                sentences.push_back(
                    fmt::format("{}: {} reaches {:.4g} TFLOP/s, {} {:.4g}: its stores to shared memory or "
                                "its loads are slower; see the stage stores",
                                factors, layout, tera(flops), best->first, tera(best->second)));
    }
    for (const auto& [factors, share] : shares)
        sentences.push_back(fmt::format("{}: the best product reaches {:.0f} % of the measured peak{}", factors,
                                        100 * share, share < 0.7 ? ": there is room in the kernels" : ""));
    return sentences;
}

// Forms of an attention kernel, "matrix+short", each next to the usual one.
Sentences of_forms(const Line& row) {
    Sentences sentences;
    if (!row.contains("forms") || !row.contains("kernels")) return sentences;
    for (const Line& form : row["forms"]) {
        const std::string name = form.value("kernel", "");
        const Line* const usual = find(row["kernels"], "kernel", name.substr(0, name.find('+')));
        const double own = form.value("flops", 0.0), before = usual != nullptr ? usual->value("flops", 0.0) : 0.0;
        if (own <= 0 || before <= 0) continue;
        sentences.push_back(fmt::format("attention {}: {} reaches {:.4g} TFLOP/s, without it {:.4g} ({:.2f}): {}",
                                        row.value("pass", ""), name, tera(own), tera(before), own / before,
                                        own >= kOtherForm * before ? "adopt it" : "keep the usual form"));
    }
    return sentences;
}

Sentences of_attention(const Line& result) {
    Sentences sentences, forms;
    if (!result.contains("passes")) return {};
    bool measured = false;
    for (const Line& row : result["passes"]) {
        measured = measured || (row.contains("kernels") && fastest(row["kernels"]) != nullptr);
        if (std::string choice = kernel_choice("attention " + row.value("pass", ""), row); !choice.empty())
            sentences.push_back(std::move(choice));
        for (std::string& form : of_forms(row)) forms.push_back(std::move(form));
    }
    if (sentences.empty() && measured)
        sentences.emplace_back("attention: the preferred kernels are the fastest: keep them");
    std::ranges::move(forms, std::back_inserter(sentences));
    return sentences;
}

Sentences of_rows(const Line& result, const std::vector<Line>& lines) {
    const Line* const memory = result_of(lines, "memory");
    const double copy = memory != nullptr ? memory->value("copy_gb_per_s", 0.0) : 0.0;
    if (copy <= 0 || !result.contains("kernels")) return {};
    Sentences sentences;
    for (const Line& row : result["kernels"])
        if (row.value("gb_per_s", 0.0) > 0 && row.value("gb_per_s", 0.0) < kSlowRows * copy &&
            row.value("share", 0.0) >= kShareOfStep)
            sentences.push_back(
                fmt::format("{} moves {:.1f} GB/s, {:.0f} % of a copy, in {:.1f} % of the step: worth work",
                            row.value("kernel", ""), row.value("gb_per_s", 0.0),
                            100 * row.value("gb_per_s", 0.0) / copy, 100 * row.value("share", 0.0)));
    if (sentences.empty())
        sentences.push_back(fmt::format("every row kernel with {:.0f} % of the step or more moves {:.0f} % of a copy's "
                                        "{:.0f} GB/s or more: memory is the limit",
                                        100 * kShareOfStep, 100 * kSlowRows, copy));
    return sentences;
}

Sentences of_chains(const Line& result, const std::vector<Line>& lines) {
    const double each = result.value("microseconds_per_dispatch", 0.0);
    const Line* const memory = result_of(lines, "memory");
    const double read = memory != nullptr ? memory->value("read_gb_per_s", 0.0) : 0.0;
    if (each <= 0 || read <= 0) return {};
    const double chain = each * kTokenOfGpt2, weights = kBytesOfGpt2 / read / 1e3;
    return {fmt::format("a token of GPT-2 124M in 16 bits has {:.0f} dispatches, {:.0f} microseconds, and reads its "
                        "weights in {:.0f}: {}",
                        kTokenOfGpt2, chain, weights,
                        chain > weights ? "the chain limits small models: fewer dispatches are worth work"
                                        : "memory limits it: fewer dispatches gain little")};
}

// The speeds of the variants of one product by name.
std::map<std::string, double> speeds_of(const Line& product) {
    std::map<std::string, double> speeds;
    for (const Line& variant : product["variants"]) speeds[variant.value("kernel", "")] = variant.value("flops", 0.0);
    return speeds;
}

Sentences of_stores(const Line& result) {
    if (!result.contains("products")) return {};
    Sentences sentences;
    for (const Line& product : result["products"]) {
        std::map<std::string, double> speeds = speeds_of(product);
        const double near = speeds["near"], spread = speeds["spread"], deep = speeds["deep"];
        if (near > 0 && deep > 0)
            sentences.push_back(
                fmt::format("{}: tiles with 64 of K between barriers reach {:.4g} TFLOP/s, with 32 {:.4g} ({:.2f}): {}",
                            product.value("layout", ""), tera(deep), tera(near), deep / near,
                            deep >= kOtherDepth * near ? "add kernels with 64" : "keep 32"));
        if (near <= 0 || spread <= 0) continue;
        sentences.push_back(
            fmt::format("{}: stores of rows four apart reach {:.4g} TFLOP/s, of neighboring rows {:.4g} "
                        "({:.2f}): {}",
                        product.value("layout", ""), tera(spread), tera(near), spread / near,
                        spread >= kOtherStore * near ? "adopt them"
                        : spread >= near             ? "no reason to change"
                                                     : "keep neighboring rows"));
    }
    return sentences;
}

Sentences of_shapes(const Line& result) {
    if (!result.contains("products") || result["products"].empty()) return {};
    const Line& variants = result["products"][0]["variants"];
    const std::string used = result.value("used", "");
    const Line *const best = fastest(variants), *const own = find(variants, "kernel", used);
    if (best == nullptr || own == nullptr || own->value("flops", 0.0) <= 0) return {};
    const double most = best->value("flops", 0.0), ours = own->value("flops", 0.0);
    if (most < kOtherShape * ours)
        return {fmt::format("a product by {}, which kernels use, reaches {:.4g} TFLOP/s, by the fastest shape {:.4g}: "
                            "keep it",
                            used, tera(ours), tera(most))};
    return {fmt::format("a product by {} reaches {:.4g} TFLOP/s, by {}, which kernels use, {:.4g}: prefer {}",
                        best->value("kernel", ""), tera(most), used, tera(ours), best->value("kernel", ""))};
}

Sentences of_epilogues(const Line& result) {
    if (!result.contains("products") || result["products"].empty()) return {};
    std::map<std::string, double> speeds = speeds_of(result["products"][0]);
    const double exact = speeds["gelu"], shorter = speeds["gelu_short"], batched = speeds["gelu_batched"];
    Sentences sentences;
    const auto compare = [&](const char* name, double one, double other) {
        if (one <= 0 || other <= 0) return;
        sentences.push_back(fmt::format(
            "{} of one exponential reaches {:.4g} TFLOP/s, the exact one {:.4g} ({:.2f}), a plain store {:.4g}: {}",
            name, tera(other), tera(one), other / one, tera(speeds["near"]),
            other >= kOtherEpilogue * one ? "adopt it for results in 16 bits" : "keep the exact one"));
    };
    compare("a gelu", exact, shorter);
    compare("a gradient of gelu", speeds["gelu_gradient"], speeds["gelu_gradient_short"]);
    if (batched > 0 && shorter > 0)
        sentences.push_back(fmt::format("an unrolled epilogue reaches {:.4g} TFLOP/s, a rolled one {:.4g}: {}",
                                        tera(batched), tera(shorter),
                                        batched >= kOtherOrder * shorter ? "unroll it" : "keep it rolled"));
    return sentences;
}

Sentences of_orders(const Line& result) {
    if (!result.contains("products")) return {};
    Sentences sentences;
    for (const Line& product : result["products"]) {
        const Line* const best = fastest(product["variants"]);
        double plain = 0;
        for (const Line& variant : product["variants"])
            if (variant.value("rows_of_tiles", 1) == 1) plain = variant.value("flops", 0.0);
        if (best == nullptr || plain <= 0) continue;
        const int rows = best->value("rows_of_tiles", 1);
        sentences.push_back(
            fmt::format("{} {} x {} x {}: super-tiles of {} rows reach {:.4g} TFLOP/s, rows of tiles {:.4g}: {}",
                        product.value("layout", ""), product.value("m", 0), product.value("n", 0),
                        product.value("k", 0), rows, tera(best->value("flops", 0.0)), tera(plain),
                        rows > 1 && best->value("flops", 0.0) >= kOtherOrder * plain ? fmt::format("adopt {}", rows)
                                                                                     : "keep rows of tiles"));
    }
    return sentences;
}

// Matrices of a workgroup next to the fastest product of this layout by matrices of a subgroup.
Sentences of_workgroups(const Line& result, const std::vector<Line>& lines) {
    if (!result.contains("products")) return {};
    std::map<std::string, double> usual;
    if (const Line* const stores = result_of(lines, "stores"); stores != nullptr && stores->contains("products"))
        for (const Line& product : (*stores)["products"])
            if (const Line* const best = fastest(product["variants"]); best != nullptr)
                usual[product.value("layout", "")] = best->value("flops", 0.0);
    if (const Line* const products = result_of(lines, "products");
        products != nullptr && products->contains("products"))
        for (const Line& product : (*products)["products"])
            if (product.value("name", "") == "square" && product.value("factors", "") == "f16") {
                double& most = usual[product.value("layout", "")];
                most = std::max(most, product.value("best_flops", 0.0));
            }
    Sentences sentences;
    for (const Line& product : result["products"]) {
        const std::string layout = product.value("layout", "");
        const Line* const best = fastest(product["variants"]);
        if (best == nullptr || usual[layout] <= 0) continue;
        const double ours = usual[layout], theirs = best->value("flops", 0.0);
        sentences.push_back(
            fmt::format("{}: matrices of a workgroup reach {:.4g} TFLOP/s with {}, those of a subgroup "
                        "{:.4g} ({:.2f}): {}",
                        layout, tera(theirs), best->value("kernel", ""), tera(ours), theirs / ours,
                        theirs >= kWholeGroups * ours ? "add kernels with them" : "keep the subgroup's"));
    }
    return sentences;
}

Sentences of_others(const Line& result, const std::vector<Line>& lines) {
    const Line* const cases = result_of(lines, "cases");
    if (cases == nullptr || !cases->contains("cases") || !result.contains("runs")) return {};
    Sentences sentences;
    for (const Line& run : result["runs"])
        for (const Line& own : (*cases)["cases"]) {
            if (own.value("case", "") != run.value("case", "")) continue;
            // Tokens are generated in float32, whatever a case is trained in.
            const bool generates = run.contains("generate_tokens_per_s");
            const char* const key = generates ? "generate_tokens_per_s" : "tokens_per_s";
            if ((!generates && own.value("dtype", "") != run.value("dtype", "")) || run.value(key, 0.0) <= 0 ||
                own.value(key, 0.0) <= 0)
                continue;
            sentences.push_back(fmt::format("{} {}{}: {:.0f} tokens/s, {} {:.0f}: {:.2f}", own.value("case", ""),
                                            run.value("dtype", ""), generates ? ", generated" : "", own.value(key, 0.0),
                                            run.value("program", ""), run.value(key, 0.0),
                                            own.value(key, 0.0) / run.value(key, 0.0)));
        }
    return sentences;
}

} // namespace

std::vector<std::string> decisions(const std::vector<Line>& lines) {
    if (lines.empty() || !lines.back().contains("result")) return {};
    const std::string stage = lines.back().value("stage", "");
    const Line& result = lines.back()["result"];
    if (stage == "clock") return of_clock(result);
    if (stage == "memory") return of_memory(result);
    if (stage == "units") return of_units(result, lines);
    if (stage == "products") return of_products(result);
    if (stage == "attention") return of_attention(result);
    if (stage == "rows") return of_rows(result, lines);
    if (stage == "chains") return of_chains(result, lines);
    if (stage == "stores") return of_stores(result);
    if (stage == "shapes") return of_shapes(result);
    if (stage == "epilogues") return of_epilogues(result);
    if (stage == "orders") return of_orders(result);
    if (stage == "workgroups") return of_workgroups(result, lines);
    if (stage == "others") return of_others(result, lines);
    return {};
}

} // namespace hekla::report
