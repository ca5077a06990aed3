// A model in the file of `hekla export`: its graphs, kernels, tokenizer and weights. It computes the same bits as the
// folder that it was exported from, without plugins, a compiler or another process.
#pragma once

#include "base/log.hpp"
#include "infer/exported/exported_file.hpp"
#include "infer/open/model.hpp"
#include "infer/texts/source_layout.hpp"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace hekla::gpu {
class GlslCompiler;
}
namespace hekla::program {
struct CompiledKernels;
}

namespace hekla::infer {

struct ExportOptions {
    int64_t length = 0;            // tokens of the longest row; 0: the model's limit, at most kUsualLength, less if a
                                   // graph has tables that grow with it
    std::string version;           // Hekla's, for messages
    bool allow_non_finite = false; // false: parameters that are NaN or infinite are an error
    SlotOptions slots = {};        // count above 0: also graphs for generation with this many adapter slots
};
inline constexpr int64_t kUsualLength = 4096;

// The adapter slots of an exported file.
struct ExportedSlots {
    SlotOptions options;     // as exported; none of them 0 or ""
    std::size_t modules = 0; // that have them
    uint64_t bytes = 0;      // of device memory for their matrices in float32
};

struct ExportReport {
    int64_t length = 0; // tokens of the longest row
    std::optional<ExportedSlots> slots;
    std::size_t graphs = 0, kernels = 0, tensors = 0;
    uint64_t bytes = 0;                                        // of the file
    std::vector<std::string> can;                              // "generate", "embed"
    std::vector<std::pair<std::string, std::string>> left_out; // what the file does not support, and why
};

// Writes `file`, for any number of rows, with kernels for every kind of device. Error: unsupported, with the reason, if
// nothing of the model can be exported, or if it cannot have the slots.
Result<ExportReport> export_model(const plugin::Registry& registry, gpu::GlslCompiler& compiler,
                                  const std::filesystem::path& folder, const std::filesystem::path& file,
                                  const ExportOptions& options, const Log& log);

// Describes an exported file, like describe_model() for a folder. With slots or adapters that rows choose: those slots
// that it was exported with, whose number, rank and modules the options repeat or leave out.
Result<Model> describe_exported(const plugin::Registry& registry, const std::filesystem::path& file,
                                const ModelOptions& options);
Result<std::shared_ptr<const program::CompiledKernels>> exported_kernels(const ExportedFile& file);
// A summary of an exported file.
struct ExportSummary {
    std::string version;          // of the Hekla that exported it
    std::vector<std::string> can; // as in ExportReport
    int64_t length = 0;
};
Result<ExportSummary> exported_summary(const ExportedFile& file);
// Returns the layout of texts in the rows of the encoder.
Result<SourceLayout> exported_source_layout(const ExportedFile& file);

} // namespace hekla::infer
