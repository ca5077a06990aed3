// Trained adapters as parts of a model.
#pragma once

#include "infer/adapters/adapter_uses.hpp"
#include "infer/adapters/lora_slots.hpp"
#include "infer/adapters/stored_adapter.hpp"
#include "plugin/composition/composition_spec.hpp"
#include "plugin/composition/model_names.hpp"
#include "plugin/host/site.hpp"

#include <set>

namespace hekla::infer {

struct UsedAdapters {
    std::vector<StoredAdapter> adapters; // in the order of their uses
    std::vector<SlotContent> slots;      // theirs, if each has a slot and kAdapterScales has its scale
};
// Reads the folders and adds the adapters to the composition. by_row: each row chooses one by kAdapterRows, and
// computes only that one if all of them can be in slots, which they must be if slots.count is given; otherwise all of
// them act on every row. Errors: those of the folders; a model that has adapters already; too many adapters for the
// slots; a given combination where rows choose.
Result<UsedAdapters> use_adapters(const AdapterUses& uses, bool by_row, const SlotOptions& slots,
                                  plugin::CompositionSpec& spec);

// Reads the folders of adapters for slots. Errors: those of the folders; an adapter that cannot be in a slot; a given
// combination.
Result<UsedAdapters> read_slot_adapters(const AdapterUses& uses);

// What adapters' folders are compared with.
struct AdaptedModelParts {
    std::string folder;                       // of the body: for messages
    std::string weights;                      // hash of the body's weights; "": not compared
    std::set<std::string> body;               // names of the body's parameters
    std::vector<plugin::Site> sites;          // of the model with its adapters
    std::vector<plugin::ModelTensor> tensors; // of the same
    bool takes_head = false;                  // the model's head is that of the adapter's folder, if it has one
    bool takes_body = false;                  // and so are parameters of the body that were trained with the adapter
};

// Returns the tensors of a model that an adapter's folder contains. name: of the adapter in the model, "" if it is the
// only one and has none. unused: gets the tensors that the model does not have,
// of another head. Views into `from`. Errors: it was trained with another body; the tensors are not those that the
// adapter's configuration means; it has parameters of the body, and the model does not take them.
Result<std::vector<plugin::StoredTensor>> adapter_tensors(StoredAdapter& from, const std::string& name,
                                                          const AdaptedModelParts& model,
                                                          std::vector<std::string>& unused);

} // namespace hekla::infer
