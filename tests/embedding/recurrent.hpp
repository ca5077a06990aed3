// A recurrent encoder-decoder whose config.json does not declare that it is one.
#pragma once

#include <cstdlib>
#include <doctest/doctest.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace hekla::testing {

// A temporary folder, deleted by the destructor.
class Recurrent {
public:
    Recurrent() {
        std::string name = (std::filesystem::temp_directory_path() / "hekla_recurrent_XXXXXX").string();
        REQUIRE(mkdtemp(name.data()) != nullptr);
        folder_ = name;
        const std::filesystem::path from =
            std::filesystem::path(HEKLA_SOURCE_DIR) / "tests/fixtures/models/rnn-attention-additive";
        std::filesystem::copy_file(from / "model.safetensors", folder_ / "model.safetensors");
        std::ifstream file(from / "config.json");
        std::string config{std::istreambuf_iterator<char>(file), {}};
        config.insert(config.find('{') + 1, "\"model_type\": \"attention-seq2seq\",");
        std::ofstream(folder_ / "config.json") << config;
    }
    ~Recurrent() { std::filesystem::remove_all(folder_); }
    Recurrent(const Recurrent&) = delete;
    Recurrent& operator=(const Recurrent&) = delete;
    std::string folder() const { return folder_.string(); }

private:
    std::filesystem::path folder_;
};

} // namespace hekla::testing
