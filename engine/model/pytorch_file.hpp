// Files of torch.save: a zip archive (PyTorch 1.6 and newer) or a sequence of pickles (older), with a dictionary from
// names to tensors. Only tensors are read: see pickle.hpp.
#pragma once

#include "base/file.hpp"
#include "model/tensor.hpp"

#include <filesystem>
#include <memory>
#include <vector>

namespace hekla::model {

// An opened file. Thread: any, once opened.
class PytorchFile {
public:
    // Treats the file as hostile: compares sizes in the file with the file before it allocates, and never allocates
    // more than a few times the file's size. Errors: corrupt (truncated, wrong sizes, a view outside its storage);
    // unsupported (a function that does not create a tensor: "would run code: refused"; TorchScript; other element
    // types than the ten; big-endian files; content other than a dictionary of tensors).
    static Result<PytorchFile> open(const std::filesystem::path& path);

    const std::filesystem::path& path() const { return path_; }
    const std::vector<TensorView>& tensors() const { return tensors_; } // in the dictionary's order

private:
    std::filesystem::path path_;
    MappedFile map_;
    std::vector<std::unique_ptr<std::byte[]>> copies_; // entries of an archive, and views that are not dense
    std::vector<TensorView> tensors_;                  // into the map or a copy
};

} // namespace hekla::model
