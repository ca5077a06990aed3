// Trained adapters that a model is opened with, instead of those that its folder names.
#pragma once

#include "infer/stored_adapter.hpp"
#include "plugin/compose.hpp"
#include "plugin/model_names.hpp"

#include <set>

namespace hekla::infer {

// The field that chooses the adapter of each row, [rows] int32: its number, or -1 for none.
inline constexpr const char* kAdapterRows = "adapter_rows";

struct AdapterUse {
    std::string name;
    std::filesystem::path folder; // of a run, of PEFT or of AdapterHub
    double scale = 1.0;           // multiplies what it adds
};
// "NAME=FOLDER" or "NAME=FOLDER:SCALE". Errors: no name or folder, a scale that is not finite.
Result<AdapterUse> parse_adapter_use(std::string_view text);

// The same for several, whose names differ.
Result<std::vector<AdapterUse>> parse_adapter_uses(std::span<const std::string> texts);

// Reads the folders and adds the adapters to the composition. by_row: each row chooses one by kAdapterRows; otherwise
// all of them act on every row. Errors: those of the folders; a model that has adapters already.
Result<std::vector<StoredAdapter>> use_adapters(std::span<const AdapterUse> uses, bool by_row,
                                                plugin::CompositionSpec& spec);

// Returns the tensors of a model that an adapter's folder contains. name: of the adapter in the model, "" if it is the
// only one and has none. body: names of the body's parameters. unused: gets the tensors that the model does not have,
// of another head. Views into `from`. Errors: the tensors are not those that the adapter's configuration means; an
// adapter with a name has parameters of the body.
Result<std::vector<plugin::StoredTensor>> adapter_tensors(const StoredAdapter& from, const std::string& name,
                                                          std::span<const plugin::ModelTensor> model,
                                                          const std::set<std::string>& body,
                                                          std::vector<std::string>& unused);

} // namespace hekla::infer
