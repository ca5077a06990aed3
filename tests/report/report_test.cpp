// Reports: what is private is removed, a damaged end is tolerated, and the line to paste.
#include "report/report_file.hpp"
#include "report/summary.hpp"
#include "support/test_folder.hpp"

#include <doctest/doctest.h>

namespace report_test {

using namespace hekla::report;
using hekla::test::TestFolder;

TEST_CASE("paths, users and hosts are removed from every text of a report, other words are not") {
    const Private names{{"hildur", "askja-7"}};
    const auto text = [&](const char* from) { return without_private(Line(from), names).get<std::string>(); };
    CHECK(text("/home/hildur/run/model.safetensors: cannot be read") == "(path): cannot be read");
    CHECK(text("cannot open '/tmp/x/y' on askja-7 (/dev/dri/renderD128)") == "cannot open '(path)' on (name) ((path))");
    CHECK(text("copy 812 GB/s, 4 / 4, and/or 1/2") == "copy 812 GB/s, 4 / 4, and/or 1/2");
    CHECK(text("for hildur") == "for (name)");
    const Line nested = without_private(Line{{"a", {{{"b", "/etc/passwd"}, {"c", 7}}}}}, names);
    CHECK(nested == Line{{"a", {{{"b", "(path)"}, {"c", 7}}}}});
}

TEST_CASE("a report is written line by line and can be read up to a crash") {
    const TestFolder folder;
    const auto file = folder / "card.jsonl";
    auto made = ReportFile::create(file);
    REQUIRE(made.ok());
    REQUIRE(made->append({{"report", "lab"}, {"format", 1}, {"hekla", "0.1.0"}}).ok());
    REQUIRE(made->append({{"stage", "memory"}, {"ok", true}, {"result", {{"copy_gb_per_s", 12.0}}}}).ok());
    CHECK(read_report(file).value().size() == 2);
    folder.write("card.jsonl", folder.read("card.jsonl") + R"({"stage": "uni)");
    const auto lines = read_report(file);
    REQUIRE_MESSAGE(lines.ok(), lines.message());
    CHECK(lines->size() == 2);
    CHECK(passed(lines.value(), "memory"));
    CHECK_FALSE(passed(lines.value(), "units"));
    CHECK(result_of(lines.value(), "memory")->value("copy_gb_per_s", 0.0) == 12.0);
    folder.write("card.jsonl", "{\"report\": \"lab\", \"format\": 1}\n{\"stage\": \"uni\n{\"stage\": \"memory\"}\n");
    CHECK(read_report(file).message().find("card.jsonl:2: expected a JSON object") != std::string::npos);
    folder.write("card.jsonl", "{\"healthy\": true}\n");
    CHECK(read_report(file).message().find("the first line of a report of") != std::string::npos);
}

TEST_CASE("the line to paste has device, driver and what was right") {
    const Line device{
        {"stage", "device"},
        {"ok", true},
        {"result",
         {{"device", {{"name", "Card X"}, {"driver", "radv"}, {"driver_info", "Mesa 26"}, {"vulkan", "1.4.1"}}}}}};
    std::vector<Line> lines{{{"report", "test"}, {"format", 1}, {"hekla", "0.1.0"}}, device};
    lines.push_back({{"stage", "models"},
                     {"ok", false},
                     {"result", {{"f32", {{"right", 4}, {"of", 4}}}, {"f16", {{"right", 3}, {"of", 4}}}}}});
    lines.push_back({{"stage", "training"}, {"ok", true}, {"result", Line::object()}});
    lines.push_back({{"stage", "generation"}, {"ok", false}, {"problem", "lost"}});
    CHECK(summary_of(lines) ==
          "hekla 0.1.0 | Card X | radv Mesa 26 | Vulkan 1.4.1 | models f32 4/4 f16 3/4 | resume equal | "
          "generation FAIL | plan not run");
    CHECK(summary_of({lines[0]}) == "hekla 0.1.0 | no device that can be used");
    std::vector<Line> lab{{{"report", "lab"}, {"format", 1}, {"hekla", "0.1.0"}}, device};
    lab.push_back({{"stage", "memory"}, {"ok", true}, {"result", {{"copy_gb_per_s", 812.4}}}});
    lab.push_back(
        {{"stage", "units"}, {"ok", false}, {"problem", "wrong"}, {"result", {{"peak_flops", {{"f16", 99.5e12}}}}}});
    CHECK(summary_of(lab) ==
          "hekla 0.1.0 | Card X | radv Mesa 26 | Vulkan 1.4.1 | copy 812 GB/s | f16 99.5 TFLOP/s | FAIL: units");
}

} // namespace report_test
