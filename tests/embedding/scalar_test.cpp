// Step scalars set by the host in a session.
#include "work.hpp"

#include <cmath>
#include <sstream>

namespace scalar_test {

using namespace hekla::testing;

namespace {

// Writes a recipe for the plugin `gated`, whose body is scaled by the step scalar "gate".
void write_recipe(const Place& place) {
    std::ofstream(place.folder / "gated.toml")
        << "[model]\narchitecture = \"gated\"\n[data]\ntrain = " << (place.folder / "text.txt")
        << "\n[train]\nmax_steps = 5\ncontext_length = 16\neval_steps = 0\nsave_steps = 0\n[output]\ndir = "
        << (place.folder / "run") << "\n";
}

// Returns "scalars" of each line of a run's log; empty for a line without.
std::vector<std::string> logged(const Place& place, const char* run) {
    std::istringstream log(place.read((std::string(run) + "/train_log.jsonl").c_str()));
    std::vector<std::string> all;
    for (std::string line; std::getline(log, line);) {
        const std::size_t at = line.find("\"scalars\":{");
        all.push_back(at == std::string::npos ? "" : line.substr(at + 11, line.find('}', at) - at - 11));
    }
    return all;
}

} // namespace

TEST_CASE("a host sets a step scalar of a training session; invalid ones are rejected") {
    FaultDriver::get().reset();
    const Place place;
    Host host;
    const std::string built_in = HEKLA_PLUGIN_FOLDER, own = HEKLA_TRAIN_PLUGINS;
    const std::array<hk_string, 2> folders{view(built_in), view(own)};
    hk_context context{};
    REQUIRE(host.context(context, nullptr, [&](hk_context_options& options) {
        options.plugin_folders = folders.data();
        options.plugin_folder_count = folders.size();
        options.describe = HK_DESCRIBE_IN_PROCESS;
    }) == HK_OK);
    const Error error;
    write_recipe(place);
    Training training(place, "run");
    training.recipe = place.at("gated.toml");
    training.options.recipe = view(training.recipe);
    hk_session session{};
    REQUIRE(hk_session_train(context, &training.options, nullptr, &session, error) == HK_OK);
    const hk_session_info info = state_of(session, 120 * kSecond);
    REQUIRE_MESSAGE(info.state == HK_SESSION_WORKING, message_of(info));
    const std::string gate = "gate", other = "gates";
    CHECK(hk_session_set_scalar(session, view(other), 0.5, error) == HK_INVALID_ARGUMENT);
    CHECK_MESSAGE(error.says("the graph has no step scalar 'gates'; did you mean 'gate'?"), error.message());
    CHECK(hk_session_set_scalar(session, view(gate), std::nan(""), error) == HK_INVALID_ARGUMENT);
    CHECK(hk_session_set_scalar(session, view(gate), 1e39, error) == HK_INVALID_ARGUMENT);
    CHECK(hk_session_set_scalar(session, view(gate), 0.25, error) == HK_OK);
    run_until(session, HK_SESSION_DONE, 5000.0);
    CHECK(hk_session_set_scalar(session, view(gate), 0.5, error) == HK_FAILED_PRECONDITION);
    hk_session_destroy(session);
    const std::vector<std::string> scalars = logged(place, "run");
    REQUIRE(scalars.size() == 5);
    CHECK(scalars.back() == "\"gate\":0.25");
    hk_context_destroy(context);
    CHECK(FaultDriver::get().leaks().empty());
}

} // namespace scalar_test
