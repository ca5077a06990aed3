// What torch.save writes: a zip archive (PyTorch 1.6 and newer) or several pickles in a row (older), of a dictionary
// from names to tensors. Tensors are read and nothing else is: see pickle.hpp.
#pragma once

#include "base/file.hpp"
#include "model/tensor.hpp"

#include <filesystem>
#include <memory>
#include <vector>

namespace hekla::model {

// Thread: any, once opened.
class PytorchFile {
public:
    // Everything is hostile: sizes in the file are compared with the file before anything is allocated, and no more
    // than a few times the file's own size ever is. Errors: corrupt (cut off, sizes that lie, a view outside its
    // storage); unsupported (a function that makes no tensor is named: "would run code: refused"; TorchScript; element
    // types that are not among the ten; big-endian files; what is no dictionary of tensors).
    static Result<PytorchFile> open(const std::filesystem::path& path);

    const std::filesystem::path& path() const { return path_; }
    const std::vector<TensorView>& tensors() const { return tensors_; } // by place in the dictionary

private:
    std::filesystem::path path_;
    MappedFile map_;
    std::vector<std::unique_ptr<std::byte[]>> copies_; // entries of an archive, and views that are not dense
    std::vector<TensorView> tensors_;                  // into the map or a copy
};

} // namespace hekla::model
