// What the lab decides: planted figures turn each decision.
#include "report/decisions.hpp"

#include <doctest/doctest.h>

namespace decisions_test {

using hekla::report::decisions;
using hekla::report::Line;

namespace {

// Returns the sentences of a stage, one per line. before: stages with their results.
std::string decided(const char* stage, const Line& result,
                    const std::vector<std::pair<const char*, Line>>& before = {}) {
    std::vector<Line> lines{{{"report", "lab"}, {"format", 1}}};
    for (const auto& [name, earlier] : before) lines.push_back({{"stage", name}, {"ok", true}, {"result", earlier}});
    lines.push_back({{"stage", stage}, {"ok", true}, {"result", result}});
    std::string text;
    for (const std::string& sentence : decisions(lines)) text += sentence + "\n";
    return text;
}

bool has(const std::string& text, const char* part) {
    INFO(text);
    return text.find(part) != std::string::npos;
}

Line kernel(const char* name, double flops) { return {{"kernel", name}, {"flops", flops}}; }
Line product(const char* layout, double best, Line kernels) {
    return {{"name", "square"},
            {"layout", layout},
            {"factors", "f16"},
            {"preferred", "t128"},
            {"peak_flops", 400e12},
            {"best_flops", best},
            {"kernels", std::move(kernels)}};
}
Line variants(std::initializer_list<std::pair<const char*, double>> speeds) {
    Line rows = Line::array();
    for (const auto& [name, flops] : speeds) rows.push_back({{"kernel", name}, {"rows_of_tiles", 1}, {"flops", flops}});
    return {{"products", {{{"layout", "NT"}, {"variants", rows}}}}};
}
Line orders(double plain, double super) {
    return {{"products",
             {{{"layout", "NT"},
               {"m", 16384},
               {"n", 50304},
               {"k", 768},
               {"variants",
                {{{"kernel", "near"}, {"rows_of_tiles", 1}, {"flops", plain}},
                 {{"kernel", "near"}, {"rows_of_tiles", 8}, {"flops", super}}}}}}}};
}

} // namespace

TEST_CASE("a clock that rises after work is a reason to measure after work") {
    const Line rising{{"first_ns", 11.6}, {"warm_ns", 2.02}, {"seconds_of_work", 1.0}};
    const Line stable{{"first_ns", 2.1}, {"warm_ns", 2.02}, {"seconds_of_work", 1.0}};
    CHECK(has(decided("clock", rising), "11.60 ns at first and 2.02"));
    CHECK(has(decided("clock", rising), "measure after work only"));
    CHECK(has(decided("clock", stable), "the clock is stable"));
    CHECK_FALSE(has(decided("clock", stable), "GHz"));
    Line counted = stable;
    counted["hz"] = 1.98e9;
    CHECK(has(decided("clock", counted), "1.98 GHz under load, and a multiply-add that waits takes 4 ticks"));
}

TEST_CASE("sizes that are copied faster than memory are those of a cache") {
    const auto sizes = [](double small) {
        return Line{
            {"copy_gb_per_s", 1000.0},
            {"sizes", {{{"mib", 16.0}, {"copy_gb_per_s", small}}, {{"mib", 256.0}, {"copy_gb_per_s", 1000.0}}}}};
    };
    CHECK(has(decided("memory", sizes(3200.0)), "16 MiB are copied at 3200 GB/s"));
    CHECK(has(decided("memory", sizes(3200.0)), "super-tiles"));
    CHECK(has(decided("memory", sizes(1100.0)), "no cache hides memory"));
}

TEST_CASE("the shape of the matrix units that is used is compared with the others") {
    const auto shapes = [](double other, const char* used) {
        return Line{{"used", {{"f16", used}, {"bf16", nullptr}}},
                    {"shapes",
                     {{{"shape", "16x16x16"}, {"factors", "f16"}, {"sums", "f32"}, {"flops", 400e12}},
                      {{"shape", "16x8x16"}, {"factors", "f16"}, {"sums", "f32"}, {"flops", other}}}}};
    };
    CHECK(has(decided("units", shapes(600e12, "16x16x16")), "prefer 16x8x16"));
    CHECK(has(decided("units", shapes(410e12, "16x16x16")), "keep it"));
    CHECK(has(decided("units", shapes(410e12, "8x8x8")), "no kernel uses a shape of this device"));
    Line halves = shapes(400e12, "16x16x16");
    CHECK_FALSE(has(decided("units", halves), "inference"));
    halves["shapes"].push_back({{"shape", "16x16x16"}, {"factors", "f16"}, {"sums", "f16"}, {"flops", 790e12}});
    CHECK(has(decided("units", halves),
              "sums in float16 reach 790 TFLOP/s, in float32 400: worth an option for inference"));
    const Line pairs{{"shapes", Line::array()}, {"peak_flops", {{"f32", 10e12}}}, {"pairs_of_f16_flops", 19e12}};
    CHECK(has(decided("units", pairs), "tiles in float16 are worth a kernel"));
    Line equal = pairs;
    equal["pairs_of_f16_flops"] = 10e12;
    CHECK(decided("units", equal).empty());
}

TEST_CASE("operations per tick of the clock tell whether matrix units run at their full rate") {
    const auto units = [](double per_core, int vendor) {
        const Line shapes{{"shapes",
                           {{{"shape", "16x16x16"},
                             {"factors", "f16"},
                             {"sums", "f32"},
                             {"flops", 400e12},
                             {"flops_per_core", per_core}}}},
                          {"used", {{"f16", "16x16x16"}, {"bf16", nullptr}}}};
        return decided("units", shapes, {{"device", {{"device", {{"vendor_id", vendor}}}}}, {"clock", {{"hz", 1e9}}}});
    };
    CHECK(
        has(units(3800e9, 0x10de), "f16: 3800 operations per tick and core (above 2400): its units run at their full"));
    CHECK(has(units(2000e9, 0x10de), "f16: 2000 operations per tick and core (below 2400): another shape"));
    CHECK(has(units(500e9, 0x1002), "f16: 500 operations per tick and core\n"));
    const Line without{{"shapes", {{{"factors", "f16"}, {"sums", "f32"}, {"flops_per_core", 1e12}}}}};
    CHECK(decided("units", without).find("per tick") == std::string::npos);
}

TEST_CASE("a kernel that is faster than the preferred one, and layouts that are slow") {
    Line same{{"products", {product("NN", 300e12, {kernel("t128", 300e12), kernel("t64", 200e12)})}}};
    CHECK(has(decided("products", same), "the preferred kernels are the fastest: keep them"));
    CHECK(has(decided("products", same), "f16: the best product reaches 75 % of the measured peak\n"));
    Line other{{"products", {product("NN", 300e12, {kernel("t128", 200e12), kernel("t64", 300e12)})}}};
    CHECK(has(decided("products", other), "t64 reaches 300 TFLOP/s and t128, the preferred one, 200: prefer t64 here"));
    other["products"][0]["kernels"][1]["flops"] = 206e12; // within what is not acted on
    CHECK_FALSE(has(decided("products", other), "prefer t64"));
    Line layouts{{"products",
                  {product("TN", 292e12, {kernel("t128", 292e12)}), product("NT", 219e12, {kernel("t128", 219e12)})}}};
    CHECK(has(decided("products", layouts), "NT reaches 219 TFLOP/s, TN 292"));
    layouts["products"][1]["best_flops"] = 280e12;
    CHECK_FALSE(has(decided("products", layouts), "its stores"));
    Line slow{{"products", {product("NN", 100e12, {kernel("t128", 100e12)})}}};
    CHECK(has(decided("products", slow), "25 % of the measured peak: there is room"));
    const Line nothing{{"products", {product("NN", 0, Line::array({Line{{"kernel", "t128"}, {"problem", "wrong"}}}))}}};
    CHECK(decided("products", nothing).empty());
    const Line failed{
        {"products", {product("NN", 200e12, {{{"kernel", "t128"}, {"problem", "wrong"}}, kernel("t64", 200e12)})}}};
    CHECK(has(decided("products", failed), "prefer t64 here"));
}

TEST_CASE("attention is decided by pass") {
    const auto passes = [](double tiled) {
        return Line{{"passes",
                     {{{"pass", "dq f16"},
                       {"preferred", "matrix"},
                       {"kernels", {kernel("matrix", 80e12), kernel("tiled.t64x64", tiled)}}}}}};
    };
    CHECK(has(decided("attention", passes(120e12)), "attention dq f16: tiled.t64x64 reaches 120 TFLOP/s"));
    CHECK(has(decided("attention", passes(20e12)), "keep them"));
    CHECK(decided("attention", {{"passes", Line::array()}}).empty());
}

TEST_CASE("a form of attention is adopted by what it gains over its own kernel") {
    const auto forms = [](double shorter) {
        return decided("attention", {{"passes",
                                      {{{"pass", "forward f16"},
                                        {"preferred", "matrix.elements"},
                                        {"kernels", {kernel("matrix.elements", 90e12), kernel("matrix", 80e12)}},
                                        {"forms", {kernel("matrix+short", shorter), kernel("matrix+64keys", 0.0)}}}}}});
    };
    CHECK(
        has(forms(120e12), "attention forward f16: matrix+short reaches 120 TFLOP/s, without it 80 (1.50): adopt it"));
    CHECK(has(forms(82e12), "(1.02): keep the usual form"));
    CHECK_FALSE(has(forms(82e12), "64keys")); // failed
}

TEST_CASE("shapes in a product, and matrices of a workgroup, are compared with what kernels use") {
    const auto shapes = [](double other) {
        Line line = variants({{"16x16x16", 200e12}, {"16x8x16", other}});
        line["used"] = "16x16x16";
        return decided("shapes", line);
    };
    CHECK(has(shapes(240e12), "by 16x8x16 reaches 240 TFLOP/s, by 16x16x16, which kernels use, 200: prefer 16x8x16"));
    CHECK(has(shapes(205e12), "keep it"));
    CHECK(decided("shapes", {{"not_measured", "no matrix units"}}).empty());
    const auto groups = [](double theirs) {
        return decided("workgroups", variants({{"128x256x64 by 256", theirs}, {"128x128x32 by 128", 100e12}}),
                       {{"stores", variants({{"near", 219e12}, {"spread", 292e12}})},
                        {"products", {{"products", {product("NT", 250e12, Line::array())}}}}});
    };
    CHECK(has(groups(480e12), "480 TFLOP/s with 128x256x64 by 256, those of a subgroup 292 (1.64): add kernels"));
    CHECK(has(groups(300e12), "(1.03): keep the subgroup's"));
    CHECK(decided("workgroups", variants({{"128x256x64 by 256", 480e12}})).empty()); // nothing to compare with
}

TEST_CASE("row kernels are compared with a copy") {
    const Line memory{{"copy_gb_per_s", 4000.0}};
    const auto rows = [](double rate, double share) {
        return Line{{"kernels", {{{"kernel", "loss/cross_entropy_gpu"}, {"gb_per_s", rate}, {"share", share}}}}};
    };
    CHECK(has(decided("rows", rows(1000, 0.04), {{"memory", memory}}),
              "loss/cross_entropy_gpu moves 1000.0 GB/s, 25 % of a copy, in 4.0 % of the step: worth work"));
    CHECK(has(decided("rows", rows(1000, 0.004), {{"memory", memory}}), "memory is the limit"));
    CHECK(has(decided("rows", rows(3000, 0.04), {{"memory", memory}}), "memory is the limit"));
    CHECK(decided("rows", rows(1000, 0.04)).empty()); // no bandwidth was measured
}

TEST_CASE("a chain of dispatches limits a token, or memory does") {
    const Line memory{{"read_gb_per_s", 4000.0}};
    CHECK(has(decided("chains", {{"microseconds_per_dispatch", 5.8}}, {{"memory", memory}}),
              "592 microseconds, and reads its weights in 67: the chain limits"));
    CHECK(has(decided("chains", {{"microseconds_per_dispatch", 5.8}}, {{"memory", {{"read_gb_per_s", 100.0}}}}),
              "memory limits it"));
}

TEST_CASE("variants of stores, epilogues and orders are adopted from a ratio on") {
    CHECK(has(decided("stores", variants({{"near", 219e12}, {"spread", 292e12}})), "(1.33): adopt them"));
    CHECK(has(decided("stores", variants({{"near", 219e12}, {"spread", 225e12}})), "no reason to change"));
    CHECK(has(decided("stores", variants({{"near", 219e12}, {"spread", 200e12}})), "keep neighboring rows"));
    CHECK(has(decided("epilogues", variants({{"near", 200e12}, {"gelu", 100e12}, {"gelu_short", 180e12}})),
              "adopt it for results in 16 bits"));
    CHECK(has(decided("epilogues", variants({{"near", 200e12}, {"gelu", 170e12}, {"gelu_short", 180e12}})),
              "keep the exact one"));
    const auto batched = [](double flops) {
        return variants({{"near", 200e12}, {"gelu", 100e12}, {"gelu_short", 180e12}, {"gelu_batched", flops}});
    };
    CHECK(has(decided("stores", variants({{"near", 200e12}, {"deep", 221e12}})), "(1.10): add kernels with 64"));
    CHECK(has(decided("stores", variants({{"near", 200e12}, {"deep", 219e12}})), "keep 32"));
    CHECK(decided("stores", variants({{"near", 200e12}, {"deep", 0.0}})).empty());
    const auto gradient = [](double shorter) {
        return decided("epilogues", variants({{"near", 200e12},
                                              {"gelu", 0.0}, // failed; the gradient is decided all the same
                                              {"gelu_gradient", 80e12},
                                              {"gelu_gradient_short", shorter}}));
    };
    CHECK(has(gradient(150e12), "a gradient of gelu of one exponential reaches 150 TFLOP/s, the exact one 80 (1.88)"));
    CHECK(has(gradient(150e12), "adopt it for results in 16 bits"));
    CHECK(has(gradient(90e12), "keep the exact one"));
    CHECK(has(decided("epilogues", batched(190e12)), "unroll it"));
    CHECK(has(decided("epilogues", batched(170e12)), "keep it rolled"));
    CHECK(has(decided("orders", orders(100e12, 130e12)), "adopt 8"));
    CHECK(has(decided("orders", orders(100e12, 101e12)), "keep rows of tiles"));
    CHECK(decided("orders", {{"not_measured", "no matrix units"}}).empty());
}

TEST_CASE("other programs are compared case by case") {
    const Line cases{{"cases", {{{"case", "gpt2-124m"}, {"dtype", "bf16"}, {"tokens_per_s", 172716.0}}}}};
    const auto runs = [](const char* name, const char* dtype) {
        return Line{
            {"runs",
             {{{"program", "PyTorch, compiled"}, {"case", name}, {"dtype", dtype}, {"tokens_per_s", 463000.0}}}}};
    };
    CHECK(has(decided("others", runs("gpt2-124m", "bf16"), {{"cases", cases}}),
              "gpt2-124m bf16: 172716 tokens/s, PyTorch, compiled 463000: 0.37"));
    CHECK(decided("others", runs("gpt2-124m", "f32"), {{"cases", cases}}).empty());
    CHECK(decided("others", runs("gpt2-124m", "bf16")).empty());
    const Line generated{{"cases", {{{"case", "gpt2-124m"}, {"dtype", "bf16"}, {"generate_tokens_per_s", 30.0}}}}};
    const auto tokens = [](double speed) {
        return Line{
            {"runs",
             {{{"program", "llama.cpp"}, {"case", "gpt2-124m"}, {"dtype", "f32"}, {"generate_tokens_per_s", speed}}}}};
    };
    CHECK(has(decided("others", tokens(40.0), {{"cases", generated}}),
              "gpt2-124m f32, generated: 30 tokens/s, llama.cpp 40: 0.75"));
    CHECK(decided("others", tokens(0.0), {{"cases", generated}}).empty());
    CHECK(decided("others", tokens(40.0), {{"cases", cases}}).empty());
}

} // namespace decisions_test
