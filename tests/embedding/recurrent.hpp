// A recurrent encoder-decoder whose config.json does not declare that it is one.
#pragma once

#include "support/test_folder.hpp"

#include <cstdlib>
#include <doctest/doctest.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace hekla::test {

class Recurrent {
public:
    Recurrent() {
        const std::filesystem::path from =
            std::filesystem::path(HEKLA_SOURCE_DIR) / "tests/fixtures/models/rnn-attention-additive";
        std::filesystem::copy_file(from / "model.safetensors", folder_ / "model.safetensors");
        std::string config = content_of(from / "config.json");
        config.insert(config.find('{') + 1, "\"model_type\": \"attention-seq2seq\",");
        folder_.write("config.json", config);
    }
    std::string folder() const { return folder_.path().string(); }

private:
    TestFolder folder_;
};

} // namespace hekla::test
