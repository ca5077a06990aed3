#include "base/philox.hpp"
#include "model/checkpoint.hpp"
#include "model/folder.hpp"
#include "model/weights.hpp"
#include "temporary.hpp"

#include <atomic>
#include <chrono>
#include <csignal>
#include <doctest/doctest.h>
#include <functional>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>

namespace checkpoint_test {

using namespace hekla;
using namespace hekla::model;
using namespace hekla::test;

namespace {

// Saves a checkpoint whose entire contents depend on its step.
Status save(const fs::path& run, int64_t step, std::size_t size = 1000) {
    HK_ASSIGN(CheckpointWriter writer, CheckpointWriter::create(run, step));
    const auto value = static_cast<float>(step);
    HK_TRY(writer.add_text("config.json", "{\"model_type\": \"gpt2\"}\n"));
    HK_TRY(writer.add_sharded(
        "model",
        std::vector{floats("w", {int64_t(size)}, std::vector<float>(size, value)), floats("v", {2}, {value, value})},
        {{"format", "pt"}}, 4000));
    HK_TRY(writer.add_tensors("optimizer.safetensors", std::vector{floats("m.w", {2}, {value, -value})}));
    HK_TRY(writer.add_text("trainer_state.json", "{\"global_step\": " + std::to_string(step) + "}\n"));
    return writer.commit().status();
}

bool says_its_step(const Checkpoint& checkpoint) {
    auto weights = Weights::open(checkpoint.path);
    if (!weights.ok()) return false;
    std::vector<float> values(2);
    if (!load_float32(*weights->find("v"), values).ok() || values[0] != static_cast<float>(checkpoint.step))
        return false;
    return get(checkpoint.file("trainer_state.json")) == "{\"global_step\": " + std::to_string(checkpoint.step) + "}\n";
}

// Returns the step of the newest checkpoint, or -1; all reasons in `why`.
int64_t newest(const fs::path& run, std::string* why = nullptr) {
    auto search = newest_complete(run);
    if (!search.ok()) {
        if (why) *why = search.message();
        return -2;
    }
    if (why) {
        why->clear();
        for (const std::string& reason : search->rejected) *why += reason + "\n";
    }
    if (!search->found) return -1;
    CHECK(says_its_step(*search->found));
    return search->found->step;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Runs in a child process, so that limits and users can be changed permanently. Returns whether it returned true.
bool in_child(const std::function<bool()>& body) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(body() ? 0 : 1);
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

} // namespace

TEST_CASE("a checkpoint is written, found, verified") {
    TestFolder folder;
    const fs::path run = folder / "a/run";
    CHECK(newest(run) == -1); // no folder yet is not an error
    REQUIRE(save(run, 10).ok());
    REQUIRE(save(run, 9).ok());
    REQUIRE(save(run, 100).ok());
    CHECK(names_in(run) == "checkpoint-10 checkpoint-100 checkpoint-9");
    CHECK(names_in(run / "checkpoint-10") == "MANIFEST.json config.json model-00001-of-00002.safetensors "
                                             "model-00002-of-00002.safetensors model.safetensors.index.json "
                                             "optimizer.safetensors trainer_state.json");
    CHECK(list_checkpoints(run).value() == std::vector<int64_t>{9, 10, 100});
    std::string why;
    CHECK(newest(run, &why) == 100);
    CHECK(why.empty());
    auto checkpoint = verify_checkpoint(run / "checkpoint-9");
    REQUIRE(checkpoint.ok());
    CHECK(checkpoint->files.size() == 6);
    CHECK(checkpoint->has("optimizer.safetensors"));
    CHECK_FALSE(checkpoint->has("MANIFEST.json"));
    CHECK(ModelFolder::open(checkpoint->path).ok());
}

TEST_CASE("names that are not checkpoints are ignored") {
    TestFolder folder;
    for (const char* name : {"checkpoint-", "checkpoint-007", "checkpoint--5", "checkpoint-5x", "checkpoint-+5",
                             "checkpoint- 5", "checkpoint-99999999999999999999", "xcheckpoint-5"})
        put(folder / (std::string(name) + "/MANIFEST.json"), "{}");
    put(folder / "checkpoint-8", "a file");
    CHECK(list_checkpoints(folder.path()).value().empty());
    CHECK(newest(folder.path()) == -1);
    REQUIRE(save(folder.path(), 0).ok());
    CHECK(newest(folder.path()) == 0);
    CHECK(save(folder.path(), -1).code() == Code::invalid_argument);
}

TEST_CASE("any damage falls back to the previous checkpoint, with a reason") {
    const auto manifest_with = [](const std::string& from, const std::string& to) {
        return [from, to](const fs::path& checkpoint) {
            std::string text = get(checkpoint / kManifestName);
            const auto at = text.find(from);
            REQUIRE(at != std::string::npos);
            text.replace(at, from.size(), to);
            put(checkpoint / kManifestName, text);
        };
    };
    const auto manifest_is = [](const std::string& text) {
        return [text](const fs::path& checkpoint) { put(checkpoint / kManifestName, text); };
    };
    struct Damage {
        const char* what;
        std::function<void(const fs::path&)> harm;
        const char* expected;
    };
    const std::string weights = "model-00001-of-00002.safetensors";
    const std::vector<Damage> all{
        {"no manifest", [](const fs::path& c) { fs::remove(c / kManifestName); },
         "has no MANIFEST.json, so it is not complete"},
        {"empty folder",
         [](const fs::path& c) {
             for (const auto& e : fs::directory_iterator(c)) fs::remove(e.path());
         },
         "has no MANIFEST.json"},
        {"manifest cut",
         [](const fs::path& c) { fs::resize_file(c / kManifestName, fs::file_size(c / kManifestName) / 2); },
         "not valid JSON"},
        {"manifest empty", manifest_is(""), "not valid JSON"},
        {"manifest nested deep", manifest_is("{\"a\":" + std::string(100'000, '[') + std::string(100'000, ']') + "}"),
         "nested deeper than 64 levels"},
        {"manifest an array", manifest_is("[]"), "a JSON object was expected"},
        {"manifest a folder",
         [](const fs::path& c) {
             fs::remove(c / kManifestName);
             fs::create_directory(c / kManifestName);
         },
         "is a folder"},
        {"manifest huge", [](const fs::path& c) { fs::resize_file(c / kManifestName, kManifestSizeLimit + 1); },
         "at most 16000000"},
        {"another format", manifest_with("hekla.checkpoint/1", "hekla.checkpoint/9"), "format is not"},
        {"another step", manifest_with("\"step\": 20", "\"step\": 21"), "its step is not that of the folder's name"},
        {"step negative", manifest_with("\"step\": 20", "\"step\": -20"), "its step is not that of the folder's name"},
        {"no files", manifest_is(R"({"format":"hekla.checkpoint/1","step":20})"), "has no \"files\" object"},
        {"no file listed", manifest_is(R"({"format":"hekla.checkpoint/1","step":20,"files":{}})"), "lists no files"},
        {"path outside", manifest_with("\"config.json\"", "\"../config.json\""),
         "is not the name of a file in the folder"},
        {"absolute path", manifest_with("\"config.json\"", "\"/etc/passwd\""),
         "is not the name of a file in the folder"},
        {"no size", manifest_with("\"size\"", "\"length\""), "has no size and xxh3_128"},
        {"size text", manifest_with("\"size\": ", "\"size\": -"), "has no size and xxh3_128"},
        {"hash short", manifest_with("\"xxh3_128\": \"", "\"xxh3_128\": \"0"), "is not a hash of 32"},
        {"file missing", [weights](const fs::path& c) { fs::remove(c / weights); },
         "is missing, but MANIFEST.json lists it"},
        {"file cut", [weights](const fs::path& c) { fs::resize_file(c / weights, 100); },
         "is 100 bytes long, MANIFEST.json has"},
        {"file empty", [weights](const fs::path& c) { fs::resize_file(c / weights, 0); }, "is 0 bytes long"},
        {"file longer", [weights](const fs::path& c) { fs::resize_file(c / weights, fs::file_size(c / weights) + 1); },
         "MANIFEST.json has"},
        {"file a folder",
         [weights](const fs::path& c) {
             fs::remove(c / weights);
             fs::create_directory(c / weights);
         },
         "is not a regular file"},
        {"file a dead link",
         [weights](const fs::path& c) {
             fs::remove(c / weights);
             fs::create_symlink("gone", c / weights);
         },
         "is missing"},
        {"one bit",
         [weights](const fs::path& c) {
             std::string bytes = get(c / weights);
             bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
             put(c / weights, bytes);
         },
         "its hash is"},
        {"zeros after a power cut",
         [](const fs::path& c) {
             const auto size = fs::file_size(c / "optimizer.safetensors");
             fs::resize_file(c / "optimizer.safetensors", size / 2);
             fs::resize_file(c / "optimizer.safetensors", size);
         },
         "its hash is"},
    };
    TestFolder whole;
    REQUIRE(save(whole.path(), 10).ok());
    REQUIRE(save(whole.path(), 20).ok());
    for (const Damage& damage : all) {
        CAPTURE(damage.what);
        TestFolder folder;
        fs::copy(whole.path(), folder.path(), fs::copy_options::recursive);
        damage.harm(folder / "checkpoint-20");
        std::string why;
        CHECK(newest(folder.path(), &why) == 10);
        CAPTURE(why);
        CHECK(contains(why, damage.expected));
        CHECK(contains(why, "checkpoint-20"));
        CHECK(std::count(why.begin(), why.end(), '\n') == 1);
        // The run continues and saves that step again, replacing the broken one.
        REQUIRE(save(folder.path(), 20).ok());
        CHECK(newest(folder.path(), &why) == 20);
        CHECK(names_in(folder.path()) == "checkpoint-10 checkpoint-20");
    }
}

TEST_CASE("the newest checkpoint is found while each is removed as soon as there is a newer one") {
    TestFolder folder;
    REQUIRE(save(folder.path(), 1).ok());
    std::atomic<bool> ended = false;
    std::string problem;
    std::thread training([&] {
        for (int64_t step = 2; step <= 300 && problem.empty(); ++step) {
            const Status saved = save(folder.path(), step);
            const Result<std::vector<int64_t>> removed = prune_checkpoints(folder.path(), 1, step);
            if (!saved.ok() || !removed.ok()) problem = saved.ok() ? removed.message() : saved.message();
        }
        ended = true;
    });
    int64_t before = 1;
    while (!ended) {
        const auto search = newest_complete(folder.path());
        if (!search.ok() || !search->found || search->found->step < before || !search->rejected.empty()) {
            CHECK_MESSAGE(search.ok(), search.message());
            if (search.ok()) CHECK(search->found);
            if (search.ok()) CHECK(search->rejected == std::vector<std::string>());
            break;
        }
        before = search->found->step;
    }
    training.join();
    CHECK(problem == "");
}

TEST_CASE("if all are damaged there is none, with every reason, newest first") {
    TestFolder folder;
    REQUIRE(save(folder.path(), 1).ok());
    REQUIRE(save(folder.path(), 2).ok());
    fs::remove(folder / "checkpoint-1/config.json");
    fs::remove(folder / "checkpoint-2/MANIFEST.json");
    auto search = newest_complete(folder.path());
    REQUIRE(search.ok());
    CHECK_FALSE(search->found);
    REQUIRE(search->rejected.size() == 2);
    CHECK(contains(search->rejected[0], "checkpoint-2"));
    CHECK(contains(search->rejected[1], "checkpoint-1"));
}

TEST_CASE("a save that was abandoned or failed leaves nothing") {
    TestFolder folder;
    REQUIRE(save(folder.path(), 1).ok());
    {
        auto writer = CheckpointWriter::create(folder.path(), 2);
        REQUIRE(writer.ok());
        REQUIRE(writer->add_text("a", "x").ok());
        CHECK(writer->add_text("a", "y").message() == "a was given twice");
        CHECK_FALSE(writer->add_text("MANIFEST.json", "y").ok());
        CHECK_FALSE(writer->add_text("../a", "y").ok());
        CHECK_FALSE(writer->add_copy(folder / "absent").ok());
        TensorSource failing = floats("w", {2}, {1, 2});
        failing.stream = [](const Sink&) { return Status(Code::device_lost, "gone"); };
        CHECK(writer->add_tensors("model.safetensors", std::vector{failing}).code() == Code::device_lost);
        CHECK(newest(folder.path()) == 1); // reading meanwhile does not remove the files of the active writer
        CHECK(writer->add_text("b", "still there").ok());
    }
    CHECK(names_in(folder.path()) == "checkpoint-1");
}

TEST_CASE("leftovers of a killed process are never used, and removed") {
    TestFolder folder;
    REQUIRE(save(folder.path(), 10).ok());
    // All but the last step done: the contents are complete, the name is still temporary.
    fs::copy(folder / "checkpoint-10", folder / "checkpoint-20.tmp-abcDE0");
    put(folder / "checkpoint-30.tmp-000000/model.safetensors", "half");
    put(folder / "best.tmp.abcdef", "check");
    fs::last_write_time(folder / "best.tmp.abcdef", fs::file_time_type::clock::now() - std::chrono::minutes(1));
    put(folder / "train_log.jsonl", "{}");
    put(folder / "notes.tmp-abcdef/x", "not ours");
    CHECK(newest(folder.path()) == 10);
    CHECK(names_in(folder.path()).find("checkpoint-30.tmp-000000") != std::string::npos); // reading removes nothing
    remove_stale(folder.path());
    CHECK(newest(folder.path()) == 10);
    CHECK(names_in(folder.path()) == "checkpoint-10 notes.tmp-abcdef train_log.jsonl");
}

TEST_CASE("the limit removes the oldest complete ones, never the newest or the best") {
    TestFolder folder;
    const fs::path& run = folder.path();
    for (const int64_t step : {10, 20, 30, 40}) REQUIRE(save(run, step).ok());
    CHECK(prune_checkpoints(run, 3, 40).value() == std::vector<int64_t>{10});
    CHECK(read_best(run).value() == std::nullopt);
    REQUIRE(set_best(run, 20).ok());
    CHECK(get(run / "best") == "checkpoint-20\n");
    REQUIRE(save(run, 50).ok());
    CHECK(prune_checkpoints(run, 2, 50).value() == std::vector<int64_t>{30, 40});
    CHECK(prune_checkpoints(run, 1, 50).value().empty()); // the best and the newest are two
    CHECK(read_best(run).value() == 20);
    CHECK(names_in(run) == "best checkpoint-20 checkpoint-50");
    REQUIRE(set_best(run, 50).ok());
    CHECK(prune_checkpoints(run, 1, 50).value() == std::vector<int64_t>{20});

    // After a fallback a smaller step is the newest, and stays.
    REQUIRE(save(run, 45).ok());
    REQUIRE(set_best(run, 45).ok());
    CHECK(prune_checkpoints(run, 1, 45).value() == std::vector<int64_t>{50});
    CHECK(newest(run) == 45);
    CHECK(prune_checkpoints(run, 0, 45).code() == Code::invalid_argument);

    // A step that is kept is neither counted nor removed.
    for (const int64_t step : {46, 47, 48}) REQUIRE(save(run, step).ok());
    CHECK(prune_checkpoints(run, 2, 48, 46).value() == std::vector<int64_t>{47});
    CHECK(names_in(run) == "best checkpoint-45 checkpoint-46 checkpoint-48");
}

TEST_CASE("a valid checkpoint is never removed because of a broken one") {
    TestFolder folder;
    const fs::path& run = folder.path();
    for (const int64_t step : {10, 20, 30}) REQUIRE(save(run, step).ok());
    fs::remove(run / "checkpoint-30/config.json");
    CHECK(contains(prune_checkpoints(run, 1, 30).message(), "no older checkpoint was removed"));
    CHECK(contains(set_best(run, 30).message(), "config.json: is missing"));
    CHECK_FALSE(set_best(run, 31).ok());
    CHECK(prune_checkpoints(run, 1, 20).value() == std::vector<int64_t>{10}); // 30 is neither counted nor touched
    CHECK(names_in(run) == "checkpoint-20 checkpoint-30");
    for (const char* text : {"", "checkpoint-020\n", "../checkpoint-20", "checkpoint-20\nx"}) {
        put(run / "best", text);
        CHECK(contains(prune_checkpoints(run, 1, 20).message(), "the name of a checkpoint's folder was expected"));
    }
    put(run / "best", "checkpoint-77\n");
    CHECK(read_best(run).value() == std::nullopt);
}

TEST_CASE("a full disk: an error, the older checkpoint stays, without partial files") {
    TestFolder folder;
    REQUIRE(save(folder.path(), 10).ok());
    // The limit is reached at a different file each time: config, shards, optimizer, manifest.
    for (const rlim_t limit : {0, 10, 50, 300, 3000, 4000, 9000}) {
        CAPTURE(limit);
        CHECK(in_child([&] {
            std::signal(SIGXFSZ, SIG_IGN);
            const rlimit bound{limit, limit};
            if (::setrlimit(RLIMIT_FSIZE, &bound) != 0) return false;
            const Status status = save(folder.path(), 20, 3000);
            return status.code() == Code::io && status.message().find("File too large") != std::string::npos &&
                   status.message().starts_with(folder.path().string());
        }));
        CHECK(names_in(folder.path()) == "checkpoint-10");
        CHECK(newest(folder.path()) == 10);
    }
}

TEST_CASE("a folder that is not writable") {
    TestFolder folder;
    put(folder / "file", "x");
    CHECK(save(folder / "file", 1).code() == Code::io);
    CHECK(save(folder / "file/run", 1).code() == Code::io);
    REQUIRE(save(folder / "run", 1).ok());
    fs::permissions(folder.path(), fs::perms(0755));
    fs::permissions(folder / "run", fs::perms(0555));
    CHECK(in_child([&] {
        if (::geteuid() == 0 && ::setuid(65534) != 0) return false; // root may write anywhere
        const Status status = save(folder / "run", 2);
        return status.code() == Code::io && status.message().find("Permission denied") != std::string::npos &&
               newest(folder / "run") == 1;
    }));
    CHECK(names_in(folder / "run") == "checkpoint-1");
    fs::permissions(folder / "run", fs::perms(0755));
}

namespace {

// Kills a child that saves, prunes and sets the best in a loop; the next one continues from its files.
void kill_at_random_moments(int rounds) {
    TestFolder folder;
    const fs::path& run = folder.path();
    const auto began = std::chrono::steady_clock::now();
    REQUIRE(save(run, 0).ok());
    std::chrono::duration<double> one_save = std::chrono::steady_clock::now() - began;
    RandomStream random(20, 11);
    int64_t reached = 0;
    for (int round = 0; round < rounds; ++round) {
        const pid_t child = ::fork();
        if (child == 0) {
            for (int64_t step = reached + 1;; ++step) {
                // Every second one is written twice, which replaces an existing checkpoint.
                if (!save(run, step).ok() || (step % 2 == 0 && !save(run, step).ok())) ::_exit(1);
                if (!prune_checkpoints(run, 2, step).ok() || (step % 3 == 0 && !set_best(run, step).ok())) ::_exit(1);
            }
        }
        std::this_thread::sleep_for(random.next_unit() * 4 * one_save);
        ::kill(child, SIGKILL);
        int status = 0;
        ::waitpid(child, &status, 0);
        REQUIRE(WIFSIGNALED(status)); // all saves succeeded
        remove_stale(run);            // as a training does that is begun again
        std::string why;
        const int64_t now = newest(run, &why);
        CAPTURE(why);
        CHECK(why.empty());
        CHECK(now >= reached);
        if (now == reached) one_save *= 1.25; // the machine may be slower now
        reached = now;
        CHECK(read_best(run).ok());
        for (const auto& entry : fs::directory_iterator(run))
            CHECK(leftover_stem(entry.path().filename().string()).empty());
    }
    CHECK(reached > rounds / 8);
    // If it was killed between a save and its pruning, extra ones remain; the next pruning removes them.
    REQUIRE(prune_checkpoints(run, 2, reached).ok());
    CHECK(list_checkpoints(run).value().size() <= 3); // two plus the best, if it is neither of them
}

} // namespace

TEST_CASE("killed at random moments: the newest is always complete") { kill_at_random_moments(16); }

TEST_SUITE("long") {
    TEST_CASE("killed at 300 random moments: the newest is always complete") { kill_at_random_moments(300); }
}

} // namespace checkpoint_test
