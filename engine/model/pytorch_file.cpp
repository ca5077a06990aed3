#include "model/pytorch_file.hpp"

#include "model/model_path.hpp"
#include "model/pickle.hpp"
#include "model/safetensors.hpp"
#include "model/zip_archive.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <fmt/format.h>
#include <map>
#include <set>

namespace hekla::model {
namespace {

constexpr std::array<std::pair<std::string_view, DType>, kDtypes> kStorageTypes{{
    {"FloatStorage", DType::f32},
    {"HalfStorage", DType::f16},
    {"BFloat16Storage", DType::bf16},
    {"DoubleStorage", DType::f64},
    {"LongStorage", DType::i64},
    {"IntStorage", DType::i32},
    {"ShortStorage", DType::i16},
    {"CharStorage", DType::i8},
    {"ByteStorage", DType::u8},
    {"BoolStorage", DType::boolean},
}};

// Converts "torch.FloatStorage" to f32; also "torch.cuda.FloatStorage", which contains the device that it was saved
// from.
std::optional<DType> storage_type(std::string_view function) {
    for (const std::string_view module : {"torch.cuda.", "torch."}) {
        if (!function.starts_with(module)) continue;
        for (const auto& [name, type] : kStorageTypes)
            if (function.substr(module.size()) == name) return type;
    }
    return std::nullopt;
}

constexpr std::string_view kMakeDictionary = "collections.OrderedDict";
constexpr std::string_view kMakeTensor = "torch._utils._rebuild_tensor_v2";
constexpr std::string_view kMakeTensorV1 = "torch._utils._rebuild_tensor";
constexpr std::string_view kMakeParameter = "torch._utils._rebuild_parameter";
constexpr std::string_view kMakeSize = "torch.Size";
constexpr std::array kCallables{kMakeDictionary, kMakeTensor, kMakeTensorV1, kMakeParameter, kMakeSize};

// Elements stored under a key, possibly shared by several tensors.
struct Storage {
    std::string key;
    DType dtype = DType::f32;
    int64_t elements = 0;
    std::span<const std::byte> bytes; // set when they have been found
};

// A window on a storage: element (i, j, ...) is at offset + i * strides[0] + j * strides[1] + ...
struct Window {
    std::size_t storage = 0;
    int64_t offset = 0;
    std::vector<int64_t> dims, strides;
};

// The names allowed in PyTorch's files, and the objects they create.
class TensorMeaning : public PickleMeaning {
public:
    std::vector<Storage> storages;
    std::vector<Window> windows;

    Status check_function(const std::string& name) override {
        if (storage_type(name) || std::ranges::find(kCallables, name) != kCallables.end()) return {};
        if (name.starts_with("torch.") && name.ends_with("Storage"))
            return unsupported(fmt::format("holds elements of a type that is not read: {}", in_quotes(name)));
        return unsupported(fmt::format(
            "names {}, which would run code: refused. Only tensors are read from such a file", in_quotes(name)));
    }

    Result<PickleId> call(Pickle& pickle, const std::string& function, PickleId arguments) override {
        if (function == kMakeDictionary) return dictionary(pickle, arguments);
        if (function == kMakeTensor || function == kMakeTensorV1) return tensor(pickle, arguments);
        if (function == kMakeParameter) { // a tensor, whether it has a gradient, hooks
            HK_TRY(count(pickle, arguments, 1, function));
            const PickleId data = pickle.at(arguments).items[0];
            HK_TRY(window_of(pickle, data).status());
            return data;
        }
        if (function == kMakeSize) {
            HK_TRY(count(pickle, arguments, 1, function));
            return pickle.at(arguments).items[0];
        }
        return corrupt(fmt::format("calls {}, which is not a known function", in_quotes(function)));
    }

    // Reads ("storage", type, key, device, elements) and, in old files, a view of it: None or (key, offset, elements).
    Result<PickleId> persistent(Pickle& pickle, PickleId id) override {
        const PickleObject& tuple = pickle.at(id);
        if (tuple.kind != PickleKind::tuple || tuple.items.size() < 5 || tuple.items.size() > 6)
            return corrupt("persistent id is not a description of a tensor storage");
        const auto item = [&](std::size_t i) -> const PickleObject& { return pickle.at(tuple.items[i]); };
        if (item(0).kind != PickleKind::text || item(0).text != "storage")
            return corrupt("persistent id does not name a tensor storage");
        const std::optional<DType> type =
            item(1).kind == PickleKind::function ? storage_type(item(1).text) : std::nullopt;
        if (!type) return corrupt("a storage has no known element type");
        if (item(2).kind != PickleKind::text) return corrupt("a storage's key is not a string");
        if (item(4).kind != PickleKind::integer || item(4).number < 0 || !item(4).text.empty())
            return corrupt("a storage's size is not a number of elements, 0 or more");
        Window window;
        if (tuple.items.size() == 6 && item(5).kind != PickleKind::none) {
            HK_ASSIGN(window.offset, view_offset(pickle, item(5)));
        }
        const Storage storage{item(2).text, *type, item(4).number, {}};
        const auto known = by_key_.find(storage.key);
        if (known == by_key_.end()) {
            window.storage = storages.size();
            by_key_.emplace(storage.key, storages.size());
            storages.push_back(storage);
        } else {
            window.storage = known->second;
            const Storage& before = storages[window.storage];
            if (before.dtype != storage.dtype || before.elements != storage.elements)
                return corrupt(fmt::format("storage {} is declared twice, with different sizes: {} x {} and {} x {}",
                                           in_quotes(storage.key), before.elements, name_of(before.dtype),
                                           storage.elements, name_of(storage.dtype)));
        }
        window.dims = {storage.elements - window.offset};
        window.strides = {1};
        return add(pickle, std::move(window), true);
    }

    // Returns the window of a tensor object.
    Result<const Window*> window_of(const Pickle& pickle, PickleId id) const {
        const PickleObject& object = pickle.at(id);
        if (object.kind != PickleKind::external || is_storage_[static_cast<std::size_t>(object.number)])
            return corrupt(fmt::format("{} was found, a tensor was expected", name_of(object.kind)));
        return &windows[static_cast<std::size_t>(object.number)];
    }

private:
    Result<PickleId> add(Pickle& pickle, Window window, bool storage) {
        PickleObject object;
        object.kind = PickleKind::external;
        object.number = static_cast<int64_t>(windows.size());
        windows.push_back(std::move(window));
        is_storage_.push_back(storage);
        return pickle.add(std::move(object));
    }

    static Status count(const Pickle& pickle, PickleId arguments, std::size_t least, std::string_view function) {
        const std::size_t given = pickle.at(arguments).items.size();
        return given >= least
                   ? Status()
                   : corrupt(fmt::format("calls {} with {} arguments, {} were expected", function, given, least));
    }

    Result<PickleId> dictionary(Pickle& pickle, PickleId arguments) {
        PickleObject made;
        made.kind = PickleKind::dictionary;
        const std::vector<PickleId>& given = pickle.at(arguments).items; // none, or a list of pairs
        if (given.size() > 1 || (given.size() == 1 && pickle.at(given[0]).kind != PickleKind::list))
            return corrupt("the argument of OrderedDict is not a list of key-value pairs");
        if (given.size() == 1) {
            HK_TRY(spend(pickle.at(given[0]).items.size()));
            for (const PickleId pair : pickle.at(given[0]).items) {
                const std::vector<PickleId>& two = pickle.at(pair).items;
                if (two.size() != 2) return corrupt("the argument of OrderedDict is not a list of key-value pairs");
                made.items.insert(made.items.end(), two.begin(), two.end());
            }
        }
        return pickle.add(std::move(made));
    }

    static Result<std::vector<int64_t>> numbers(const Pickle& pickle, PickleId id, const char* what) {
        const PickleObject& given = pickle.at(id);
        std::vector<int64_t> values;
        if (given.kind != PickleKind::tuple && given.kind != PickleKind::list)
            return corrupt(fmt::format("a tensor's {} is {}, a tuple was expected", what, name_of(given.kind)));
        if (given.items.size() > kRankLimit)
            return corrupt(
                fmt::format("a tensor has {} dimensions, at most {} are possible", given.items.size(), kRankLimit));
        for (const PickleId item : given.items) {
            const PickleObject& value = pickle.at(item);
            if (value.kind != PickleKind::integer || !value.text.empty() || value.number < 0)
                return corrupt(
                    fmt::format("a tensor's {} holds {}, a number from 0 was expected", what, name_of(value.kind)));
            values.push_back(value.number);
        }
        return values;
    }

    static Result<int64_t> view_offset(const Pickle& pickle, const PickleObject& view) {
        if (view.kind != PickleKind::tuple || view.items.size() != 3 ||
            pickle.at(view.items[1]).kind != PickleKind::integer || pickle.at(view.items[1]).number < 0)
            return corrupt("a storage is a view with an invalid description");
        return pickle.at(view.items[1]).number;
    }

    // Reads (storage, offset, size, strides, ...).
    Result<PickleId> tensor(Pickle& pickle, PickleId arguments) {
        HK_TRY(count(pickle, arguments, 4, kMakeTensor));
        const std::vector<PickleId>& given = pickle.at(arguments).items;
        const PickleObject& storage = pickle.at(given[0]);
        if (storage.kind != PickleKind::external || !is_storage_[static_cast<std::size_t>(storage.number)])
            return corrupt(fmt::format("makes a tensor of {}, a storage was expected", name_of(storage.kind)));
        const PickleObject& offset = pickle.at(given[1]);
        if (offset.kind != PickleKind::integer || !offset.text.empty() || offset.number < 0)
            return corrupt("a tensor's offset is not a number, 0 or more");
        Window window = windows[static_cast<std::size_t>(storage.number)];
        if (__builtin_add_overflow(window.offset, offset.number, &window.offset))
            return corrupt("a tensor's offset is too large");
        HK_ASSIGN(window.dims, numbers(pickle, given[2], "size"));
        HK_ASSIGN(window.strides, numbers(pickle, given[3], "strides"));
        if (window.dims.size() != window.strides.size())
            return corrupt(
                fmt::format("a tensor has {} dimensions and {} strides", window.dims.size(), window.strides.size()));
        HK_TRY(spend(window.dims.size()));
        return add(pickle, std::move(window), false);
    }

    // A short program can create many objects from the same long list, so copied items are counted.
    Status spend(std::size_t items) {
        copied_ += items;
        return copied_ <= kPickleObjectLimit ? Status()
                                             : corrupt(fmt::format("makes more than {} objects", kPickleObjectLimit));
    }

    std::size_t copied_ = 0;
    std::map<std::string, std::size_t> by_key_;
    std::vector<bool> is_storage_; // of each window
};

struct Named {
    std::string name;
    Window window;
};

// Returns the dictionary that a file must contain.
Result<std::vector<Named>> named_tensors(const Pickle& pickle, const TensorMeaning& meaning) {
    const PickleObject& root = pickle.root();
    if (root.kind != PickleKind::dictionary)
        return unsupported(
            fmt::format("holds {}, a dictionary from names to tensors was expected", name_of(root.kind)));
    std::vector<Named> tensors;
    std::set<std::string_view> names;
    for (std::size_t i = 0; i + 1 < root.items.size(); i += 2) {
        const PickleObject& key = pickle.at(root.items[i]);
        if (key.kind != PickleKind::text || key.text.empty() || key.text.size() > kTensorNameLimit)
            return unsupported(
                fmt::format("its dictionary has {} as a key, the name of a tensor was expected",
                            key.kind == PickleKind::text ? in_quotes(key.text) : std::string(name_of(key.kind))));
        const Result<const Window*> window = meaning.window_of(pickle, root.items[i + 1]);
        if (!window.ok())
            return unsupported(fmt::format("{} is {}, a tensor was expected: only weights are read, not "
                                           "the other state of a training run",
                                           in_quotes(key.text), name_of(pickle.at(root.items[i + 1]).kind)));
        if (!names.insert(key.text).second) return corrupt(fmt::format("tensor {} occurs twice", in_quotes(key.text)));
        tensors.push_back({key.text, *window.value()});
    }
    return tensors;
}

bool is_dense(const Window& window) {
    int64_t expected = 1;
    for (std::size_t i = window.dims.size(); i-- > 0;) {
        if (window.dims[i] != 1 && window.strides[i] != expected) return false;
        expected *= window.dims[i];
    }
    return true;
}

// Checks that the window stays within 63 bits.
Status check_bounds(const Window& window, int64_t elements) {
    if (elements == 0) return {};
    int64_t last = window.offset;
    for (std::size_t i = 0; i < window.dims.size(); ++i) {
        int64_t reach = 0;
        if (__builtin_mul_overflow(window.dims[i] - 1, window.strides[i], &reach) ||
            __builtin_add_overflow(last, reach, &last))
            return corrupt("its strides reach beyond 63 bits");
    }
    return Status(last >= 0 ? Status() : corrupt("its strides reach beyond 63 bits"));
}

// Copies the window's elements in order, last dimension fastest.
void gather(const Window& window, std::size_t size, const std::byte* from, std::byte* to) {
    std::vector<int64_t> index(window.dims.size(), 0);
    int64_t at = window.offset;
    for (bool more = true; more; to += size) {
        std::memcpy(to, from + static_cast<std::size_t>(at) * size, size);
        more = false;
        for (std::size_t i = window.dims.size(); i-- > 0 && !more;) {
            at += window.strides[i];
            more = ++index[i] < window.dims[i];
            if (more) break;
            at -= window.strides[i] * window.dims[i];
            index[i] = 0;
        }
    }
}

// Makes views of windows. `budget`: total bytes for copies of windows that are not dense.
class Views {
public:
    Views(const TensorMeaning& meaning, uint64_t budget, std::vector<std::unique_ptr<std::byte[]>>& copies)
        : meaning_(meaning), budget_(budget), copies_(copies) {}

    Result<TensorView> of(const Named& named) {
        const Window& window = named.window;
        const Storage& storage = meaning_.storages[window.storage];
        TensorView view;
        view.name = named.name;
        view.dtype = storage.dtype;
        view.dims = window.dims;
        HK_ASSIGN(const int64_t elements, element_count(window.dims));
        HK_TRY(byte_count(storage.dtype, window.dims).status());
        HK_TRY(check_bounds(window, elements));
        if (elements == 0) return view;
        const std::size_t size = size_of(storage.dtype);
        int64_t last = window.offset;
        for (std::size_t i = 0; i < window.dims.size(); ++i) last += (window.dims[i] - 1) * window.strides[i];
        if (last >= storage.elements || storage.bytes.size() / size < static_cast<std::size_t>(storage.elements))
            return corrupt(fmt::format("{} reaches element {} of a storage of {}", format_dims(window.dims), last,
                                       storage.elements));
        if (is_dense(window)) {
            view.bytes = storage.bytes.subspan(static_cast<std::size_t>(window.offset) * size,
                                               static_cast<std::size_t>(elements) * size);
            return view;
        }
        const uint64_t bytes = static_cast<uint64_t>(elements) * size;
        if (elements > storage.elements || bytes > budget_)
            return unsupported(fmt::format("{} repeats elements of its storage, which has {}: that is not read",
                                           format_dims(window.dims), storage.elements));
        budget_ -= bytes;
        copies_.push_back(std::make_unique<std::byte[]>(static_cast<std::size_t>(bytes)));
        gather(window, size, storage.bytes.data(), copies_.back().get());
        view.bytes = {copies_.back().get(), static_cast<std::size_t>(bytes)};
        return view;
    }

private:
    const TensorMeaning& meaning_;
    uint64_t budget_;
    std::vector<std::unique_ptr<std::byte[]>>& copies_;
};

// ---- several pickles in a row --------------------------------------------------------------------------------------

// 0x1950a86a20f9469cfc6c, low byte first: the content of the first pickle of such a file.
constexpr std::string_view kMagic("\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 10);
constexpr int64_t kLegacyProtocol = 1001;

class LegacyReader {
public:
    LegacyReader(std::span<const std::byte> bytes, TensorMeaning& meaning) : rest_(bytes), meaning_(meaning) {}

    Result<Pickle> read() {
        HK_ASSIGN(const Pickle first, next());
        if (first.root().kind != PickleKind::integer || first.root().text != kMagic)
            return unsupported("was not written by torch.save: it is neither a zip archive nor does it begin with "
                               "PyTorch's magic number");
        HK_ASSIGN(const Pickle version, next());
        if (version.root().kind != PickleKind::integer || version.root().number != kLegacyProtocol)
            return unsupported("uses an unknown version of PyTorch's legacy format");
        HK_ASSIGN(const Pickle system, next());
        HK_TRY(check_byte_order(system));
        HK_ASSIGN(Pickle content, next());
        HK_ASSIGN(const Pickle keys, next());
        HK_TRY(read_storages(keys));
        return content;
    }

private:
    Result<Pickle> next() {
        std::size_t used = 0;
        HK_ASSIGN(Pickle pickle, Pickle::read(rest_, meaning_, used));
        rest_ = rest_.subspan(used);
        return pickle;
    }

    static Status check_byte_order(const Pickle& system) {
        const PickleObject& values = system.root();
        for (std::size_t i = 0; values.kind == PickleKind::dictionary && i + 1 < values.items.size(); i += 2)
            if (system.at(values.items[i]).text == "little_endian" && system.at(values.items[i + 1]).number == 0)
                return unsupported("was written by a big-endian machine; only little-endian files are read");
        return {};
    }

    // The order of the keys is that of the data: the number of elements in 8 bytes, then the elements.
    Status read_storages(const Pickle& keys) {
        if (keys.root().kind != PickleKind::list) return corrupt("has no list of storages");
        std::map<std::string_view, Storage*> by_key;
        for (Storage& storage : meaning_.storages) by_key.emplace(storage.key, &storage);
        std::size_t found = 0;
        for (const PickleId id : keys.root().items) {
            const PickleObject& key = keys.at(id);
            const auto entry = key.kind == PickleKind::text ? by_key.find(key.text) : by_key.end();
            if (entry == by_key.end())
                return corrupt(fmt::format("holds a storage {} that no tensor uses", in_quotes(key.text)));
            Storage& storage = *entry->second;
            by_key.erase(entry);
            ++found;
            uint64_t elements = 0;
            if (rest_.size() < sizeof elements) return ends_in(storage);
            std::memcpy(&elements, rest_.data(), sizeof elements);
            rest_ = rest_.subspan(sizeof elements);
            if (elements != static_cast<uint64_t>(storage.elements))
                return corrupt(fmt::format("storage {} has {} elements, its tensors declare {}", in_quotes(storage.key),
                                           elements, storage.elements));
            const std::size_t size = size_of(storage.dtype);
            if (elements > rest_.size() / size) return ends_in(storage);
            storage.bytes = rest_.first(static_cast<std::size_t>(elements) * size);
            rest_ = rest_.subspan(storage.bytes.size());
        }
        if (found != meaning_.storages.size())
            return corrupt(fmt::format("storage {} is not in the file", in_quotes(by_key.begin()->first)));
        return {};
    }

    static Status ends_in(const Storage& storage) {
        return corrupt(
            fmt::format("ends in the middle of storage {} of {} elements", in_quotes(storage.key), storage.elements));
    }

    std::span<const std::byte> rest_;
    TensorMeaning& meaning_;
};

// ---- a zip archive -------------------------------------------------------------------------------------------------

// What torch.save writes: "FOLDER/data.pkl", a pickle, and a stored entry for each storage.
class Archive {
public:
    // The bytes must outlive it.
    static Result<Archive> open(std::span<const std::byte> bytes) {
        HK_ASSIGN(ZipArchive zip, ZipArchive::open(bytes, "PyTorch's checkpoints are zip archives"));
        return Archive(std::move(zip), bytes.size());
    }

    bool has(const std::string& name) const { return zip_.find(name) >= 0; }

    // Returns the folder of all entries: that of the only "FOLDER/data.pkl".
    Result<std::string> root() const {
        const int64_t count = zip_.count();
        std::string found;
        for (int64_t i = 0; i < count; ++i) {
            const std::string_view name = zip_.name(i);
            const std::size_t slash = name.find('/');
            if (slash == std::string_view::npos || name.substr(slash + 1) != "data.pkl") continue;
            if (!found.empty()) return corrupt("is a zip archive with two files data.pkl, one was expected");
            found = name.substr(0, slash + 1);
        }
        if (found.empty()) return unsupported("is a zip archive without data.pkl, so it was not written by torch.save");
        return found;
    }

    // Reads a whole entry. Compressed entries are refused (torch.save never compresses), so the ratio of an entry to
    // its bytes in the archive is at most 1, and all entries that are read are together no larger than the archive:
    // entries that overlap, or declare more, are refused before memory is allocated.
    Result<std::unique_ptr<std::byte[]>> read(const std::string& name, uint64_t& size) {
        const int64_t entry = zip_.find(name);
        if (entry < 0) return corrupt(fmt::format("its zip archive has no file {}", in_quotes(name)));
        HK_ASSIGN(const bool stored, zip_.stored(entry, size));
        if (!stored)
            return unsupported(fmt::format("{} in its zip archive is compressed or encrypted; only stored entries are "
                                           "read, as torch.save writes them",
                                           in_quotes(name)));
        if (size > budget_)
            return corrupt(fmt::format("{} in its zip archive declares {} bytes, at most {} were expected: the entries "
                                       "that are read are together no larger than the file ({} bytes)",
                                       in_quotes(name), size, budget_, size_));
        budget_ -= size;
        return zip_.read(entry, size);
    }

private:
    Archive(ZipArchive zip, uint64_t size) : zip_(std::move(zip)), size_(size), budget_(size) {}
    ZipArchive zip_;
    uint64_t size_, budget_; // of the file, and what may still be read
};

Result<Pickle> read_archive(std::span<const std::byte> bytes, TensorMeaning& meaning,
                            std::vector<std::unique_ptr<std::byte[]>>& copies) {
    HK_ASSIGN(Archive archive, Archive::open(bytes));
    HK_ASSIGN(const std::string root, archive.root());
    if (archive.has(root + "constants.pkl"))
        return unsupported("is TorchScript, a program; save the model's state_dict() instead");
    uint64_t size = 0;
    if (archive.has(root + "byteorder")) {
        HK_ASSIGN(const auto order, archive.read(root + "byteorder", size));
        if (std::string_view(reinterpret_cast<const char*>(order.get()), static_cast<std::size_t>(size)) != "little")
            return unsupported("was written by a big-endian machine; only little-endian files are read");
    }
    HK_ASSIGN(const auto program, archive.read(root + "data.pkl", size));
    std::size_t used = 0;
    HK_ASSIGN(Pickle pickle, Pickle::read({program.get(), static_cast<std::size_t>(size)}, meaning, used));
    for (Storage& storage : meaning.storages) {
        if (storage.elements == 0) continue;
        HK_ASSIGN(auto content, archive.read(root + "data/" + storage.key, size));
        if (size / size_of(storage.dtype) < static_cast<uint64_t>(storage.elements))
            return corrupt(fmt::format("storage {} has {} bytes, too few for {} elements of {}", in_quotes(storage.key),
                                       size, storage.elements, name_of(storage.dtype)));
        storage.bytes = {content.get(), static_cast<std::size_t>(size)};
        copies.push_back(std::move(content));
    }
    return pickle;
}

} // namespace

Result<PytorchFile> PytorchFile::open(const std::filesystem::path& path) {
    PytorchFile file;
    file.path_ = path;
    HK_ASSIGN(file.map_, MappedFile::open(path));
    HK_TRY(check_not_pointer(path, file.map_.text()));
    const std::span<const std::byte> bytes = file.map_.bytes();
    TensorMeaning meaning;
    const bool zipped = file.map_.text().starts_with("PK");
    Result<Pickle> pickle = zipped ? read_archive(bytes, meaning, file.copies_) : LegacyReader(bytes, meaning).read();
    if (!pickle.ok()) return pickle.status().with_context(path.string());
    const Result<std::vector<Named>> named = named_tensors(pickle.value(), meaning);
    if (!named.ok()) return named.status().with_context(path.string());
    Views views(meaning, bytes.size(), file.copies_);
    for (const Named& one : named.value()) {
        Result<TensorView> view = views.of(one);
        if (!view.ok())
            return view.status().with_context(fmt::format("{}: tensor {}", path.string(), in_quotes(one.name)));
        file.tensors_.push_back(view.take());
    }
    return file;
}

} // namespace hekla::model
